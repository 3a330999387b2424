//! The TLS side of the server: whatever certificate is the current one.

use std::sync::Arc;

use arc_swap::ArcSwapOption;
use kit::Failure;
use rustls::{
    ServerConfig,
    crypto::ring,
    server::{ClientHello, ResolvesServerCert},
    sign::CertifiedKey,
};

/// The certificate that new connections get. Without one their handshakes fail.
#[derive(Debug, Default)]
pub(super) struct Current(ArcSwapOption<CertifiedKey>);

impl Current {
    /// Serves this from now on; whether that is another chain than before.
    pub(super) fn set(&self, certified: Arc<CertifiedKey>) -> bool {
        let before = self.0.load();
        let is_new = before.as_ref().is_none_or(|b| b.cert != certified.cert);
        if is_new {
            self.0.store(Some(certified));
        }
        is_new
    }
}

impl ResolvesServerCert for Current {
    fn resolve(&self, _client_hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        self.0.load_full()
    }
}

/// TLS 1.2 and 1.3 with that certificate.
pub(super) fn config(current: Arc<Current>) -> Result<ServerConfig, Failure> {
    let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(Failure::fatal)?
        .with_no_client_auth()
        .with_cert_resolver(current);
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(config)
}

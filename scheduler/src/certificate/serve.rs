//! The TLS side of the server: whatever certificate is the current one.

use std::sync::Arc;

use arc_swap::ArcSwapOption;
use kit::Failure;
use rustls::{
    ClientConfig, RootCertStore, ServerConfig,
    crypto::ring,
    server::{ClientHello, ResolvesServerCert},
    sign::CertifiedKey,
};

use super::read::Authority;

/// The certificate that new connections get, and who is trusted. Without one their handshakes
/// fail.
#[derive(Debug, Default)]
pub(crate) struct Current {
    certified: ArcSwapOption<CertifiedKey>,
    client: ArcSwapOption<ClientConfig>,
}

impl Current {
    /// How to reach a server with a certificate of this CA; `None` before that is known.
    pub(crate) fn client(&self) -> Option<Arc<ClientConfig>> {
        self.client.load_full()
    }

    /// These sign from now on.
    pub(super) fn trust<'a>(&self, authorities: impl IntoIterator<Item = &'a Authority>) {
        let mut roots = RootCertStore::empty();
        let certificates = authorities.into_iter().map(|a| a.certificate.clone());
        roots.add_parsable_certificates(certificates);
        let client = (!roots.is_empty()).then(|| client(roots)).transpose();
        match client {
            Ok(client) => self.client.store(client.map(Arc::new)),
            Err(error) => tracing::warn!(%error, "the other replicas can't be trusted"),
        }
    }

    /// Serves this from now on; whether that is another chain than before.
    pub(super) fn set(&self, certified: Arc<CertifiedKey>) -> bool {
        let before = self.certified.load();
        let is_new = before.as_ref().is_none_or(|b| b.cert != certified.cert);
        if is_new {
            self.certified.store(Some(certified));
        }
        is_new
    }
}

impl ResolvesServerCert for Current {
    fn resolve(&self, _client_hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        self.certified.load_full()
    }
}

/// TLS 1.2 and 1.3 to a server that those have signed.
fn client(roots: RootCertStore) -> Result<ClientConfig, rustls::Error> {
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(config)
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

//! What the TLS server shows, replaced while it serves.

use std::sync::{Arc, PoisonError, RwLock};

use tokio_rustls::rustls::{
    self, ServerConfig,
    crypto::ring,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
    server::{ClientHello, ResolvesServerCert},
    sign::CertifiedKey,
};

use super::keep::Pair;

/// The certificate of the moment; none at first. Connections that are open keep theirs.
#[derive(Debug, Default)]
pub struct Served {
    current: RwLock<Option<Arc<CertifiedKey>>>,
}

impl Served {
    /// A server's configuration that always shows the certificate of the moment.
    pub(super) fn config(self: &Arc<Self>) -> Result<Arc<ServerConfig>, rustls::Error> {
        let provider = Arc::new(ring::default_provider());
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_cert_resolver(self.clone());
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Arc::new(config))
    }

    /// From now on this one.
    pub(super) fn replace(&self, pair: &Pair) -> Result<(), String> {
        let new = Arc::new(certified(pair)?);
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = Some(new);
        Ok(())
    }
}

impl ResolvesServerCert for Served {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        self.current
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}

/// Ready to be served; says which half is not usable, and nothing of the key.
pub(super) fn certified(pair: &Pair) -> Result<CertifiedKey, String> {
    let certificates: Result<Vec<_>, _> =
        CertificateDer::pem_slice_iter(pair.certificate.as_bytes()).collect();
    let certificates = certificates.map_err(|_| "tls.crt is no PEM certificate".to_owned())?;
    let key = PrivateKeyDer::from_pem_slice(pair.key.0.as_bytes())
        .map_err(|_| "tls.key is no private key".to_owned())?;
    let certified = CertifiedKey::from_der(certificates, key, &ring::default_provider());
    certified.map_err(|_| "tls.key is not the key of tls.crt".to_owned())
}

#[cfg(test)]
#[path = "serve_tests.rs"]
mod tests;

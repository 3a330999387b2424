//! What the Secret holds, undecoded.

/// Key of the CA's certificates, newest first. Also the `ConfigMap`'s.
pub(super) const CA_CRT: &str = "ca.crt";
/// Key of the CA's private keys.
pub(super) const CA_KEY: &str = "ca.key";
/// Key of the serving certificate's chain.
pub(super) const TLS_CRT: &str = "tls.crt";
/// Key of the serving certificate's private key.
pub(super) const TLS_KEY: &str = "tls.key";

/// PEM texts by key; empty where the Secret has none. Not `Debug`: private keys are in it.
#[derive(Clone, Default, PartialEq, Eq)]
pub(super) struct Content {
    /// [`CA_CRT`].
    pub(super) ca_crt: Vec<u8>,
    /// [`CA_KEY`].
    pub(super) ca_key: Vec<u8>,
    /// [`TLS_CRT`].
    pub(super) tls_crt: Vec<u8>,
    /// [`TLS_KEY`].
    pub(super) tls_key: Vec<u8>,
}

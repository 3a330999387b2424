//! Certificates for tests.

use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, IsCa, KeyPair};
use rustls::{
    ServerConfig,
    pki_types::{ServerName, UnixTime},
};

use super::{
    content::Content,
    decide::needs,
    make::make,
    read::{Found, read},
    serve::{self, Current},
};

pub(super) const DAY: u64 = 24 * 60 * 60;

/// Unix seconds somewhere in 2027.
pub(super) const START: u64 = 1_800_000_000;

pub(super) fn names(names: &[&'static str]) -> Vec<ServerName<'static>> {
    let name = |name: &&'static str| ServerName::try_from(*name).unwrap();
    names.iter().map(name).collect()
}

/// What one look at that time makes of a Secret with this content.
pub(super) fn step(content: &Content, wanted: &[ServerName<'_>], now: u64) -> (Content, Found) {
    let found = read(content, now);
    let needed = needs(&found, wanted, now);
    if !found.is_ours || !needed.any() {
        return (content.clone(), found);
    }
    let made = make(content, &found, needed, wanted, now).unwrap();
    let found = read(&made, now);
    assert!(!needs(&found, wanted, now).any(), "made, and not enough");
    assert_eq!(found.faults, []);
    (made, found)
}

/// A certificate for now, of a CA of its own.
pub(crate) struct Served {
    /// For a server with it.
    pub(crate) config: Arc<ServerConfig>,
    /// For who trusts its CA.
    pub(crate) current: Arc<Current>,
}

/// For that name.
pub(crate) fn served(name: &str) -> Served {
    let now = UnixTime::now().as_secs();
    let found = read(&of_others(name, now - DAY, now + DAY), now);
    let current = Arc::new(Current::default());
    current.set(found.serving.unwrap().certified);
    current.trust(&found.authorities);
    let config = Arc::new(serve::config(Arc::clone(&current)).unwrap());
    Served { config, current }
}

/// A Secret of somebody else's, for this name and time, without a CA's key.
pub(super) fn of_others(name: &str, from: u64, until: u64) -> Content {
    let at = |seconds| rcgen::date_time_ymd(1970, 1, 1) + std::time::Duration::from_secs(seconds);
    let ca_key = KeyPair::generate().unwrap();
    let mut ca = CertificateParams::new([]).unwrap();
    ca.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let ca_crt = ca.self_signed(&ca_key).unwrap().pem();
    let mut params = CertificateParams::new([name.to_owned()]).unwrap();
    (params.not_before, params.not_after) = (at(from), at(until));
    let key = KeyPair::generate().unwrap();
    let issuer = rcgen::Issuer::new(ca, ca_key);
    let leaf = params.signed_by(&key, &issuer).unwrap();
    Content {
        ca_crt: ca_crt.into_bytes(),
        ca_key: Vec::new(),
        tls_crt: leaf.pem().into_bytes(),
        tls_key: key.serialize_pem().into_bytes(),
    }
}

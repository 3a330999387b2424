//! New keys and certificates: ECDSA P-256.

use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    KeyPair, KeyUsagePurpose,
};
use time::OffsetDateTime;

use super::{
    keep::{CA_LIFE, Key, Pair},
    read::Facts,
};

/// Clocks of a cluster differ.
const BEFORE: i64 = 60 * 60;

/// Why none could be made.
#[derive(Debug, thiserror::Error)]
pub(super) enum Error {
    /// From the library.
    #[error("no certificate can be made: {0}")]
    Make(#[from] rcgen::Error),
    /// What was made can't be read.
    #[error("no certificate can be made: {0}")]
    Unusable(String),
}

/// A new CA.
pub(super) fn authority(now: i64) -> Result<Pair, Error> {
    let key = KeyPair::generate()?;
    let mut params = params("lj-runtimekit-scheduler-ca", now, now + CA_LIFE)?;
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    Ok(Pair {
        certificate: params.self_signed(&key)?.pem(),
        key: Key(key.serialize_pem()),
    })
}

/// A CA that can sign.
pub(super) struct Issuer(rcgen::Issuer<'static, KeyPair>);

impl Issuer {
    /// From its certificate and key, which must belong together.
    pub(super) fn new(certificate: &str, key: &Key, facts: &Facts) -> Result<Self, String> {
        let key = KeyPair::from_pem(&key.0).map_err(|_| "ca.key is no private key")?;
        if !facts.is_ca {
            return Err("ca.crt is not a CA's".into());
        }
        if !facts.has_key(&key.public_key_pem()) {
            return Err("ca.key is not the key of ca.crt".into());
        }
        let issuer = rcgen::Issuer::from_ca_cert_pem(certificate, key)
            .map_err(|why| format!("ca.crt: {why}"))?;
        Ok(Self(issuer))
    }

    /// A serving certificate for these names.
    pub(super) fn serving(&self, names: &[String], now: i64, until: i64) -> Result<Pair, Error> {
        let key = KeyPair::generate()?;
        let mut params = params("lj-runtimekit-scheduler", now, until)?;
        params.subject_alt_names = CertificateParams::new(names.to_vec())?.subject_alt_names;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        params.use_authority_key_identifier_extension = true;
        Ok(Pair {
            certificate: params.signed_by(&key, &self.0)?.pem(),
            key: Key(key.serialize_pem()),
        })
    }
}

fn params(name: &str, now: i64, until: i64) -> Result<CertificateParams, Error> {
    let at = |seconds: i64| {
        OffsetDateTime::from_unix_timestamp(seconds)
            .map_err(|_| Error::Unusable("the clock is wrong".into()))
    };
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, name);
    params.not_before = at(now - BEFORE)?;
    params.not_after = at(until)?;
    Ok(params)
}

//! From the Secret's texts to certificates and keys, with what is wrong with them. No I/O.

use std::{fmt, sync::Arc};

use rcgen::{KeyPair, PublicKeyData as _};
use rustls::{
    crypto::ring,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
    sign::CertifiedKey,
};
use x509_parser::prelude::{FromDer as _, X509Certificate};

use super::{
    content::{CA_CRT, CA_KEY, Content, TLS_CRT, TLS_KEY},
    decide::Life,
};

/// What is in a Secret.
pub(super) struct Found {
    /// It is this program's to write: it is empty, or has a CA key that can be used.
    pub(super) is_ours: bool,
    /// Trusted and not at their end, in the Secret's order.
    pub(super) authorities: Vec<Authority>,
    /// What can be served, good or not.
    pub(super) serving: Option<Serving>,
    /// What can't be read.
    pub(super) faults: Vec<Fault>,
}

/// A certificate to be trusted.
pub(super) struct Authority {
    pub(super) certificate: CertificateDer<'static>,
    pub(super) life: Life,
    /// To sign with.
    pub(super) key: Option<KeyPair>,
}

/// A chain with its key.
#[derive(Clone)]
pub(super) struct Serving {
    pub(super) certified: Arc<CertifiedKey>,
    pub(super) life: Life,
}

/// What is wrong with one key of the Secret.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Fault {
    key: &'static str,
    why: &'static str,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.key, self.why)
    }
}

const fn fault(key: &'static str, why: &'static str) -> Fault {
    Fault { key, why }
}

/// Reads what the Secret holds at that time (Unix seconds).
pub(super) fn read(content: &Content, now: u64) -> Found {
    let mut faults = Vec::new();
    let keys = ca_keys(&content.ca_key).unwrap_or_else(|fault| {
        faults.push(fault);
        Vec::new()
    });
    let is_empty =
        content.ca_key.is_empty() && content.tls_crt.is_empty() && content.tls_key.is_empty();
    let is_ours = is_empty || !keys.is_empty();
    let mut authorities = authorities(&content.ca_crt, keys).unwrap_or_else(|fault| {
        faults.push(fault);
        Vec::new()
    });
    if is_ours && !is_empty && authorities.iter().all(|a| a.key.is_none()) {
        faults.push(fault(CA_CRT, "no CA certificate for the key in ca.key"));
    }
    authorities.retain(|authority| !authority.life.is_over(now));
    let serving = serving(&content.tls_crt, &content.tls_key).unwrap_or_else(|fault| {
        faults.push(fault);
        None
    });
    Found {
        is_ours,
        authorities,
        serving,
        faults,
    }
}

fn ca_keys(pem: &[u8]) -> Result<Vec<KeyPair>, Fault> {
    let unusable = || fault(CA_KEY, "not a private key in PKCS #8 and PEM");
    let keys: Vec<KeyPair> = PrivateKeyDer::pem_slice_iter(pem)
        .map(|key| KeyPair::try_from(&key.ok()?).ok())
        .collect::<Option<_>>()
        .ok_or_else(unusable)?;
    if keys.is_empty() && !pem.is_empty() {
        return Err(unusable());
    }
    Ok(keys)
}

/// The certificates, each with its key.
fn authorities(pem: &[u8], mut keys: Vec<KeyPair>) -> Result<Vec<Authority>, Fault> {
    let mut authorities = Vec::new();
    for certificate in certificates(CA_CRT, pem)? {
        let parsed = parse(CA_CRT, &certificate)?;
        let life = life(&parsed);
        let own = keys.iter().position(|key| {
            parsed.is_ca() && parsed.public_key().raw == key.subject_public_key_info()
        });
        let key = own.map(|place| keys.swap_remove(place));
        authorities.push(Authority {
            certificate,
            life,
            key,
        });
    }
    Ok(authorities)
}

fn serving(crt: &[u8], key: &[u8]) -> Result<Option<Serving>, Fault> {
    match (crt.is_empty(), key.is_empty()) {
        (true, true) => return Ok(None),
        (true, false) => return Err(fault(TLS_CRT, "missing, where tls.key is there")),
        (false, true) => return Err(fault(TLS_KEY, "missing, where tls.crt is there")),
        (false, false) => {}
    }
    let chain = certificates(TLS_CRT, crt)?;
    let Some(leaf) = chain.first() else {
        return Err(fault(TLS_CRT, "no certificate in PEM"));
    };
    let life = life(&parse(TLS_CRT, leaf)?);
    let key = PrivateKeyDer::from_pem_slice(key)
        .map_err(|_| fault(TLS_KEY, "not a private key in PEM"))?;
    let certified =
        CertifiedKey::from_der(chain, key, &ring::default_provider()).map_err(|error| {
            let why = match error {
                rustls::Error::InconsistentKeys(_) => "not the key of the certificate in tls.crt",
                _ => "not a private key that can be used",
            };
            fault(TLS_KEY, why)
        })?;
    Ok(Some(Serving {
        certified: Arc::new(certified),
        life,
    }))
}

fn certificates(key: &'static str, pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, Fault> {
    let all: Vec<_> = CertificateDer::pem_slice_iter(pem)
        .collect::<Result<_, _>>()
        .map_err(|_| fault(key, "not PEM"))?;
    if all.is_empty() && !pem.is_empty() {
        return Err(fault(key, "no certificate in PEM"));
    }
    Ok(all)
}

fn parse<'a>(key: &'static str, der: &'a CertificateDer<'_>) -> Result<X509Certificate<'a>, Fault> {
    match X509Certificate::from_der(der) {
        Ok(([], parsed)) => Ok(parsed),
        _ => Err(fault(key, "not an X.509 certificate")),
    }
}

fn life(certificate: &X509Certificate<'_>) -> Life {
    let validity = certificate.validity();
    // Before 1970 is as good as 1970 here.
    let seconds = |time: i64| u64::try_from(time).unwrap_or_default();
    Life {
        from: seconds(validity.not_before.timestamp()),
        until: seconds(validity.not_after.timestamp()),
    }
}

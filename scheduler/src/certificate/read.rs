//! What a certificate says.

use tokio_rustls::rustls::pki_types::{CertificateDer, SubjectPublicKeyInfoDer, pem::PemObject};
use x509_parser::prelude::{FromDer, GeneralName, X509Certificate};

/// The facts that decisions need.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Facts {
    /// Its end, in seconds since 1970.
    pub not_after: i64,
    /// DNS names that it is for.
    pub names: Vec<String>,
    /// Whether it may sign others.
    pub is_ca: bool,
    public_key: Vec<u8>,
    der: Vec<u8>,
}

impl Facts {
    /// Whether this public key, as PEM, is its own.
    pub(super) fn has_key(&self, pem: &str) -> bool {
        SubjectPublicKeyInfoDer::from_pem_slice(pem.as_bytes())
            .is_ok_and(|key| key.as_ref() == self.public_key)
    }

    /// Whether that CA signed it.
    pub(super) fn signed_by(&self, ca: &Self) -> bool {
        let parsed = (
            X509Certificate::from_der(&self.der),
            X509Certificate::from_der(&ca.der),
        );
        let (Ok((_, certificate)), Ok((_, ca))) = parsed else {
            return false;
        };
        certificate.verify_signature(Some(ca.public_key())).is_ok()
    }
}

/// Of the first certificate of a PEM text.
pub(super) fn facts(pem: &str) -> Result<Facts, String> {
    let der = CertificateDer::from_pem_slice(pem.as_bytes())
        .map_err(|_| "it is no PEM certificate".to_owned())?;
    let (_, certificate) =
        X509Certificate::from_der(&der).map_err(|_| "it is no X.509 certificate".to_owned())?;
    let names = match certificate.subject_alternative_name() {
        Ok(Some(names)) => names.value.general_names.clone(),
        _ => Vec::new(),
    };
    let names = names.into_iter().filter_map(|name| match name {
        GeneralName::DNSName(name) => Some(name.to_owned()),
        _ => None,
    });
    Ok(Facts {
        not_after: certificate.validity().not_after.timestamp(),
        names: names.collect(),
        is_ca: certificate.is_ca(),
        public_key: certificate.public_key().raw.to_vec(),
        der: der.to_vec(),
    })
}

/// The certificates of a bundle, each as PEM.
pub(super) fn split(bundle: &str) -> Vec<String> {
    const END: &str = "-----END CERTIFICATE-----";
    bundle
        .split_inclusive(END)
        .filter(|part| part.contains(END))
        .map(|part| format!("{}\n", part.trim()))
        .collect()
}

//! Makes what is needed: keys, a CA, a serving certificate. No I/O but the system's randomness.

use std::time::Duration;

use rcgen::{
    BasicConstraints, CertificateParams, DnType, Error, ExtendedKeyUsagePurpose, IsCa, Issuer,
    KeyPair, KeyUsagePurpose,
};
use rustls::pki_types::{CertificateDer, ServerName};

use super::{
    content::Content,
    decide::{self, AUTHORITY_LIFE, Life, Needs, SERVING_LIFE},
    read::{Authority, Found},
};

/// New certificates are valid from so long ago: other machines' clocks may be behind.
const CLOCK_SKEW: u64 = 60 * 60;

/// The Secret's next content: what it `needs`, and of what it has (`content`, read as `found`) all
/// that stays.
pub(super) fn make(
    content: &Content,
    found: &Found,
    needs: Needs,
    names: &[ServerName<'_>],
    now: u64,
) -> Result<Content, Error> {
    let new = needs.authority.then(|| authority(now)).transpose()?;
    let all: Vec<&Authority> = new.iter().chain(&found.authorities).collect();
    let mut next = Content {
        ca_crt: bundle(all.iter().copied()).into_bytes(),
        ca_key: all
            .iter()
            .filter_map(|authority| authority.key.as_ref())
            .map(KeyPair::serialize_pem)
            .collect::<String>()
            .into_bytes(),
        ..content.clone()
    };
    if needs.serving
        && let Some(signer) = decide::signer(all, now)
        && let Some(key) = &signer.key
    {
        (next.tls_crt, next.tls_key) = serving(&signer.certificate, signer.life, key, names, now)?;
    }
    Ok(next)
}

/// The certificates as one PEM text.
pub(super) fn bundle<'a>(authorities: impl IntoIterator<Item = &'a Authority>) -> String {
    let config = pem::EncodeConfig::new().set_line_ending(pem::LineEnding::LF);
    authorities
        .into_iter()
        .map(|authority| pem::Pem::new("CERTIFICATE", authority.certificate.as_ref()))
        .map(|block| pem::encode_config(&block, config))
        .collect()
}

fn authority(now: u64) -> Result<Authority, Error> {
    let life = Life {
        from: now.saturating_sub(CLOCK_SKEW),
        until: now + AUTHORITY_LIFE,
    };
    let mut params = params("lj-runtimekit-scheduler CA", &[], life)?;
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    let key = KeyPair::generate()?;
    Ok(Authority {
        certificate: params.self_signed(&key)?.der().clone(),
        life,
        key: Some(key),
    })
}

/// Certificate and key, both PEM.
fn serving(
    authority: &CertificateDer<'_>,
    lives: Life,
    authority_key: &KeyPair,
    names: &[ServerName<'_>],
    now: u64,
) -> Result<(Vec<u8>, Vec<u8>), Error> {
    let life = Life {
        from: now.saturating_sub(CLOCK_SKEW).max(lives.from),
        until: (now + SERVING_LIFE).min(lives.until),
    };
    let mut params = params("lj-runtimekit-scheduler", names, life)?;
    params.use_authority_key_identifier_extension = true;
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    let key = KeyPair::generate()?;
    let issuer = Issuer::from_ca_cert_der(authority, authority_key)?;
    let certificate = params.signed_by(&key, &issuer)?;
    Ok((
        certificate.pem().into_bytes(),
        key.serialize_pem().into_bytes(),
    ))
}

fn params(subject: &str, names: &[ServerName<'_>], life: Life) -> Result<CertificateParams, Error> {
    let names: Vec<String> = names
        .iter()
        .map(|name| name.to_str().into_owned())
        .collect();
    let mut params = CertificateParams::new(names)?;
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, subject);
    let epoch = rcgen::date_time_ymd(1970, 1, 1);
    params.not_before = epoch + Duration::from_secs(life.from);
    params.not_after = epoch + Duration::from_secs(life.until);
    Ok(params)
}

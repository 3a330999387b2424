//! What a Secret's certificates need at a given time. No I/O, no clock.

use std::time::Duration;

use rustls::{
    RootCertStore,
    client::{verify_server_cert_signed_by_trust_anchor, verify_server_name},
    crypto::ring,
    pki_types::{ServerName, UnixTime},
    server::ParsedCertificate,
};

use super::read::{Authority, Found, Serving};

const DAY: u64 = 24 * 60 * 60;

/// Of a new CA, in seconds: 10 years.
pub(super) const AUTHORITY_LIFE: u64 = 3650 * DAY;

/// Of a new serving certificate, in seconds.
pub(super) const SERVING_LIFE: u64 = 90 * DAY;

/// When a certificate is valid, in Unix seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Life {
    pub(super) from: u64,
    pub(super) until: u64,
}

impl Life {
    fn left(self, now: u64) -> u64 {
        self.until.saturating_sub(now)
    }

    pub(super) fn is_over(self, now: u64) -> bool {
        self.left(now) == 0
    }

    /// Less than a third of it is left.
    fn wears_out(self, now: u64) -> bool {
        self.left(now) < self.until.saturating_sub(self.from) / 3
    }

    /// Less than a sixth of it is left: whoever renews at a third is late.
    pub(super) fn is_near_its_end(self, now: u64) -> bool {
        self.left(now) < self.until.saturating_sub(self.from) / 6
    }
}

/// What is to be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Needs {
    pub(super) authority: bool,
    pub(super) serving: bool,
}

impl Needs {
    pub(super) const NOTHING: Self = Self {
        authority: false,
        serving: false,
    };

    pub(super) fn any(self) -> bool {
        self.authority || self.serving
    }
}

/// What these certificates need, for a server of these names.
pub(super) fn needs(found: &Found, names: &[ServerName<'_>], now: u64) -> Needs {
    let newest = signers(&found.authorities)
        .map(|authority| authority.life)
        .max_by_key(|life| life.until);
    let is_good = |serving: &Serving| {
        !serving.life.wears_out(now)
            && is_for(serving, names)
            && is_trusted(serving, &found.authorities, now)
    };
    Needs {
        authority: newest.is_none_or(|life| life.wears_out(now)),
        serving: !found.serving.as_ref().is_some_and(is_good),
    }
}

/// Which CA signs: the oldest that outlives what it signs, since that is the one that a
/// kube-scheduler knows that has been running for long. Otherwise the one that lives longest.
pub(super) fn signer<'a>(
    authorities: impl IntoIterator<Item = &'a Authority>,
    now: u64,
) -> Option<&'a Authority> {
    signers(authorities).min_by_key(|authority| {
        let until = authority.life.until;
        let is_too_short = authority.life.left(now) < SERVING_LIFE;
        // Of those too short the longest.
        (
            is_too_short,
            if is_too_short {
                u64::MAX - until
            } else {
                until
            },
        )
    })
}

fn signers<'a>(
    authorities: impl IntoIterator<Item = &'a Authority>,
) -> impl Iterator<Item = &'a Authority> {
    authorities.into_iter().filter(|a| a.key.is_some())
}

/// Whether clients accept the certificate for all these names.
pub(super) fn is_for(serving: &Serving, names: &[ServerName<'_>]) -> bool {
    parsed(serving).is_some_and(|certificate| {
        names
            .iter()
            .all(|name| verify_server_name(&certificate, name).is_ok())
    })
}

/// Whether a client that trusts these accepts the certificate now.
fn is_trusted(serving: &Serving, authorities: &[Authority], now: u64) -> bool {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(authorities.iter().map(|a| a.certificate.clone()));
    let intermediates = serving.certified.cert.get(1..).unwrap_or_default();
    parsed(serving).is_some_and(|certificate| {
        verify_server_cert_signed_by_trust_anchor(
            &certificate,
            &roots,
            intermediates,
            UnixTime::since_unix_epoch(Duration::from_secs(now)),
            ring::default_provider()
                .signature_verification_algorithms
                .all,
        )
        .is_ok()
    })
}

fn parsed(serving: &Serving) -> Option<ParsedCertificate<'_>> {
    ParsedCertificate::try_from(serving.certified.cert.first()?).ok()
}

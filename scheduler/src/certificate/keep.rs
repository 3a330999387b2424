//! What follows from the Secret's content at a moment: what to serve, what to write, which CA to
//! publish. No I/O and no clock.

use super::{
    make::{self, Issuer},
    read::{self, Facts},
};

const DAY: i64 = 24 * 60 * 60;
/// A CA's life.
pub(super) const CA_LIFE: i64 = 3650 * DAY;
/// A serving certificate's life.
pub(super) const LIFE: i64 = 90 * DAY;
/// From when on the next CA is published beside the present one.
const CA_RENEWAL: i64 = CA_LIFE / 3;
/// From when on the next CA signs: well above a serving certificate's life.
const CA_CHANGE: i64 = LIFE + 30 * DAY;
/// From when on a serving certificate is made anew.
const RENEWAL: i64 = LIFE / 3;
/// How long before its end a certificate that is not ours is warned about.
const WARNING: i64 = 7 * DAY;

/// A private key as PEM. Never shown.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Key(pub String);

impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Key(…)")
    }
}

/// The Secret's content.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Kept {
    /// `ca.crt`: the CA in use first, then the next one, where there is one.
    pub ca: Option<String>,
    /// `ca.key`, of the CA in use.
    pub ca_key: Option<Key>,
    /// `next-ca.key`, of the next one.
    pub next_ca_key: Option<Key>,
    /// `tls.crt`.
    pub certificate: Option<String>,
    /// `tls.key`.
    pub key: Option<Key>,
}

/// A certificate (with what it is signed by, if anything) and its key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Pair {
    pub certificate: String,
    pub key: Key,
}

/// What follows.
#[derive(Debug, Default)]
pub(super) struct Next {
    /// To be written first; then look again.
    pub write: Option<Kept>,
    /// To be served.
    pub serve: Option<Pair>,
    /// When that ends, in seconds since 1970.
    pub expires: i64,
    /// The CA that kube-scheduler should know.
    pub publish: Option<String>,
    /// Why it is written, or what is wrong; empty where all is well.
    pub why: String,
}

/// Decides.
pub(super) fn next(kept: &Kept, names: &[String], now: i64) -> Result<Next, make::Error> {
    if kept.ca_key.is_none() && kept.certificate.is_some() && kept.key.is_some() {
        return Ok(somebodys(kept, names, now));
    }
    let authority = match Authority::of(kept, now) {
        Ok(authority) => authority,
        Err(why) => {
            let ca = make::authority(now)?;
            let new = Kept {
                ca: Some(ca.certificate),
                ca_key: Some(ca.key),
                ..Kept::default()
            };
            let authority = Authority::of(&new, now).map_err(make::Error::Unusable)?;
            return renewed(new.clone(), &authority, names, now, why);
        }
    };
    let left = authority.facts.not_after - now;
    if left < CA_CHANGE
        && let (Some(next), Some(key)) = (&authority.next, &kept.next_ca_key)
    {
        let new = Kept {
            // The old one stays known while certificates of it are about.
            ca: Some(format!("{next}{}", authority.certificate)),
            ca_key: Some(key.clone()),
            ..Kept::default()
        };
        let next = Authority::of(&new, now).map_err(make::Error::Unusable)?;
        return renewed(
            new.clone(),
            &next,
            names,
            now,
            "the CA is near its end".into(),
        );
    }
    if left < CA_RENEWAL && kept.next_ca_key.is_none() {
        let next = make::authority(now)?;
        let new = Kept {
            ca: Some(format!("{}{}", authority.certificate, next.certificate)),
            next_ca_key: Some(next.key),
            ..kept.clone()
        };
        return Ok(Next {
            write: Some(new),
            why: "the next CA, to be known in time".into(),
            ..Next::default()
        });
    }
    match serving(kept, names) {
        Err(why) => renewed(kept.clone(), &authority, names, now, why),
        Ok((_, facts)) if !authority.signed(&facts) => renewed(
            kept.clone(),
            &authority,
            names,
            now,
            "tls.crt is not of ca.crt".into(),
        ),
        Ok((_, facts)) if facts.not_after - now < RENEWAL => renewed(
            kept.clone(),
            &authority,
            names,
            now,
            "tls.crt is near its end".into(),
        ),
        Ok((pair, facts)) => Ok(Next {
            serve: Some(pair),
            expires: facts.not_after,
            publish: kept.ca.clone(),
            ..Next::default()
        }),
    }
}

/// The CA in use.
struct Authority {
    certificate: String,
    facts: Facts,
    issuer: Issuer,
    /// The one behind it in the bundle.
    next: Option<String>,
}

impl Authority {
    /// An empty reason where there is just nothing yet.
    fn of(kept: &Kept, now: i64) -> Result<Self, String> {
        let (Some(bundle), Some(key)) = (&kept.ca, &kept.ca_key) else {
            return Err("there is none yet".into());
        };
        let mut all = read::split(bundle).into_iter();
        let certificate = all.next().ok_or("ca.crt holds no certificate")?;
        let facts = read::facts(&certificate).map_err(|why| format!("ca.crt: {why}"))?;
        if facts.not_after <= now {
            return Err("ca.crt has ended".into());
        }
        let issuer = Issuer::new(&certificate, key, &facts)?;
        Ok(Self {
            certificate,
            facts,
            issuer,
            next: all.next(),
        })
    }

    fn signed(&self, serving: &Facts) -> bool {
        serving.signed_by(&self.facts)
    }
}

/// The same content with a new serving certificate.
fn renewed(
    mut kept: Kept,
    authority: &Authority,
    names: &[String],
    now: i64,
    why: String,
) -> Result<Next, make::Error> {
    let until = (now + LIFE).min(authority.facts.not_after);
    let pair = authority.issuer.serving(names, now, until)?;
    kept.certificate = Some(pair.certificate);
    kept.key = Some(pair.key);
    Ok(Next {
        write: Some(kept),
        why,
        ..Next::default()
    })
}

/// The pair that is kept, when a client that calls these names would take it, whatever the time.
fn serving(kept: &Kept, names: &[String]) -> Result<(Pair, Facts), String> {
    let (Some(certificate), Some(key)) = (&kept.certificate, &kept.key) else {
        return Err("there is none yet".into());
    };
    let facts = read::facts(certificate).map_err(|why| format!("tls.crt: {why}"))?;
    if let Some(name) = names.iter().find(|n| !facts.names.contains(n)) {
        return Err(format!("tls.crt is not for {name}"));
    }
    let pair = Pair {
        certificate: certificate.clone(),
        key: key.clone(),
    };
    super::serve::certified(&pair)?;
    Ok((pair, facts))
}

fn somebodys(kept: &Kept, names: &[String], now: i64) -> Next {
    match serving(kept, names) {
        Err(why) => Next {
            why: format!("{why}; without a ca.key it is not renewed here"),
            ..Next::default()
        },
        Ok((pair, facts)) => {
            let left = facts.not_after - now;
            Next {
                serve: Some(pair),
                expires: facts.not_after,
                publish: kept.ca.clone(),
                why: if left < WARNING {
                    "tls.crt is near its end, and without a ca.key it is not renewed here".into()
                } else {
                    String::new()
                },
                ..Next::default()
            }
        }
    }
}

#[cfg(test)]
#[path = "keep_tests.rs"]
mod tests;

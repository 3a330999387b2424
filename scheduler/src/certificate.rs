//! The extender's certificate: made here, kept in a Secret, renewed before it ends. No tool and
//! no person is needed, and the program's only rights are on that one Secret and on the
//! `ConfigMap` that tells kube-scheduler the CA.
//!
//! kube-scheduler reads the CA when it starts and never again. So a new CA is published beside
//! the present one for years before anything is signed by it: every kube-scheduler that was
//! restarted once in that time knows both.
//!
//! A Secret with a certificate and without a `ca.key` belongs to somebody else (cert-manager,
//! say): it is served as it is, read again now and then, and never written.

mod keep;
mod make;
mod read;
mod serve;
mod store;

use std::{sync::Arc, time::Duration};

use kit::{Failure, Ready, Tasks};
use model::backoff::Backoff;
use tokio_rustls::rustls::ServerConfig;

pub use serve::Served;
use store::Store;

use crate::metrics::Metrics;

/// Where the certificate is kept and for what names it is.
#[derive(Debug, Clone, clap::Args)]
pub struct CertificateArgs {
    /// Secret that keeps the certificate; it must exist and may be empty. Without it kube-scheduler
    /// is served over plain HTTP
    #[arg(
        long,
        value_name = "NAMESPACE/NAME",
        value_parser = object_name,
        requires = "tls_name"
    )]
    pub tls_secret: Option<ObjectName>,

    /// `ConfigMap` that kube-scheduler reads the CA from (key ca.crt); it must exist
    #[arg(
        long,
        value_name = "NAMESPACE/NAME",
        value_parser = object_name,
        requires = "tls_secret"
    )]
    pub tls_ca_config_map: Option<ObjectName>,

    /// DNS name that kube-scheduler calls, such as lj-runtimekit-scheduler.kube-system.svc; may be
    /// repeated
    #[arg(long, value_name = "NAME", requires = "tls_secret")]
    pub tls_name: Vec<String>,
}

/// Namespace and name of an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObjectName {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

impl std::fmt::Display for ObjectName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

fn object_name(text: &str) -> Result<ObjectName, String> {
    match text.split('/').collect::<Vec<_>>()[..] {
        [namespace, name] if !namespace.is_empty() && !name.is_empty() => Ok(ObjectName {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        }),
        _ => Err("it is a namespace and a name with a '/' between".to_owned()),
    }
}

/// How often the Secret is looked at.
const LOOK_EVERY: Duration = Duration::from_mins(10);

/// Keeps what is served up to date.
pub struct Keeper {
    store: Store,
    names: Vec<String>,
    served: Arc<Served>,
    metrics: Metrics,
    ready: Ready,
}

impl Keeper {
    /// The keeper, and what the server is configured with; nothing where no Secret is named.
    pub fn new(
        args: CertificateArgs,
        client: kube::Client,
        metrics: Metrics,
        readiness: &kit::Readiness,
    ) -> Result<Option<(Self, Arc<ServerConfig>)>, Failure> {
        let Some(secret) = args.tls_secret else {
            return Ok(None);
        };
        let waiting = format!("waiting for the certificate in the Secret {secret}");
        let served = Arc::new(Served::default());
        let config = served.config().map_err(Failure::fatal)?;
        let keeper = Self {
            store: Store::new(client, secret, args.tls_ca_config_map),
            names: args.tls_name,
            served,
            metrics,
            ready: readiness.condition("certificate", waiting),
        };
        Ok(Some((keeper, config)))
    }

    /// Runs until shutdown.
    pub async fn run(self, tasks: Tasks) -> Result<(), Failure> {
        let mut backoff = Backoff::new(Duration::from_secs(1), Duration::from_mins(1));
        let mut said = String::new();
        loop {
            let wait = match self.turn(&mut said).await {
                Ok(()) => {
                    backoff.reset();
                    LOOK_EVERY
                }
                Err(why) => {
                    self.metrics.certificate_failures.inc();
                    self.say(&mut said, &why);
                    backoff.next(fastrand())
                }
            };
            tokio::select! {
                () = tasks.shutdown() => return Ok(()),
                () = tokio::time::sleep(wait) => {}
            }
        }
    }

    /// One look, and what follows from it.
    async fn turn(&self, said: &mut String) -> Result<(), String> {
        // Of several programs that start at once one writes first; the others look again.
        for _ in 0..3 {
            let (kept, version) = self.store.read().await?;
            let next = keep::next(&kept, &self.names, now()).map_err(|e| e.to_string())?;
            if let Some(new) = &next.write {
                if self.store.write(new, &version).await? {
                    tracing::info!(secret = %self.store.secret, why = next.why, "certificate written");
                }
                continue;
            }
            self.say(said, &next.why);
            if let Some(pair) = &next.serve {
                self.served.replace(pair)?;
                self.metrics.certificate_expiry.set(next.expires);
                self.ready.met();
            } else {
                self.ready.unmet(next.why.clone());
            }
            if let Some(ca) = &next.publish {
                self.store.publish(ca).await?;
            }
            return Ok(());
        }
        Err(format!(
            "somebody else keeps writing the Secret {}",
            self.store.secret
        ))
    }

    /// What is wrong, once.
    fn say(&self, said: &mut String, why: &str) {
        if !why.is_empty() && said != why {
            tracing::warn!(secret = %self.store.secret, why, "certificate");
        }
        why.clone_into(said);
    }
}

/// Seconds since 1970.
fn now() -> i64 {
    std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .map_or(0, |d| i64::try_from(d.as_secs()).unwrap_or(i64::MAX))
}

/// Any value: it only spreads retries.
fn fastrand() -> u64 {
    use std::hash::{BuildHasher, Hasher};
    std::hash::RandomState::new().build_hasher().finish()
}

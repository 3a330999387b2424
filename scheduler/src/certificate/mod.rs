//! The certificate that kube-scheduler verifies: made here, kept in a Secret, renewed before it
//! ends.
//!
//! One Secret holds a CA and the serving certificate, so that all replicas serve the same one; one
//! `ConfigMap` shows the CA's certificate to kube-scheduler. Both are there, empty, before the
//! program starts: it may read and patch just these two.
//!
//! What happens when
//! - First start: a CA for 10 years and a serving certificate for 90 days are made and written
//!   with the version of the Secret that was read. Of two replicas one wins; the other reads again.
//! - A third of the serving certificate's life is left (30 days): a new one is made. Open
//!   connections go on, new ones get it. kube-scheduler notices nothing.
//! - A third of the CA's life is left (3 years and 4 months): a second CA is made, and both are
//!   published. kube-scheduler reads its `caFile` when it starts, so one that runs knows the old
//!   CA only: serving certificates are signed by the old CA as long as it lives for one more of
//!   them. Only in the old CA's last 90 days the new one signs; until then kube-scheduler must
//!   have started once in more than three years. The old CA leaves the bundle at its end.
//! - A Secret with a certificate and no `ca.key` is somebody else's, such as cert-manager's:
//!   served, never written, read again every minute.
//! - A `ca.key` that can't be read is not written over: it may be a CA of the administrator's. What
//!   is in `tls.crt` is served, or else what was served before. Emptying all four keys of the
//!   Secret makes everything anew.

mod content;
mod decide;
mod keeper;
mod make;
mod read;
mod serve;
mod store;

#[cfg(test)]
mod decide_tests;
#[cfg(test)]
mod keeper_tests;
#[cfg(test)]
pub(crate) mod testing;

use std::sync::Arc;

use kit::{Chassis, Failure};
use rustls::{ServerConfig, pki_types::ServerName};

use crate::{metrics::CertificateMetrics, object_name::ObjectName};
use keeper::Keeper;
pub(crate) use serve::Current;
use store::Store;

/// Whether and how kube-scheduler is served over TLS.
#[derive(Debug, Clone, clap::Args)]
pub struct TlsArgs {
    /// Serve over TLS with the certificate in this Secret, which is there, empty: the program
    /// fills it and renews what is in it. Plain HTTP where this is left out
    #[arg(long, value_name = "NAMESPACE/NAME", requires = "tls_names")]
    pub tls_secret: Option<ObjectName>,

    /// A name that kube-scheduler calls this server by, DNS name or IP address; may be repeated
    #[arg(long = "tls-name", value_name = "DNS", value_parser = server_name, requires = "tls_secret")]
    pub tls_names: Vec<ServerName<'static>>,

    /// `ConfigMap` in which the CA's certificate is published under `ca.crt`, for kube-scheduler
    #[arg(long, value_name = "NAMESPACE/NAME", requires = "tls_secret")]
    pub tls_ca_config_map: Option<ObjectName>,
}

fn server_name(text: &str) -> Result<ServerName<'static>, String> {
    ServerName::try_from(text.to_owned())
        .map_err(|_| "neither a DNS name nor an IP address".to_owned())
}

/// How to serve, and how to reach the other replicas, which serve with the same certificate.
pub(crate) struct Tls {
    pub(crate) config: Arc<ServerConfig>,
    pub(crate) current: Arc<Current>,
    /// A name that the certificate is for.
    pub(crate) name: ServerName<'static>,
}

/// Starts keeping the certificate. `None` where plain HTTP is asked for.
pub(crate) fn start(
    args: TlsArgs,
    client: &kube::Client,
    chassis: &Chassis,
) -> Result<Option<Tls>, Failure> {
    let (Some(secret), Some(name)) = (args.tls_secret, args.tls_names.first().cloned()) else {
        return Ok(None);
    };
    let waiting = format!("waiting for Secret {secret}");
    let current = Arc::new(Current::default());
    let config = serve::config(Arc::clone(&current))?;
    let keeper = Keeper::new(
        Store::new(client.clone(), secret, args.tls_ca_config_map),
        args.tls_names,
        Arc::clone(&current),
        chassis.readiness.condition("certificate", waiting),
        CertificateMetrics::new(&chassis.metrics)?,
    );
    let tasks = &chassis.tasks;
    tasks.critical("certificate", keeper.run(tasks.clone()));
    Ok(Some(Tls {
        config: Arc::new(config),
        current,
        name,
    }))
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use crate::Args;

    fn parse(flags: &[&str]) -> Result<Args, String> {
        Args::try_parse_from([&["scheduler"], flags].concat()).map_err(|e| e.to_string())
    }

    #[test]
    fn tls_needs_a_secret_and_a_name() {
        let plain = parse(&[]).unwrap();
        assert_eq!(plain.tls.tls_secret, None);
        let args = parse(&[
            "--tls-secret=kube-system/tls",
            "--tls-name=a.kube-system.svc",
            "--tls-name=10.0.0.1",
            "--tls-ca-config-map=kube-system/ca",
        ])
        .unwrap();
        assert_eq!(args.tls.tls_secret.unwrap().to_string(), "kube-system/tls");
        assert_eq!(args.tls.tls_names.len(), 2);
        for (flags, named) in [
            (&["--tls-secret=a/b"][..], "--tls-name"),
            (&["--tls-name=a"], "--tls-secret"),
            (&["--tls-ca-config-map=a/b"], "--tls-secret"),
            (&["--tls-secret=ab", "--tls-name=a"], "NAMESPACE/NAME"),
            (&["--tls-secret=a/../b", "--tls-name=a"], "NAMESPACE/NAME"),
            (&["--tls-secret=a/", "--tls-name=a"], "NAMESPACE/NAME"),
            (&["--tls-secret=a/b", "--tls-name=*.a"], "DNS name"),
        ] {
            let error = parse(flags).unwrap_err();
            assert!(error.contains(named), "{flags:?}: {error}");
        }
    }
}

//! The scheduler extender: which node, and which card of it.
//!
//! Two watches feed a pure [`index`]: nodes with their ledgers, pods with what they hold. The
//! verbs of kube-scheduler read it ([`filter`], [`prioritize`], [`preempt`]) or enter a promise
//! in it before the API server is asked ([`bind`]). Nothing is kept on disk: after a restart the
//! watches tell all of it again, and until they have, nothing is answered. Of several replicas
//! the one that holds a [`lease`] decides.

mod assume;
pub mod bind;
mod catch_up;
pub mod certificate;
pub mod convert;
pub mod explain;
pub mod filter;
pub mod fit;
mod forward;
pub mod index;
pub mod inventories;
mod json;
pub mod lease;
mod memo;
mod metrics;
pub mod node;
pub mod object_name;
pub mod pod;
pub mod preempt;
pub mod prioritize;
pub mod reason;
mod server;
mod shared;
#[cfg(test)]
mod testing;
mod watch;
pub mod wire;

use std::net::SocketAddr;

use kit::{Chassis, CommonArgs, Failure};
use kubernetes::api::ApiArgs;

use crate::{
    bind::Binder, certificate::TlsArgs, forward::Forwarder, index::Index, lease::LeaseArgs,
    metrics::Metrics, server::Server, shared::Shared,
};

/// Scheduler extender: places pods on single cards, through kube-scheduler.
#[derive(Debug, clap::Parser)]
#[command(name = "lj-runtimekit-scheduler", version)]
pub struct Args {
    /// Where kube-scheduler calls: /filter, /prioritize, /bind, /preempt; for people /explain and
    /// /snapshot
    #[arg(
        long,
        value_name = "ADDR",
        env = "LJ_RUNTIMEKIT_SCHEDULER_LISTEN",
        default_value = "[::]:9503"
    )]
    pub listen: SocketAddr,

    /// TLS
    #[command(flatten)]
    pub tls: TlsArgs,

    /// Replicas
    #[command(flatten)]
    pub lease: LeaseArgs,

    /// Where the API server is
    #[command(flatten)]
    pub api: ApiArgs,

    /// What every program has
    #[command(flatten)]
    pub common: CommonArgs,
}

impl AsRef<CommonArgs> for Args {
    fn as_ref(&self) -> &CommonArgs {
        &self.common
    }
}

/// Worker threads: one for each core that works on calls, at most 4, and one for all else. More
/// only cost memory.
pub fn workers() -> usize {
    std::thread::available_parallelism().map_or(1, |n| n.get().min(4)) + 1
}

/// Connections at once: kube-scheduler keeps a few, a storm of tests a thousand.
const MOST_CONNECTIONS: usize = 2048;

/// Starts the watches and the server.
#[expect(
    clippy::unused_async,
    reason = "the start of a program may wait; this one's does not"
)]
pub async fn run(args: Args, chassis: Chassis) -> Result<(), Failure> {
    let client = args
        .api
        .client()
        .map_err(|error| Failure::Usage(error.to_string()))?;
    let shared = Shared::new(
        Index::new(chassis.settings.clone()),
        Metrics::new(&chassis.metrics)?,
    );
    let tasks = &chassis.tasks;

    let nodes = chassis
        .readiness
        .condition("nodes", "waiting for the API server's list of nodes");
    let pods = chassis
        .readiness
        .condition("pods", "waiting for the API server's list of pods");
    let watch_nodes = watch::nodes(client.clone(), shared.clone(), nodes);
    tasks.critical("nodes", watch::until_shutdown(tasks.clone(), watch_nodes));
    let port = args.listen.port();
    let leadership = lease::start(&args.lease, port, &client, &shared, &chassis)?;
    let watch_pods = watch::pods(client.clone(), shared.clone(), pods, leadership.clone());
    tasks.critical("pods", watch::until_shutdown(tasks.clone(), watch_pods));
    tasks.critical("gauges", watch::count(shared.clone(), tasks.clone()));

    let tls = certificate::start(args.tls, &client, &chassis)?;
    let binder = Binder::new(client, shared.clone(), leadership.clone());
    tasks.critical("settle", binder.clone().settle(tasks.clone()));

    let listener = kit::listen(args.listen)?;
    tracing::info!(address = %args.listen, tls = tls.is_some(), "serving kube-scheduler");
    let limits = kit::Limits {
        max_connections: MOST_CONNECTIONS,
        ..kit::Limits::default()
    };
    let trust = tls
        .as_ref()
        .map(|tls| (tls.current.clone(), tls.name.clone()));
    let forwarder = Forwarder::new(trust, shared.metrics.clone());
    let router = Server::new(shared, binder, leadership, forwarder, tasks.clone()).router();
    match tls {
        None => tasks.critical("http", kit::serve(listener, router, tasks.clone(), limits)),
        Some(tls) => {
            let server = kit::serve_tls(listener, router, tasks.clone(), limits, tls.config);
            tasks.critical("https", server);
        }
    }
    Ok(())
}

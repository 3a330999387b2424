//! The device plugin: offers this node's cards to kubelet, and gives each container exactly the
//! cards that its plan names.
//!
//! Kubelet names neither pod nor container in its calls. [`identity`] finds them out,
//! [`core`] decides on the ledger, the Runtime grants, and [`reconcile`] keeps the books of
//! kubelet, the Runtime and the API server in step. There is no database: after a restart all is
//! rebuilt from these three.
//!
//! Decisions are pure: [`identity`], [`core`], [`grants`], [`prefer`], [`offers`],
//! [`registration`], [`withdrawal`]. The other modules do the I/O.

pub mod admission;
pub mod args;
pub mod authority;
pub mod book;
pub mod cards;
pub mod changes;
pub mod checkpoint;
pub mod convert;
pub mod core;
pub mod endpoint;
#[cfg(test)]
mod fixture;
#[cfg(test)]
mod fixture_kubelet;
pub mod fresh_kubelet;
pub mod grants;
pub mod handover;
pub mod identity;
pub mod kubelet;
pub mod metrics;
pub mod node;
pub mod offers;
pub mod pods;
pub mod prefer;
pub mod reconcile;
pub mod refusal;
pub mod registrar;
pub mod registration;
pub mod service;
pub mod socket_name;
pub mod sources;
pub mod view;
pub mod watched;
pub mod withdrawal;

use std::sync::Arc;

use kit::{Chassis, Failure};
use kubernetes::{node_pods::NodePods, pod_resources::PodResources};
use runtime_proto::{Client, Sockets};
use tokio::sync::watch;

pub use crate::args::Args;
use crate::{
    admission::Admission, args::ReadOnlyUrl, cards::CardWatch, core::Core, metrics::Metrics,
    node::NodeWriter, pods::PodWriter, reconcile::Reconcile, registrar::Registrar,
    sources::Sources,
};

/// Starts all tasks.
#[expect(clippy::unused_async, reason = "kit calls an async function")]
pub async fn run(args: Args, chassis: Chassis) -> Result<(), Failure> {
    let metrics = Metrics::new(&chassis.metrics).map_err(Failure::fatal)?;
    let api = args
        .api
        .client()
        .map_err(|e| Failure::Usage(e.to_string()))?;
    let settings = Arc::new(chassis.settings);
    let sockets = Sockets::in_folder(&args.runtime_dir);
    let waiting_for = format!(
        "waiting for the Runtime at {}",
        sockets.device_manager.display()
    );
    let readiness = &chassis.readiness;
    let runtime_ready = readiness.condition("runtime", waiting_for);
    let sizes_ready = readiness.condition("resources", "the cards are not known yet");
    let rebuilt_ready = readiness.condition("rebuilt", "what runs on this node is not known yet");
    let registered_ready = readiness.condition("registered", "the cards are not known yet");

    let kubelet_pods = match &args.kubelet_read_only_url {
        ReadOnlyUrl::None => None,
        ReadOnlyUrl::Url(url) => Some(NodePods::read_only_port(url)),
    };
    let folders = args.folders();
    let sources = Sources::new(
        PodResources::new(args.kubelet.pod_resources()),
        kubelet_pods,
        NodePods::api_server(api.clone(), &args.node_name),
        &folders.device_plugins,
        settings.clone(),
        metrics.clone(),
    );
    let admission = Arc::new(Admission::new(
        Core::new(settings.clone()),
        sources,
        Client::new(sockets),
        metrics.clone(),
    ));

    let (offers, offered) = watch::channel(None);
    let (wish, wished) = watch::channel(None);
    let (open, opened) = watch::channel(false);
    let (closed, closing) = watch::channel(false);
    let (arrived, arrivals) = watch::channel(0);
    let (restarted, restarts) = watch::channel(0);
    let tasks = &chassis.tasks;
    let registrar = Registrar::new(
        folders,
        admission.clone(),
        registered_ready,
        restarted,
        registrar::Handover {
            open,
            closed: closing,
        },
    );
    tasks.critical("registrar", registrar.run(offered, tasks.clone()));
    let reconcile = Reconcile {
        admission: admission.clone(),
        writer: PodWriter::new(
            api.clone(),
            settings.annotations.allocated.clone(),
            metrics.clone(),
        ),
        every: args.reconcile_interval,
        arrived: arrivals,
        restarted: restarts.clone(),
        ready: rebuilt_ready,
    };
    tasks.critical("reconcile", reconcile.run(tasks.clone()));
    let node = NodeWriter {
        client: api,
        node: args.node_name,
        settings,
        metrics,
        wish: wished,
        restarted: restarts,
        open: opened,
        closed,
        taken: std::collections::BTreeSet::new(),
    };
    tasks.critical("node", node.run(tasks.clone()));
    let cards = CardWatch {
        admission,
        grace: args.runtime_grace,
        offers,
        wish,
        arrived,
        runtime_ready,
        sizes_ready,
    };
    tasks.critical("cards", cards.run(tasks.clone()));
    Ok(())
}

//! The exporter: `:9501/metrics` with series for each card of the node and each container that
//! has some of one.
//!
//! Three sources are brought together in [`state`], by plain functions: the Runtime's card list
//! and measurements ([`collect`] follows its streams), kubelet's PodResources, which is the truth
//! about who has which card, and the node's pods, which tell ended ones ([`kubelet`] asks both
//! when a scrape wants it). [`join`] says which series there are, [`render`] writes them through
//! the encoder of [`exposition`], and [`page`] keeps the text for all scrapes until something
//! changes.
//!
//! Absences: no series has a value that is not measured now. A scrape never waits for the
//! Runtime but at the very start, and is answered with 200 whatever is away.

use std::sync::Arc;

use kit::{Chassis, Failure, Limits};
use kubernetes::{api::ApiError, node_pods::NodePods, pod_resources::PodResources};
use runtime_proto::{Client, Sockets};

mod args;
pub mod collect;
mod convert;
pub mod exposition;
#[cfg(test)]
mod exposition_reader;
pub mod faults;
pub mod holding;
pub mod join;
pub mod kubelet;
pub mod metrics;
pub mod own;
pub mod page;
pub mod pods;
pub mod render;
pub mod samples;
#[cfg(test)]
mod scene;
pub mod server;
pub mod state;

pub use args::{Args, ReadOnlyUrl};
use metrics::OwnMetrics;
use page::Page;
use state::State;

/// Scrapes are few and answered at once; more callers than this wait in the kernel's queue.
const CONNECTIONS: usize = 256;

/// Serves until the program ends.
///
/// Errors: the address can't be listened on, or the kubeconfig that was given can't be used. A
/// Runtime, kubelet or API server that is away is waited for.
#[expect(
    clippy::unused_async,
    reason = "kit awaits it; what it starts needs the runtime it is called on"
)]
pub async fn run(args: Args, chassis: Chassis) -> Result<(), Failure> {
    let metrics = OwnMetrics::new(&chassis.metrics).map_err(Failure::fatal)?;
    let pods = node_pods(&args)?;
    let listener = kit::listen(args.listen)?;
    let address = listener.local_addr().map_err(Failure::fatal)?;
    tracing::info!(%address, node = %args.node_name, "serving /metrics");

    let runtime = Client::new(Sockets::in_folder(&args.runtime_dir));
    let state = State::new(args.node_name, chassis.settings);
    let page = Arc::new(Page::new(state, metrics));
    let kubelet = Arc::new(kubelet::Kubelet::new(
        Arc::clone(&page),
        PodResources::new(args.kubelet.pod_resources()),
        pods,
        runtime.clone(),
        args.kubelet_interval,
    ));
    let ready = chassis.readiness.condition(
        "runtime",
        format!("waiting for the Runtime in {}", args.runtime_dir.display()),
    );

    let tasks = &chassis.tasks;
    let limits = Limits {
        max_connections: CONNECTIONS,
        ..Limits::default()
    };
    let router = server::router(Arc::clone(&page), kubelet);
    tasks.critical("http", kit::serve(listener, router, tasks.clone(), limits));
    let shutdown = tasks.clone();
    let (client, shared) = (runtime.clone(), Arc::clone(&page));
    tasks.critical("cards", async move {
        tokio::select! {
            () = collect::cards(client, shared, ready) => {}
            () = shutdown.shutdown() => {}
        }
        Ok(())
    });
    let shutdown = tasks.clone();
    tasks.critical("metrics", async move {
        tokio::select! {
            () = collect::metrics(runtime, page, args.collection_interval) => {}
            () = shutdown.shutdown() => {}
        }
        Ok(())
    });
    Ok(())
}

/// Where the node's pods are read from: the read-only port, then the API server; none where the
/// one is not to be asked and the other is not there to ask.
fn node_pods(args: &Args) -> Result<Option<NodePods>, Failure> {
    let port = match &args.kubelet_read_only_url {
        ReadOnlyUrl::Nowhere => None,
        ReadOnlyUrl::At(url) => Some(NodePods::read_only_port(url)),
    };
    let api = match args.api.client() {
        Ok(client) => Some(NodePods::api_server(client, &args.node_name)),
        Err(ApiError::NotInCluster(_)) => None,
        Err(error) => return Err(Failure::Usage(error.to_string())),
    };
    Ok(match (port, api) {
        (Some(port), Some(api)) => Some(NodePods::either(port, api)),
        (None, None) => {
            tracing::warn!("nothing tells the node's pods: ended ones may show");
            None
        }
        (port, api) => port.or(api),
    })
}

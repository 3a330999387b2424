//! A stand-in kubelet: Registration, device manager and checkpoint, one pod admitted at a time,
//! PodResources with its rate limit, the read-only `/pods`, the node's status and pretend
//! containers.
//!
//! What a device plugin cannot tell from kubelet 1.36: what each call carries, what PodResources
//! and `/pods` show at each call, what happens to a pod whose Allocate is refused, what a restart
//! deletes and what the checkpoint keeps.
//!
//! Known differences
//! - Containers are pretend: they run until the pod is deleted, or for as long as the annotation
//!   `testbed/run-seconds` says; init containers for `testbed/init-seconds`, else no time. An image
//!   given by `--agent-image` is a real process of this user; after a restart of the stand-in it is
//!   started again.
//! - Device lists carry no NUMA nodes, and there is no topology manager.
//! - A node's other resources are made up, and pods are not checked against them.
//! - `--capacity-grace` is 5 minutes in kubelet and can't be set there.

mod admission;
mod checkpoint;
mod devices;
mod lifecycle;
mod node;
mod pod;
mod pod_resources;
mod pods;
mod read_only;
mod registration;
mod state;

use std::{net::SocketAddr, path::PathBuf, sync::Arc};

use kit::Failure;

use state::State;

/// Arguments of `testbed kubelet`.
#[derive(Debug, Clone, clap::Args)]
pub struct KubeletArgs {
    /// Name of the node
    #[arg(long, value_name = "NAME")]
    pub node: String,

    /// Folder that stands for /var/lib/kubelet
    #[arg(long, value_name = "DIR")]
    pub root: PathBuf,

    /// Where the API server is
    #[command(flatten)]
    pub api: kubernetes::api::ApiArgs,

    /// Where the read-only port listens
    #[arg(long, value_name = "ADDR")]
    pub read_only_listen: SocketAddr,

    /// An image whose containers are run as this program
    #[arg(long, value_name = "IMAGE=PROGRAM")]
    pub agent_image: Vec<String>,

    /// Arguments of such programs that begin with FROM begin with TO instead: several stand-in
    /// nodes share one machine's paths
    #[arg(long, value_name = "FROM=TO")]
    pub host_path: Vec<String>,

    /// A label of the node
    #[arg(long, value_name = "KEY=VALUE")]
    pub node_label: Vec<String>,

    /// Seconds for which a resource without plugin keeps its capacity
    #[arg(long, value_name = "SECONDS", default_value_t = 300)]
    pub capacity_grace: u64,

    /// Milliseconds from the start of this program to the first admission
    #[arg(long, value_name = "MILLISECONDS", default_value_t = 700)]
    pub start_delay: u64,
}

impl KubeletArgs {
    fn agent(&self, image: &str) -> Option<&str> {
        self.agent_image
            .iter()
            .find_map(|pair| pair.strip_prefix(image)?.strip_prefix('='))
    }

    fn host_path(&self, argument: &str) -> String {
        let pairs = self
            .host_path
            .iter()
            .filter_map(|pair| pair.split_once('='));
        let mut mapped =
            pairs.filter_map(|(from, to)| Some(format!("{to}{}", argument.strip_prefix(from)?)));
        mapped.next().unwrap_or_else(|| argument.to_owned())
    }
}

/// Runs until shutdown.
pub fn run(args: KubeletArgs, tasks: &kit::Tasks) -> Result<(), Failure> {
    let client = args
        .api
        .client()
        .map_err(|e| Failure::Usage(e.to_string()))?;
    let args = Arc::new(args);
    let fatal = |e: anyhow::Error| Failure::fatal(format!("{}: {e:#}", args.root.display()));
    let state = Arc::new(State::open(&args.root).map_err(fatal)?);
    registration::serve(state.clone(), tasks).map_err(fatal)?;
    pod_resources::serve(state.clone(), tasks).map_err(fatal)?;
    read_only::serve(state.clone(), args.read_only_listen, tasks)?;
    let stop = tasks.shutdown_token();
    let node = node::keep(client.clone(), args.clone(), state.clone());
    tasks.critical("node status", async move {
        tokio::select! { () = node => {}, () = stop.cancelled() => {} }
        Ok(())
    });
    let stop = tasks.shutdown_token();
    let pods = pods::sync(pods::runner(client, args, state), tasks.clone());
    tasks.critical("pods", async move {
        tokio::select! { () = pods => {}, () = stop.cancelled() => {} }
        Ok(())
    });
    Ok(())
}

//! From a node's label to its feature: makes a Job on the node that switches it on or off, and
//! tells the outcome.
//!
//! [`decide`] says what to do about one node, from API objects alone: nothing is remembered that
//! a restart could lose. [`book`] keeps what the watches tell, [`worker`] takes the steps, and
//! [`api`] makes the calls; [`leftovers`] says what still has to go from a node without the label
//! once its device plugin is no more. An action that failed is not tried again by itself: its Job stays for
//! people to look at until the label changes or somebody deletes the Job.

pub mod action;
pub mod api;
pub mod book;
pub mod convert;
pub mod decide;
pub mod job_name;
pub mod leftovers;
pub mod metrics;
pub mod retries;
pub mod worker;

use std::{path::PathBuf, time::Duration};

use futures_util::{Stream, StreamExt};
use tokio::sync::mpsc;

use crate::{
    api::{Kubernetes, Seen},
    convert::{JobTemplate, Reader},
    leftovers::Leftovers,
    metrics::Metrics,
    worker::Worker,
};

/// What the watches may be ahead of the loop; they wait when it is full, and lose nothing.
const AHEAD: usize = 256;

/// Switches the accelerator feature of nodes on and off as their label says
#[derive(Debug, clap::Parser)]
#[command(version)]
pub struct Args {
    /// Image of the job agent
    #[arg(
        long,
        value_name = "IMAGE",
        env = "LJ_RUNTIMEKIT_JOB_IMAGE",
        value_parser = clap::builder::NonEmptyStringValueParser::new()
    )]
    pub job_image: String,

    /// Namespace of the Jobs
    #[arg(
        long,
        value_name = "NAMESPACE",
        env = "LJ_RUNTIMEKIT_JOB_NAMESPACE",
        default_value = "kube-system"
    )]
    pub job_namespace: model::name::Namespace,

    /// Folder of the Runtime's sockets on the nodes; the Job sees it at the same path
    #[arg(
        long,
        value_name = "DIR",
        env = "LJ_RUNTIMEKIT_RUNTIME_DIR",
        default_value = runtime_proto::Sockets::DEFAULT_FOLDER
    )]
    pub runtime_dir: PathBuf,

    /// For how long kubelet may write back the name of a resource that has no plugin any more:
    /// fixed in kubelet, shorter in tests
    #[arg(
        long,
        value_name = "SECONDS",
        hide = true,
        default_value_t = leftovers::KUBELET_GRACE.as_secs(),
        value_parser = clap::value_parser!(u64).range(1..=86_400)
    )]
    pub capacity_grace: u64,

    /// How the API server is reached.
    #[command(flatten)]
    pub api: kubernetes::api::ApiArgs,

    /// Arguments that every program has.
    #[command(flatten)]
    pub common: kit::CommonArgs,
}

impl AsRef<kit::CommonArgs> for Args {
    fn as_ref(&self) -> &kit::CommonArgs {
        &self.common
    }
}

/// Starts it.
#[allow(clippy::unused_async)] // every program's `run` is async: `kit::main` calls it on the runtime
pub async fn run(args: Args, chassis: kit::Chassis) -> Result<(), kit::Failure> {
    let runtime_dir = runtime_dir(&args.runtime_dir)?;
    let client = args
        .api
        .client()
        .map_err(|error| kit::Failure::Usage(error.to_string()))?;
    let template = JobTemplate {
        image: args.job_image,
        runtime_dir,
    };
    let reader = Reader::new(&chassis.settings);
    let kubernetes = Kubernetes::new(&client, args.job_namespace.as_str(), template, reader);
    let metrics = Metrics::new(&chassis.metrics).map_err(kit::Failure::fatal)?;
    let ready = chassis
        .readiness
        .condition("api-server", "waiting for the lists of nodes and jobs");
    let (sender, receiver) = mpsc::channel(AHEAD);
    let nodes = forward(kubernetes.watch_nodes(), sender.clone());
    let jobs = forward(kubernetes.watch_jobs(), sender);
    let leftovers = Leftovers::new(Duration::from_secs(args.capacity_grace));
    let worker = Worker::new(kubernetes, leftovers, metrics, ready).run(receiver);
    let tasks = chassis.tasks.clone();
    chassis.tasks.critical("controller", async move {
        // All in one task: a step that is under way when the program is told to end is left, as
        // each can be repeated.
        tokio::select! {
            () = tasks.shutdown() => Ok(()),
            () = worker => Err(kit::Failure::fatal("the watches ended")),
            () = nodes => Err(kit::Failure::fatal("the node watch ended")),
            () = jobs => Err(kit::Failure::fatal("the job watch ended")),
        }
    });
    Ok(())
}

async fn forward(seen: impl Stream<Item = Seen>, to: mpsc::Sender<Seen>) {
    let mut seen = std::pin::pin!(seen);
    while let Some(next) = seen.next().await {
        if to.send(next).await.is_err() {
            return;
        }
    }
}

/// Kubernetes takes only absolute paths without `..` for a host folder.
fn runtime_dir(path: &std::path::Path) -> Result<String, kit::Failure> {
    let parent = |part| part == std::path::Component::ParentDir;
    match path.to_str() {
        Some(text) if path.is_absolute() && !path.components().any(parent) => Ok(text.to_owned()),
        _ => Err(kit::Failure::Usage(format!(
            "--runtime-dir {}: must be an absolute path without ..",
            path.display()
        ))),
    }
}

#[cfg(test)]
#[path = "cluster_tests.rs"]
mod tests;

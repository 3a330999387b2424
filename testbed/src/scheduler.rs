//! A stand-in for kube-scheduler, with or without an extender.
//!
//! What an extender cannot tell from the real one: when each verb is called and with what, how
//! its answers are read, and that binding goes on beside the scheduling of the next pod.
//!
//! Known differences
//! - Of the plugins there are: priority order, unschedulable nodes, taints, node selector and
//!   required node affinity (without `Gt` and `Lt`), resources and the number of pods. There is no
//!   pod affinity, topology spread, volume or port.
//! - Nodes that fit and score alike are taken by fewest pods, then by name: predictable, where the
//!   real one draws lots. All nodes are looked at, in order of name.
//! - Nothing is preempted; the message says that no victims were found. The extender's preempt
//!   verb is never called.
//! - Any change of a node's labels, annotations, spec or allocatable resources, and any pod that
//!   ends, lets every waiting pod try again.

mod cluster;
mod cycle;
mod decide;
mod demand;
mod extender;
mod queue;
mod report;

use kit::Failure;

use cycle::Scheduler;
use extender::Extender;

/// Arguments of `testbed scheduler`.
#[derive(Debug, Clone, clap::Args)]
pub struct SchedulerArgs {
    /// Where the API server is
    #[command(flatten)]
    pub api: kubernetes::api::ApiArgs,

    /// URL below which the extender's verbs are
    #[arg(long, value_name = "URL")]
    pub extender: Option<String>,

    /// Pods that name this scheduler are scheduled
    #[arg(long, value_name = "NAME", default_value = "default-scheduler")]
    pub scheduler_name: String,

    /// Pods that ask for such a resource go to the extender; all pods where left out
    #[arg(long, value_name = "NAME")]
    pub managed_resource: Vec<String>,

    /// A managed resource that only the extender counts
    #[arg(long, value_name = "NAME")]
    pub ignored_resource: Vec<String>,

    /// Send the extender whole nodes, not names
    #[arg(long)]
    pub no_node_cache: bool,
}

/// Starts `testbed scheduler` as a critical task. Must be called on a tokio runtime.
pub fn start(args: SchedulerArgs, tasks: &kit::Tasks) -> Result<(), Failure> {
    let client = args.api.client().map_err(Failure::fatal)?;
    let extender = match &args.extender {
        Some(url) => Some(Extender::new(url, !args.no_node_cache).map_err(Failure::fatal)?),
        None => None,
    };
    tracing::info!(
        name = args.scheduler_name,
        extender = args.extender,
        "scheduling"
    );
    let scheduler = Scheduler::new(
        client,
        args.scheduler_name,
        extender.map(|e| (e, args.managed_resource, args.ignored_resource)),
    );
    let shutdown = tasks.shutdown_token();
    tasks.critical("scheduler", async move {
        tokio::select! {
            () = shutdown.cancelled() => {}
            () = scheduler.run() => {}
        }
        Ok(())
    });
    Ok(())
}

#[cfg(test)]
mod tests;

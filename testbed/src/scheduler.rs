//! A stand-in for kube-scheduler.

use kit::Failure;

/// Arguments of `testbed scheduler`.
#[derive(Debug, Clone, clap::Args)]
pub struct SchedulerArgs {}

/// Runs `testbed scheduler`.
pub async fn run(args: SchedulerArgs, tasks: kit::Tasks) -> Result<(), Failure> {
    let _ = (args, tasks);
    Ok(())
}

//! The subcommands of `testbed`.

use std::process::ExitCode;

use kit::{Chassis, CommonArgs, Failure};

use crate::{api_server, demo, kubelet, scheduler};

/// Stand-ins for the parts of Kubernetes around the Runtime Kit, and the demo.
#[derive(Debug, clap::Parser)]
#[command(name = "testbed", version)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// A stand-in API server with Job controller and garbage collection
    ApiServer(Whole<api_server::ApiServerArgs>),
    /// A stand-in kubelet
    Kubelet(Whole<kubelet::KubeletArgs>),
    /// A stand-in kube-scheduler
    Scheduler(Whole<scheduler::SchedulerArgs>),
    /// The whole kit at work on one simulated node
    Demo(Whole<demo::DemoArgs>),
}

/// A subcommand's own arguments and those that every program has.
#[derive(Debug, clap::Args)]
struct Whole<A: clap::Args> {
    #[command(flatten)]
    own: A,
    #[command(flatten)]
    common: CommonArgs,
}

impl AsRef<CommonArgs> for Args {
    fn as_ref(&self) -> &CommonArgs {
        match &self.command {
            Command::ApiServer(whole) => &whole.common,
            Command::Kubelet(whole) => &whole.common,
            Command::Scheduler(whole) => &whole.common,
            Command::Demo(whole) => &whole.common,
        }
    }
}

/// Runs the program.
pub fn main() -> ExitCode {
    kit::main::<Args, _, _>(kit::Program::new("testbed").with_workers(2), run)
}

async fn run(args: Args, chassis: Chassis) -> Result<(), Failure> {
    let tasks = chassis.tasks;
    match args.command {
        Command::ApiServer(whole) => api_server::start(&whole.own, &tasks).map(drop),
        Command::Kubelet(whole) => kubelet::run(whole.own, &tasks),
        Command::Scheduler(whole) => scheduler::start(whole.own, &tasks),
        Command::Demo(whole) => demo::run(whole.own, tasks).await,
    }
}

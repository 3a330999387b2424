//! A simulated Runtime: the contract of `runtime-proto` on two unix sockets, over cards that are
//! a data file. It keeps its own book and refuses what would be given twice, so that a fault of
//! the kit shows; and it misbehaves on command.
//!
//! State and decisions are pure ([`state`], [`book`], [`feature`], [`load`]); time comes in as a
//! value. The rest is I/O.

pub mod book;
mod control;
mod convert;
pub mod edits;
pub mod fault;
pub mod feature;
pub mod load;
mod metrics;
pub mod profile;
mod services;
mod shared;
mod sim;
pub mod socket;
pub mod state;
pub mod store;

use std::{net::SocketAddr, path::PathBuf, time::Duration};

use kit::{Chassis, CommonArgs, Failure, Limits};

pub use self::{
    fault::Fault,
    profile::Profile,
    sim::{Options, Sim, SimError},
};

/// A simulated Runtime of one node
#[derive(Debug, Clone, clap::Parser)]
#[command(name = "runtime-sim", version)]
pub struct Args {
    #[command(flatten)]
    common: CommonArgs,

    /// Folder of the two sockets
    #[arg(long, value_name = "DIR")]
    dir: PathBuf,

    /// What hardware: ppu-8x144, ppu-16x144, ppu-8-cut, gpu-8-mig, amd-8, gcu-8, xpu-8, or a file
    #[arg(long, value_name = "NAME|FILE", default_value = "ppu-8x144")]
    profile: String,

    /// Keeps the feature, the book and replaced cards over a restart; without it they are lost
    #[arg(long, value_name = "FILE")]
    state: Option<PathBuf>,

    /// Where faults are commanded: POST /faults/NAME, GET /book, GET /cards
    #[arg(long, value_name = "ADDR")]
    control_listen: Option<SocketAddr>,

    /// Whether the feature is on at the first start
    #[arg(long, value_name = "on|off", default_value = "off")]
    feature: OnOff,

    /// How long switching the feature takes
    #[arg(long, value_name = "SECONDS", default_value_t = 1)]
    switch_seconds: u32,

    /// How often the hardware is read
    #[arg(long, value_name = "MILLISECONDS", default_value_t = 1000)]
    collection_interval_milliseconds: u32,

    /// What containers get: "environment" leaves out device nodes, mounts and CDI names
    #[arg(long, value_name = "WHICH", default_value = "all")]
    edits: edits::Edits,

    /// What the measured values start from: the same seed gives the same values
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    seed: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum OnOff {
    On,
    Off,
}

impl AsRef<CommonArgs> for Args {
    fn as_ref(&self) -> &CommonArgs {
        &self.common
    }
}

/// Serves until shutdown.
#[expect(clippy::unused_async, reason = "kit calls an async function")]
pub async fn run(args: Args, chassis: Chassis) -> Result<(), Failure> {
    let profile = Profile::load(&args.profile)?;
    let ready = chassis
        .readiness
        .condition("sockets", format!("sockets in {}", args.dir.display()));
    let options = Options {
        folder: args.dir,
        profile,
        state: args.state,
        feature_on: args.feature == OnOff::On,
        switch_takes: Duration::from_secs(args.switch_seconds.into()),
        collection_interval: Duration::from_millis(
            args.collection_interval_milliseconds.max(10).into(),
        ),
        edits: args.edits,
        seed: args.seed,
    };
    let tasks = chassis.tasks;
    let (shared, serving) =
        sim::prepare(options, tasks.shutdown_token()).map_err(Failure::fatal)?;
    ready.met();
    if let Some(address) = args.control_listen {
        let listener = kit::listen(address)?;
        let router = control::router(shared);
        tasks.critical(
            "control",
            kit::serve(listener, router, tasks.clone(), Limits::default()),
        );
    }
    tasks.critical("runtime", async move {
        let _ready = ready;
        serving.await.map_err(Failure::fatal)
    });
    Ok(())
}

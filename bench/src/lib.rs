//! How fast and how small the extender, the device plugin and the exporter are, each beside a
//! floor: the least program that takes and gives the same bytes.
//!
//! Times of one machine say little about another's, so a target is mostly a ratio to the floor,
//! and the two are measured in turns, so that whatever else runs on the machine meets both. Peers
//! of the programs (API server, kubelet, Runtime) are stand-ins in this process that answer at
//! once: what is measured is ours.

mod api_server;
mod callers;
mod cluster;
mod device_plugin;
mod exporter;
mod extender;
mod kubelet;
mod node_server;
mod process;
mod runtime;
mod table;
mod timing;

use std::{path::PathBuf, process::ExitCode};

use anyhow::Context as _;
use clap::Parser as _;

use table::Table;

/// Measures the programs beside their floors
#[derive(Debug, clap::Parser)]
#[command(name = "bench")]
struct Args {
    /// What to measure; all where none is named
    #[arg(value_name = "PROGRAM")]
    programs: Vec<Program>,

    /// Where the programs are; by default beside this one
    #[arg(long, value_name = "DIR")]
    programs_in: Option<PathBuf>,

    /// Only parts whose title contains this
    #[arg(long, value_name = "TEXT", default_value = "")]
    only: String,

    /// End with 1 where a target is missed
    #[arg(long)]
    check: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Program {
    Extender,
    DevicePlugin,
    Exporter,
}

/// What every part of the bench needs.
struct Ground {
    programs: PathBuf,
    only: String,
    /// For sockets and logs.
    folder: tempfile::TempDir,
}

impl Ground {
    fn wants(&self, title: &str) -> bool {
        title.contains(&self.only)
    }
}

/// From arguments to exit code.
pub fn main() -> ExitCode {
    match run(Args::parse()) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("bench: {error:#}");
            ExitCode::FAILURE
        }
    }
}

#[tokio::main(worker_threads = 2)]
async fn run(args: Args) -> anyhow::Result<ExitCode> {
    let here = std::env::current_exe()?;
    let beside = here.parent().context("no folder")?.to_owned();
    let ground = Ground {
        programs: args.programs_in.unwrap_or(beside),
        only: args.only,
        folder: tempfile::tempdir()?,
    };
    let wanted = |program| args.programs.is_empty() || args.programs.contains(&program);
    let mut table = Table::default();
    if wanted(Program::Extender) {
        extender::measure(&ground, &mut table).await?;
    }
    if wanted(Program::DevicePlugin) {
        device_plugin::measure(&ground, &mut table).await?;
    }
    if wanted(Program::Exporter) {
        exporter::measure(&ground, &mut table).await?;
    }
    println!("programs in {}\n\n{table}", ground.programs.display());
    Ok(match (args.check, table.missed()) {
        (true, missed @ 1..) => {
            eprintln!("bench: {missed} targets missed");
            ExitCode::FAILURE
        }
        _ => ExitCode::SUCCESS,
    })
}

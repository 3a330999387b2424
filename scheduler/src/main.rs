//! lj-runtimekit-scheduler

use std::process::ExitCode;

fn main() -> ExitCode {
    let program = kit::Program::new("lj-runtimekit-scheduler").with_workers(scheduler::workers());
    kit::main::<scheduler::Args, _, _>(program, scheduler::run)
}

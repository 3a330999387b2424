//! lj-runtimekit-scheduler

use std::process::ExitCode;

fn main() -> ExitCode {
    kit::main::<scheduler::Args, _, _>(kit::Program::new("lj-runtimekit-scheduler"), scheduler::run)
}

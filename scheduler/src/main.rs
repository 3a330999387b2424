//! lj-runtimekit-scheduler

use std::process::ExitCode;

fn main() -> ExitCode {
    // Filters run in parallel; more threads than this only cost memory.
    let workers = std::thread::available_parallelism().map_or(2, |n| n.get().clamp(2, 4));
    let program = kit::Program::new("lj-runtimekit-scheduler").with_workers(workers);
    kit::main::<scheduler::Args, _, _>(program, scheduler::run)
}

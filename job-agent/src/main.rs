//! lj-runtimekit-controller-job-agent

use std::process::ExitCode;

fn main() -> ExitCode {
    kit::main::<job_agent::Args, _, _>(
        kit::Program::new("lj-runtimekit-controller-job-agent"),
        job_agent::run,
    )
}

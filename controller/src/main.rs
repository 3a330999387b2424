//! lj-runtimekit-controller

use std::process::ExitCode;

fn main() -> ExitCode {
    kit::main::<controller::Args, _, _>(
        kit::Program::new("lj-runtimekit-controller"),
        controller::run,
    )
}

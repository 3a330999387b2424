//! lj-runtimekit-device-plugin

use std::process::ExitCode;

fn main() -> ExitCode {
    kit::main::<device_plugin::Args, _, _>(
        kit::Program::new("lj-runtimekit-device-plugin"),
        device_plugin::run,
    )
}

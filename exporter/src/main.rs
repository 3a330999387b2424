//! lj-runtimekit-exporter

use std::process::ExitCode;

fn main() -> ExitCode {
    kit::main::<exporter::Args, _, _>(kit::Program::new("lj-runtimekit-exporter"), exporter::run)
}

//! The simulated Runtime as a program.

fn main() -> std::process::ExitCode {
    kit::main::<runtime_sim::Args, _, _>(kit::Program::new("runtime-sim"), runtime_sim::run)
}

//! Stand-ins for the parts of Kubernetes around the kit, and the demo.

fn main() -> std::process::ExitCode {
    testbed::command::main()
}

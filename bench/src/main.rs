//! The bench.

fn main() -> std::process::ExitCode {
    bench::main()
}

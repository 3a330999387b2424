//! The chassis of every program: arguments, logging, configuration, the admin server, shutdown
//! and supervised tasks.
//!
//! A program's `main` is one call:
//!
//! ```ignore
//! fn main() -> std::process::ExitCode {
//!     kit::main::<exporter::Args, _, _>(kit::Program::new("lj-runtimekit-exporter"), exporter::run)
//! }
//! ```
//!
//! Kit knows nothing of Kubernetes and nothing of the Runtime.

pub mod admin;
pub mod args;
pub mod config;
pub mod failure;
pub mod logging;
mod process;
pub mod program;
pub mod ready;
pub mod serve;
pub mod tasks;
mod timed_stream;
mod usage;

pub use args::CommonArgs;
pub use failure::Failure;
pub use program::{Chassis, Program, main};
pub use ready::{Readiness, Ready};
pub use serve::{Limits, listen, serve};
pub use tasks::Tasks;

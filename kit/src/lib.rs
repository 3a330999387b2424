//! The chassis of every program: arguments, logging, configuration, the admin server, shutdown
//! and supervised tasks.
//!
//! A program's `main` is one call:
//!
//! ```no_run
//! #[derive(clap::Parser)]
//! struct Args {
//!     #[command(flatten)]
//!     common: kit::CommonArgs,
//! }
//!
//! impl AsRef<kit::CommonArgs> for Args {
//!     fn as_ref(&self) -> &kit::CommonArgs {
//!         &self.common
//!     }
//! }
//!
//! async fn run(args: Args, chassis: kit::Chassis) -> Result<(), kit::Failure> {
//!     let tasks = chassis.tasks.clone();
//!     chassis.tasks.critical("watch", async move {
//!         tasks.shutdown().await;
//!         Ok(())
//!     });
//!     Ok(())
//! }
//!
//! fn main() -> std::process::ExitCode {
//!     kit::main::<Args, _, _>(kit::Program::new("lj-runtimekit-exporter"), run)
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
pub use serve::{Limits, listen, serve, serve_tls};
pub use tasks::Tasks;

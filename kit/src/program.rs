//! From arguments to exit code.

use std::{future::Future, process::ExitCode};

use model::settings::Settings;

use crate::{CommonArgs, Failure, Readiness, Tasks};

/// Which program this is.
#[derive(Debug, Clone, Copy)]
pub struct Program {
    /// As in its image name, such as `lj-runtimekit-exporter`.
    pub name: &'static str,
    /// Worker threads: 1 runs everything on the main thread.
    pub workers: usize,
}

impl Program {
    /// A program on one thread.
    pub const fn new(name: &'static str) -> Self {
        Self { name, workers: 1 }
    }

    /// With so many worker threads.
    #[must_use]
    pub const fn with_workers(self, workers: usize) -> Self {
        Self {
            name: self.name,
            workers,
        }
    }
}

/// What a program runs on. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Chassis {
    /// The configuration file's content, or its defaults.
    pub settings: Settings,
    /// The program's supervised tasks, and its shutdown.
    pub tasks: Tasks,
    /// What `/readyz` answers from.
    pub readiness: Readiness,
    /// The program's own metrics; `/metrics` of the admin server shows them.
    pub metrics: prometheus::Registry,
}

/// Parses arguments, loads and checks the configuration, starts logging and the admin server,
/// calls `run`, and waits: for its error, for a critical task to die, or for SIGTERM or SIGINT,
/// which drain (a second signal, or 25 s, ends at once).
///
/// `run` returning `Ok` does not end the program while critical tasks run; with none it ends with 0.
/// Exit codes: 0, 64 for usage and configuration, 1 for the rest.
pub fn main<A, F, Fut>(program: Program, run: F) -> ExitCode
where
    A: clap::Parser + AsRef<CommonArgs>,
    F: FnOnce(A, Chassis) -> Fut,
    Fut: Future<Output = Result<(), Failure>>,
{
    let _ = (program, run, A::command());
    todo!("helper")
}

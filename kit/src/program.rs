//! From arguments to exit code.

use std::{
    future::{Future, poll_fn},
    io::Write,
    panic,
    process::ExitCode,
    task::Poll,
    time::Duration,
};

use model::settings::Settings;
use tokio::{
    net::TcpListener,
    signal::unix::{SignalKind, signal},
    sync::mpsc,
    time::timeout,
};

use crate::{
    CommonArgs, Failure, Limits, Readiness, Tasks, admin,
    args::AdminListen,
    config,
    failure::one_line,
    logging, tasks,
    usage::{self, Unparsed},
};

/// How long a program may take to end after the first signal. Kubernetes kills after 30 s.
const GRACE: Duration = Duration::from_secs(25);

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
#[derive(Debug, Clone, Default)]
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
/// Exit codes: 0 (also after a signal, when everything ended in time), 64 for usage and
/// configuration, 1 for the rest (a second signal and the end of the 25 s included).
pub fn main<A, F, Fut>(program: Program, run: F) -> ExitCode
where
    A: clap::Parser + AsRef<CommonArgs>,
    F: FnOnce(A, Chassis) -> Fut,
    Fut: Future<Output = Result<(), Failure>>,
{
    let args: A = match usage::parse(program.name, std::env::args_os().collect()) {
        Ok(args) => args,
        Err(Unparsed::Print(text)) => {
            // Whoever closed standard output does not want it.
            let _ = std::io::stdout().write_all(text.as_bytes());
            return ExitCode::SUCCESS;
        }
        Err(Unparsed::Wrong(failure)) => return report(program, &failure),
    };
    match start(program, args, run) {
        Ok(()) => {
            tracing::info!(program = program.name, "ended");
            ExitCode::SUCCESS
        }
        Err(failure) => report(program, &failure),
    }
}

/// Says on one line why the program ends. Usage errors may come before logging has started, and
/// are for the person who typed: they are plain text always.
fn report(program: Program, failure: &Failure) -> ExitCode {
    let text = one_line(&failure.to_string());
    match failure {
        Failure::Fatal(_) if tracing::event_enabled!(tracing::Level::ERROR) => {
            tracing::error!(program = program.name, "{text}");
        }
        _ => eprintln!("{}: {text}", program.name),
    }
    failure.exit_code()
}

fn start<A, F, Fut>(program: Program, args: A, run: F) -> Result<(), Failure>
where
    A: AsRef<CommonArgs>,
    F: FnOnce(A, Chassis) -> Fut,
    Fut: Future<Output = Result<(), Failure>>,
{
    let common = args.as_ref().clone();
    let filter = logging::filter(&common.log_level)?;
    let settings = settings(&common)?;
    logging::start(filter, common.log_format);
    log_panics();

    let mut builder = if program.workers > 1 {
        let mut builder = tokio::runtime::Builder::new_multi_thread();
        builder.worker_threads(program.workers);
        builder
    } else {
        tokio::runtime::Builder::new_current_thread()
    };
    let runtime = builder.enable_all().build().map_err(Failure::fatal)?;
    let result = runtime.block_on(async {
        let signals = signals()?;
        let chassis = Chassis {
            settings,
            ..Chassis::default()
        };
        admin::register_process(&chassis.metrics, program.name)?;
        let admin = admin_listener(common.admin_listen)?;
        let tasks = chassis.tasks.clone();
        let mut running = std::pin::pin!(run(args, chassis.clone()));
        // What `run` refuses at once is still one line on stderr, and what it waits for is known
        // before anybody is told that it is ready.
        let first = poll_fn(|context| Poll::Ready(running.as_mut().poll(context))).await;
        if let Poll::Ready(Err(failure @ Failure::Usage(_))) = first {
            return Err(failure);
        }
        tracing::info!(
            program = program.name,
            version = env!("CARGO_PKG_VERSION"),
            "started"
        );
        if let Some(listener) = admin {
            serve_admin(listener, &chassis)?;
        }
        drop(chassis);
        let rest = async {
            match first {
                Poll::Ready(result) => result,
                Poll::Pending => running.await,
            }
        };
        supervise(rest, &tasks, signals).await
    });
    // A blocking call that hangs must not hold the end up.
    runtime.shutdown_background();
    result
}

fn settings(common: &CommonArgs) -> Result<Settings, Failure> {
    let Some(file) = &common.config else {
        return Ok(Settings::default());
    };
    let settings: Settings = config::load(file)?;
    settings
        .validate()
        .map_err(|error| Failure::Usage(format!("{}: {error}", file.display())))?;
    Ok(settings)
}

fn admin_listener(listen: AdminListen) -> Result<Option<TcpListener>, Failure> {
    match listen {
        AdminListen::Nowhere => Ok(None),
        AdminListen::At(address) => crate::listen(address).map(Some),
    }
}

fn serve_admin(listener: TcpListener, chassis: &Chassis) -> Result<(), Failure> {
    let address = listener.local_addr().map_err(Failure::fatal)?;
    tracing::info!(%address, "admin server listens");
    let router = admin::router(chassis.readiness.clone(), chassis.metrics.clone());
    let serving = crate::serve(listener, router, chassis.tasks.clone(), Limits::default());
    chassis.tasks.background("admin", serving);
    Ok(())
}

/// The names of the SIGTERM and SIGINT signals as they come.
fn signals() -> Result<mpsc::Receiver<&'static str>, Failure> {
    let mut terminate = signal(SignalKind::terminate()).map_err(Failure::fatal)?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(Failure::fatal)?;
    // The first starts the end, the second ends: no third one matters.
    let (sender, receiver) = mpsc::channel(2);
    tokio::spawn(async move {
        loop {
            let name = tokio::select! {
                Some(()) = terminate.recv() => "SIGTERM",
                Some(()) = interrupt.recv() => "SIGINT",
                else => return,
            };
            if sender.send(name).await.is_err() {
                return;
            }
        }
    });
    Ok(receiver)
}

/// Where panics abort (release builds), the log line of this hook is all that remains of them.
fn log_panics() {
    panic::set_hook(Box::new(|info| {
        let task = tasks::current().unwrap_or("none");
        let text = one_line(info.payload_as_str().unwrap_or("no message"));
        let place = info.location().map(ToString::to_string);
        tracing::error!(task, place = place.as_deref(), "panic: {text}");
    }));
}

/// Runs until the program is to end, then ends it: see [`main`].
async fn supervise<Fut>(
    run: Fut,
    tasks: &Tasks,
    mut signals: mpsc::Receiver<&'static str>,
) -> Result<(), Failure>
where
    Fut: Future<Output = Result<(), Failure>>,
{
    let mut run = std::pin::pin!(run);
    let mut running = true;
    let mut outcome = loop {
        tokio::select! {
            biased;
            failure = tasks.failure() => break Err(failure),
            result = run.as_mut(), if running => {
                running = false;
                if result.is_err() {
                    break result;
                }
            }
            () = tasks.no_critical(), if !running => break Ok(()),
            Some(signal) = signals.recv() => {
                tracing::info!(signal, "ending; a second signal ends at once");
                break Ok(());
            }
        }
    };
    tasks.start_shutdown();
    let drain = async {
        let result = if running { run.await } else { Ok(()) };
        tasks.all_ended().await;
        result
    };
    let drained = tokio::select! {
        biased;
        drained = timeout(GRACE, drain) => drained
            .unwrap_or_else(|_| Err(forced(tasks, &format!("not ended {GRACE:?} after being told to")))),
        Some(signal) = signals.recv() => Err(forced(tasks, &format!("ended at once by {signal}"))),
    };
    for later in [tasks.take_failure().map(Err), Some(drained)] {
        outcome = outcome.and(later.unwrap_or(Ok(())));
    }
    outcome
}

fn forced(tasks: &Tasks, why: &str) -> Failure {
    let running = tasks.running();
    let running = if running.is_empty() {
        "run".to_owned()
    } else {
        running.join(", ")
    };
    Failure::fatal(format!("{why}; still at work: {running}"))
}

#[cfg(test)]
#[path = "program_tests.rs"]
mod tests;

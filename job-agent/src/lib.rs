//! Asks the node's Runtime to switch the feature on or off, and waits until it is.
//!
//! [`switch`] decides; this shell makes the calls and waits. Run as a Job, whose pod may run
//! twice: everything here may be repeated.

pub mod switch;

use std::{
    hash::{BuildHasher, Hasher, RandomState},
    path::PathBuf,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use runtime_proto::{Client, Sockets};
use tokio::time::{Instant, sleep, timeout_at};

use crate::switch::{Answer, Next, Switch, Wanted};

/// Asks the node's Runtime to switch the accelerator feature on or off
#[derive(Debug, clap::Parser)]
#[command(version)]
pub struct Args {
    /// What to do
    #[arg(value_enum)]
    pub action: Action,

    /// Folder of the Runtime's sockets
    #[arg(long, value_name = "DIR", default_value = Sockets::DEFAULT_FOLDER, env = "LJ_RUNTIMEKIT_RUNTIME_DIR")]
    pub runtime_dir: PathBuf,

    /// The longest that the switch may take, a missing Runtime included
    #[arg(
        long,
        value_name = "SECONDS",
        default_value_t = 300,
        value_parser = clap::value_parser!(u64).range(1..=86_400)
    )]
    pub timeout: u64,

    /// Arguments that every program has.
    #[command(flatten)]
    pub common: kit::CommonArgs,
}

/// What to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Action {
    /// Switch the feature on and wait until it is
    Enable,
    /// Switch it off and wait until it is
    Disable,
    /// Print where it stands, once
    Status,
}

impl AsRef<kit::CommonArgs> for Args {
    fn as_ref(&self) -> &kit::CommonArgs {
        &self.common
    }
}

/// Why the feature is not as wanted.
#[derive(Debug, thiserror::Error)]
enum NotDone {
    #[error("{0}")]
    Failed(String),
    #[error("told to end before the feature was {0}")]
    ToldToEnd(&'static str),
}

/// Runs it.
pub async fn run(args: Args, chassis: kit::Chassis) -> Result<(), kit::Failure> {
    let client = Client::new(Sockets::in_folder(&args.runtime_dir));
    let wanted = match args.action {
        Action::Enable => Wanted::Enabled,
        Action::Disable => Wanted::Disabled,
        Action::Status => return show_status(&client).await,
    };
    tokio::select! {
        done = switch_to(&client, wanted, Duration::from_secs(args.timeout)) => done,
        () = chassis.tasks.shutdown() => Err(NotDone::ToldToEnd(wanted.word())),
    }
    .map_err(kit::Failure::fatal)
}

async fn show_status(client: &Client) -> Result<(), kit::Failure> {
    let status = client.feature_status().await.map_err(kit::Failure::fatal)?;
    println!("{}", switch::describe(&(status.phase, status.message)));
    Ok(())
}

async fn switch_to(client: &Client, wanted: Wanted, within: Duration) -> Result<(), NotDone> {
    let deadline = Instant::now() + within;
    let request_id = request_id();
    let mut switch = Switch::new(wanted);
    let mut next = Next::Look(Duration::ZERO);
    loop {
        let call = async {
            match next {
                Next::Look(wait) => {
                    sleep(wait).await;
                    Some(Answer::Looked(client.feature_status().await))
                }
                Next::Ask(wait) => {
                    sleep(wait).await;
                    tracing::debug!(request_id, "asking");
                    Some(Answer::Asked(match wanted {
                        Wanted::Enabled => client.enable(&request_id).await,
                        Wanted::Disabled => client.disable(&request_id).await,
                    }))
                }
                Next::Done | Next::Failed(_) => None,
            }
        };
        let Ok(answer) = timeout_at(deadline, call).await else {
            return Err(NotDone::Failed(switch.timed_out(within)));
        };
        let Some(answer) = answer else {
            return Ok(());
        };
        let step = switch.step(answer, random());
        if let Some(note) = step.note {
            tracing::info!(wanted = wanted.word(), "{note}");
        }
        match step.next {
            Next::Done => {
                tracing::info!("the feature is {}", wanted.word());
                return Ok(());
            }
            Next::Failed(why) => return Err(NotDone::Failed(why)),
            more => next = more,
        }
    }
}

/// For jitter.
fn random() -> u64 {
    RandomState::new().build_hasher().finish()
}

/// Tells this attempt from others in the Runtime's log.
fn request_id() -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let milliseconds = now.map_or(0, |since| since.as_millis());
    format!("job-agent-{milliseconds}-{}", std::process::id())
}

#[cfg(test)]
#[path = "runtime_tests.rs"]
mod tests;

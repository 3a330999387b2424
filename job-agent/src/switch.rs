//! Switching the node's feature, step by step. Pure: the shell makes the calls, waits, and brings
//! the time and the randomness.

use std::time::Duration;

use model::backoff::Backoff;
use runtime_proto::{
    Error,
    client::{OperationStatus, Phase},
};

/// Between two looks at a switch that is under way.
const FIRST_LOOK: Duration = Duration::from_millis(250);
/// The longest wait between two such looks.
const LAST_LOOK: Duration = Duration::from_secs(2);

/// What is wanted of the feature.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wanted {
    /// On.
    Enabled,
    /// Off.
    Disabled,
}

impl Wanted {
    /// As in `the feature is enabled`.
    pub fn word(self) -> &'static str {
        match self {
            Self::Enabled => "enabled",
            Self::Disabled => "disabled",
        }
    }

    fn phase(self) -> Phase {
        match self {
            Self::Enabled => Phase::Enabled,
            Self::Disabled => Phase::Disabled,
        }
    }
}

/// A call that was made, with what came of it.
#[derive(Debug, Clone)]
pub enum Answer {
    /// Of `QueryStatus`.
    Looked(Result<OperationStatus, Error>),
    /// Of `Enable` or `Disable`.
    Asked(Result<OperationStatus, Error>),
}

/// What to do next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Next {
    /// Call `QueryStatus` after this wait.
    Look(Duration),
    /// Call `Enable` or `Disable` after this wait.
    Ask(Duration),
    /// The feature is as wanted.
    Done,
    /// It is not, and will not be by itself; one line.
    Failed(String),
}

/// One step: what to do next, and a line for the log where something has changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// What to do next.
    pub next: Next,
    /// What has changed, in words.
    pub note: Option<String>,
}

/// A switch under way.
#[derive(Debug, Clone)]
pub struct Switch {
    wanted: Wanted,
    /// The Runtime took the request, and has been there ever since: a failure that it reports now
    /// is that of our request, not an older one.
    taken: bool,
    /// The words of a refused request. It may have met another switch that was under way, so one
    /// more look decides.
    refusal: Option<String>,
    /// An older Runtime without `QueryStatus`: asking again, which is idempotent, tells as much.
    asks_only: bool,
    /// Why the Runtime can't be used now.
    trouble: Option<String>,
    /// The last phase that was seen, with its message.
    seen: Option<(Phase, String)>,
    looks: Backoff,
    troubles: Backoff,
}

impl Switch {
    /// A switch that has not begun: first look.
    pub fn new(wanted: Wanted) -> Self {
        Self {
            wanted,
            taken: false,
            refusal: None,
            asks_only: false,
            trouble: None,
            seen: None,
            looks: Backoff::new(FIRST_LOOK, LAST_LOOK),
            troubles: Backoff::standard(),
        }
    }

    /// What follows from an answer. `random` is any value: it picks the jitter of waits.
    pub fn step(&mut self, answer: Answer, random: u64) -> Step {
        match answer {
            Answer::Looked(Ok(status)) => self.on_status(status, false, random),
            Answer::Asked(Ok(status)) => {
                self.taken = true;
                self.refusal = None;
                self.on_status(status, true, random)
            }
            Answer::Looked(Err(error)) => self.on_failed_look(&error, random),
            Answer::Asked(Err(error)) => self.on_failed_request(&error, random),
        }
    }

    /// Why the switch was not done in time.
    pub fn timed_out(&self, timeout: Duration) -> String {
        let last = match (&self.trouble, &self.seen) {
            (Some(trouble), _) => trouble.clone(),
            (None, Some(seen)) => describe(seen),
            (None, None) => "no answer from the Runtime".to_owned(),
        };
        format!(
            "the feature is not {} within {} s: {last}",
            self.wanted.word(),
            timeout.as_secs()
        )
    }

    fn on_status(&mut self, status: OperationStatus, was_request: bool, random: u64) -> Step {
        let back = self.trouble.take().map(|_| "the Runtime is back: ");
        self.troubles.reset();
        let seen = (status.phase, status.message);
        let changed = self.seen.as_ref().is_none_or(|old| old.0 != seen.0);
        let note = (changed || back.is_some()).then(|| {
            let progress = match status.phase {
                Phase::Enabling | Phase::Disabling => format!(", {} %", status.progress_percent),
                _ => String::new(),
            };
            format!("{}{}{progress}", back.unwrap_or_default(), describe(&seen))
        });
        if changed {
            self.looks.reset();
        }
        let (phase, message) = seen.clone();
        self.seen = Some(seen);
        let next = match phase {
            phase if phase == self.wanted.phase() => Next::Done,
            Phase::Failed if self.taken => Next::Failed(if message.is_empty() {
                "the Runtime says that the switch failed, and not why".to_owned()
            } else {
                format!("the switch failed: {message}")
            }),
            Phase::Disabled | Phase::Enabled | Phase::Failed => self.ask(was_request, random),
            Phase::Enabling | Phase::Disabling | Phase::Unknown(_) => {
                self.refusal = None;
                self.look(random)
            }
        };
        Step { next, note }
    }

    /// The feature rests where it is not wanted.
    fn ask(&mut self, was_request: bool, random: u64) -> Next {
        if let Some(refusal) = self.refusal.take() {
            return Next::Failed(refusal);
        }
        if was_request {
            // Taken, and not begun yet: give it time before asking again.
            return self.look(random);
        }
        let wait = if self.taken {
            // It forgot: it was restarted between two looks. Not at once, or a Runtime that
            // never begins would be asked without end.
            self.looks.next(random)
        } else {
            Duration::ZERO
        };
        Next::Ask(wait)
    }

    fn look(&mut self, random: u64) -> Next {
        let wait = self.looks.next(random);
        if self.asks_only {
            Next::Ask(wait)
        } else {
            Next::Look(wait)
        }
    }

    fn on_failed_look(&mut self, error: &Error, random: u64) -> Step {
        match error {
            Error::Unimplemented(_) => {
                self.asks_only = true;
                Step {
                    next: Next::Ask(Duration::ZERO),
                    note: Some(format!("{error}; asking without looking")),
                }
            }
            Error::Unavailable { .. } => self.wait_for_runtime(error, random),
            Error::Deadline { .. } | Error::Refused { .. } | Error::BadAnswer { .. } => {
                self.in_trouble(error, random)
            }
        }
    }

    fn on_failed_request(&mut self, error: &Error, random: u64) -> Step {
        match error {
            Error::Unimplemented(_) => Step {
                next: Next::Failed(error.to_string()),
                note: None,
            },
            Error::Refused { .. } if self.asks_only => Step {
                next: Next::Failed(error.to_string()),
                note: None,
            },
            Error::Refused { .. } => {
                self.refusal = Some(error.to_string());
                Step {
                    next: Next::Look(Duration::ZERO),
                    note: None,
                }
            }
            Error::Unavailable { .. } => self.wait_for_runtime(error, random),
            // It may have been taken or not: the next look tells.
            Error::Deadline { .. } | Error::BadAnswer { .. } => self.in_trouble(error, random),
        }
    }

    /// No Runtime, or the connection ended half-way: it is asked again when it is back.
    fn wait_for_runtime(&mut self, error: &Error, random: u64) -> Step {
        self.taken = false;
        self.refusal = None;
        self.in_trouble(error, random)
    }

    fn in_trouble(&mut self, error: &Error, random: u64) -> Step {
        let text = error.to_string();
        let changed = self.trouble.as_ref() != Some(&text);
        let note = changed.then(|| format!("trying again: {text}"));
        self.trouble = Some(text);
        let wait = self.troubles.next(random);
        let next = if self.asks_only {
            Next::Ask(wait)
        } else {
            Next::Look(wait)
        };
        Step { next, note }
    }
}

/// `enabling (starting the daemon)`.
pub(crate) fn describe((phase, message): &(Phase, String)) -> String {
    let phase = match phase {
        Phase::Disabled => "disabled".to_owned(),
        Phase::Enabling => "enabling".to_owned(),
        Phase::Enabled => "enabled".to_owned(),
        Phase::Disabling => "disabling".to_owned(),
        Phase::Failed => "failed".to_owned(),
        Phase::Unknown(number) => format!("in a phase that this version does not know ({number})"),
    };
    if message.is_empty() {
        phase
    } else {
        format!("{phase} ({message})")
    }
}

#[cfg(test)]
#[path = "switch_tests.rs"]
mod tests;

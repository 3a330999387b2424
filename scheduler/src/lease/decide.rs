//! Who holds the lease, and what is to be done about it. No I/O, no clock: times come in.

use std::time::{Duration, Instant};

/// The times of a lease. `deadline` is below `duration` by more than clocks of different speed
/// make of it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Timing {
    /// How long a record counts after it was seen to change.
    pub(super) duration: Duration,
    /// How long the holder decides after its last successful renewal began.
    pub(super) deadline: Duration,
    /// From one renewal to the next.
    pub(super) renew: Duration,
    /// From one look at another's lease to the next. A released lease is taken within this.
    pub(super) look: Duration,
    /// Wait after a failure.
    pub(super) retry: Duration,
}

impl Timing {
    pub(super) const DEFAULT: Self = Self {
        duration: Duration::from_secs(10),
        deadline: Duration::from_secs(7),
        renew: Duration::from_secs(2),
        look: Duration::from_millis(500),
        retry: Duration::from_secs(1),
    };
}

/// The longest that a record counts without a change, whatever it says. No replica writes as much;
/// were a mistyped year to count, as it does for client-go, nobody would decide until somebody
/// looked. Far above what a future version might write.
const LONGEST: Duration = Duration::from_mins(2);

/// What the lease says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Record {
    /// Empty: nobody.
    pub(super) holder: String,
    /// As the holder wrote it.
    pub(super) duration: Duration,
    /// When it was renewed, by the holder's clock: only ever compared for a change.
    pub(super) renewed: String,
}

/// What came of the last action.
#[derive(Debug)]
pub(super) enum Event {
    /// A wait is over.
    Due,
    /// The lease was read; `None` where there is none.
    Read(Option<Record>),
    /// What was claimed is written, by a call that began then.
    Wrote(Instant),
    /// Somebody else wrote first.
    Overtaken,
    /// No answer, or a bad one: what was claimed may be written or not.
    Failed,
}

/// What is to be done next.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Action {
    /// Read the lease.
    Read,
    /// Write it, on the version that was read or written last.
    Write(Claim),
    /// Nothing until then.
    Wait(Instant),
}

/// What is written into the lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Claim {
    /// It was nobody's, or another's.
    Take,
    /// It is ours.
    Renew,
    /// It is nobody's any more.
    Release,
}

#[derive(Debug)]
struct Seen {
    record: Record,
    /// Since when by our own clock: other clocks are never asked.
    since: Instant,
}

impl Seen {
    /// Until when its holder may be taken to decide. Never sooner than a replica's own record
    /// would say: one that still decides does not stop where somebody edits or deletes its lease.
    fn runs_out(&self, timing: &Timing) -> Instant {
        self.since + self.record.duration.min(LONGEST).max(timing.duration)
    }
}

/// One replica and the lease.
#[derive(Debug)]
pub(super) struct State {
    me: String,
    timing: Timing,
    seen: Option<Seen>,
    /// When the last renewal began, while this replica leads.
    renewed: Option<Instant>,
}

impl State {
    /// A replica that knows nothing of the lease. No other may ever have this identity.
    pub(super) fn new(me: String, timing: Timing) -> Self {
        Self {
            me,
            timing,
            seen: None,
            renewed: None,
        }
    }

    /// Until when this replica may decide; `None` where it may not.
    pub(super) fn leads(&self, now: Instant) -> Option<Instant> {
        self.renewed
            .map(|began| began + self.timing.deadline)
            .filter(|until| now < *until)
    }

    /// Who holds the lease as far as is known; empty for nobody.
    pub(super) fn holder(&self) -> &str {
        self.seen
            .as_ref()
            .map_or("", |seen| seen.record.holder.as_str())
    }

    /// Whether a record's holder is this replica.
    pub(super) fn is_me(&self, holder: &str) -> bool {
        holder == self.me
    }

    /// Enters what happened; what is to be done next.
    pub(super) fn step(&mut self, event: Event, now: Instant) -> Action {
        if self.leads(now).is_none() {
            self.renewed = None;
        }
        match event {
            Event::Due if self.renewed.is_some() => Action::Write(Claim::Renew),
            Event::Due | Event::Overtaken => Action::Read,
            Event::Read(None) => self.read_nothing(now),
            Event::Read(Some(record)) => self.read(record, now),
            Event::Wrote(began) => {
                self.renewed = Some(began);
                Action::Wait(began + self.timing.renew)
            }
            Event::Failed => Action::Wait(now + self.timing.retry),
        }
    }

    fn read(&mut self, record: Record, now: Instant) -> Action {
        let since = match &self.seen {
            Some(seen) if seen.record == record => seen.since,
            _ => now,
        };
        let seen = self.seen.insert(Seen { record, since });
        if seen.record.holder == self.me {
            // Also where the answer to an earlier claim was lost.
            return Action::Write(Claim::Renew);
        }
        self.renewed = None;
        self.take_or_wait(now)
    }

    /// There is no lease. Where there was one, somebody has deleted it under its holder.
    fn read_nothing(&mut self, now: Instant) -> Action {
        self.renewed = None;
        self.take_or_wait(now)
    }

    /// Takes what is nobody's, and waits for what is another's to run out.
    fn take_or_wait(&self, now: Instant) -> Action {
        match &self.seen {
            Some(seen) if !seen.record.holder.is_empty() && !self.is_me(&seen.record.holder) => {
                let runs_out = seen.runs_out(&self.timing);
                if runs_out <= now {
                    Action::Write(Claim::Take)
                } else {
                    Action::Wait(runs_out.min(now + self.timing.look))
                }
            }
            _ => Action::Write(Claim::Take),
        }
    }
}

#[cfg(test)]
#[path = "decide_tests.rs"]
mod tests;

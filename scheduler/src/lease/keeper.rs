//! Looks after the lease: reads it, takes, renews and releases it, and says who leads.

use std::time::Instant;

use kit::{Failure, Tasks};

use super::{
    decide::{Action, Claim, Event, State, Timing},
    leadership::Leadership,
    store::{Store, StoreError},
};
use crate::{metrics::LeaseMetrics, shared::Shared};

/// Keeps one replica's side of the lease.
pub(super) struct Keeper {
    state: State,
    store: Store,
    leadership: Leadership,
    shared: Shared,
    metrics: LeaseMetrics,
    /// The last failure, said once as long as it lasts.
    said: Option<String>,
}

impl Keeper {
    pub(super) fn new(
        me: String,
        timing: Timing,
        store: Store,
        leadership: Leadership,
        shared: Shared,
        metrics: LeaseMetrics,
    ) -> Self {
        Self {
            state: State::new(me, timing),
            store,
            leadership,
            shared,
            metrics,
            said: None,
        }
    }

    /// Until shutdown, at which the lease is given back.
    pub(super) async fn run(mut self, tasks: Tasks) -> Result<(), Failure> {
        let mut event = Event::Due;
        loop {
            let action = self.state.step(event, now());
            self.publish();
            tokio::select! {
                biased;
                () = tasks.shutdown() => break,
                next = self.act(action) => event = next,
            }
        }
        self.leave().await;
        Ok(())
    }

    async fn act(&mut self, action: Action) -> Event {
        let began = now();
        match action {
            Action::Wait(until) => {
                tokio::time::sleep_until(until.into()).await;
                Event::Due
            }
            Action::Read => match self.store.read().await {
                Ok(found) => {
                    self.well();
                    Event::Read(found)
                }
                Err(error) => self.failed("read", &error),
            },
            Action::Write(claim) => match self.store.write(claim).await {
                Ok(()) => {
                    self.well();
                    Event::Wrote(began)
                }
                Err(StoreError::Overtaken) => Event::Overtaken,
                Err(error) => self.failed("write", &error),
            },
        }
    }

    /// Tells the server and the binds where this replica stands.
    fn publish(&self) {
        let now = now();
        let leads = self.state.leads(now);
        let changed = if let Some(until) = leads {
            let began = self.leadership.lead(until, now);
            if began {
                tracing::info!("leading: the pods are listed anew before anything is decided");
            }
            began
        } else {
            let holder = self.state.holder();
            let ended = self.leadership.follow(holder);
            if ended {
                tracing::warn!(holder, "leading no more");
            }
            ended
        };
        self.metrics.leader.set(i64::from(leads.is_some()));
        if changed {
            self.metrics.transitions.inc();
        }
    }

    /// Ends deciding and gives the lease back, so that the next one need not wait for it to run
    /// out.
    async fn leave(mut self) {
        let led = self.state.leads(now()).is_some();
        self.leadership.end().await;
        self.metrics.leader.set(0);
        if !led {
            return;
        }
        if self.shared.read().has_doubtful_binds(now()) {
            tracing::warn!("a bind may still take effect: the lease is left to run out");
            return;
        }
        match self.release().await {
            Ok(()) => tracing::info!("gave the lease back"),
            Err(error) => tracing::warn!(%error, "can't give the lease back: it runs out"),
        }
    }

    async fn release(&mut self) -> Result<(), StoreError> {
        // A renewal may have been broken off, so the version is asked for first.
        let found = self.store.read().await?;
        if found.is_some_and(|record| self.state.is_me(&record.holder)) {
            self.store.write(Claim::Release).await?;
        }
        Ok(())
    }

    fn failed(&mut self, call: &str, error: &StoreError) -> Event {
        self.metrics.failures.with_label_values(&[call]).inc();
        let text = format!("{} can't be {}: {error}", self.store.name(), past(call));
        if self.said.as_ref() != Some(&text) {
            tracing::warn!("{text}");
            self.said = Some(text);
        }
        Event::Failed
    }

    fn well(&mut self) {
        if self.said.take().is_some() {
            tracing::info!("{} answers again", self.store.name());
        }
    }
}

/// Tokio's clock, which is the machine's but for tests.
fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}

fn past(call: &str) -> &str {
    if call == "write" { "written" } else { call }
}

//! Keeping the books in step: what ended is released, what the Runtime lost is told again, what
//! kubelet gave is written on the pods.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use kit::{Failure, Ready, Tasks};
use model::backoff::Backoff;
use runtime_proto::Error;
use tokio::{sync::watch, time::sleep};

use crate::{admission::Admission, core::Malformed, pods::PodWriter, registrar::random};

/// How long the Runtime may take to take back one container's grants.
const RUNTIME_WITHIN: Duration = Duration::from_secs(8);
/// A pod's calls come within milliseconds of each other: one look after the last of them.
const SETTLE: Duration = Duration::from_millis(200);

/// The loop.
pub struct Reconcile {
    /// The state and where to look.
    pub admission: Arc<Admission>,
    /// Writes on pods; none where there is no API server.
    pub writer: PodWriter,
    /// How often to look while anything is held.
    pub every: Duration,
    /// The Runtime's arrivals.
    pub arrived: watch::Receiver<u64>,
    /// Kubelet's restarts.
    pub restarted: watch::Receiver<u64>,
    /// Met once what ran before the start is known.
    pub ready: Ready,
}

/// What a turn left undone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Turn {
    Done,
    /// Something failed that is worth another try soon.
    Again,
}

impl Reconcile {
    /// Runs until shutdown.
    pub async fn run(mut self, tasks: Tasks) -> Result<(), Failure> {
        tokio::select! {
            () = tasks.shutdown() => Ok(()),
            never = self.turns() => match never {},
        }
    }

    async fn turns(&mut self) -> std::convert::Infallible {
        let mut backoff = Backoff::new(Duration::from_millis(500), self.every);
        let mut said = BTreeSet::new();
        // The first whole turn comes with the Runtime's first card list: without cards there
        // is nothing to give, and the meaning of device ids is not known.
        self.until_arrived().await;
        let mut whole = true;
        loop {
            let turn = if whole {
                let turn = self.whole_turn(&mut said).await;
                whole = turn == Turn::Again;
                turn
            } else {
                self.turn().await
            };
            let wait = match turn {
                Turn::Again => Some(backoff.next(random())),
                Turn::Done => {
                    backoff.reset();
                    self.admission.core().is_busy().then_some(self.every)
                }
            };
            tokio::select! {
                () = rest(wait) => {}
                () = self.admission.changed.notified() => sleep(SETTLE).await,
                _ = self.arrived.changed() => whole = true,
                _ = self.restarted.changed() => whole = true,
            }
        }
    }

    async fn until_arrived(&mut self) {
        // The sender lives as long as the program.
        let _ = self.arrived.wait_for(|n| *n > 0).await;
    }

    /// Compares with the Runtime's own book too, and with kubelet's record.
    async fn whole_turn(&mut self, said: &mut BTreeSet<Malformed>) -> Turn {
        let ticket = self.admission.core().ticket();
        match self.admission.runtime.book().await {
            Ok((_, allocations)) => {
                let mut observed = self.admission.core().compare(&allocations, ticket);
                observed.malformed.retain(|m| said.insert(m.clone()));
                self.admission.say(&observed);
            }
            Err(error @ Error::Unimplemented(_)) => {
                tracing::warn!(%error, "going without the Runtime's book");
            }
            Err(error) => {
                self.unready(format!("the Runtime's book: {error}"));
                return Turn::Again;
            }
        }
        let ticket = self.admission.core().ticket();
        let mut look = match self.admission.sources.look(ticket).await {
            Ok(look) => look,
            Err(error) => {
                self.unready(error.to_string());
                return Turn::Again;
            }
        };
        let all = self.admission.sources.look_beyond(&mut look).await;
        let checkpoint = self.admission.sources.checkpoint();
        let observed = self.admission.core().observe(&look, checkpoint.as_ref());
        self.admission.say(&observed);
        if !*self.admission.rebuilt.borrow() {
            if let Err(error) = all {
                // Kubelet gets no new pods without the API server either.
                self.unready(error.to_string());
                self.settle(look, observed.suspects).await;
                return Turn::Again;
            }
            self.admission.rebuilt.send_replace(true);
            let pods = self.admission.core().book().len();
            tracing::info!(pods, "what runs on this node is known");
        }
        self.ready.met();
        self.settle(look, observed.suspects).await
    }

    async fn turn(&self) -> Turn {
        match self.admission.look().await {
            Ok((look, observed)) => self.settle(look, observed.suspects).await,
            Err(error) => {
                tracing::debug!(%error, "no look at the node");
                Turn::Again
            }
        }
    }

    /// What follows from a look.
    async fn settle(&self, look: crate::view::Look, suspects: Vec<model::name::PodUid>) -> Turn {
        self.admission.confirm(suspects).await;
        self.admission.count_held();
        self.admission.release().await;
        let mut turn = Turn::Done;
        let assertions = self.admission.core().assertions();
        for assertion in assertions {
            let consumer = &assertion.allocation.consumer;
            match self.admission.tell(&assertion, RUNTIME_WITHIN).await {
                Ok(edits) => {
                    self.admission.core().asserted(&assertion.allocation, edits);
                    tracing::info!(
                        pod = %consumer.pod,
                        container = %consumer.container,
                        "told the Runtime again"
                    );
                }
                Err(error) => {
                    tracing::warn!(
                        pod = %consumer.pod,
                        container = %consumer.container,
                        %error,
                        "the Runtime does not have a running container's cards"
                    );
                    turn = Turn::Again;
                    if matches!(error, Error::Unavailable { .. } | Error::Deadline { .. }) {
                        break;
                    }
                }
            }
        }
        let annotations = self.admission.core().annotations(&look);
        for annotate in annotations {
            if self.writer.allocated(&annotate).await {
                self.admission.core().annotated(&annotate);
            } else {
                turn = Turn::Again;
            }
        }
        if !self.admission.core().releases().is_empty() {
            turn = Turn::Again;
        }
        turn
    }

    fn unready(&self, why: String) {
        if !*self.admission.rebuilt.borrow() {
            self.ready.unmet(why);
        }
    }
}

async fn rest(wait: Option<Duration>) {
    match wait {
        Some(wait) => sleep(wait).await,
        None => std::future::pending().await,
    }
}

//! Letting the watches catch up before a pod is refused on every node.
//!
//! kube-scheduler tries a waiting pod again at once when its own watch shows a change. Ours may
//! show the same change a moment later: a refusal in between would be for what is past, and
//! kube-scheduler, which is shown nothing more, would leave the pod for five minutes
//! (`podMaxInUnschedulablePodsDuration`). So such a refusal waits a moment for a change, and is
//! judged anew with each.
//!
//! kube-scheduler stands still while it waits for an answer. That it never does so for more than a
//! tenth of the time, after a moment comes a rest of nine in which refusals do not wait. What is
//! refused then, before the change that it was tried for has come, waits for the next change.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use tokio::{
    sync::watch,
    time::{Instant, timeout_at},
};

/// Well beyond what two watches of one API server lie apart.
const MOMENT: Duration = Duration::from_millis(50);

/// From one wait to the next.
const PERIOD: Duration = Duration::from_millis(500);

/// Says that the index has changed. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub(crate) struct Changes {
    sender: watch::Sender<()>,
    /// When the last wait began.
    last: Arc<Mutex<Option<Instant>>>,
}

impl Changes {
    /// What a watch has shown is in the index.
    pub(crate) fn tell(&self) {
        self.sender.send_replace(());
    }

    /// For one call, before it is judged: what changes from now on is not missed.
    pub(crate) fn patience(&self) -> Patience<'_> {
        Patience {
            changes: self,
            receiver: self.sender.subscribe(),
            until: None,
        }
    }

    /// Whether a wait may begin, which it then does.
    fn begin(&self, now: Instant) -> bool {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let free = last.is_none_or(|last| now >= last + PERIOD);
        if free {
            *last = Some(now);
        }
        free
    }
}

/// One call's patience.
pub(crate) struct Patience<'a> {
    changes: &'a Changes,
    receiver: watch::Receiver<()>,
    until: Option<Instant>,
}

impl Patience<'_> {
    /// The call would be refused: waits for a change. Whether there was one.
    pub(crate) async fn change(&mut self) -> bool {
        let now = Instant::now();
        let until = match self.until {
            Some(until) => until,
            None if self.changes.begin(now) => *self.until.insert(now + MOMENT),
            None => return false,
        };
        now < until && matches!(timeout_at(until, self.receiver.changed()).await, Ok(Ok(())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_change_since_the_call_began_is_not_missed_and_others_are_waited_for() {
        let changes = Changes::default();
        let mut patience = changes.patience();
        changes.tell();
        assert!(patience.change().await);
        let since = Instant::now();
        let later = async {
            tokio::time::sleep(MOMENT / 2).await;
            changes.tell();
        };
        let (heard, ()) = tokio::join!(patience.change(), later);
        assert!(heard);
        assert!(!patience.change().await);
        assert_eq!(since.elapsed(), MOMENT, "one moment for the whole call");
    }

    #[tokio::test(start_paused = true)]
    async fn refusals_take_no_more_than_a_tenth_of_the_time() {
        let changes = Changes::default();
        let since = Instant::now();
        let mut waited = Duration::ZERO;
        while since.elapsed() < 10 * PERIOD {
            let began = Instant::now();
            assert!(!changes.patience().change().await);
            waited += began.elapsed();
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        assert_eq!(waited, 10 * MOMENT);
    }
}

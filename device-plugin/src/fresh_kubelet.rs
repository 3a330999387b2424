//! The time just after kubelet's start, when its own record of devices counts for a while.

use std::{
    sync::{Mutex, PoisonError},
    time::Duration,
};

use tokio::time::Instant;

/// By then it has taken in the pods that waited for it.
const FRESH_FOR: Duration = Duration::from_secs(30);

/// What is to be done about the record now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Record {
    /// Nothing.
    Settled,
    /// Read it: kubelet goes by it.
    Read,
    /// Forget it: kubelet knows better by now.
    Over,
}

/// Whether kubelet has just started.
#[derive(Debug, Default)]
pub struct FreshKubelet(Mutex<Option<Fresh>>);

#[derive(Debug)]
struct Fresh {
    since: Instant,
    called: bool,
    read: bool,
}

impl FreshKubelet {
    /// There is another kubelet than before.
    pub fn started(&self) {
        let fresh = Fresh {
            since: Instant::now(),
            called: false,
            read: false,
        };
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(fresh);
    }

    /// Whether this is the first call that comes from it. True once after each start.
    pub fn calls_first(&self) -> bool {
        let mut fresh = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let kubelet = fresh.as_mut();
        kubelet.is_some_and(|kubelet| !std::mem::replace(&mut kubelet.called, true))
    }

    /// Each of the two answers that ask for something comes once.
    pub fn look(&self) -> Record {
        let mut fresh = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match &mut *fresh {
            Some(kubelet) if kubelet.since.elapsed() > FRESH_FOR => {
                *fresh = None;
                Record::Over
            }
            Some(kubelet) if !kubelet.read => {
                kubelet.read = true;
                Record::Read
            }
            _ => Record::Settled,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_record_is_read_once_after_each_start_and_forgotten_once() {
        let kubelet = FreshKubelet::default();
        assert_eq!(kubelet.look(), Record::Settled);
        assert!(!kubelet.calls_first());
        for _ in 0..2 {
            kubelet.started();
            assert!(kubelet.calls_first());
            assert!(!kubelet.calls_first());
            assert_eq!(kubelet.look(), Record::Read);
            assert_eq!(kubelet.look(), Record::Settled);
        }
        tokio::time::advance(FRESH_FOR + Duration::from_secs(1)).await;
        assert_eq!(kubelet.look(), Record::Over);
        assert_eq!(kubelet.look(), Record::Settled);
    }
}

//! Whether this replica decides at this moment: what the server and the binds ask.

use std::{
    net::SocketAddr,
    sync::{
        Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use tokio::sync::{OwnedRwLockReadGuard, RwLock as Turnstile, watch};

use super::identity;

/// Where one replica stands. Cheap to clone; all clones are one.
#[derive(Debug, Clone)]
pub(crate) struct Leadership(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    stand: RwLock<Stand>,
    /// The number of the latest reign. For each the pods are listed anew.
    reign: watch::Sender<u64>,
    /// The latest reign for which they are.
    listed: AtomicU64,
    /// Binds under way go through; the end waits until none does.
    binds: Arc<Turnstile<()>>,
}

#[derive(Debug)]
enum Stand {
    /// There is no lease.
    Alone,
    /// Over once `until` has come, whoever is told or not.
    Leads {
        reign: u64,
        until: Instant,
    },
    Follows {
        holder: String,
    },
    Ended,
}

/// Whose turn it is to answer a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Turn {
    /// This replica's.
    Mine,
    /// This one's, once it has listed the pods: its predecessor's last binds among them.
    MineSoon,
    /// That one's.
    Of(SocketAddr),
    /// Nobody's as far as is known.
    Nobodys,
    /// This one is ending.
    Ended,
}

/// Lets one bind through. While it lives the lease is not released.
#[derive(Debug)]
pub(crate) struct Pass {
    reign: u64,
    _through: OwnedRwLockReadGuard<()>,
}

impl Leadership {
    /// Of the only replica: it always decides.
    pub(crate) fn alone() -> Self {
        Self::new(Stand::Alone)
    }

    /// Of one that has not heard of a leader yet.
    pub(super) fn follower() -> Self {
        Self::new(Stand::Follows {
            holder: String::new(),
        })
    }

    fn new(stand: Stand) -> Self {
        Self(Arc::new(Inner {
            stand: RwLock::new(stand),
            reign: watch::Sender::new(0),
            listed: AtomicU64::new(0),
            binds: Arc::default(),
        }))
    }

    /// Who answers now.
    pub(crate) fn turn(&self, now: Instant) -> Turn {
        match &*self.stand() {
            Stand::Alone => Turn::Mine,
            Stand::Leads { reign, until } if self.decides(*reign, *until, now) => Turn::Mine,
            Stand::Leads { until, .. } if now < *until => Turn::MineSoon,
            Stand::Leads { .. } => Turn::Nobodys,
            Stand::Follows { holder } => identity::address(holder).map_or(Turn::Nobodys, Turn::Of),
            Stand::Ended => Turn::Ended,
        }
    }

    fn decides(&self, reign: u64, until: Instant, now: Instant) -> bool {
        now < until && self.0.listed.load(Ordering::Acquire) == reign
    }

    /// For one bind; `None` where this replica does not decide.
    pub(crate) async fn pass(&self) -> Option<Pass> {
        let through = Arc::clone(&self.0.binds).read_owned().await;
        let reign = match &*self.stand() {
            Stand::Alone => 0,
            Stand::Leads { reign, until } if self.decides(*reign, *until, Instant::now()) => *reign,
            _ => return None,
        };
        Some(Pass {
            reign,
            _through: through,
        })
    }

    /// How long a call of the API server may take for that bind, at most `most`; `None` where the
    /// reign that let it through is over. A call that ends within this has ended before another
    /// replica may lead.
    pub(crate) fn left(&self, pass: &Pass, most: Duration, now: Instant) -> Option<Duration> {
        match &*self.stand() {
            Stand::Alone => Some(most),
            Stand::Leads { reign, until } if *reign == pass.reign && now < *until => {
                Some(most.min(until.saturating_duration_since(now)))
            }
            _ => None,
        }
    }

    /// Changes with each reign; the pods are to be listed anew.
    pub(crate) fn reigns(&self) -> watch::Receiver<u64> {
        self.0.reign.subscribe()
    }

    /// A listing of the pods that began in that reign is complete.
    pub(crate) fn has_listed(&self, reign: u64) {
        self.0.listed.store(reign, Ordering::Release);
    }

    /// This replica leads until then. Whether that is a new reign: one that ran out is not taken
    /// up again, somebody may have led in between.
    pub(super) fn lead(&self, until: Instant, now: Instant) -> bool {
        let mut stand = self.stand_mut();
        match &mut *stand {
            Stand::Leads { until: old, .. } if now < *old => {
                *old = until;
                false
            }
            _ => {
                let reign = *self.0.reign.borrow() + 1;
                *stand = Stand::Leads { reign, until };
                self.0.reign.send_replace(reign);
                true
            }
        }
    }

    /// This replica does not lead, that one may. Whether it did.
    pub(super) fn follow(&self, holder: &str) -> bool {
        let mut stand = self.stand_mut();
        let led = matches!(*stand, Stand::Leads { .. });
        *stand = Stand::Follows {
            holder: holder.to_owned(),
        };
        led
    }

    /// This replica decides no more. Returns once no bind is under way.
    pub(super) async fn end(&self) {
        *self.stand_mut() = Stand::Ended;
        drop(self.0.binds.write().await);
    }

    /// Nothing that holds the lock can panic half-way, so a poisoned one is as good as any.
    fn stand(&self) -> RwLockReadGuard<'_, Stand> {
        self.0.stand.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn stand_mut(&self) -> RwLockWriteGuard<'_, Stand> {
        self.0.stand.write().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
#[path = "leadership_tests.rs"]
mod tests;

//! Waiting for a condition that can be observed, with a deadline.

use std::{future::Future, time::Duration};

use anyhow::bail;
use tokio::time::{Instant, sleep};

/// Until when to wait.
#[derive(Debug, Clone, Copy)]
pub struct Deadline {
    at: Instant,
    within: Duration,
}

impl Deadline {
    /// From now on.
    pub fn after(within: Duration) -> Self {
        Self {
            at: Instant::now() + within,
            within,
        }
    }

    /// From now on, in seconds.
    pub fn seconds(seconds: u64) -> Self {
        Self::after(Duration::from_secs(seconds))
    }

    /// Whether it is over.
    pub fn is_past(&self) -> bool {
        Instant::now() > self.at
    }
}

/// Asks `condition` until it holds. Past the deadline the error says what was waited for and
/// what the condition last answered.
pub async fn until<T, F, Fut>(what: &str, deadline: Deadline, condition: F) -> anyhow::Result<T>
where
    F: Fn() -> Fut,
    Fut: Future<Output = Result<T, String>>,
{
    loop {
        let last = match condition().await {
            Ok(value) => return Ok(value),
            Err(last) => last,
        };
        if Instant::now() >= deadline.at {
            bail!("waited {:?} for {what}: {last}", deadline.within);
        }
        // Between two looks; short beside anything that is waited for.
        sleep(Duration::from_millis(40)).await;
    }
}

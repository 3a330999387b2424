//! Waiting longer after each failure, as plain arithmetic: the caller sleeps and brings the
//! randomness.

use std::time::Duration;

/// First wait, factor 2 a failure, a ceiling; each wait is shortened by up to a fifth by jitter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Backoff {
    first: Duration,
    most: Duration,
    failures: u32,
}

impl Backoff {
    /// What the design sets for every connection: 1 s, times 2, at most 30 s.
    pub const fn standard() -> Self {
        Self {
            first: Duration::from_secs(1),
            most: Duration::from_secs(30),
            failures: 0,
        }
    }

    /// Another start and ceiling; a ceiling below the start is raised to it.
    pub fn new(first: Duration, most: Duration) -> Self {
        Self {
            first,
            most: most.max(first),
            failures: 0,
        }
    }

    /// The wait after one more failure. `random` is any value: it picks the jitter.
    pub fn next(&mut self, random: u64) -> Duration {
        let _ = random;
        todo!("helper")
    }

    /// A healthy period has passed: start from the first wait again.
    pub fn reset(&mut self) {
        self.failures = 0;
    }
}

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
        // 2^31 times the shortest wait that matters is past any ceiling.
        let factor = 1_u32 << self.failures.min(31);
        self.failures = self.failures.saturating_add(1);
        let wait = self.first.saturating_mul(factor).min(self.most);
        let jitter = u32::try_from(random % 1000).unwrap_or_default();
        wait.saturating_sub((wait / 5 / 1000) * jitter)
    }

    /// A healthy period has passed: start from the first wait again.
    pub fn reset(&mut self) {
        self.failures = 0;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn doubles_from_one_second_to_thirty_and_starts_again_after_a_reset() {
        let mut backoff = Backoff::standard();
        let waits: Vec<u64> = (0..7).map(|_| backoff.next(0).as_secs()).collect();
        assert_eq!(waits, [1, 2, 4, 8, 16, 30, 30]);
        backoff.reset();
        assert_eq!(backoff.next(0), Duration::from_secs(1));
    }

    #[test]
    fn a_ceiling_below_the_start_is_raised_to_it() {
        let mut backoff = Backoff::new(Duration::from_secs(9), Duration::from_secs(3));
        assert_eq!(backoff.next(0), Duration::from_secs(9));
        assert_eq!(backoff.next(0), Duration::from_secs(9));
    }

    proptest! {
        #[test]
        fn every_wait_is_within_a_fifth_below_the_step(random: Vec<u64>, first in 1_u64..100_000, most: u32) {
            let (first, most) = (Duration::from_millis(first), Duration::from_millis(most.into()));
            let mut backoff = Backoff::new(first, most);
            let mut step = first;
            for random in random {
                let wait = backoff.next(random);
                prop_assert!(wait <= step && wait >= step / 5 * 4, "{wait:?} of {step:?}");
                step = (step * 2).min(most.max(first));
            }
        }

        #[test]
        fn no_number_of_failures_overflows(random: u64) {
            let mut backoff = Backoff::new(Duration::MAX, Duration::MAX);
            for _ in 0..100 {
                prop_assert!(backoff.next(random) >= Duration::MAX / 10 * 7);
            }
        }
    }
}

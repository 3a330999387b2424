//! Times of many calls, and what they cost the program that was called.

use std::time::Duration;

use crate::table::Figure;

/// Calls of one kind.
#[derive(Debug, Default)]
pub(crate) struct Calls {
    times: Vec<Duration>,
    cpu: Duration,
}

impl Calls {
    /// One call.
    pub(crate) fn took(&mut self, time: Duration) {
        self.times.push(time);
    }

    /// CPU of the called program over some of the calls.
    pub(crate) fn cost(&mut self, cpu: Duration) {
        self.cpu += cpu;
    }

    /// Takes others in.
    pub(crate) fn add(&mut self, others: Self) {
        self.times.extend(others.times);
        self.cpu += others.cpu;
    }

    /// The middle one.
    pub(crate) fn p50(&self) -> Figure {
        self.at(50)
    }

    /// 1 of 100 is slower.
    pub(crate) fn p99(&self) -> Figure {
        self.at(99)
    }

    fn at(&self, percent: usize) -> Figure {
        let mut sorted = self.times.clone();
        sorted.sort_unstable();
        let at = (sorted.len() * percent).div_ceil(100).saturating_sub(1);
        sorted.get(at).copied().unwrap_or_default().into()
    }

    /// CPU of one call.
    pub(crate) fn cpu_each(&self) -> Figure {
        let calls = u32::try_from(self.times.len()).unwrap_or(u32::MAX).max(1);
        (self.cpu / calls).into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_calls_that_were_made() {
        let mut calls = Calls::default();
        for ms in 1..=200 {
            calls.took(Duration::from_millis(ms));
        }
        calls.cost(Duration::from_millis(400));
        assert_eq!(calls.p50(), Figure::Time(0.1));
        assert_eq!(calls.p99(), Figure::Time(0.198));
        assert_eq!(calls.cpu_each(), Figure::Time(0.002));
    }
}

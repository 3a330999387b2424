//! The node's feature: off, on, and the way between.

use std::time::Duration;

use runtime_proto::client::{OperationStatus, Phase};

/// Where the feature stands. Times count from the simulator's start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Feature {
    is_on: bool,
    switch: Option<Switch>,
    failure: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Switch {
    to_on: bool,
    since: Duration,
    until: Duration,
    fails: bool,
}

impl Feature {
    /// Off or on, with nothing under way.
    pub const fn new(is_on: bool, failure: Option<String>) -> Self {
        Self {
            is_on,
            switch: None,
            failure,
        }
    }

    /// Whether the cards can be used. Stays so until a switch-off has come through.
    pub const fn is_on(&self) -> bool {
        self.is_on
    }

    /// Why the last switch failed.
    pub fn failure(&self) -> Option<&str> {
        self.failure.as_deref()
    }

    /// When the switch under way ends.
    pub fn ends(&self) -> Option<Duration> {
        self.switch.as_ref().map(|s| s.until)
    }

    /// Starts switching; the same again while it is under way or done changes nothing. The
    /// other way while one is under way starts over from there.
    pub fn start(&mut self, to_on: bool, now: Duration, takes: Duration, fails: bool) {
        match &self.switch {
            Some(switch) if switch.to_on == to_on => {}
            None if self.is_on == to_on && self.failure.is_none() => {}
            _ => {
                self.failure = None;
                self.switch = Some(Switch {
                    to_on,
                    since: now,
                    until: now.saturating_add(takes),
                    fails,
                });
            }
        }
    }

    /// Ends the switch under way with a failure, or says at once that one failed.
    pub fn fail(&mut self, why: String) {
        self.switch = None;
        self.failure = Some(why);
    }

    /// Time has passed. Whether the switch under way ended.
    pub fn step(&mut self, now: Duration) -> bool {
        let Some(switch) = self.switch.take_if(|s| s.until <= now) else {
            return false;
        };
        if switch.fails {
            let what = if switch.to_on { "enable" } else { "disable" };
            self.failure = Some(format!("{what} was told to fail"));
        } else {
            self.is_on = switch.to_on;
        }
        true
    }

    /// What `QueryStatus` answers.
    pub fn status(&self, now: Duration) -> OperationStatus {
        let (phase, message, progress_percent) = match (&self.switch, &self.failure) {
            (Some(switch), _) => {
                let phase = if switch.to_on {
                    Phase::Enabling
                } else {
                    Phase::Disabling
                };
                let passed = now.saturating_sub(switch.since).as_millis();
                let all = switch.until.saturating_sub(switch.since).as_millis();
                let percent = (passed * 100).checked_div(all).unwrap_or(100).min(99);
                let message = "preparing the cards".to_owned();
                (phase, message, u32::try_from(percent).unwrap_or(99))
            }
            (None, Some(why)) => (Phase::Failed, why.clone(), 0),
            (None, None) if self.is_on => (Phase::Enabled, "the cards can be used".to_owned(), 100),
            (None, None) => (Phase::Disabled, "the cards are not in use".to_owned(), 100),
        };
        OperationStatus {
            phase,
            message,
            progress_percent,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_switch_takes_its_time_and_asking_again_does_not_start_it_again() {
        let mut feature = Feature::new(false, None);
        feature.start(true, Duration::ZERO, SECOND, false);
        feature.start(true, SECOND / 2, SECOND, false);
        assert_eq!(feature.status(SECOND / 2).phase, Phase::Enabling);
        assert_eq!(feature.status(SECOND / 2).progress_percent, 50);
        assert!(!feature.step(SECOND / 2));
        assert!(feature.step(SECOND));
        assert!(feature.is_on());
        assert_eq!(feature.status(SECOND).phase, Phase::Enabled);
        feature.start(true, SECOND, SECOND, false);
        assert_eq!(feature.ends(), None);
    }

    #[test]
    fn the_feature_stays_on_until_a_switch_off_has_come_through() {
        let mut feature = Feature::new(true, None);
        feature.start(false, Duration::ZERO, SECOND, false);
        assert!(feature.is_on());
        assert!(feature.step(SECOND * 2));
        assert!(!feature.is_on());
        assert_eq!(feature.status(SECOND).phase, Phase::Disabled);
    }

    #[test]
    fn a_failed_switch_says_why_and_can_be_tried_again() {
        let mut feature = Feature::new(false, None);
        feature.start(true, Duration::ZERO, SECOND, true);
        assert!(feature.step(SECOND));
        assert_eq!(feature.status(SECOND).phase, Phase::Failed);
        assert!(!feature.is_on());
        feature.start(true, SECOND, SECOND, false);
        assert_eq!(feature.status(SECOND).phase, Phase::Enabling);
        assert!(feature.step(SECOND * 2));
        assert!(feature.is_on());
    }
}

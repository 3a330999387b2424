//! Which nodes are tried again when. Pure: the time comes in.

use std::{collections::BTreeMap, time::Duration};

use model::{backoff::Backoff, name::NodeName};

/// Nodes whose last step failed.
#[derive(Debug, Default)]
pub struct Retries {
    failed: BTreeMap<NodeName, Failed>,
}

#[derive(Debug)]
struct Failed {
    backoff: Backoff,
    /// Since the start of the program.
    due: Duration,
    why: String,
}

impl Retries {
    /// A step failed: when it is tried again, and whether the reason is a new one.
    pub fn fail(&mut self, node: &NodeName, why: &str, now: Duration, random: u64) -> bool {
        let failed = self.failed.entry(node.clone()).or_insert_with(|| Failed {
            backoff: Backoff::standard(),
            due: now,
            why: String::new(),
        });
        failed.due = now + failed.backoff.next(random);
        let is_new = failed.why != why;
        why.clone_into(&mut failed.why);
        is_new
    }

    /// All is well: whether it was not before.
    pub fn succeed(&mut self, node: &NodeName) -> bool {
        self.failed.remove(node).is_some()
    }

    /// The node failed, and its time has not come.
    pub fn holds_back(&self, node: &NodeName, now: Duration) -> bool {
        self.failed.get(node).is_some_and(|failed| failed.due > now)
    }

    /// When the next one is due.
    pub fn next_due(&self) -> Option<Duration> {
        self.failed.values().map(|failed| failed.due).min()
    }

    /// The nodes whose time has come.
    pub fn due(&self, now: Duration) -> Vec<NodeName> {
        let due = self.failed.iter().filter(|(_, failed)| failed.due <= now);
        due.map(|(node, _)| node.clone()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn a_node_that_fails_waits_longer_each_time_and_others_do_not() {
        let (one, other) = (NodeName::new("a").unwrap(), NodeName::new("b").unwrap());
        let mut retries = Retries::default();
        assert!(retries.fail(&one, "no answer", seconds(0), 0));
        assert!(!retries.fail(&one, "no answer", seconds(1), 0));
        assert_eq!(retries.next_due(), Some(seconds(3)));
        assert!(retries.holds_back(&one, seconds(2)));
        assert!(!retries.holds_back(&other, seconds(2)));
        assert!(retries.due(seconds(2)).is_empty());
        assert_eq!(retries.due(seconds(3)), std::slice::from_ref(&one));
        assert!(!retries.holds_back(&one, seconds(3)));
        assert!(retries.fail(&one, "forbidden", seconds(3), 0));
        assert!(retries.succeed(&one));
        assert!(!retries.succeed(&one));
        assert_eq!(retries.next_due(), None);
    }
}

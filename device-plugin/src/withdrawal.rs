//! Which resource names of the node are ours, and which of them must go from its status.
//!
//! Kubelet keeps the name of a resource whose plugin has left for ever, with a count of 0, and
//! writes it back for some minutes after it was removed. So a name is removed again until it
//! has stayed away for longer than that.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use kubernetes::object::status_pointer;
use model::{backoff::Backoff, name::ResourceName};

/// Kubelet reports a resource for 5 minutes after its plugin has left, and then as removed once
/// more.
pub const KUBELET_GRACE: Duration = Duration::from_mins(7);

/// The names that this node owns to the kit.
#[derive(Debug, Default)]
pub struct Withdrawals {
    offered: BTreeSet<ResourceName>,
    /// Owned by an earlier run and still configured: the cards will tell.
    earlier: BTreeSet<ResourceName>,
    cards_known: bool,
    leaving: BTreeMap<ResourceName, Leaving>,
}

#[derive(Debug)]
struct Leaving {
    /// Since when it has been away without a break.
    away_since: Option<Duration>,
    next_look: Duration,
    backoff: Backoff,
}

impl Leaving {
    fn new(now: Duration) -> Self {
        Self {
            away_since: None,
            next_look: now,
            backoff: Backoff::new(Duration::from_secs(1), Duration::from_secs(30)),
        }
    }
}

impl Withdrawals {
    /// The annotation of an earlier run. Names that are no longer configured go at once; of the
    /// others, the cards decide.
    pub fn found(
        &mut self,
        owned: &str,
        is_configured: impl Fn(&ResourceName) -> bool,
        now: Duration,
    ) -> Result<(), serde_json::Error> {
        let owned: BTreeSet<ResourceName> = serde_json::from_str(owned)?;
        for name in owned {
            if self.offered.contains(&name) {
                continue;
            }
            if is_configured(&name) && !self.cards_known {
                self.earlier.insert(name);
            } else {
                self.leaving
                    .entry(name)
                    .or_insert_with(|| Leaving::new(now));
            }
        }
        Ok(())
    }

    /// These are offered now; what was and is no longer has to go.
    pub fn offer(&mut self, offered: BTreeSet<ResourceName>, now: Duration) {
        self.cards_known = true;
        let before = std::mem::take(&mut self.earlier);
        for gone in self
            .offered
            .union(&before)
            .filter(|n| !offered.contains(*n))
        {
            self.leaving.insert(gone.clone(), Leaving::new(now));
        }
        self.leaving.retain(|name, _| !offered.contains(name));
        self.offered = offered;
    }

    /// The value of the annotation: all names that are offered or still leaving.
    pub fn owned(&self) -> String {
        let all: BTreeSet<&ResourceName> = self
            .offered
            .iter()
            .chain(&self.earlier)
            .chain(self.leaving.keys())
            .collect();
        // A list of strings has no way to fail.
        serde_json::to_string(&all).unwrap_or_default()
    }

    /// When the node's status is to be looked at next.
    pub fn next_look(&self) -> Option<Duration> {
        self.leaving.values().map(|l| l.next_look).min()
    }

    /// The node's status has these names: which are to be removed now. Names that have stayed
    /// away long enough are forgotten.
    pub fn look<'a>(
        &mut self,
        there: impl Fn(&str) -> bool + 'a,
        now: Duration,
        random: u64,
    ) -> Vec<ResourceName> {
        let mut remove = Vec::new();
        self.leaving.retain(|name, leaving| {
            if there(name.as_str()) {
                if leaving.away_since.take().is_some() {
                    leaving.backoff.reset();
                }
                remove.push(name.clone());
            } else {
                let since = *leaving.away_since.get_or_insert(now);
                if now >= since + KUBELET_GRACE {
                    return false;
                }
            }
            leaving.next_look = now + leaving.backoff.next(random);
            true
        });
        remove
    }
}

/// The JSON Patch that takes these names out of a node's status, where they are there.
pub fn patch(
    names: &[ResourceName],
    in_capacity: impl Fn(&str) -> bool,
    in_allocatable: impl Fn(&str) -> bool,
) -> serde_json::Value {
    let mut operations = Vec::new();
    for name in names {
        for (field, is_there) in [
            ("capacity", in_capacity(name.as_str())),
            ("allocatable", in_allocatable(name.as_str())),
        ] {
            if is_there {
                operations.push(serde_json::json!({
                    "op": "remove",
                    "path": status_pointer(field, name.as_str()),
                }));
            }
        }
    }
    serde_json::Value::Array(operations)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> ResourceName {
        ResourceName::new(text).expect("a resource name")
    }

    const fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn a_withdrawn_name_is_removed_until_it_has_stayed_away() {
        let mut all = Withdrawals::default();
        all.offer([name("x.y/a"), name("x.y/b")].into(), at(0));
        assert_eq!(all.next_look(), None);
        all.offer([name("x.y/b")].into(), at(10));
        assert_eq!(all.next_look(), Some(at(10)));
        assert_eq!(all.look(|_| true, at(10), 0), [name("x.y/a")]);
        assert_eq!(all.owned(), r#"["x.y/a","x.y/b"]"#);
        assert!(all.look(|_| false, at(20), 0).is_empty());
        // Kubelet writes it back.
        assert_eq!(all.look(|n| n == "x.y/a", at(30), 0), [name("x.y/a")]);
        assert!(all.look(|_| false, at(40), 0).is_empty());
        assert!(all.look(|_| false, at(40) + KUBELET_GRACE, 0).is_empty());
        assert_eq!(all.owned(), r#"["x.y/b"]"#);
        assert_eq!(all.next_look(), None);
    }

    #[test]
    fn a_name_of_an_earlier_run_goes_unless_it_is_offered_again() {
        let mut all = Withdrawals::default();
        all.offer([name("x.y/b")].into(), at(0));
        all.found(r#"["x.y/old","x.y/b"]"#, |_| true, at(0))
            .expect("a list");
        assert_eq!(all.look(|_| true, at(0), 0), [name("x.y/old")]);
        all.offer([name("x.y/b"), name("x.y/old")].into(), at(1));
        assert_eq!(all.next_look(), None);
        assert!(all.found("nonsense", |_| true, at(0)).is_err());
    }

    #[test]
    fn before_the_cards_are_known_only_names_out_of_the_configuration_go() {
        let mut all = Withdrawals::default();
        let configured = |n: &ResourceName| n.as_str() != "x.y/renamed";
        all.found(r#"["x.y/a","x.y/renamed"]"#, configured, at(0))
            .expect("a list");
        assert_eq!(all.look(|_| true, at(0), 0), [name("x.y/renamed")]);
        assert_eq!(all.owned(), r#"["x.y/a","x.y/renamed"]"#);
        all.offer(BTreeSet::new(), at(1));
        assert_eq!(
            all.look(|_| true, at(1), 0),
            [name("x.y/a"), name("x.y/renamed")]
        );
    }

    #[test]
    fn the_patch_names_only_what_is_there_and_escapes_the_slash() {
        let patch = patch(&[name("x.y/a")], |_| true, |_| false);
        assert_eq!(
            patch.to_string(),
            r#"[{"op":"remove","path":"/status/capacity/x.y~1a"}]"#
        );
    }
}

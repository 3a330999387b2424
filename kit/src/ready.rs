//! Readiness: a program is ready when every condition that it named holds.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// The set of conditions of one program. Cheap to clone; all clones are one set.
#[derive(Debug, Clone, Default)]
pub struct Readiness {
    conditions: Arc<Mutex<Conditions>>,
}

/// By name, then by number: a name may be there more than once.
#[derive(Debug, Default)]
struct Conditions {
    next: u64,
    /// The reason where a condition does not hold.
    unmet: BTreeMap<(&'static str, u64), Option<String>>,
}

/// One named condition. It starts as not met; it is forgotten when dropped.
#[derive(Debug)]
pub struct Ready {
    name: &'static str,
    number: u64,
    conditions: Arc<Mutex<Conditions>>,
}

impl Readiness {
    /// A new condition, not met yet, with what it waits for (`waiting for the Runtime at …`).
    pub fn condition(&self, name: &'static str, waiting_for: impl Into<String>) -> Ready {
        let waiting_for = waiting_for.into();
        tracing::info!(condition = name, reason = %waiting_for, "not ready yet");
        let mut conditions = lock(&self.conditions);
        let number = conditions.next;
        conditions.next += 1;
        conditions.unmet.insert((name, number), Some(waiting_for));
        Ready {
            name,
            number,
            conditions: Arc::clone(&self.conditions),
        }
    }

    /// The conditions that are not met, with their reasons, by name.
    pub fn unmet(&self) -> Vec<(&'static str, String)> {
        lock(&self.conditions)
            .unmet
            .iter()
            .filter_map(|((name, _), reason)| reason.clone().map(|reason| (*name, reason)))
            .collect()
    }
}

impl Ready {
    /// The condition holds. Logs the change, once.
    pub fn met(&self) {
        if self.set(None) {
            tracing::info!(condition = self.name, "ready");
        }
    }

    /// It does not hold (any more), and why. Logs a change, once: give a reason that stays the
    /// same while the cause does (no counts, no times).
    pub fn unmet(&self, why: impl Into<String>) {
        let why = why.into();
        if self.set(Some(why.clone())) {
            tracing::warn!(condition = self.name, reason = %why, "not ready");
        }
    }

    /// Whether that was a change.
    fn set(&self, reason: Option<String>) -> bool {
        let mut conditions = lock(&self.conditions);
        let slot = conditions
            .unmet
            .entry((self.name, self.number))
            .or_default();
        let changed = *slot != reason;
        *slot = reason;
        changed
    }
}

impl Drop for Ready {
    fn drop(&mut self) {
        lock(&self.conditions)
            .unmet
            .remove(&(self.name, self.number));
    }
}

/// Nothing that holds the lock can panic half-way, so a poisoned one is as good as any.
fn lock(conditions: &Mutex<Conditions>) -> MutexGuard<'_, Conditions> {
    conditions.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_conditions_a_program_is_ready() {
        assert!(Readiness::default().unmet().is_empty());
    }

    #[test]
    fn a_condition_starts_unmet_and_all_clones_see_its_changes() {
        let readiness = Readiness::default();
        let ready = readiness.condition("runtime", "waiting for the Runtime");
        let clone = readiness.clone();
        assert_eq!(
            clone.unmet(),
            [("runtime", "waiting for the Runtime".to_owned())]
        );
        ready.met();
        assert!(clone.unmet().is_empty());
        ready.unmet("the Runtime went away");
        assert_eq!(
            clone.unmet(),
            [("runtime", "the Runtime went away".to_owned())]
        );
    }

    #[test]
    fn only_a_change_counts_as_one() {
        let ready = Readiness::default().condition("api", "waiting");
        assert!(!ready.set(Some("waiting".into())));
        assert!(ready.set(None));
        assert!(!ready.set(None));
        assert!(ready.set(Some("waiting".into())));
    }

    #[test]
    fn a_dropped_condition_is_forgotten_and_its_namesake_is_not() {
        let readiness = Readiness::default();
        let first = readiness.condition("watch", "pods");
        let _second = readiness.condition("watch", "nodes");
        drop(first);
        assert_eq!(readiness.unmet(), [("watch", "nodes".to_owned())]);
    }

    #[test]
    fn unmet_conditions_come_by_name() {
        let readiness = Readiness::default();
        let _b = readiness.condition("b", "2");
        let _a = readiness.condition("a", "1");
        let names: Vec<_> = readiness
            .unmet()
            .into_iter()
            .map(|(name, _)| name)
            .collect();
        assert_eq!(names, ["a", "b"]);
    }
}

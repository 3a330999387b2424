//! Pods that wait to be scheduled: by priority, then age; those that did not fit wait for a
//! change and for 1 to 10 s.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use serde_json::Value;
use tokio::time::Instant;

use super::cluster::{PodKey, key};
use crate::api_server::field;

const FIRST_BACKOFF: Duration = Duration::from_secs(1);
const LONGEST_BACKOFF: Duration = Duration::from_secs(10);
/// A pod that did not fit is tried again after this even if nothing changed.
const LONGEST_WAIT: Duration = Duration::from_mins(5);

#[derive(Debug)]
struct Waiting {
    pod: Value,
    order: (i64, String, u64),
    attempts: u32,
    state: State,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// As soon as this time comes.
    Ready(Instant),
    /// After a change in the cluster, and no earlier than this.
    Parked { from: Instant, until: Instant },
    /// Being scheduled or bound.
    Taken {
        /// Whether the cluster has changed meanwhile.
        changed: bool,
    },
}

/// The queue.
#[derive(Debug, Default)]
pub(super) struct Queue {
    pods: BTreeMap<PodKey, Waiting>,
    arrivals: u64,
}

impl Queue {
    /// A pod that waits for a node, new or changed.
    pub(super) fn apply(&mut self, pod: Value, now: Instant) {
        let deciding = |pod: &Value| {
            [
                "/metadata/uid",
                "/metadata/labels",
                "/metadata/annotations",
                "/spec",
            ]
            .map(|pointer| pod.pointer(pointer).cloned())
        };
        let key = key(&pod);
        if let Some(waiting) = self.pods.get_mut(&key) {
            let changed = deciding(&waiting.pod) != deciding(&pod);
            waiting.pod = pod;
            if changed {
                waiting.wake();
            }
            return;
        }
        self.arrivals += 1;
        let priority = field::number(&pod, "/spec/priority").unwrap_or(0);
        let created = field::text(&pod, "/metadata/creationTimestamp").to_owned();
        let waiting = Waiting {
            order: (-priority, created, self.arrivals),
            pod,
            attempts: 0,
            state: State::Ready(now),
        };
        self.pods.insert(key, waiting);
    }

    /// A pod that waits no more.
    pub(super) fn remove(&mut self, key: &PodKey) {
        self.pods.remove(key);
    }

    /// Only these pods are there.
    pub(super) fn keep(&mut self, keys: &BTreeSet<PodKey>) {
        self.pods.retain(|key, _| keys.contains(key));
    }

    /// Something changed in the cluster: pods that did not fit may fit now.
    pub(super) fn wake(&mut self) {
        self.pods.values_mut().for_each(Waiting::wake);
    }

    /// The next pod to schedule. It is given out once, until it is put back.
    pub(super) fn take(&mut self, now: Instant) -> Option<Value> {
        let next = self
            .pods
            .values_mut()
            .filter(|w| w.due().is_some_and(|at| at <= now))
            .min_by(|a, b| a.order.cmp(&b.order))?;
        next.attempts = next.attempts.saturating_add(1);
        next.state = State::Taken { changed: false };
        Some(next.pod.clone())
    }

    /// It did not fit, or could not be bound.
    pub(super) fn put_back(&mut self, key: &PodKey, now: Instant) {
        let Some(waiting) = self.pods.get_mut(key) else {
            return;
        };
        let doublings = waiting.attempts.saturating_sub(1).min(16);
        let backoff = FIRST_BACKOFF
            .saturating_mul(1 << doublings)
            .min(LONGEST_BACKOFF);
        let changed = waiting.state == State::Taken { changed: true };
        waiting.state = State::Parked {
            from: now + backoff,
            until: now + LONGEST_WAIT,
        };
        if changed {
            waiting.wake();
        }
    }

    /// The same, where it was no want of room: it is tried again without a change.
    pub(super) fn retry(&mut self, key: &PodKey, now: Instant) {
        self.put_back(key, now);
        if let Some(waiting) = self.pods.get_mut(key) {
            waiting.wake();
        }
    }

    /// When the next pod is due.
    pub(super) fn next_due(&self) -> Option<Instant> {
        self.pods.values().filter_map(Waiting::due).min()
    }
}

impl Waiting {
    fn due(&self) -> Option<Instant> {
        match self.state {
            State::Ready(at) => Some(at),
            State::Parked { until, .. } => Some(until),
            State::Taken { .. } => None,
        }
    }

    fn wake(&mut self) {
        match &mut self.state {
            State::Parked { from, .. } => self.state = State::Ready(*from),
            State::Taken { changed } => *changed = true,
            State::Ready(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pod(name: &str, priority: i64) -> Value {
        json!({"metadata": {"namespace": "a", "name": name, "uid": name,
            "creationTimestamp": "2026-12-01T05:00:00Z"}, "spec": {"priority": priority}})
    }

    fn name(pod: Option<Value>) -> String {
        pod.map_or(String::new(), |p| key(&p).1)
    }

    #[test]
    fn priority_comes_before_age() {
        let (mut queue, now) = (Queue::default(), Instant::now());
        for (name, priority) in [("b", 0), ("a", 0), ("urgent", 5)] {
            queue.apply(pod(name, priority), now);
        }
        let order: Vec<String> = (0..4).map(|_| name(queue.take(now))).collect();
        assert_eq!(order, ["urgent", "b", "a", ""]);
    }

    #[test]
    fn a_pod_that_did_not_fit_waits_for_a_change_and_its_backoff() {
        let (mut queue, now) = (Queue::default(), Instant::now());
        queue.apply(pod("p", 0), now);
        let p = key(&queue.take(now).unwrap());
        queue.put_back(&p, now);
        assert_eq!(queue.next_due(), Some(now + LONGEST_WAIT));
        queue.wake();
        assert_eq!(queue.next_due(), Some(now + FIRST_BACKOFF));
        let later = now + Duration::from_secs(100);
        for _ in 0..9 {
            queue.take(later).unwrap();
            queue.retry(&p, later - Duration::from_secs(50));
        }
        assert_eq!(queue.next_due(), Some(later - Duration::from_secs(40)));
    }

    #[test]
    fn a_change_while_a_pod_is_looked_at_is_not_lost() {
        let (mut queue, now) = (Queue::default(), Instant::now());
        queue.apply(pod("p", 0), now);
        let p = key(&queue.take(now).unwrap());
        queue.wake();
        queue.put_back(&p, now);
        assert_eq!(queue.next_due(), Some(now + FIRST_BACKOFF));
    }

    #[test]
    fn our_own_condition_on_a_pod_is_no_reason_to_try_again() {
        let (mut queue, now) = (Queue::default(), Instant::now());
        queue.apply(pod("p", 0), now);
        let p = key(&queue.take(now).unwrap());
        queue.put_back(&p, now);
        let mut told = pod("p", 0);
        told["status"] = json!({"conditions": []});
        queue.apply(told, now);
        assert_eq!(queue.next_due(), Some(now + LONGEST_WAIT));
        queue.remove(&p);
        assert_eq!(queue.next_due(), None);
    }
}

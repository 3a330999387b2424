//! The controllers inside the stand-in API server: Jobs, dependants of deleted owners, namespaces
//! in deletion, pods of deleted nodes.
//!
//! One loop follows the window of changes and notes what has to be looked at; every look is one
//! hold of the store, so that counting a pod and letting it go, say, are one step (the real
//! controller needs `uncountedTerminatedPods` for that).
//!
//! Differences from kube-controller-manager: a Job's next try waits 1 s after the first failure,
//! twice as long each time, a minute at most (not 10 s and 6 minutes).

mod decide;
mod garbage;
mod jobs;

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use k8s_openapi::jiff::Timestamp;
use serde_json::Value;

use crate::api_server::{
    Api, field,
    store::{Change, Key, Store},
};

/// Starts the loop as a critical task.
pub fn start(api: &Api, tasks: &kit::Tasks) {
    let (api, shutdown) = (api.clone(), tasks.shutdown_token());
    tasks.critical("controllers", async move {
        tokio::select! {
            () = shutdown.cancelled() => {}
            () = follow(api) => {}
        }
        Ok(())
    });
}

/// What has to be looked at.
#[derive(Debug, Default)]
struct Work {
    jobs: BTreeSet<Key>,
    /// Owners, dependants, namespaces.
    sweep: bool,
    /// Deleted ones.
    nodes: BTreeSet<String>,
    /// Jobs to look at again, and when.
    later: BTreeMap<Key, Timestamp>,
}

/// Without a deadline nearer than this, the loop sleeps this long between looks at the clock.
const LONGEST_SLEEP: Duration = Duration::from_mins(1);

async fn follow(api: Api) {
    let mut changed = api.store().subscribe();
    let mut cursor = 0;
    let mut work = Work::default();
    loop {
        changed.mark_unchanged();
        work.note_since(&api.store(), &mut cursor);
        let now = Timestamp::now();
        work.note_due(now);
        work.carry_out(&mut api.store(), now);
        let up_to_date = api.store().revision() == cursor;
        if up_to_date {
            tokio::select! {
                end = changed.changed() => if end.is_err() { return },
                () = tokio::time::sleep(work.sleep(now)) => {}
            }
        } else {
            tokio::task::yield_now().await;
        }
    }
}

impl Work {
    /// Notes what the changes since the cursor concern; everything, where they are not all known.
    fn note_since(&mut self, store: &Store, cursor: &mut u64) {
        loop {
            let Ok(changes) = store.changes_after(*cursor) else {
                *cursor = store.revision();
                self.sweep = true;
                let jobs = store.range("jobs", None, None);
                self.jobs.extend(jobs.map(|(key, _)| key.clone()));
                return;
            };
            let Some(last) = changes.last() else { return };
            *cursor = last.revision;
            for change in &changes {
                self.note(change);
            }
        }
    }

    fn note(&mut self, change: &Change) {
        let Some(object) = change.after.as_ref().or(change.before.as_ref()) else {
            return;
        };
        match change.key.storage {
            "jobs" => drop(self.jobs.insert(change.key.clone())),
            "pods" => {
                if let Some(name) = jobs::owner(object) {
                    let key = Key::new("jobs", &change.key.namespace, name);
                    self.jobs.insert(key);
                }
            }
            "nodes" if change.after.is_none() => {
                self.nodes.insert(change.key.name.clone());
            }
            _ => {}
        }
        let has = |pointer: &str| object.pointer(pointer).is_some_and(|v| !v.is_null());
        self.sweep |= change.after.is_none()
            || has("/metadata/deletionTimestamp")
            || change.before.is_none() && has("/metadata/ownerReferences");
    }

    fn note_due(&mut self, now: Timestamp) {
        let due: Vec<Key> = self
            .later
            .iter()
            .filter(|(_, at)| **at <= now)
            .map(|(key, _)| key.clone())
            .collect();
        for key in due {
            self.later.remove(&key);
            self.jobs.insert(key);
        }
    }

    fn carry_out(&mut self, store: &mut Store, now: Timestamp) {
        for node in std::mem::take(&mut self.nodes) {
            garbage::pods_of_node(store, &node, now);
        }
        for key in std::mem::take(&mut self.jobs) {
            match jobs::look(store, &key, now) {
                Some(at) => drop(self.later.insert(key, at)),
                None => drop(self.later.remove(&key)),
            }
        }
        if std::mem::take(&mut self.sweep) {
            garbage::sweep(store, now);
        }
    }

    fn sleep(&self, now: Timestamp) -> Duration {
        let next = self.later.values().min();
        let until = next.map(|at| at.duration_since(now));
        until
            .and_then(|d| Duration::try_from(d).ok())
            .map_or(LONGEST_SLEEP, |d| d.min(LONGEST_SLEEP))
    }
}

/// The UID of an object.
fn uid(object: &Value) -> &str {
    field::text(object, "/metadata/uid")
}

#[cfg(test)]
mod tests;

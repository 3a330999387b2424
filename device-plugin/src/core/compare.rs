//! What must be told others: the Runtime what it does not have, pods what they were given.

use std::collections::BTreeMap;

use model::{
    annotation,
    name::{PodRef, PodUid},
};
use runtime_proto::client::Allocation;

use super::{Core, Malformed, Observed, same};
use crate::{
    book::{self, Given, PodEntry, RuntimeState},
    view::Look,
};

/// Grants that the Runtime must be told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Assertion {
    /// The grants.
    pub allocation: Allocation,
    /// Whether it has other grants under this id, to be ended first.
    pub release_first: bool,
}

/// An `allocated` annotation to be written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Annotate {
    /// On which pod.
    pub pod: PodRef,
    /// Its unique id: a newer pod of that name is another one.
    pub uid: PodUid,
    /// The value.
    pub text: String,
}

impl Core {
    /// Compares with the Runtime's own book, read after `ticket` was taken. What it has and we
    /// do not know is held until the pod is known to be gone.
    pub fn compare(&mut self, theirs: &[Allocation], ticket: u64) -> Observed {
        let mut observed = Observed::default();
        let mut has: BTreeMap<String, &Allocation> = BTreeMap::new();
        for allocation in theirs {
            let consumer = &allocation.consumer;
            let id = book::allocation_id(&consumer.uid, &consumer.container);
            if allocation.id != id {
                observed.malformed.push(Malformed {
                    pod: consumer.pod.clone(),
                    why: format!("the Runtime has it under {:?}, not {id:?}", allocation.id),
                });
                continue;
            }
            let is_from_before = self.is_from_before_the_end(&consumer.uid, ticket);
            if self.releases.contains_key(&id) || is_from_before {
                continue;
            }
            let known = self
                .book
                .get(&consumer.uid)
                .is_some_and(|e| e.containers.contains_key(&consumer.container));
            if !known {
                self.adopt_allocation(allocation, ticket, &mut observed);
            }
            has.insert(id, allocation);
        }
        for (uid, entry) in &mut self.book {
            for (name, given) in &mut entry.containers {
                let in_flight = self
                    .in_flight
                    .as_ref()
                    .is_some_and(|(u, n)| u == uid && n == name);
                if in_flight || entry.since > ticket {
                    continue;
                }
                given.runtime = match has.get(&book::allocation_id(uid, name)) {
                    Some(theirs) if same(&theirs.grants, &given.grants) => RuntimeState::Has,
                    Some(_) => RuntimeState::Differs,
                    None => RuntimeState::Missing,
                };
            }
        }
        observed
    }

    fn adopt_allocation(&mut self, allocation: &Allocation, ticket: u64, observed: &mut Observed) {
        let consumer = &allocation.consumer;
        let entry = self
            .book
            .entry(consumer.uid.clone())
            .or_insert_with(|| PodEntry::new(consumer.pod.clone(), None, ticket));
        entry.containers.insert(
            consumer.container.clone(),
            Given {
                grants: allocation.grants.clone(),
                runtime: RuntimeState::Has,
                ..Given::default()
            },
        );
        observed
            .adopted
            .push((consumer.pod.clone(), consumer.container.clone()));
        // Without its request the sum may be too much; what is so is said once that is known.
        self.enter_truth(&consumer.uid);
    }

    /// What the Runtime does not have as the book has it.
    pub fn assertions(&self) -> Vec<Assertion> {
        let mut assertions = Vec::new();
        for (uid, entry) in &self.book {
            for (name, given) in &entry.containers {
                let in_flight = self
                    .in_flight
                    .as_ref()
                    .is_some_and(|(u, n)| u == uid && n == name);
                if in_flight || given.runtime == RuntimeState::Has {
                    continue;
                }
                assertions.push(Assertion {
                    allocation: book::allocation(uid, &entry.pod, name, &given.grants),
                    release_first: given.runtime == RuntimeState::Differs,
                });
            }
        }
        assertions
    }

    /// The pods whose devices are complete and not written on them as this look shows: not yet,
    /// or not any more. Others believe what stands there, so what somebody changed is put right.
    pub fn annotations(&mut self, look: &Look) -> Vec<Annotate> {
        /// Kubelet's list is a moment behind what was written: so many looks may not show it.
        const UNSEEN: u8 = 2;
        let listed = |pod: &PodRef| {
            look.listed
                .as_ref()
                .is_none_or(|l| l.iter().any(|d| d.pod == *pod))
        };
        look.pods
            .iter()
            .filter(|v| v.is_live() && listed(&v.pod))
            .filter_map(|view| {
                let entry = self.book.get_mut(&view.uid)?;
                if entry.since >= look.ticket || !entry.is_complete() {
                    return None;
                }
                let text = annotation::write_plan(&entry.truth());
                if view.allocated.as_ref() == Some(&text) {
                    entry.written = None;
                    return None;
                }
                if entry.written.as_ref() == Some(&text) && entry.unseen < UNSEEN {
                    entry.unseen += 1;
                    return None;
                }
                Some(Annotate {
                    pod: view.pod.clone(),
                    uid: view.uid.clone(),
                    text,
                })
            })
            .collect()
    }

    /// The annotation is on the pod, or the pod is not there to be written on.
    pub fn annotated(&mut self, annotate: &Annotate) {
        if let Some(entry) = self.book.get_mut(&annotate.uid) {
            entry.written = Some(annotate.text.clone());
            entry.unseen = 0;
        }
    }
}

#[cfg(test)]
#[path = "compare_tests.rs"]
mod tests;

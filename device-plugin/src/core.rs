//! The plugin's whole state, changed by plain calls: the ledger of the node, its own book, and
//! the answers to kubelet's calls. No I/O and no waiting: the shells beside it do that.
//!
//! Invariants: nothing is answered that the ledger has not entered first; a call that is
//! refused changes nothing; what a pod held is released exactly when the pod has ended.

mod admit;
mod compare;
mod elsewhere;
mod observe;
mod reused;

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
};

use model::{
    card::Inventory,
    ledger::{Conflict, Ledger},
    name::{ContainerName, PodRef, PodUid, ResourceName},
    plan::{Grant, Plan},
    settings::Settings,
};
use runtime_proto::client::{Allocation, ContainerEdits};

use crate::{
    book::{self, PodEntry, RuntimeState},
    checkpoint::Checkpoint,
    identity::{Answered, Consumer},
};

pub use admit::{Planned, Step};
pub use compare::{Annotate, Assertion};
pub use observe::{Malformed, Observed};

/// How many refused pods and remembered plans are kept. Kubelet admits one pod at a time, and a
/// refused one leaves its list at once: a few would do.
const REMEMBERED: usize = 64;

/// The state.
#[derive(Debug)]
pub struct Core {
    settings: Arc<Settings>,
    ledger: Ledger,
    book: BTreeMap<PodUid, PodEntry>,
    /// Grows with each look and each grant.
    ticket: u64,
    /// The newest look that was taken in.
    observed: u64,
    /// Pods that kubelet has rejected because of us.
    refused: VecDeque<PodUid>,
    /// Pods that have ended, each with the ticket of that moment.
    ended: VecDeque<(PodUid, u64)>,
    /// Plans of pods in admission that came without one.
    planned: VecDeque<(PodUid, Plan)>,
    /// Whom the last preference was for: the Allocate that follows carries these ids.
    preferred: Option<Preferred>,
    /// The container that the Runtime is being asked for right now.
    in_flight: Option<(PodUid, ContainerName)>,
    /// What kubelet still counts as taken by pods that have ended.
    stale: elsewhere::Stale,
    /// Allocations to end at the Runtime, until it has said so.
    releases: BTreeMap<String, PodRef>,
}

#[derive(Debug)]
struct Preferred {
    consumer: Consumer,
    resource: ResourceName,
    ids: Vec<String>,
}

impl Answered for Core {
    fn answered(&self, uid: &PodUid, container: &ContainerName, resource: &ResourceName) -> bool {
        self.book
            .get(uid)
            .is_some_and(|e| e.has(container, resource))
    }

    fn refused(&self, uid: &PodUid) -> bool {
        self.refused.contains(uid)
    }
}

impl Core {
    /// No cards and no pods yet.
    pub fn new(settings: Arc<Settings>) -> Self {
        Self {
            settings,
            ledger: Ledger::new(Inventory::default()),
            book: BTreeMap::new(),
            ticket: 0,
            observed: 0,
            refused: VecDeque::new(),
            ended: VecDeque::new(),
            planned: VecDeque::new(),
            preferred: None,
            in_flight: None,
            stale: elsewhere::Stale::new(),
            releases: BTreeMap::new(),
        }
    }

    /// The configuration.
    pub const fn settings(&self) -> &Arc<Settings> {
        &self.settings
    }

    /// The ledger.
    pub const fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// What each pod has.
    pub const fn book(&self) -> &BTreeMap<PodUid, PodEntry> {
        &self.book
    }

    /// A number for a look that begins now.
    pub const fn ticket(&mut self) -> u64 {
        self.ticket += 1;
        self.ticket
    }

    /// The cards are now these.
    pub fn set_cards(&mut self, inventory: Inventory) {
        self.ledger.set_inventory(inventory);
    }

    /// Whether anything is held, or still to be released: only then is there anything to poll.
    pub fn is_busy(&self) -> bool {
        !self.book.is_empty() || !self.releases.is_empty()
    }

    /// Kubelet was restarted: the call after the last preference will not come.
    pub fn forget_preference(&mut self) {
        self.preferred = None;
    }

    /// Kubelet writes its record once a container has everything. Killed before that it has
    /// forgotten those devices and asks for them again: they are not answered for any more. The
    /// cards stay the container's.
    pub fn forget_unrecorded(&mut self, record: &Checkpoint) -> Vec<(PodRef, ContainerName)> {
        let mut forgotten = Vec::new();
        for (uid, entry) in &mut self.book {
            let pod = record.pods.get(uid);
            for (name, given) in &mut entry.containers {
                let recorded = pod.and_then(|p| p.get(name.as_str()));
                let before = given.devices.len();
                let is_there =
                    |resource: &String| recorded.is_some_and(|r| r.contains_key(resource));
                given.devices.retain(|resource, _| is_there(resource));
                if given.devices.len() < before {
                    forgotten.push((entry.pod.clone(), name.clone()));
                }
            }
        }
        forgotten
    }

    /// The consumer of an Allocate that follows the preference for just these ids.
    pub fn follows_preference(
        &mut self,
        resource: &ResourceName,
        ids: &[String],
    ) -> Option<Consumer> {
        let preferred = self.preferred.take()?;
        let mut sorted = ids.to_vec();
        sorted.sort_unstable();
        (preferred.resource == *resource && preferred.ids == sorted).then_some(preferred.consumer)
    }

    /// The pod has ended: what it had is free, and the Runtime is to be told.
    pub fn end(&mut self, uid: &PodUid) -> Option<PodRef> {
        self.ledger.remove(uid);
        self.planned.retain(|(u, _)| u != uid);
        let entry = self.book.remove(uid)?;
        self.ended.retain(|(u, _)| u != uid);
        self.ended.push_back((uid.clone(), self.ticket));
        if self.ended.len() > REMEMBERED {
            self.ended.pop_front();
        }
        for container in entry.containers.keys() {
            self.releases
                .insert(book::allocation_id(uid, container), entry.pod.clone());
        }
        Some(entry.pod)
    }

    /// Kubelet was told no, so it rejects the pod: what it was given so far is free again.
    pub fn refuse(&mut self, uid: &PodUid) {
        self.in_flight = None;
        self.end(uid);
        self.refused.retain(|u| u != uid);
        self.refused.push_back(uid.clone());
        if self.refused.len() > REMEMBERED {
            self.refused.pop_front();
        }
    }

    /// The Runtime has granted what [`Step::Ask`] asked.
    pub fn granted(&mut self, allocation: &Allocation, edits: ContainerEdits) {
        self.in_flight = None;
        self.asserted(allocation, edits);
    }

    /// The Runtime has this, as it was told.
    pub fn asserted(&mut self, allocation: &Allocation, edits: ContainerEdits) {
        if let Some(given) = self
            .book
            .get_mut(&allocation.consumer.uid)
            .and_then(|e| e.containers.get_mut(&allocation.consumer.container))
            && same(&given.grants, &allocation.grants)
        {
            given.edits = Some(edits);
            given.runtime = RuntimeState::Has;
        }
    }

    /// Nobody waits for the Runtime's answer any more: what was asked is told again later.
    pub fn abandoned(&mut self) {
        self.in_flight = None;
    }

    /// Allocation ids to end at the Runtime, with the pod that had them.
    pub fn releases(&self) -> Vec<(String, PodRef)> {
        self.releases
            .iter()
            .map(|(id, pod)| (id.clone(), pod.clone()))
            .collect()
    }

    /// The Runtime has ended these.
    pub fn released(&mut self, ids: &[String]) {
        for id in ids {
            self.releases.remove(id);
        }
    }

    /// Whether that pod has ended.
    fn has_ended(&self, uid: &PodUid) -> bool {
        self.ended.iter().any(|(u, _)| u == uid)
    }

    /// Whether that pod has ended, and a look or a reading of that ticket may be from before.
    fn is_from_before_the_end(&self, uid: &PodUid, ticket: u64) -> bool {
        let mut ended = self.ended.iter();
        ended.any(|(u, at)| u == uid && ticket <= *at)
    }

    fn enter_truth(&mut self, uid: &PodUid) -> Option<Conflict> {
        let hold = self.book.get(uid)?.hold();
        self.ledger.hold_truth(uid, hold)
    }
}

/// Whether two sets of grants are the same, in whatever order.
fn same(a: &[Grant], b: &[Grant]) -> bool {
    let sorted = |grants: &[Grant]| {
        let mut grants = grants.to_vec();
        grants.sort_unstable();
        grants
    };
    sorted(a) == sorted(b)
}

#[cfg(test)]
#[path = "core_tests.rs"]
mod tests;

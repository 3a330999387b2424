//! What the kit has left on a node without its label, and which of it goes when. Pure: the time
//! comes in.
//!
//! The device plugin goes with the label, so nobody on the node clears up behind it. Kubelet keeps
//! the name of a resource whose plugin has left for ever, with nothing allocatable, and for 5
//! minutes writes it back after it was removed. So each name is removed whenever it shows, and the
//! list of them is kept until none has shown for longer than that. The clock is this program's
//! own: a restart starts it anew, which only keeps the list a little longer.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use kubernetes::object::status_pointer;
use model::{
    backoff::Backoff,
    name::{NodeName, ResourceName},
};
use serde_json::json;

use crate::decide::NodeState;

/// Kubelet's 5 minutes, and as much more as it may be late.
pub const KUBELET_GRACE: Duration = Duration::from_mins(7);

/// From one write to the next on one node, at first: others may write back what was removed.
const PAUSE: Duration = Duration::from_secs(5);
/// The longest pause between writes of kubelet's names.
const MOST_NAMES_PAUSE: Duration = Duration::from_mins(1);
/// The same for the inventory: only a device plugin that runs without the label writes it back,
/// and would for ever.
const MOST_INVENTORY_PAUSE: Duration = Duration::from_mins(10);

/// What is there of the kit on a node. Nothing where the node has the label: it is no business of
/// the controller then.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Left {
    /// The inventory, by which the extender places pods: it does not look at the label.
    pub inventory: bool,
    /// The names that the device plugin gave the node.
    pub owned: Owned,
}

/// The annotation with the names.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Owned {
    /// There is none.
    #[default]
    Nothing,
    /// It is there; those of its names that the node's status shows.
    Names(Vec<Shown>),
    /// It can't be read, and why. It is left to people: its names are not known, and the same
    /// name may be another vendor's on a node that was never ours.
    Unreadable(String),
}

/// A name in a node's status, with its quantities as they stand there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shown {
    /// The name.
    pub name: ResourceName,
    /// In `capacity`.
    pub capacity: Option<String>,
    /// In `allocatable`.
    pub allocatable: Option<String>,
}

impl Shown {
    /// A plugin is alive behind it.
    fn is_served(&self) -> bool {
        self.allocatable
            .as_deref()
            .is_some_and(|count| count != "0")
    }
}

/// What to do next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Nothing, until something changes or its time comes.
    Rest,
    /// Remove the inventory.
    Inventory,
    /// Take these names out of the node's status.
    Names(Vec<Shown>),
    /// Remove the list of names: none has shown for long enough.
    Owned,
}

/// The nodes that had something left on them since they lost the label.
#[derive(Debug)]
pub struct Leftovers {
    grace: Duration,
    nodes: BTreeMap<NodeName, Watched>,
    wakes: BTreeSet<(Duration, NodeName)>,
}

/// Stays after all is cleared, so that a node that is written to again and again is not cleared
/// at the same pace.
#[derive(Debug)]
struct Watched {
    uid: String,
    /// Since when no name has shown.
    away_since: Option<Duration>,
    names: Pace,
    inventory: Pace,
    /// Its entry in `wakes`.
    wake: Option<Duration>,
}

#[derive(Debug)]
struct Pace {
    due: Duration,
    backoff: Backoff,
    written: bool,
}

impl Pace {
    fn new(most: Duration) -> Self {
        Self {
            due: Duration::ZERO,
            backoff: Backoff::new(PAUSE, most),
            written: false,
        }
    }

    fn wrote(&mut self, now: Duration, random: u64) -> bool {
        self.due = now + self.backoff.next(random);
        !std::mem::replace(&mut self.written, true)
    }
}

impl Leftovers {
    /// `grace`: for how long kubelet may write a name back.
    pub fn new(grace: Duration) -> Self {
        Self {
            grace,
            nodes: BTreeMap::new(),
            wakes: BTreeSet::new(),
        }
    }

    /// What to do about a node; `None` once it is gone. `at_work`: a Job is switching it.
    pub fn look(
        &mut self,
        name: &NodeName,
        node: Option<&NodeState>,
        at_work: bool,
        now: Duration,
    ) -> Step {
        let Some(node) = node.filter(|node| !node.labelled && !node.deleting) else {
            self.forget(name);
            return Step::Rest;
        };
        match self.nodes.get(name) {
            Some(watched) if watched.uid == node.uid => {}
            // Most nodes of a cluster: never ours.
            None if node.left == Left::default() => return Step::Rest,
            _ => {
                self.forget(name);
                let watched = Watched {
                    uid: node.uid.clone(),
                    away_since: None,
                    names: Pace::new(MOST_NAMES_PAUSE),
                    inventory: Pace::new(MOST_INVENTORY_PAUSE),
                    wake: None,
                };
                self.nodes.insert(name.clone(), watched);
            }
        }
        let Some(watched) = self.nodes.get_mut(name) else {
            return Step::Rest;
        };
        let (step, wake) = watched.step(&node.left, at_work, self.grace, now);
        let before = std::mem::replace(&mut watched.wake, wake);
        if let Some(before) = before {
            self.wakes.remove(&(before, name.clone()));
        }
        if let Some(wake) = wake {
            self.wakes.insert((wake, name.clone()));
        }
        step
    }

    /// The step has been written: whether it is the first of its kind on this node.
    pub fn wrote(&mut self, name: &NodeName, step: &Step, now: Duration, random: u64) -> bool {
        let watched = self.nodes.get_mut(name);
        match (step, watched) {
            (Step::Names(_), Some(watched)) => watched.names.wrote(now, random),
            (Step::Inventory, Some(watched)) => watched.inventory.wrote(now, random),
            // The grace is pause enough.
            (Step::Rest | Step::Owned, _) | (_, None) => true,
        }
    }

    /// When a node is to be looked at next, though nothing changed.
    pub fn next_wake(&self) -> Option<Duration> {
        self.wakes.first().map(|(wake, _)| *wake)
    }

    /// The nodes whose time has come, once.
    pub fn take_due(&mut self, now: Duration) -> Vec<NodeName> {
        let mut due = Vec::new();
        while self.next_wake().is_some_and(|wake| wake <= now) {
            due.extend(self.wakes.pop_first().map(|(_, name)| name));
        }
        due
    }

    fn forget(&mut self, name: &NodeName) {
        let gone = self.nodes.remove(name);
        if let Some(wake) = gone.and_then(|watched| watched.wake) {
            self.wakes.remove(&(wake, name.clone()));
        }
    }
}

impl Watched {
    /// What to do now, and where that is nothing, when to look again.
    fn step(
        &mut self,
        left: &Left,
        at_work: bool,
        grace: Duration,
        now: Duration,
    ) -> (Step, Option<Duration>) {
        let mut wake: Option<Duration> = None;
        let mut is_due = |due: Duration| {
            let later = due > now;
            if later {
                wake = Some(wake.map_or(due, |wake| wake.min(due)));
            }
            !later
        };
        // While it is switched off the device plugin may be alive, and writes it again.
        if left.inventory && !at_work && is_due(self.inventory.due) {
            return (Step::Inventory, None);
        }
        match &left.owned {
            Owned::Names(shown) if shown.is_empty() => {
                let since = *self.away_since.get_or_insert(now);
                if is_due(since.saturating_add(grace)) {
                    return (Step::Owned, None);
                }
            }
            Owned::Names(shown) => {
                self.away_since = None;
                let idle = shown.iter().filter(|name| !name.is_served());
                let idle: Vec<Shown> = idle.cloned().collect();
                if !idle.is_empty() && is_due(self.names.due) {
                    return (Step::Names(idle), None);
                }
            }
            Owned::Nothing | Owned::Unreadable(_) => self.away_since = None,
        }
        (Step::Rest, wake)
    }
}

/// The JSON Patch that takes these names out of the status of the node with that uid. It is
/// carried out as a whole or not at all: not where a name has another quantity by now.
pub fn patch(uid: &str, names: &[Shown]) -> serde_json::Value {
    let mut operations = vec![json!({"op": "test", "path": "/metadata/uid", "value": uid})];
    for shown in names {
        for (field, quantity) in [
            ("capacity", &shown.capacity),
            ("allocatable", &shown.allocatable),
        ] {
            if let Some(quantity) = quantity {
                let path = status_pointer(field, shown.name.as_str());
                operations.push(json!({"op": "test", "path": path, "value": quantity}));
                operations.push(json!({"op": "remove", "path": path}));
            }
        }
    }
    serde_json::Value::Array(operations)
}

#[cfg(test)]
#[path = "leftovers_tests.rs"]
mod tests;

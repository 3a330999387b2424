//! What the scheduler knows of the cluster: nodes with their ledgers, and the pods that ask for
//! cards or hold some.
//!
//! Pure and synchronous: one loop feeds it what the watches say, handlers read it, and binds
//! enter their promise (in the module `assume`) before the API server is asked. Each change
//! costs as much as one node has cards, never more with the cluster's size.

use std::collections::HashMap;

use foldhash::fast::RandomState;
use model::{
    annotation::AnnotationError,
    ledger::{Conflict, Hold},
    name::{NodeName, PodRef, PodUid},
    settings::Settings,
};

use crate::{
    memo::Requests,
    node::{Node, NodeSeen},
    pod::{Assumed, NotKnown, PodEntry, PodSeen, PodState, Stand},
};

/// Something that a person should hear of, once.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Notice {
    /// The node is not used until this is mended.
    #[error("node {node}: its inventory annotation can't be read, the node is left out: {why}")]
    UnreadableInventory {
        /// Which node.
        node: NodeName,
        /// What is wrong.
        why: AnnotationError,
    },
    /// The pod's node is not used until this is mended or the pod has ended.
    #[error("pod {pod}: its cards can't be known, node {node} is left out: {why}")]
    UnreadablePod {
        /// Which pod.
        pod: PodRef,
        /// Where it is bound.
        node: NodeName,
        /// What is wrong.
        why: String,
    },
    /// The pod holds what was promised to others too, or a card that is gone.
    #[error("pod {pod} on node {node} does not fit beside the others there: {why}")]
    Conflict {
        /// Which pod.
        pod: PodRef,
        /// Where it is bound.
        node: NodeName,
        /// What clashes.
        why: Conflict,
    },
}

/// Which listing is the present one, and whether one was ever complete.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Round {
    stamp: u32,
    complete: bool,
    /// It is being shown.
    under_way: bool,
}

impl Round {
    fn begin(&mut self) {
        self.stamp = self.stamp.wrapping_add(1);
        self.under_way = true;
    }

    fn end(&mut self) {
        self.complete = true;
        self.under_way = false;
    }

    /// Whether what the API server answered to a question of that round can be entered now. A
    /// listing that has begun since may be newer than the answer: it leaves out a pod that was
    /// deleted in between, of which the watch then tells nothing.
    pub(crate) fn takes_answers_of(self, asked: Self) -> bool {
        self == asked && !self.under_way
    }
}

#[derive(Debug, Clone, Default)]
struct NodeEntry {
    node: Node,
    stamp: u32,
}

/// Nodes and pods.
#[derive(Debug, Clone)]
pub struct Index {
    settings: Settings,
    requests: Requests,
    nodes: HashMap<NodeName, NodeEntry, RandomState>,
    pods: HashMap<PodUid, PodEntry, RandomState>,
    node_round: Round,
    pod_round: Round,
}

impl Index {
    /// An index that knows nothing.
    pub fn new(settings: Settings) -> Self {
        Self {
            settings,
            requests: Requests::default(),
            nodes: HashMap::default(),
            pods: HashMap::default(),
            node_round: Round::default(),
            pod_round: Round::default(),
        }
    }

    /// What the names mean.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The requests for which findings are kept.
    pub(crate) fn requests(&self) -> &Requests {
        &self.requests
    }

    /// Whether both watches have shown everything once. Before that any answer would be a guess.
    pub fn is_synced(&self) -> bool {
        self.node_round.complete && self.pod_round.complete
    }

    /// The node of that name, if the watch or a pod has named it.
    pub fn node(&self, name: &str) -> Option<&Node> {
        self.nodes.get(name).map(|entry| &entry.node)
    }

    /// The nodes of many names, one after the other. All are looked up before the first is looked
    /// into: they lie all over the memory, and a loop that does nothing else has several on their
    /// way at once.
    pub(crate) fn find<'n>(
        &self,
        names: impl Iterator<Item = &'n str>,
    ) -> impl Iterator<Item = Option<&Node>> {
        let found: Vec<_> = names.map(|name| self.node(name)).collect();
        found.into_iter()
    }

    /// All nodes, in no order.
    pub fn nodes(&self) -> impl ExactSizeIterator<Item = (&NodeName, &Node)> {
        self.nodes.iter().map(|(name, entry)| (name, &entry.node))
    }

    /// How many pods are kept.
    pub fn pod_count(&self) -> usize {
        self.pods.len()
    }

    /// Namespace and name of that pod.
    pub fn pod_name(&self, uid: &PodUid) -> Option<&PodRef> {
        self.pods.get(uid).map(|entry| &entry.pod)
    }

    /// The newest pod of that name: a dead one and its successor may both be there for a moment.
    pub(crate) fn find_pod(&self, namespace: &str, name: &str) -> Option<(&PodUid, &PodState)> {
        self.pods
            .iter()
            .filter(|(_, e)| e.pod.name.as_str() == name && e.pod.namespace.as_str() == namespace)
            .max_by_key(|(_, entry)| entry.stamp)
            .map(|(uid, entry)| (uid, &entry.state))
    }

    /// A new listing of nodes begins: what it does not show is gone when it is complete.
    pub fn nodes_reset(&mut self) {
        self.node_round.begin();
    }

    /// The listing of nodes is complete.
    pub fn nodes_complete(&mut self) {
        let stamp = self.node_round.stamp;
        for entry in self.nodes.values_mut() {
            if entry.stamp != stamp && entry.node.is_present() {
                entry.node.gone();
            }
        }
        self.nodes.retain(|_, entry| !entry.node.is_forgettable());
        self.node_round.end();
    }

    /// A new listing of pods begins: what it does not show is gone when it is complete.
    pub fn pods_reset(&mut self) {
        self.pod_round.begin();
    }

    /// The listing of pods is complete. Our own unconfirmed binds stay: their pods may be newer
    /// than the listing, and the API server is asked about each of them by name.
    pub fn pods_complete(&mut self) {
        let stamp = self.pod_round.stamp;
        let gone: Vec<PodUid> = self
            .pods
            .iter()
            .filter(|(_, e)| e.stamp != stamp && !matches!(e.state, PodState::Assumed(_)))
            .map(|(uid, _)| uid.clone())
            .collect();
        for uid in gone {
            self.delete_pod(&uid);
        }
        self.pod_round.end();
    }

    /// The watch shows a node.
    pub fn apply_node(&mut self, seen: NodeSeen) -> Option<Notice> {
        let entry = self.nodes.entry(seen.name.clone()).or_default();
        entry.stamp = self.node_round.stamp;
        let why = entry.node.see(seen.cards)?;
        Some(Notice::UnreadableInventory {
            node: seen.name,
            why,
        })
    }

    /// The watch says that a node is gone. Pods that name it keep what they hold until they go
    /// themselves: a node that comes back under its name still has them.
    pub fn delete_node(&mut self, name: &NodeName) {
        if let Some(entry) = self.nodes.get_mut(name) {
            entry.node.gone();
            self.forget_node(name);
        }
    }

    /// Which listing of the pods is the present one.
    pub(crate) fn pod_round(&self) -> Round {
        self.pod_round
    }

    /// Enters a pod that no watch has shown, as the API server answered. What the watch knows by
    /// now may be newer, and stays.
    pub fn learn(&mut self, seen: PodSeen) {
        let PodSeen { pod, uid, stand } = seen;
        if let Stand::Pending(wanted) = stand
            && !self.pods.contains_key(&uid)
        {
            self.replace(&uid, pod, PodState::Pending(wanted));
        }
    }

    /// The watch, or a GET that is newer, shows a pod.
    pub fn apply_pod(&mut self, seen: PodSeen) -> Option<Notice> {
        let stamp = self.pod_round.stamp;
        let PodSeen { pod, uid, stand } = seen;
        let old = self.pods.get_mut(&uid);
        match stand {
            Stand::Nothing => {
                self.delete_pod(&uid);
                None
            }
            Stand::Pending(wanted) => {
                if let Some(old) = old {
                    old.stamp = stamp;
                    // An event from before the binding: ours, whose outcome is not known yet, or
                    // one that was found by name. None is ever undone.
                    if !matches!(old.state, PodState::Pending(_)) {
                        return None;
                    }
                }
                self.replace(&uid, pod, PodState::Pending(wanted));
                None
            }
            Stand::Holds { node, hold, .. } => {
                if let Some(old) = old {
                    old.stamp = stamp;
                    if matches!(&old.state, PodState::Holds(at) if *at == node)
                        && self.held(&node, &uid) == Some(&hold)
                    {
                        return None;
                    }
                }
                self.replace(&uid, pod.clone(), PodState::Holds(node.clone()));
                let why = self.node_mut(&node).hold_truth(&uid, hold)?;
                Some(Notice::Conflict { pod, node, why })
            }
            Stand::NotKnown { node, why } => {
                if let Some(old) = old {
                    old.stamp = stamp;
                    if matches!(&old.state, PodState::NotKnown(at, was) if *at == node && **was == why)
                    {
                        return None;
                    }
                }
                let state = PodState::NotKnown(node.clone(), Box::new(why.clone()));
                self.replace(&uid, pod.clone(), state);
                match why {
                    NotKnown::NotWritten => None,
                    NotKnown::Unreadable(why) => Some(Notice::UnreadablePod { pod, node, why }),
                }
            }
        }
    }

    /// The pod is gone, or has ended: what it held is free.
    pub fn delete_pod(&mut self, uid: &PodUid) {
        if let Some(entry) = self.pods.remove(uid) {
            self.detach(uid, &entry.state);
        }
    }

    /// What the pod holds on that node.
    pub fn held(&self, node: &NodeName, uid: &PodUid) -> Option<&Hold> {
        self.node(node.as_str())?.ledger().of(uid)
    }

    /// The bind of that pod that is not confirmed.
    pub fn assumed(&self, uid: &str) -> Option<&Assumed> {
        match self.state(uid)? {
            PodState::Assumed(assumed) => Some(assumed),
            _ => None,
        }
    }

    /// Every bind that is not confirmed. There are few at a time, in many pods.
    pub fn all_assumed(&self) -> impl Iterator<Item = (&PodUid, &PodRef, &Assumed)> {
        self.pods
            .iter()
            .filter_map(|(uid, entry)| match &entry.state {
                PodState::Assumed(assumed) => Some((uid, &entry.pod, &**assumed)),
                _ => None,
            })
    }

    pub(crate) fn state(&self, uid: &str) -> Option<&PodState> {
        self.pods.get(uid).map(|entry| &entry.state)
    }

    pub(crate) fn state_mut(&mut self, uid: &str) -> Option<&mut PodState> {
        self.pods.get_mut(uid).map(|entry| &mut entry.state)
    }

    pub(crate) fn node_mut(&mut self, name: &NodeName) -> &mut Node {
        &mut self.nodes.entry(name.clone()).or_default().node
    }

    /// Puts the pod into another state; what it held comes out of the ledger, what it holds now
    /// is for the caller to enter.
    pub(crate) fn replace(&mut self, uid: &PodUid, pod: PodRef, state: PodState) {
        let old = self.pods.remove(uid);
        // The new node is counted first, so that a pod that stays keeps its node's entry.
        if let Some(node) = state.node() {
            let node = self.node_mut(node);
            node.count_pod();
            if matches!(state, PodState::NotKnown(..)) {
                node.count_not_known();
            }
        }
        if let Some(old) = old {
            self.detach(uid, &old.state);
        }
        let stamp = self.pod_round.stamp;
        self.pods
            .insert(uid.clone(), PodEntry { pod, state, stamp });
    }

    fn detach(&mut self, uid: &PodUid, state: &PodState) {
        let Some(name) = state.node() else { return };
        let node = self.node_mut(name);
        node.uncount_pod();
        if matches!(state, PodState::NotKnown(..)) {
            node.uncount_not_known();
        } else {
            node.remove(uid);
        }
        self.forget_node(name);
    }

    fn forget_node(&mut self, name: &NodeName) {
        if self.node(name.as_str()).is_some_and(Node::is_forgettable) {
            self.nodes.remove(name);
        }
    }
}

#[cfg(test)]
#[path = "index_protocol.rs"]
mod protocol;
#[cfg(test)]
#[path = "index_protocol_tests.rs"]
mod protocol_tests;
#[cfg(test)]
#[path = "index_tests.rs"]
mod tests;
#[cfg(test)]
#[path = "index_protocol_world.rs"]
mod world;

//! What the scheduler knows of nodes and pods: changed by plain calls from one loop.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::demand::{self, Amounts};
use crate::{api_server::field, quantity::Milli};

/// Namespace and name.
pub(super) type PodKey = (String, String);

/// The key of a pod object.
pub(super) fn key(pod: &Value) -> PodKey {
    let part = |pointer| field::text(pod, pointer).to_owned();
    (part("/metadata/namespace"), part("/metadata/name"))
}

/// A node and what the pods on it ask.
#[derive(Debug, Clone)]
pub(super) struct Node {
    /// As last seen.
    pub object: Value,
    /// What it has for pods.
    pub allocatable: Amounts,
}

/// What a pod takes on its node.
#[derive(Debug, Clone)]
struct Taken {
    uid: String,
    node: String,
    amounts: Amounts,
    /// Bound by us, not seen so yet.
    assumed: bool,
}

/// Nodes, and the pods that take something on them.
#[derive(Debug, Default)]
pub(super) struct Cluster {
    nodes: BTreeMap<String, Node>,
    pods: BTreeMap<PodKey, Taken>,
}

/// The fields of a node that decide whether a pod fits.
fn deciding(node: &Value) -> [Option<&Value>; 4] {
    [
        node.pointer("/metadata/labels"),
        node.pointer("/metadata/annotations"),
        node.pointer("/spec"),
        node.pointer("/status/allocatable"),
    ]
}

impl Cluster {
    /// A node as it is now; whether a pod that did not fit may fit now.
    pub(super) fn apply_node(&mut self, object: Value) -> bool {
        let name = field::text(&object, "/metadata/name").to_owned();
        let changed = self
            .nodes
            .get(&name)
            .is_none_or(|old| deciding(&old.object) != deciding(&object));
        let allocatable = demand::amounts(object.pointer("/status/allocatable"));
        self.nodes.insert(
            name,
            Node {
                object,
                allocatable,
            },
        );
        changed
    }

    /// A node is gone.
    pub(super) fn delete_node(&mut self, name: &str) {
        self.nodes.remove(name);
    }

    /// Only these nodes are there.
    pub(super) fn keep_nodes(&mut self, names: &BTreeSet<String>) {
        self.nodes.retain(|name, _| names.contains(name));
    }

    /// A pod as it is now; whether what it held is free now.
    pub(super) fn apply_pod(&mut self, pod: &Value) -> bool {
        let node = field::text(pod, "/spec/nodeName");
        let ended = matches!(field::text(pod, "/status/phase"), "Succeeded" | "Failed");
        let (key, uid) = (key(pod), field::text(pod, "/metadata/uid"));
        if ended {
            return self.pods.remove(&key).is_some();
        }
        if node.is_empty() {
            // Ours, bound and not seen so yet; or a new pod under an old name.
            let other = self.pods.get(&key).is_some_and(|taken| taken.uid != uid);
            return other && self.pods.remove(&key).is_some();
        }
        self.take(pod, node, false);
        false
    }

    /// A pod is gone; whether it held something.
    pub(super) fn delete_pod(&mut self, pod: &Value) -> bool {
        self.pods.remove(&key(pod)).is_some()
    }

    /// Only these pods are there. An assumed one is listed too, bound or not, unless it is gone.
    pub(super) fn keep_pods(&mut self, keys: &BTreeSet<PodKey>) {
        self.pods.retain(|key, _| keys.contains(key));
    }

    /// A pod is about to be bound: counts as if it were.
    pub(super) fn assume(&mut self, pod: &Value, node: &str) {
        self.take(pod, node, true);
    }

    /// It was not bound after all.
    pub(super) fn forget(&mut self, key: &PodKey) {
        if self.pods.get(key).is_some_and(|taken| taken.assumed) {
            self.pods.remove(key);
        }
    }

    /// The nodes, by name.
    pub(super) fn nodes(&self) -> &BTreeMap<String, Node> {
        &self.nodes
    }

    /// What is taken on each node, and by how many pods.
    pub(super) fn used(&self) -> BTreeMap<&str, (Amounts, usize)> {
        let mut used: BTreeMap<&str, (Amounts, usize)> = BTreeMap::new();
        for taken in self.pods.values() {
            let (amounts, pods) = used.entry(taken.node.as_str()).or_default();
            demand::add(amounts, &taken.amounts);
            *pods += 1;
        }
        used
    }

    fn take(&mut self, pod: &Value, node: &str, assumed: bool) {
        let taken = Taken {
            uid: field::text(pod, "/metadata/uid").to_owned(),
            node: node.to_owned(),
            amounts: demand::of_pod(pod),
            assumed,
        };
        self.pods.insert(key(pod), taken);
    }
}

impl Node {
    /// Whether it takes no new pods.
    pub(super) fn is_cordoned(&self) -> bool {
        self.object.pointer("/spec/unschedulable") == Some(&json!(true))
    }

    /// How much of a resource it has for pods.
    pub(super) fn has(&self, resource: &str) -> Milli {
        self.allocatable.get(resource).copied().unwrap_or_default()
    }
}

//! What the plugin sees of the node at one moment: the pods and, where kubelet tells, the
//! devices it has given to each.

use std::collections::BTreeSet;

use kubernetes::convert::{Life, PodDevices};
use model::{
    name::{PodRef, PodUid},
    request::{PodRequest, RequestError},
};

/// A pod bound to this node.
#[derive(Debug, Clone)]
pub struct PodView {
    /// Namespace and name.
    pub pod: PodRef,
    /// Unique id.
    pub uid: PodUid,
    /// What it asks, or why that has no meaning.
    pub request: Result<PodRequest, RequestError>,
    /// Where it stands.
    pub life: Life,
    /// Seconds since 1970 of its creation.
    pub created: i64,
    /// Whether kubelet has written the status of any of its containers: it does so only once
    /// the pod is admitted.
    pub started: bool,
    /// The scheduler's plan, as written.
    pub assigned: Option<String>,
    /// What kubelet gave, as written by an earlier run of this program.
    pub allocated: Option<String>,
}

impl PodView {
    /// Whether it asks for any card (a request without meaning counts as asking).
    pub fn asks(&self) -> bool {
        self.request.as_ref().map_or(true, |r| !r.is_empty())
    }

    /// Whether it may hold cards.
    pub fn is_live(&self) -> bool {
        self.life != Life::Ended
    }
}

/// Where a list of pods came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PodSource {
    /// Kubelet's own list: a pod behind the one in admission is not in it.
    Kubelet,
    /// The API server: all pods bound here.
    ApiServer,
}

/// One look at the node. PodResources was asked first, so that every pod of it can be in `pods`.
#[derive(Debug, Clone)]
pub struct Look {
    /// Taken before the look began; grows with each look and each grant.
    pub ticket: u64,
    /// Kubelet's answer, unless PodResources gave none.
    pub listed: Option<Vec<PodDevices>>,
    /// The pods bound here.
    pub pods: Vec<PodView>,
    /// Where `pods` came from.
    pub source: PodSource,
    /// Those of `pods` that kubelet's own list did not have when the API server did: a kubelet
    /// that has just started lists nothing.
    pub beyond: BTreeSet<PodUid>,
}

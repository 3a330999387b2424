//! Which pods there are and which have ended: pure, from the node's pod list.

use std::collections::BTreeSet;

use model::name::{PodRef, PodUid};

/// One pod of the list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodLife {
    /// Namespace and name.
    pub pod: PodRef,
    /// Unique id.
    pub uid: PodUid,
    /// Succeeded or Failed.
    pub ended: bool,
    /// Its init containers that have run to their end.
    pub ended_init_containers: Vec<String>,
}

/// What is known of the node's pods.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Lives {
    live: BTreeSet<PodUid>,
    ended: BTreeSet<PodUid>,
    /// Names all of whose pods have ended: a pod may have a namesake that runs.
    ended_names: BTreeSet<PodRef>,
    ended_init_containers: BTreeSet<(PodUid, String)>,
}

impl Lives {
    /// Reads the list.
    pub fn of(pods: Vec<PodLife>) -> Self {
        let mut lives = Self::default();
        let mut live_names = BTreeSet::new();
        for pod in pods {
            if pod.ended {
                lives.ended.insert(pod.uid);
                lives.ended_names.insert(pod.pod);
            } else {
                let uid = &pod.uid;
                let init = pod.ended_init_containers.into_iter();
                lives
                    .ended_init_containers
                    .extend(init.map(|name| (uid.clone(), name)));
                lives.live.insert(pod.uid);
                live_names.insert(pod.pod);
            }
        }
        lives.ended_names.retain(|pod| !live_names.contains(pod));
        lives
    }

    /// Whether that pod is on the list and has not ended.
    pub fn is_live(&self, uid: &PodUid) -> bool {
        self.live.contains(uid)
    }

    /// Whether the pods of that name are known to have ended, all of them.
    pub fn has_ended(&self, pod: &PodRef) -> bool {
        self.ended_names.contains(pod)
    }

    /// Whether that container is known to have ended: its pod has, or it is an init container
    /// that has done its work.
    pub fn container_has_ended(&self, uid: &PodUid, container: &str) -> bool {
        self.ended.contains(uid)
            || !self.ended_init_containers.is_empty()
                && self
                    .ended_init_containers
                    .contains(&(uid.clone(), container.to_owned()))
    }
}

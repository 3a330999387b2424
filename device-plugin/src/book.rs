//! The plugin's own book: which devices each container of this node has, for which grants, and
//! what the Runtime answered for them.

use std::collections::BTreeMap;

use model::{
    ledger::Hold,
    name::{ContainerName, PodRef, PodUid, ResourceName},
    phase,
    plan::{ContainerGrants, Grant, Plan},
    request::{Ask, ContainerRequest, PodRequest, Role},
    settings::PlacementSetting,
};
use runtime_proto::client::{Allocation, Consumer, ContainerEdits};

/// What one container has.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Given {
    /// Sorted device ids by resource, as far as known: none for what only the Runtime's book
    /// or an annotation says.
    pub devices: BTreeMap<String, Vec<String>>,
    /// What they amount to.
    pub grants: Vec<Grant>,
    /// The Runtime's answer, once it has answered this program.
    pub edits: Option<ContainerEdits>,
    /// Whether the Runtime's book has these grants.
    pub runtime: RuntimeState,
}

/// What the Runtime knows of a container's grants.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum RuntimeState {
    /// It is being asked, or must be told again.
    #[default]
    Missing,
    /// It has them.
    Has,
    /// It has other grants under this id: these must be released first.
    Differs,
}

/// What one pod has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodEntry {
    /// Namespace and name.
    pub pod: PodRef,
    /// What it asks; not known for a pod that only the Runtime's book names.
    pub request: Option<PodRequest>,
    /// By container.
    pub containers: BTreeMap<ContainerName, Given>,
    /// The look or grant that last added to it: older looks say nothing about it.
    pub since: u64,
    /// How many looks in a row had it in kubelet's pods and not in PodResources.
    pub missed: u8,
    /// The last `allocated` annotation written, until a look shows it.
    pub written: Option<String>,
    /// How many looks in a row have not shown it.
    pub unseen: u8,
}

impl PodEntry {
    /// A pod that has nothing yet.
    pub const fn new(pod: PodRef, request: Option<PodRequest>, since: u64) -> Self {
        Self {
            pod,
            request,
            containers: BTreeMap::new(),
            since,
            missed: 0,
            written: None,
            unseen: 0,
        }
    }

    /// What it has, container by container in the order of its request.
    pub fn truth(&self) -> Plan {
        let one = |name: &ContainerName, given: &Given| ContainerGrants {
            container: name.clone(),
            grants: given.grants.clone(),
        };
        let containers = match &self.request {
            Some(request) => request
                .containers
                .iter()
                .filter_map(|c| self.containers.get(&c.name).map(|g| one(&c.name, g)))
                .collect(),
            None => self.containers.iter().map(|(n, g)| one(n, g)).collect(),
        };
        Plan { containers }
    }

    /// What it holds of the cards: the most over its phases. Without its request all of its
    /// containers count as running beside each other.
    pub fn hold(&self) -> Hold {
        let plan = self.truth();
        match &self.request {
            Some(request) => phase::peak(request, &plan),
            None => phase::peak(&beside_each_other(&plan), &plan),
        }
    }

    /// Whether every container that asks for a card has grants.
    pub fn is_complete(&self) -> bool {
        self.request.as_ref().is_some_and(|request| {
            request
                .containers
                .iter()
                .filter(|c| c.ask != Ask::Nothing)
                .all(|c| {
                    self.containers.get(&c.name).is_some_and(|given| {
                        // Known from devices: all of them must be there.
                        given.devices.is_empty()
                            || c.amounts
                                .iter()
                                .all(|a| given.devices.contains_key(a.resource.as_str()))
                    })
                })
        })
    }

    /// Whether that container has been given that resource.
    pub fn has(&self, container: &ContainerName, resource: &ResourceName) -> bool {
        self.containers
            .get(container)
            .is_some_and(|g| g.devices.contains_key(resource.as_str()))
    }
}

fn beside_each_other(plan: &Plan) -> PodRequest {
    PodRequest {
        containers: plan
            .containers
            .iter()
            .map(|c| ContainerRequest {
                name: c.container.clone(),
                role: Role::App,
                ask: Ask::Nothing,
                amounts: Vec::new(),
            })
            .collect(),
        placement: PlacementSetting::default(),
    }
}

/// The id under which the Runtime knows a container's grants.
pub fn allocation_id(uid: &PodUid, container: &ContainerName) -> String {
    format!("{uid}/{container}")
}

/// The allocation that the Runtime must have for this container.
pub fn allocation(
    uid: &PodUid,
    pod: &PodRef,
    container: &ContainerName,
    grants: &[Grant],
) -> Allocation {
    Allocation {
        id: allocation_id(uid, container),
        consumer: Consumer {
            pod: pod.clone(),
            uid: uid.clone(),
            container: container.clone(),
        },
        grants: grants.to_vec(),
    }
}

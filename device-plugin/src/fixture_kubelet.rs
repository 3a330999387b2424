//! Kubelet's device manager as a plain value: admits pods one at a time against a [`Core`],
//! with its own books, reuse of init containers' devices and PodResources.

use std::collections::{BTreeMap, BTreeSet};

use kubernetes::convert::{ContainerDevices, Life, PodDevices};
use model::{
    device_id::devices,
    name::{PodUid, ResourceName},
    request::Role,
};
use runtime_proto::client::{Allocation, ContainerEdits};

use crate::{
    core::{Core, Planned, Step},
    identity::{self, Call, Consumer},
    refusal::Refusal,
    view::{Look, PodSource, PodView},
};

/// Container to resource to ids.
type Given = BTreeMap<String, BTreeMap<String, Vec<String>>>;

/// The device manager, and a Runtime that grants everything.
#[derive(Default)]
pub(crate) struct Kubelet {
    /// What it admitted or is admitting, in order.
    pub(crate) pods: Vec<PodView>,
    /// Its own record.
    pub(crate) given: BTreeMap<PodUid, Given>,
    /// The Runtime's book.
    pub(crate) runtime: BTreeMap<String, Allocation>,
    /// What each Allocate was identified as.
    pub(crate) consumers: Vec<Consumer>,
    /// Asks for no preference, as with a policy of its own.
    pub(crate) ignores_preference: bool,
}

impl Kubelet {
    /// PodResources: without plain init containers, and without pods that have ended.
    pub(crate) fn listed(&self) -> Vec<PodDevices> {
        let live = self.pods.iter().filter(|p| p.life != Life::Ended);
        live.map(|view| {
            let given = self.given.get(&view.uid);
            let request = view.request.as_ref().unwrap();
            let shown = request.containers.iter().filter(|c| c.role != Role::Init);
            PodDevices {
                pod: view.pod.clone(),
                containers: shown
                    .map(|c| ContainerDevices {
                        name: c.name.to_string(),
                        devices: given
                            .and_then(|g| g.get(c.name.as_str()))
                            .cloned()
                            .unwrap_or_default(),
                    })
                    .collect(),
            }
        })
        .collect()
    }

    pub(crate) fn look(&self, core: &mut Core) -> Look {
        Look {
            ticket: core.ticket(),
            listed: Some(self.listed()),
            pods: self.pods.clone(),
            source: PodSource::Kubelet,
            beyond: BTreeSet::new(),
        }
    }

    fn in_use(&self, resource: &str) -> BTreeSet<String> {
        let live = |uid: &PodUid| self.pods.iter().any(|p| p.uid == *uid && p.is_live());
        self.given
            .iter()
            .filter(|(uid, _)| live(uid))
            .flat_map(|(_, given)| given.values())
            .filter_map(|devices| devices.get(resource))
            .flatten()
            .cloned()
            .collect()
    }

    /// Admits a pod: `backwards` picks the order of a container's resources. A refusal fails it.
    pub(crate) fn admit(
        &mut self,
        core: &mut Core,
        view: PodView,
        mut backwards: impl FnMut() -> bool,
    ) -> Result<(), Refusal> {
        let request = view.request.clone().unwrap();
        let uid = view.uid.clone();
        self.pods.push(view);
        let mut reuse: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for container in &request.containers {
            let mut amounts = container.amounts.clone();
            if backwards() {
                amounts.reverse();
            }
            for amount in amounts {
                let answer = self.give(core, &amount.resource, amount.count, &reuse);
                match answer {
                    Ok(ids) => {
                        let resource = amount.resource.to_string();
                        let handed_on = reuse.entry(resource.clone()).or_default();
                        match container.role {
                            Role::Init => {
                                handed_on.extend(ids.iter().cloned());
                                handed_on.sort_unstable();
                                handed_on.dedup();
                            }
                            Role::Sidecar | Role::App => handed_on.retain(|id| !ids.contains(id)),
                        }
                        self.given
                            .entry(uid.clone())
                            .or_default()
                            .entry(container.name.to_string())
                            .or_default()
                            .insert(resource, ids);
                    }
                    Err(refusal) => {
                        core.refuse(&uid);
                        self.set_life(&uid, Life::Ended);
                        self.flush(core);
                        return Err(refusal);
                    }
                }
            }
        }
        let last = self.pods.last_mut().unwrap();
        last.started = true;
        Ok(())
    }

    fn give(
        &mut self,
        core: &mut Core,
        resource: &ResourceName,
        count: u64,
        reuse: &BTreeMap<String, Vec<String>>,
    ) -> Result<Vec<String>, Refusal> {
        let count = usize::try_from(count).unwrap();
        let reusable = reuse.get(resource.as_str()).cloned().unwrap_or_default();
        let must: Vec<String> = reusable.iter().take(count).cloned().collect();
        let mut ids = must.clone();
        if ids.len() < count {
            let used = self.in_use(resource.as_str());
            let setting = core.settings().resource(resource.as_str()).unwrap().clone();
            let mut available: Vec<String> = devices(core.ledger().inventory(), &setting)
                .iter()
                .map(ToString::to_string)
                .filter(|id| !used.contains(id))
                .chain(must.iter().cloned())
                .collect();
            available.sort_unstable();
            available.dedup();
            let consumer = self.identify(core, resource, count)?;
            let preferred =
                core.prefer(&consumer, resource, &available, &must, Planned::MayMove)?;
            assert_eq!(preferred.len(), count, "a preference of the asked size");
            let chosen = if self.ignores_preference {
                &available
            } else {
                &preferred
            };
            for id in chosen {
                if ids.len() < count && !ids.contains(id) {
                    ids.push(id.clone());
                }
            }
        }
        ids.sort_unstable();
        let consumer = match core.follows_preference(resource, &ids) {
            Some(consumer) => consumer,
            None => self.identify(core, resource, count)?,
        };
        let step = core.allocate(&consumer, resource, &ids)?;
        self.consumers.push(consumer);
        self.flush(core);
        if let Step::Ask(assertion) = step {
            let allocation = assertion.allocation;
            self.runtime
                .insert(allocation.id.clone(), allocation.clone());
            core.granted(&allocation, edits(&allocation));
        }
        Ok(ids)
    }

    fn identify(
        &self,
        core: &mut Core,
        resource: &ResourceName,
        count: usize,
    ) -> Result<Consumer, Refusal> {
        let look = self.look(core);
        core.observe(&look, None);
        let call = Call {
            resource,
            count: u64::try_from(count).unwrap(),
        };
        Ok(identity::consumer(
            &call,
            look.listed.as_deref(),
            &look.pods,
            core,
        )?)
    }

    pub(crate) fn set_life(&mut self, uid: &PodUid, life: Life) {
        for pod in self.pods.iter_mut().filter(|p| p.uid == *uid) {
            pod.life = life;
        }
    }

    /// The pod is deleted and its containers are gone.
    pub(crate) fn delete(&mut self, uid: &PodUid) {
        self.pods.retain(|p| p.uid != *uid);
        self.given.remove(uid);
    }

    /// Ends at the Runtime what has ended.
    pub(crate) fn flush(&mut self, core: &mut Core) {
        let ids: Vec<String> = core.releases().into_iter().map(|(id, _)| id).collect();
        for id in &ids {
            self.runtime.remove(id);
        }
        core.released(&ids);
    }

    /// A turn of the reconcile loop, the API server knowing the same pods.
    pub(crate) fn reconcile(&mut self, core: &mut Core) {
        let look = self.look(core);
        let observed = core.observe(&look, None);
        for uid in observed.suspects {
            core.end(&uid);
        }
        self.flush(core);
        for assertion in core.assertions() {
            let allocation = assertion.allocation;
            self.runtime
                .insert(allocation.id.clone(), allocation.clone());
            core.asserted(&allocation, edits(&allocation));
        }
    }

    /// What the program does first after a start.
    pub(crate) fn rebuild(&mut self, core: &mut Core) {
        let ticket = core.ticket();
        let book: Vec<Allocation> = self.runtime.values().cloned().collect();
        core.compare(&book, ticket);
        self.reconcile(core);
    }
}

fn edits(allocation: &Allocation) -> ContainerEdits {
    ContainerEdits {
        environment: vec![("ALLOCATION".to_owned(), allocation.id.clone())],
        ..ContainerEdits::default()
    }
}

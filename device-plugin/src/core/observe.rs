//! Taking in what the node shows: pods that ended, devices that kubelet gave while this
//! program was away, and the Runtime's own book.

use std::collections::BTreeMap;

use kubernetes::convert::{Life, PodDevices};
use model::{
    annotation,
    ledger::Conflict,
    name::{ContainerName, PodRef, PodUid},
    plan::Grant,
    request::{ContainerRequest, Role},
};
use runtime_proto::client::Allocation;

use super::{Core, same};
use crate::{
    book::{self, Given, PodEntry, RuntimeState},
    checkpoint::Checkpoint,
    grants,
    identity::view_of,
    view::{Look, PodSource, PodView},
};

/// A pod that stays in kubelet's pods while PodResources leaves it out has no containers left
/// (kubelet knows it terminated, or rejected it). One such look may have fallen between the
/// two lists of a kubelet that was just starting; two in a row may not.
const MISSES: u8 = 2;

/// What a look or the Runtime's book has changed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Observed {
    /// Pods that have ended, and so hold nothing any more.
    pub ended: Vec<PodRef>,
    /// Pods that hold something and are in no list: gone, if the API server says so too.
    pub suspects: Vec<PodUid>,
    /// Containers whose devices became known other than by an answer of ours.
    pub adopted: Vec<(PodRef, ContainerName)>,
    /// What running pods hold beyond a card.
    pub conflicts: Vec<(PodRef, Conflict)>,
    /// What could not be read.
    pub malformed: Vec<Malformed>,
}

/// Something of a pod that could not be read.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Malformed {
    /// Which pod.
    pub pod: PodRef,
    /// What, and why.
    pub why: String,
}

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
    /// Takes in a look. An older one than the last says nothing.
    pub fn observe(&mut self, look: &Look, checkpoint: Option<&Checkpoint>) -> Observed {
        let mut observed = Observed::default();
        if look.ticket <= self.observed {
            return observed;
        }
        self.observed = look.ticket;
        self.find_ended(look, &mut observed);
        let mut devices: BTreeMap<&PodUid, &PodDevices> = BTreeMap::new();
        for listed in look.listed.iter().flatten() {
            if let Some(view) = view_of(listed, &look.pods, self) {
                devices.insert(&view.uid, listed);
            }
        }
        for view in look.pods.iter().filter(|v| v.is_live() && v.asks()) {
            let recorded = checkpoint.and_then(|c| c.pods.get(&view.uid));
            self.adopt(
                view,
                devices.get(&view.uid).copied(),
                recorded,
                look,
                &mut observed,
            );
        }
        observed
    }

    fn find_ended(&mut self, look: &Look, observed: &mut Observed) {
        let views: BTreeMap<&PodUid, &PodView> = look.pods.iter().map(|v| (&v.uid, v)).collect();
        let mut ended = Vec::new();
        let mut understood = Vec::new();
        for (uid, entry) in &mut self.book {
            let newer = entry.since >= look.ticket;
            let Some(view) = views.get(uid) else {
                if !newer {
                    observed.suspects.push(uid.clone());
                }
                continue;
            };
            if view.life == Life::Ended {
                ended.push(uid.clone());
                continue;
            }
            if entry.request.is_none()
                && let Ok(request) = &view.request
            {
                entry.request = Some(request.clone());
                understood.push(uid.clone());
            }
            let missed = look.source == PodSource::Kubelet
                && look
                    .listed
                    .as_ref()
                    .is_some_and(|l| l.iter().all(|d| d.pod != entry.pod));
            entry.missed = if missed && !newer {
                entry.missed.saturating_add(1)
            } else {
                0
            };
            if entry.missed >= MISSES {
                ended.push(uid.clone());
            }
        }
        for uid in ended {
            observed.ended.extend(self.end(&uid));
        }
        // With its request it is known which of its containers run one after the other.
        for uid in understood {
            let conflict = self.enter_truth(&uid);
            let pod = self.book.get(&uid).map(|e| e.pod.clone());
            observed.conflicts.extend(pod.zip(conflict));
        }
    }

    /// Enters what kubelet shows of this pod where the book does not have it so.
    fn adopt(
        &mut self,
        view: &PodView,
        listed: Option<&PodDevices>,
        recorded: Option<&BTreeMap<String, BTreeMap<String, Vec<String>>>>,
        look: &Look,
        observed: &mut Observed,
    ) {
        let mut shown: Vec<(String, BTreeMap<String, Vec<String>>)> = Vec::new();
        for (name, devices) in recorded.into_iter().flatten() {
            shown.push((name.clone(), devices.clone()));
        }
        for container in listed.into_iter().flat_map(|d| &d.containers) {
            if !container.devices.is_empty() {
                shown.retain(|(name, _)| *name != container.name);
                shown.push((container.name.clone(), container.devices.clone()));
            }
        }
        let mut changed = Vec::new();
        for (name, devices) in shown {
            let Ok(name) = ContainerName::new(&name) else {
                continue;
            };
            match self.true_of(view, &name, devices) {
                Ok(Some(given)) => changed.push((name, given)),
                Ok(None) => {}
                Err(why) => observed.malformed.push(Malformed {
                    pod: view.pod.clone(),
                    why,
                }),
            }
        }
        self.adopt_written(view, listed, look, &mut changed, observed);
        if changed.is_empty() {
            return;
        }
        let entry = self
            .book
            .entry(view.uid.clone())
            .or_insert_with(|| PodEntry::new(view.pod.clone(), None, look.ticket));
        if let Ok(request) = &view.request {
            entry.request = Some(request.clone());
        }
        for (name, given) in changed {
            observed.adopted.push((view.pod.clone(), name.clone()));
            entry.containers.insert(name, given);
        }
        if let Some(conflict) = self.enter_truth(&view.uid) {
            observed.conflicts.push((view.pod.clone(), conflict));
        }
    }

    /// What those devices are, unless the book has it so already.
    fn true_of(
        &self,
        view: &PodView,
        name: &ContainerName,
        mut devices: BTreeMap<String, Vec<String>>,
    ) -> Result<Option<Given>, String> {
        devices.retain(|resource, _| self.settings.resource(resource).is_some());
        if devices.is_empty() {
            return Ok(None);
        }
        let before = self
            .book
            .get(&view.uid)
            .and_then(|e| e.containers.get(name));
        if let Some(before) = before
            && devices
                .iter()
                .all(|(r, ids)| before.devices.get(r) == Some(ids))
        {
            return Ok(None);
        }
        let mut all = Vec::new();
        let mut setting = None;
        for (resource, ids) in &devices {
            let one = self.settings.resource(resource);
            if let Some(one) = one {
                let parsed = grants::parse(one, ids);
                all.extend(parsed.map_err(|e| format!("container {name}: {e}"))?);
            }
            setting = setting.or(one);
        }
        let cards = grants::by_card(&all);
        let asked = view
            .request
            .as_ref()
            .ok()
            .and_then(|r| r.containers.iter().find(|c| c.name == *name));
        let inventory = self.ledger.inventory();
        let known = asked.zip(setting).and_then(|(asked, setting)| {
            let planned = before.map(|b| b.grants.as_slice());
            grants::of_cards(asked, setting, &cards, planned, &self.settings, inventory).ok()
        });
        let grants = known.unwrap_or_else(|| grants::of_ids(&all, &self.settings, inventory));
        Ok(Some(match before {
            Some(before) if same(&before.grants, &grants) => {
                let mut given = before.clone();
                given.devices.extend(devices);
                given
            }
            before => Given {
                devices,
                grants,
                edits: None,
                runtime: if before.is_some() {
                    RuntimeState::Differs
                } else {
                    RuntimeState::Missing
                },
            },
        }))
    }

    /// Containers whose devices no list shows (plain init containers, or any container where
    /// PodResources is not there): what an annotation says of them, once the pod is past them.
    fn adopt_written(
        &self,
        view: &PodView,
        listed: Option<&PodDevices>,
        look: &Look,
        changed: &mut Vec<(ContainerName, Given)>,
        observed: &mut Observed,
    ) {
        let Ok(request) = &view.request else {
            return;
        };
        let entry = self.book.get(&view.uid);
        let known = |c: &ContainerRequest, changed: &[(ContainerName, Given)]| {
            changed.iter().any(|(name, _)| *name == c.name)
                || entry.is_some_and(|e| e.containers.contains_key(&c.name))
        };
        let last = request
            .containers
            .iter()
            .rposition(|c| !c.amounts.is_empty() && known(c, changed));
        let hidden = |c: &ContainerRequest| {
            look.listed.is_none() || c.role == Role::Init && listed.is_some()
        };
        let unknown: Vec<&ContainerRequest> = request
            .containers
            .iter()
            .enumerate()
            .filter(|(i, c)| {
                let past = view.started || last.is_some_and(|last| *i < last);
                !c.amounts.is_empty() && past && hidden(c) && !known(c, changed)
            })
            .map(|(_, c)| c)
            .collect();
        // A pod that started without devices has nothing in its init containers either.
        if unknown.is_empty() || (look.listed.is_some() && last.is_none() && !only_init(request)) {
            return;
        }
        let plan = [
            (&self.settings.annotations.allocated, &view.allocated),
            (&self.settings.annotations.assigned, &view.assigned),
        ]
        .into_iter()
        .find_map(|(key, text)| {
            let text = text.as_ref()?;
            match annotation::read_plan(text) {
                Ok(plan) => Some(plan),
                Err(why) => {
                    observed.malformed.push(Malformed {
                        pod: view.pod.clone(),
                        why: format!("annotation {key}: {why}"),
                    });
                    None
                }
            }
        });
        for container in unknown {
            let grants: Vec<Grant> = plan
                .as_ref()
                .and_then(|p| p.of(container.name.as_str()))
                .unwrap_or_default()
                .to_vec();
            if !grants.is_empty() {
                changed.push((
                    container.name.clone(),
                    Given {
                        grants,
                        ..Given::default()
                    },
                ));
            }
        }
    }

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
            if self.releases.contains_key(&id) {
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

    /// The pods whose devices are complete and not yet written on them as this look shows.
    pub fn annotations(&self, look: &Look) -> Vec<Annotate> {
        let listed = |pod: &PodRef| {
            look.listed
                .as_ref()
                .is_none_or(|l| l.iter().any(|d| d.pod == *pod))
        };
        look.pods
            .iter()
            .filter(|v| v.is_live() && listed(&v.pod))
            .filter_map(|view| {
                let entry = self.book.get(&view.uid)?;
                if entry.since >= look.ticket || !entry.is_complete() {
                    return None;
                }
                let text = annotation::write_plan(&entry.truth());
                let there = [&view.allocated, &entry.written];
                (!there.contains(&&Some(text.clone()))).then(|| Annotate {
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
        }
    }
}

fn only_init(request: &model::request::PodRequest) -> bool {
    request
        .containers
        .iter()
        .filter(|c| !c.amounts.is_empty())
        .all(|c| c.role == Role::Init)
}

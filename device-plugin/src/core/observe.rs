//! Taking in what the node shows: pods that ended, and devices that kubelet gave while this
//! program was away.

use std::collections::{BTreeMap, BTreeSet};

use kubernetes::convert::{Life, PodDevices};
use model::{
    annotation,
    ledger::Conflict,
    name::{ContainerName, PodRef, PodUid},
    plan::Grant,
    request::{ContainerRequest, Role},
};

use super::{Core, same};
use crate::{
    book::{Given, PodEntry, RuntimeState},
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
    /// Whether any pod that holds something may be about to end.
    pub leaving: bool,
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

impl Core {
    /// Takes in a look. An older one than the last says nothing.
    pub fn observe(&mut self, look: &Look, checkpoint: Option<&Checkpoint>) -> Observed {
        let mut observed = Observed::default();
        if look.ticket <= self.observed {
            return observed;
        }
        self.observed = look.ticket;
        let mut touched = BTreeSet::new();
        self.find_ended(look, &mut touched, &mut observed);
        let mut devices: BTreeMap<&PodUid, &PodDevices> = BTreeMap::new();
        for listed in look.listed.iter().flatten() {
            if let Some(view) = view_of(listed, &look.pods, self) {
                devices.insert(&view.uid, listed);
            }
        }
        for view in look.pods.iter().filter(|v| v.is_live() && v.asks()) {
            if self.is_from_before_the_end(&view.uid, look.ticket) {
                continue;
            }
            let shown = devices.get(&view.uid).map(|d| &d.containers);
            if shown.is_some_and(|all| all.iter().any(|c| !c.devices.is_empty())) {
                self.ended.retain(|(uid, _)| *uid != view.uid);
            }
            let recorded = checkpoint.and_then(|c| c.pods.get(&view.uid));
            self.adopt(
                view,
                devices.get(&view.uid).copied(),
                recorded,
                look,
                &mut touched,
                &mut observed,
            );
        }
        // Only once all are entered is it true what is too much.
        for uid in &touched {
            let conflict = self.enter_truth(uid);
            let pod = self.book.get(uid).map(|e| e.pod.clone());
            observed.conflicts.extend(pod.zip(conflict));
        }
        observed
    }

    fn find_ended(&mut self, look: &Look, touched: &mut BTreeSet<PodUid>, observed: &mut Observed) {
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
                && !look.beyond.contains(uid)
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
        observed.leaving = !observed.suspects.is_empty()
            || self.book.iter().any(|(uid, entry)| {
                let terminating = views.get(uid).is_some_and(|v| v.life != Life::Holds);
                terminating || entry.missed > 0
            });
        for uid in ended {
            observed.ended.extend(self.end(&uid));
        }
        // With its request it is known which of its containers run one after the other.
        for uid in understood {
            self.enter_truth(&uid);
            touched.insert(uid);
        }
    }

    /// Enters what kubelet shows of this pod where the book does not have it so.
    fn adopt(
        &mut self,
        view: &PodView,
        listed: Option<&PodDevices>,
        recorded: Option<&BTreeMap<String, BTreeMap<String, Vec<String>>>>,
        look: &Look,
        touched: &mut BTreeSet<PodUid>,
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
            let before = entry.containers.get(&name);
            if before.is_none_or(|b| !same(&b.grants, &given.grants)) {
                observed.adopted.push((view.pod.clone(), name.clone()));
            }
            entry.containers.insert(name, given);
        }
        self.enter_truth(&view.uid);
        touched.insert(view.uid.clone());
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
        for (resource, ids) in &devices {
            if let Some(setting) = self.settings.resource(resource) {
                let parsed = grants::parse(&setting, ids);
                let parsed = parsed.map_err(|e| format!("container {name}: {e}"))?;
                all.push((setting, parsed));
            }
        }
        let cards = grants::by_card(all.iter().flat_map(|(_, ids)| ids));
        let asked = view
            .request
            .as_ref()
            .ok()
            .and_then(|r| r.containers.iter().find(|c| c.name == *name));
        let inventory = self.ledger.inventory();
        let known = asked.zip(all.first()).and_then(|(asked, (setting, _))| {
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
        // Its object and what is written on it are still there for a while.
        if self.has_ended(&view.uid) {
            return;
        }
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
            look.listed.is_none()
                || look.beyond.contains(&view.uid)
                || c.role == Role::Init && listed.is_some()
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
        let lists_tell = look.listed.is_some() && !look.beyond.contains(&view.uid);
        if unknown.is_empty() || (lists_tell && last.is_none() && !only_init(request)) {
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
}

fn only_init(request: &model::request::PodRequest) -> bool {
    request
        .containers
        .iter()
        .filter(|c| !c.amounts.is_empty())
        .all(|c| c.role == Role::Init)
}

#[cfg(test)]
#[path = "observe_tests.rs"]
mod tests;

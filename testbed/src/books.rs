//! Do the books of one node agree? kubelet's, the device plugin's (what it wrote on the pods),
//! the Runtime's and the ledger's arithmetic.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
    time::Duration,
};

use anyhow::Context;
use kube::{Api, api::ListParams};
use kubernetes::{
    convert::{Life, PodDevices, PodInfo, pod},
    object::Pod,
    pod_resources::PodResources,
};
use model::{
    annotation::read_plan,
    card::Card,
    device_id::{DeviceId, DeviceKind},
    ledger::Ledger,
    name::{CardId, PodRef},
    phase::peak,
    plan::{Grant, Plan},
    quantity::MemoryBytes,
    settings::Settings,
};
use runtime_proto::{Client, Sockets, client::Allocation};

use crate::stage::{Deadline, until};

/// Where the books of one node are read.
#[derive(Clone)]
pub struct Sources {
    /// A client of the API server.
    pub client: kube::Client,
    /// The node's name.
    pub node: String,
    /// kubelet's PodResources socket.
    pub pod_resources: PathBuf,
    /// Folder of the Runtime's sockets.
    pub runtime: PathBuf,
}

/// One node's books at one moment.
#[derive(Debug)]
pub struct Books {
    pods: Vec<(PodInfo, Plan)>,
    kubelet: Vec<PodDevices>,
    runtime: Vec<Allocation>,
    ledger: Ledger,
    faults: Vec<String>,
    /// Those of the faults that are promises beyond a card.
    beyond: Vec<String>,
}

/// Who has which devices of one card, by kubelet's book.
#[derive(Default)]
struct CardIds<'a> {
    whole: BTreeSet<&'a PodRef>,
    shared: BTreeSet<&'a PodRef>,
    cut: BTreeSet<&'a PodRef>,
    slices: u64,
    partitions: BTreeMap<&'a str, u32>,
}

impl<'a> CardIds<'a> {
    fn add(&mut self, pod: &'a PodRef, resource: &'a str, id: &DeviceId) {
        match id.kind {
            DeviceKind::Card => &mut self.whole,
            DeviceKind::Core | DeviceKind::Memory => &mut self.shared,
            DeviceKind::Slice => {
                self.slices += 1;
                &mut self.cut
            }
            DeviceKind::Partition => {
                *self.partitions.entry(resource).or_default() += 1;
                &mut self.cut
            }
        }
        .insert(pod);
    }

    fn faults(&self, card: &Card) -> Option<String> {
        let modes = [&self.whole, &self.shared, &self.cut];
        let mixed = modes.iter().filter(|pods| !pods.is_empty()).count() > 1;
        // The profile stands at the end of the resource's name.
        let slices_of = |resource: &str| {
            let mut known = card.profiles.iter();
            let profile = known.find(|p| resource.ends_with(&format!("-{}", p.name)));
            profile.map_or(0, |p| u64::from(p.slices))
        };
        let parts = self.partitions.iter();
        let parts = parts.map(|(resource, count)| slices_of(resource) * u64::from(*count));
        let slices = self.slices + parts.sum::<u64>();
        (mixed || self.whole.len() > 1 || slices > card.slices()).then(|| {
            format!(
                "kubelet gave {} whole to {:?}, shared to {:?}, cut to {:?} ({slices} slices)",
                card.id, self.whole, self.shared, self.cut
            )
        })
    }
}

impl Books {
    /// Reads all books of a node.
    pub async fn read(from: &Sources, settings: &Settings) -> anyhow::Result<Self> {
        let api: Api<Pod> = Api::all(from.client.clone());
        let on_node = ListParams::default().fields(&format!("spec.nodeName={}", from.node));
        let objects = api.list(&on_node).await.context("pods of the node")?;
        let kubelet = PodResources::new(from.pod_resources.clone())
            .list(Duration::from_secs(2))
            .await?;
        let runtime = Client::new(Sockets::in_folder(&from.runtime));
        let (cards, runtime) = runtime.book().await?;
        let mut books = Self {
            pods: Vec::new(),
            kubelet,
            runtime,
            ledger: Ledger::new(cards.inventory),
            faults: Vec::new(),
            beyond: Vec::new(),
        };
        for object in &objects {
            books.enter(object, settings);
        }
        Ok(books)
    }

    /// Everything that does not agree, one line each; nothing when all books are the same.
    pub fn disagreements(&self) -> Vec<String> {
        let mut faults = self.faults.clone();
        self.compare_runtime(&mut faults);
        self.compare_kubelet(&mut faults);
        faults
    }

    /// What no book may say at any moment, one line each: a card promised beyond its size or in two
    /// modes, or a pod with another card than is written on it. Unlike [`Self::disagreements`] it says
    /// nothing of what is only on its way from one book to another; yet a pod that has just ended may
    /// still stand in one of them, so that a line counts once it stays.
    pub fn wrong_at_any_moment(&self) -> Vec<String> {
        let mut faults = self.beyond.clone();
        let mut cards: BTreeMap<&CardId, CardIds<'_>> = BTreeMap::new();
        let mut parsed = Vec::new();
        for pod in &self.kubelet {
            for (resource, id) in pod.containers.iter().flat_map(|c| {
                let all = c.devices.iter();
                all.flat_map(|(resource, ids)| ids.iter().map(move |id| (resource, id)))
            }) {
                if let Ok(id) = id.parse::<DeviceId>() {
                    parsed.push((&pod.pod, resource, id));
                }
            }
        }
        for (pod, resource, id) in &parsed {
            cards.entry(&id.card).or_default().add(pod, resource, id);
            let ours = self.pods.iter().find(|(info, _)| info.pod == **pod);
            let elsewhere =
                ours.is_some_and(|(_, plan)| cards_of(plan).all(|card| *card != id.card));
            if elsewhere {
                faults.push(format!(
                    "{pod}: kubelet gave {}, the pod says otherwise",
                    id.card
                ));
            }
        }
        for (card, ids) in cards {
            if let Some(card) = self.ledger.inventory().get(card) {
                faults.extend(ids.faults(card));
            }
        }
        for allocation in &self.runtime {
            let consumer = &allocation.consumer;
            let mut ours = self
                .pods
                .iter()
                .filter(|(info, _)| info.uid == consumer.uid);
            let says = ours.find_map(|(_, plan)| plan.of(consumer.container.as_str()));
            if says.is_some_and(|says| says != allocation.grants) {
                faults.push(format!(
                    "{}/{}: the Runtime granted {:?}, the pod says {says:?}",
                    consumer.pod, consumer.container, allocation.grants
                ));
            }
        }
        faults.sort();
        faults.dedup();
        faults
    }

    /// What each pod was given, by name: to compare with a later moment.
    pub fn given(&self) -> BTreeMap<PodRef, Plan> {
        self.pods
            .iter()
            .map(|(info, plan)| (info.pod.clone(), plan.clone()))
            .collect()
    }

    /// Memory that all pods of the node hold together, as the ledger counts it.
    pub fn memory_held(&self) -> MemoryBytes {
        let held = self
            .ledger
            .cards()
            .map(|c| c.card.memory.saturating_sub(c.free_memory));
        held.fold(MemoryBytes::ZERO, MemoryBytes::saturating_add)
    }

    /// Whether nobody holds anything in any book.
    pub fn are_empty(&self) -> bool {
        self.pods.is_empty() && self.runtime.is_empty() && self.faults.is_empty()
    }

    fn enter(&mut self, object: &Pod, settings: &Settings) {
        let name = object.metadata.name.clone().unwrap_or_default();
        let info = match pod(object, settings) {
            Ok(info) => info,
            Err(error) => return self.faults.push(format!("pod {name}: {error}")),
        };
        if info.life == Life::Ended {
            return;
        }
        let request = match &info.request {
            Ok(request) if request.is_empty() => return,
            Ok(request) => request,
            Err(error) => return self.faults.push(format!("pod {name}: {error}")),
        };
        let text = object
            .metadata
            .annotations
            .as_ref()
            .and_then(|a| a.get(&settings.annotations.allocated));
        let plan = match text.map(|t| read_plan(t)) {
            Some(Ok(plan)) => plan,
            Some(Err(error)) => return self.faults.push(format!("pod {name}: allocated: {error}")),
            None => {
                return self
                    .faults
                    .push(format!("pod {name} does not say what it was given"));
            }
        };
        if let Err(conflict) = self.ledger.hold(&info.uid, peak(request, &plan)) {
            let on = |plan: &Plan| cards_of(plan).cloned().collect::<BTreeSet<CardId>>();
            let own = on(&plan);
            let others = self.pods.iter().filter(|(_, p)| !on(p).is_disjoint(&own));
            let others: Vec<&PodRef> = others.map(|(other, _)| &other.pod).collect();
            let fault =
                format!("pod {name} goes beyond a card: {conflict}, with {others:?} on its cards");
            self.beyond.push(fault.clone());
            self.faults.push(fault);
        }
        self.pods.push((info, plan));
    }

    fn compare_runtime(&self, faults: &mut Vec<String>) {
        let mut booked: BTreeMap<(String, String), &[Grant]> = BTreeMap::new();
        for allocation in &self.runtime {
            let who = (
                allocation.consumer.uid.to_string(),
                allocation.consumer.container.to_string(),
            );
            if booked.insert(who, &allocation.grants).is_some() {
                faults.push(format!("the Runtime has {} twice", allocation.id));
            }
        }
        for (info, plan) in &self.pods {
            for container in &plan.containers {
                let who = (info.uid.to_string(), container.container.to_string());
                match booked.remove(&who) {
                    Some(grants) if grants == container.grants.as_slice() => {}
                    Some(grants) => faults.push(format!(
                        "{}/{}: the Runtime granted {grants:?}, the pod says {:?}",
                        info.pod, container.container, container.grants
                    )),
                    None => faults.push(format!(
                        "{}/{}: not in the Runtime's book",
                        info.pod, container.container
                    )),
                }
            }
        }
        faults.extend(
            booked
                .keys()
                .map(|(uid, container)| format!("the Runtime still has {uid}/{container}")),
        );
    }

    fn compare_kubelet(&self, faults: &mut Vec<String>) {
        for pod in &self.kubelet {
            let ours = self.pods.iter().find(|(info, _)| info.pod == pod.pod);
            for container in &pod.containers {
                let mut cards: Vec<CardId> = Vec::new();
                for id in container.devices.values().flatten() {
                    match id.parse::<DeviceId>() {
                        Ok(id) => cards.push(id.card),
                        Err(error) => {
                            faults.push(format!("{}/{}: {error}", pod.pod, container.name));
                        }
                    }
                }
                cards.sort();
                cards.dedup();
                let granted = ours
                    .and_then(|(_, plan)| plan.of(&container.name))
                    .unwrap_or_default();
                let mut says: Vec<CardId> = granted.iter().map(|g| g.card.clone()).collect();
                says.sort();
                if cards != says {
                    faults.push(format!(
                        "{}/{}: kubelet gave {cards:?}, the pod says {says:?}",
                        pod.pod, container.name
                    ));
                }
            }
        }
    }
}

fn cards_of(plan: &Plan) -> impl Iterator<Item = &CardId> {
    let grants = plan.containers.iter().flat_map(|c| &c.grants);
    grants.map(|grant| &grant.card)
}

/// Waits until the books of the node agree.
pub async fn agree(
    from: &Sources,
    settings: &Settings,
    deadline: Deadline,
) -> anyhow::Result<Books> {
    until(
        &format!("the books of {} to agree", from.node),
        deadline,
        || async {
            let books = Books::read(from, settings)
                .await
                .map_err(|e| format!("{e:#}"))?;
            let faults = books.disagreements();
            if faults.is_empty() {
                Ok(books)
            } else {
                Err(faults.join("; "))
            }
        },
    )
    .await
}

/// Waits until nobody holds anything on the node, in any book.
pub async fn are_empty(
    from: &Sources,
    settings: &Settings,
    deadline: Deadline,
) -> anyhow::Result<()> {
    until(
        &format!("the books of {} to be empty", from.node),
        deadline,
        || async {
            let books = Books::read(from, settings)
                .await
                .map_err(|e| format!("{e:#}"))?;
            let faults = books.disagreements();
            if books.are_empty() && faults.is_empty() {
                Ok(())
            } else {
                Err(format!("{books:?}: {faults:?}"))
            }
        },
    )
    .await
}

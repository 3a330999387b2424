//! Plans meet a kubelet: it hands devices on as it likes, takes the preferred ones only where a
//! choice remains, and gives the resources of a container in any order.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::some;
use crate::{
    card::{Cut, Inventory},
    device_id::{DeviceId, DeviceKind, devices},
    hold::Hold,
    ledger::Ledger,
    name::{CardId, PodUid, ProfileName, ResourceName},
    phase,
    placement::place,
    plan::{ContainerGrants, Grant, GrantMode, Plan},
    request::{Ask, ContainerRequest, PodRequest, Role},
    settings::{Policy, Settings},
};

type Devices = BTreeMap<ResourceName, BTreeSet<DeviceId>>;

struct Kubelet {
    free: Devices,
    pods: BTreeMap<PodUid, Devices>,
    dice: u64,
}

impl Kubelet {
    fn new(inventory: &Inventory, dice: u64) -> Self {
        let settings = Settings::default();
        let all = settings.resources_of(inventory);
        let all = all.iter().map(|resource| {
            (
                resource.name.clone(),
                devices(inventory, resource).into_iter().collect(),
            )
        });
        Self {
            free: all.collect(),
            pods: BTreeMap::new(),
            dice,
        }
    }

    fn throw(&mut self) -> u64 {
        self.dice = self
            .dice
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        self.dice >> 33
    }

    fn shuffled<T>(&mut self, items: impl IntoIterator<Item = T>) -> Vec<T> {
        let mut items: Vec<(u64, T)> = items.into_iter().map(|item| (self.throw(), item)).collect();
        items.sort_by_key(|(throw, _)| *throw);
        items.into_iter().map(|(_, item)| item).collect()
    }

    /// Admits the pod; the plugin prefers what the plan says. What each container has.
    fn admit(&mut self, pod: &PodUid, request: &PodRequest, plan: &Plan) -> Vec<Devices> {
        let mut handed = Devices::new();
        let mut held = Devices::new();
        let mut containers = Vec::new();
        for container in &request.containers {
            let cards: BTreeSet<&CardId> = plan
                .of(container.name.as_str())
                .into_iter()
                .flatten()
                .map(|grant| &grant.card)
                .collect();
            let mut has = Devices::new();
            for amount in self.shuffled(&container.amounts) {
                let count = usize::try_from(amount.count).unwrap();
                let handed = handed.entry(amount.resource.clone()).or_default();
                let mut given: BTreeSet<DeviceId> = self
                    .shuffled(handed.clone())
                    .into_iter()
                    .take(count)
                    .collect();
                let free = self.free.get_mut(&amount.resource).unwrap();
                let preferred = free.iter().filter(|id| cards.contains(&id.card));
                given.extend(
                    preferred
                        .take(count - given.len())
                        .cloned()
                        .collect::<Vec<_>>(),
                );
                assert_eq!(
                    given.len(),
                    count,
                    "{} of {} find no room on {cards:?}",
                    amount.resource,
                    container.name
                );
                free.retain(|id| !given.contains(id));
                match container.role {
                    Role::Init => handed.extend(given.iter().cloned()),
                    Role::Sidecar | Role::App => handed.retain(|id| !given.contains(id)),
                }
                held.entry(amount.resource.clone())
                    .or_default()
                    .extend(given.iter().cloned());
                has.insert(amount.resource.clone(), given);
            }
            containers.push(has);
        }
        self.pods.insert(pod.clone(), held);
        containers
    }

    fn end(&mut self, pod: &PodUid) {
        for (resource, ids) in self.pods.remove(pod).into_iter().flatten() {
            self.free.get_mut(&resource).unwrap().extend(ids);
        }
    }
}

/// What a container really has, from its devices.
fn truth(container: &ContainerRequest, planned: &[Grant], has: &Devices) -> Vec<Grant> {
    let mut on: BTreeMap<&CardId, BTreeMap<DeviceKind, u64>> = BTreeMap::new();
    for id in has.values().flatten() {
        *on.entry(&id.card).or_default().entry(id.kind).or_default() += 1;
    }
    match &container.ask {
        Ask::Nothing => Vec::new(),
        Ask::Share { .. } | Ask::Partition { .. } => {
            let cards: Vec<&&CardId> = on.keys().collect();
            assert_eq!(
                cards,
                [&&planned[0].card],
                "a part lies where it was planned"
            );
            planned.to_vec()
        }
        Ask::Whole { count, .. } => {
            let made_up = |kinds: &&BTreeMap<DeviceKind, u64>| match kinds.get(&DeviceKind::Core) {
                Some(core) => *core == 100,
                None => kinds.get(&DeviceKind::Card) == Some(&1),
            };
            let cards: Vec<&CardId> = on
                .iter()
                .filter(|(_, k)| made_up(k))
                .map(|(card, _)| *card)
                .collect();
            assert_eq!(
                cards.len(),
                usize::try_from(*count).unwrap(),
                "whole cards are whole: {on:?}"
            );
            for (card, kinds) in &on {
                assert!(
                    cards.contains(card),
                    "{card} has {kinds:?} and is not the container's"
                );
            }
            let whole = |card: &CardId| Grant {
                card: card.clone(),
                mode: GrantMode::Whole,
            };
            cards.into_iter().map(whole).collect()
        }
    }
}

/// No device that kubelet withholds is missing in the ledger's hold.
fn covers(inventory: &Inventory, hold: &Hold, devices: &Devices) {
    let mut on: BTreeMap<(&CardId, &ResourceName), (DeviceKind, u64)> = BTreeMap::new();
    for (resource, ids) in devices {
        for id in ids {
            on.entry((&id.card, resource)).or_insert((id.kind, 0)).1 += 1;
        }
    }
    for ((card, resource), (kind, count)) in on {
        let hold = hold.get(card).unwrap();
        let slices = |name: &ProfileName| {
            let cut = Cut::Profile(name.clone());
            let profile = inventory.get(card).and_then(|card| card.profile_of(&cut));
            u64::from(profile.unwrap().slices)
        };
        let parts = hold.partitions.iter();
        let covered = match kind {
            DeviceKind::Card => hold.whole,
            DeviceKind::Core => hold.whole || u64::from(hold.core.percent()) >= count,
            DeviceKind::Memory => hold.whole || hold.memory.bytes() >> 30 >= count,
            DeviceKind::Slice => {
                parts
                    .map(|(name, n)| slices(name) * u64::from(*n))
                    .sum::<u64>()
                    >= count
            }
            DeviceKind::Partition => parts
                .filter(|(name, _)| resource.as_str().ends_with(&format!("-{name}")))
                .any(|(_, n)| u64::from(*n) >= count),
        };
        assert!(covered, "{card}: {count} of {resource}, {hold:?}");
    }
}

fn play(inventory: &Inventory, dice: u64, steps: Vec<(usize, Vec<some::Drawn>)>, policy: Policy) {
    let mut kubelet = Kubelet::new(inventory, dice);
    let mut ledger = Ledger::new(inventory.clone());
    for (n, (pod, asked)) in steps.into_iter().enumerate() {
        let pod = PodUid::new(&format!("pod-{pod}")).unwrap();
        ledger.remove(&pod);
        kubelet.end(&pod);
        let request = some::request(&asked);
        let request = request.by(policy);
        let Ok(plan) = place(&request, &ledger, &Settings::default()) else {
            continue;
        };
        let held = phase::peak(&request, &plan);
        ledger.hold(&pod, held.clone()).unwrap();
        let given = kubelet.admit(&pod, &request, &plan);
        let containers = request
            .containers
            .iter()
            .zip(&given)
            .filter_map(|(container, has)| {
                let planned = plan.of(container.name.as_str())?;
                Some(ContainerGrants {
                    container: container.name.clone(),
                    grants: truth(container, planned, has),
                })
            });
        let truth = Plan {
            containers: containers.collect(),
        };
        assert_eq!(phase::peak(&request, &truth), held, "step {n}");
        covers(inventory, &held, &kubelet.pods[&pod]);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]

    #[test]
    fn every_plan_is_one_that_kubelet_follows(
        inventory in some::inventory(),
        dice: u64,
        steps in prop::collection::vec((0_usize..4, some::pod()), 1..10),
        policy in some::policy(),
    ) {
        play(&inventory, dice, steps, policy);
    }
}

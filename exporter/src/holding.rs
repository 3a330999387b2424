//! Which container has what of which card, read from kubelet's device ids or the Runtime's book.

use std::collections::BTreeMap;

use kubernetes::convert::PodDevices;
use model::{
    card::{Cut, Inventory},
    device_id::{DeviceId, DeviceKind},
    name::{CardId, PodRef},
    plan::GrantMode,
    quantity::{CorePercent, MemoryBytes, MemoryUnit},
    settings::{Gives, ResourceSetting, Settings},
};
use runtime_proto::client::Allocation;

/// What a container has of one card.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Held {
    /// All of it.
    Whole,
    /// A part by time division; what is not named was not asked for.
    Share {
        /// Compute.
        core: Option<CorePercent>,
        /// Memory.
        memory: Option<MemoryBytes>,
    },
    /// So many partitions.
    Partition(Cut, u32),
}

/// One container on one card. The order is that of the series: card, pod, container.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Holding {
    /// Which card.
    pub card: CardId,
    /// Whose.
    pub pod: PodRef,
    /// Which of its containers.
    pub container: String,
    /// What of the card.
    pub held: Held,
}

/// What a container may use of a card, in numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Limits {
    /// Compute; none where none was reserved, or where it has no percentage.
    pub core: Option<CorePercent>,
    /// Memory; none where the card that would tell it is not known.
    pub memory: Option<MemoryBytes>,
}

impl Holding {
    /// The numbers behind it. Core without memory has the same percentage of the card's memory,
    /// rounded down to a unit.
    pub fn limits(&self, inventory: &Inventory, settings: &Settings) -> Limits {
        let card = inventory.get(&self.card);
        match &self.held {
            Held::Whole => Limits {
                core: Some(CorePercent::CARD),
                memory: card.map(|card| card.memory),
            },
            Held::Share { core, memory } => Limits {
                core: *core,
                memory: memory.or_else(|| {
                    let (card, core) = (card?, (*core)?);
                    let covers =
                        |r: &&ResourceSetting| r.gives == Gives::Memory && r.covers_kind(card.kind);
                    let unit = settings.resources.iter().find(covers);
                    let unit = unit.map_or(MemoryUnit::Gib, ResourceSetting::memory_unit);
                    Some(card.memory.percent_of(core, unit))
                }),
            },
            Held::Partition(cut, count) => Limits {
                core: None,
                memory: card
                    .and_then(|card| card.profile_of(cut))
                    .map(|p| MemoryBytes::new(p.memory.bytes().saturating_mul((*count).into()))),
            },
        }
    }
}

/// Reads kubelet's answer, sorted. The second part is what could not be read, one line each.
pub fn from_kubelet(pods: &[PodDevices], settings: &Settings) -> (Vec<Holding>, Vec<String>) {
    let mut holdings = Vec::new();
    let mut faults = Vec::new();
    for pod in pods {
        for container in &pod.containers {
            let mut of_card: BTreeMap<CardId, Held> = BTreeMap::new();
            for (resource, ids) in &container.devices {
                let Some(setting) = settings.resource(resource) else {
                    continue;
                };
                for id in ids {
                    match id.parse::<DeviceId>() {
                        Ok(id) => add(&mut of_card, &id, &setting),
                        Err(why) => faults.push(format!("{} {}: {why}", pod.pod, container.name)),
                    }
                }
            }
            holdings.extend(of_card.into_iter().map(|(card, held)| Holding {
                card,
                pod: pod.pod.clone(),
                container: container.name.clone(),
                held,
            }));
        }
    }
    sort(&mut holdings);
    (holdings, faults)
}

fn add(of_card: &mut BTreeMap<CardId, Held>, id: &DeviceId, setting: &ResourceSetting) {
    let held = of_card.entry(id.card.clone()).or_insert(Held::Share {
        core: None,
        memory: None,
    });
    match (id.kind, held) {
        (DeviceKind::Card, held) => *held = Held::Whole,
        (DeviceKind::Core, Held::Share { core, .. }) => {
            *core = Some(core.unwrap_or_default().saturating_add(CorePercent::new(1)));
        }
        (DeviceKind::Memory, Held::Share { memory, .. }) => {
            let one = MemoryBytes::new(setting.memory_unit().bytes());
            *memory = Some(memory.unwrap_or_default().saturating_add(one));
        }
        (DeviceKind::Slice, Held::Partition(Cut::Slices(slices), _)) => {
            *slices = slices.saturating_add(1);
        }
        (DeviceKind::Partition, Held::Partition(Cut::Profile(_), count)) => {
            *count = count.saturating_add(1);
        }
        (DeviceKind::Slice, held @ Held::Share { .. }) => {
            *held = Held::Partition(Cut::Slices(1), 1);
        }
        (DeviceKind::Partition, held @ Held::Share { .. }) => {
            if let Some(profile) = &setting.profile {
                *held = Held::Partition(Cut::Profile(profile.clone()), 1);
            }
        }
        // All of the card is more than any part of it.
        (_, Held::Whole | Held::Partition(..)) => {}
    }
}

/// Reads the Runtime's book, sorted: for when kubelet does not answer.
pub fn from_book(book: &[Allocation]) -> Vec<Holding> {
    let grants = book.iter().flat_map(|allocation| {
        allocation.grants.iter().map(move |grant| Holding {
            card: grant.card.clone(),
            pod: allocation.consumer.pod.clone(),
            container: allocation.consumer.container.as_str().to_owned(),
            held: match &grant.mode {
                GrantMode::Whole => Held::Whole,
                GrantMode::Share { core, memory } => Held::Share {
                    core: Some(*core).filter(|core| *core != CorePercent::ZERO),
                    memory: Some(*memory),
                },
                GrantMode::Partition { profile, count } => {
                    Held::Partition(Cut::Profile(profile.clone()), *count)
                }
            },
        })
    });
    let mut holdings = grants.collect();
    sort(&mut holdings);
    holdings
}

/// One entry a card and container, so that no series can be there twice.
fn sort(holdings: &mut Vec<Holding>) {
    holdings.sort_unstable();
    holdings.dedup_by(|a, b| a.card == b.card && a.pod == b.pod && a.container == b.container);
}

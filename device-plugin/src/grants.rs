//! Between device ids and grants: what a container's request means on given cards, and which
//! ids of each card kubelet must then give.

use std::{borrow::Cow, collections::BTreeMap};

use model::{
    card::{Cut, Inventory},
    device_id::{BadDeviceId, DeviceId, DeviceKind, count_on},
    name::{CardId, ProfileName, ResourceName},
    plan::{Grant, GrantMode},
    quantity::{CorePercent, MemoryBytes, MemoryUnit},
    request::{Ask, ContainerRequest},
    settings::{Gives, ResourceSetting, Settings},
};

/// Why device ids can't be a container's grants.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadDevices {
    /// An id of another form.
    #[error(transparent)]
    Id(#[from] BadDeviceId),
    /// An id of another resource.
    #[error("{id} is not a device of {resource}")]
    Kind {
        /// Which id.
        id: DeviceId,
        /// The resource that was called.
        resource: ResourceName,
    },
    /// A share, or partitions, over more than one card.
    #[error("a share or partitions must be on one card, the devices of {resource} are on {cards}")]
    TwoCards {
        /// Which resource.
        resource: ResourceName,
        /// The cards' ids.
        cards: String,
    },
    /// Whole cards of which only parts are given.
    #[error("{asked} whole cards were asked, the devices of {resource} are on {given} cards")]
    CardCount {
        /// Which resource.
        resource: ResourceName,
        /// How many cards were asked.
        asked: u32,
        /// How many cards the ids name.
        given: usize,
    },
    /// Not the number of devices that the card must give.
    #[error("card {card} must give {wanted} of {resource}, the devices are {given}")]
    Amount {
        /// Which card.
        card: CardId,
        /// Which resource.
        resource: ResourceName,
        /// What the grant needs of it.
        wanted: u64,
        /// What the ids are.
        given: u64,
    },
    /// The card can't be cut that way.
    #[error("card {card} has no partition {cut}")]
    NoPartition {
        /// Which card.
        card: CardId,
        /// What was asked.
        cut: Cut,
    },
    /// The container asks for no card at all.
    #[error("the container asks for no card")]
    AsksNothing,
}

/// The unit in which that card's memory is asked.
pub fn unit_of(settings: &Settings, inventory: &Inventory, card: &CardId) -> MemoryUnit {
    let kind = inventory.get(card).map(|c| c.kind);
    settings
        .resources
        .iter()
        .find(|r| r.gives == Gives::Memory && kind.is_none_or(|k| r.covers_kind(k)))
        .map_or(MemoryUnit::Gib, ResourceSetting::memory_unit)
}

/// Reads the ids of one call.
pub fn parse(setting: &ResourceSetting, ids: &[String]) -> Result<Vec<DeviceId>, BadDevices> {
    let kind = DeviceKind::of(setting.gives);
    let mut parsed = Vec::with_capacity(ids.len());
    for id in ids {
        let id: DeviceId = id.parse()?;
        if id.kind != kind {
            return Err(BadDevices::Kind {
                id,
                resource: setting.name.clone(),
            });
        }
        parsed.push(id);
    }
    parsed.sort_unstable();
    Ok(parsed)
}

/// How many of the ids are on each card.
pub fn by_card<'a>(ids: impl IntoIterator<Item = &'a DeviceId>) -> BTreeMap<CardId, u64> {
    let mut cards = BTreeMap::new();
    for id in ids {
        *cards.entry(id.card.clone()).or_insert(0) += 1;
    }
    cards
}

/// What the container has when it is served by these cards.
///
/// Whole cards asked by core percent with memory beside them may be called for their memory
/// first, which need not name all of the cards: `planned` tells them then.
pub fn of_cards(
    request: &ContainerRequest,
    setting: &ResourceSetting,
    cards: &BTreeMap<CardId, u64>,
    planned: Option<&[Grant]>,
    settings: &Settings,
    inventory: &Inventory,
) -> Result<Vec<Grant>, BadDevices> {
    let resource = &setting.name;
    match &request.ask {
        Ask::Nothing => Err(BadDevices::AsksNothing),
        Ask::Share { core, memory } => {
            let card = the_card(resource, cards)?;
            Ok(vec![Grant {
                card: card.clone(),
                mode: share(*core, *memory, card, settings, inventory),
            }])
        }
        Ask::Partition { cut, count } => {
            let card = the_card(resource, cards)?;
            Ok(vec![Grant {
                card: card.clone(),
                mode: partition(cut, *count, card, inventory)?,
            }])
        }
        Ask::Whole { count, .. } => {
            let asked = usize::try_from(*count).unwrap_or(usize::MAX);
            let mut whole: Vec<CardId> = cards.keys().cloned().collect();
            if setting.gives == Gives::Memory && whole.len() < asked {
                let more = planned.unwrap_or_default().iter().map(|g| g.card.clone());
                whole.extend(more);
                whole.sort_unstable();
                whole.dedup();
            }
            if whole.len() != asked {
                return Err(BadDevices::CardCount {
                    resource: resource.clone(),
                    asked: *count,
                    given: cards.len(),
                });
            }
            Ok(whole
                .into_iter()
                .map(|card| Grant {
                    card,
                    mode: GrantMode::Whole,
                })
                .collect())
        }
    }
}

/// The only card.
fn the_card<'c>(
    resource: &ResourceName,
    cards: &'c BTreeMap<CardId, u64>,
) -> Result<&'c CardId, BadDevices> {
    let mut named = cards.keys();
    if let (Some(card), None) = (named.next(), named.next()) {
        return Ok(card);
    }
    let cards: Vec<&str> = cards.keys().map(CardId::as_str).collect();
    Err(BadDevices::TwoCards {
        resource: resource.clone(),
        cards: cards.join(", "),
    })
}

fn partition(
    cut: &Cut,
    count: u32,
    card: &CardId,
    inventory: &Inventory,
) -> Result<GrantMode, BadDevices> {
    let known = inventory.get(card).and_then(|card| card.profile_of(cut));
    let profile = known.ok_or_else(|| BadDevices::NoPartition {
        card: card.clone(),
        cut: cut.clone(),
    })?;
    Ok(GrantMode::Partition {
        profile: profile.name.clone(),
        count,
    })
}

/// The share that a request means on that card: core without memory takes the same part of the
/// card's memory.
fn share(
    core: Option<CorePercent>,
    memory: Option<MemoryBytes>,
    card: &CardId,
    settings: &Settings,
    inventory: &Inventory,
) -> GrantMode {
    let core = core.unwrap_or(CorePercent::ZERO);
    let memory = memory.unwrap_or_else(|| {
        inventory.get(card).map_or(MemoryBytes::ZERO, |c| {
            c.memory
                .percent_of(core, unit_of(settings, inventory, card))
        })
    });
    GrantMode::Share { core, memory }
}

/// How many devices of the resource a card has.
pub fn on_card(setting: &ResourceSetting, inventory: &Inventory, card: &CardId) -> u64 {
    inventory
        .get(card)
        .map_or(0, |card| count_on(card, setting))
}

/// How many devices of the resource each card of the grants must give, in the grants' order.
/// `count` is what the container asks of the resource.
pub fn wanted(
    grants: &[Grant],
    setting: &ResourceSetting,
    count: u64,
    inventory: &Inventory,
) -> Vec<(CardId, u64)> {
    let mut left = count;
    grants
        .iter()
        .map(|grant| {
            let most = match &grant.mode {
                GrantMode::Whole => on_card(setting, inventory, &grant.card),
                GrantMode::Share { .. } | GrantMode::Partition { .. } => left,
            };
            let here = most.min(left);
            left -= here;
            (grant.card.clone(), here)
        })
        .filter(|(_, n)| *n > 0)
        .collect()
}

/// Checks that the ids are what the grants need of their cards. Memory beside whole cards may
/// lie on them in any way: they are the container's alone.
pub fn agree(
    grants: &[Grant],
    setting: &ResourceSetting,
    count: u64,
    cards: &BTreeMap<CardId, u64>,
    inventory: &Inventory,
) -> Result<(), BadDevices> {
    let whole = grants.iter().any(|g| g.mode == GrantMode::Whole);
    let mut wanted: BTreeMap<CardId, u64> = wanted(grants, setting, count, inventory)
        .into_iter()
        .collect();
    if whole && setting.gives == Gives::Memory {
        wanted = grants
            .iter()
            .map(|g| (g.card.clone(), cards.get(&g.card).copied().unwrap_or(0)))
            .collect();
    }
    let all: std::collections::BTreeSet<&CardId> = wanted.keys().chain(cards.keys()).collect();
    for card in all {
        let need = wanted.get(card).copied().unwrap_or(0);
        let have = cards.get(card).copied().unwrap_or(0);
        if need != have {
            return Err(BadDevices::Amount {
                card: card.clone(),
                resource: setting.name.clone(),
                wanted: need,
                given: have,
            });
        }
    }
    Ok(())
}

/// What device ids alone say, for a running pod whose request can't be read: each resource's
/// ids count for themselves.
pub fn of_ids(
    devices: &[(Cow<'_, ResourceSetting>, Vec<DeviceId>)],
    settings: &Settings,
    inventory: &Inventory,
) -> Vec<Grant> {
    let mut cards: BTreeMap<&CardId, OnCard<'_>> = BTreeMap::new();
    for (setting, ids) in devices {
        for id in ids {
            cards.entry(&id.card).or_default().add(setting, id);
        }
    }
    let grants = cards.into_iter().map(|(card, on_card)| Grant {
        card: card.clone(),
        mode: on_card.mode(card, settings, inventory),
    });
    grants.collect()
}

/// How many devices of each kind.
#[derive(Default)]
struct OnCard<'a> {
    whole: bool,
    core: u32,
    memory: u64,
    slices: u32,
    partitions: Option<(&'a ProfileName, u32)>,
}

impl<'a> OnCard<'a> {
    fn add(&mut self, setting: &'a ResourceSetting, id: &DeviceId) {
        match id.kind {
            DeviceKind::Card => self.whole = true,
            DeviceKind::Core => self.core = self.core.saturating_add(1),
            DeviceKind::Memory => self.memory = self.memory.saturating_add(1),
            DeviceKind::Slice => self.slices = self.slices.saturating_add(1),
            DeviceKind::Partition => {
                let count = self.partitions.map_or(0, |(_, count)| count);
                let profile = setting.profile.as_ref();
                self.partitions = profile.map(|profile| (profile, count.saturating_add(1)));
            }
        }
    }

    fn mode(self, card: &CardId, settings: &Settings, inventory: &Inventory) -> GrantMode {
        let cut = Cut::Slices(self.slices);
        match self {
            Self { whole: true, .. } => GrantMode::Whole,
            Self {
                partitions: Some((profile, count)),
                ..
            } => GrantMode::Partition {
                profile: profile.clone(),
                count,
            },
            // A card that lost the profile is given out to nobody else.
            Self { slices: 1.., .. } => {
                partition(&cut, 1, card, inventory).unwrap_or(GrantMode::Whole)
            }
            Self { core, memory, .. } => GrantMode::Share {
                core: CorePercent::new(core),
                memory: unit_of(settings, inventory, card)
                    .times(memory)
                    .unwrap_or(MemoryBytes::ZERO),
            },
        }
    }
}

#[cfg(test)]
#[path = "grants_tests.rs"]
mod tests;

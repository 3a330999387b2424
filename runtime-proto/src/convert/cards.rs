//! Cards, kinds and the feature.

use std::collections::BTreeSet;

use model::{
    card::{Card, CardKind, Health, Inventory, Link, PartitionProfile},
    name::{CardId, ProfileName},
    quantity::MemoryBytes,
};

use super::{Malformed, at_most, text};
use crate::{
    client::{Cards, OperationStatus, Phase, Supported},
    wire,
};

/// More cards than any machine has.
const MOST_CARDS: usize = 256;
/// One to each other card.
const MOST_LINKS: usize = MOST_CARDS;
/// NVIDIA's MIG has up to 7 on a card.
const MOST_PROFILES: usize = 64;
/// 16 TiB: past it, a number of bytes is a mistake of unit.
const MOST_MEMORY: u64 = 1 << 44;
/// Linux's own bound. Sysfs' -1 for "not known" arrives as a very large number.
const MOST_NUMA: u32 = 1023;

pub(crate) fn cards(list: wire::CardList) -> Cards {
    let mut malformed = Malformed::default();
    let inventory = inventory(list.cards, &mut malformed);
    Cards {
        generation: list.generation,
        inventory,
        malformed: malformed.into_lines(),
    }
}

pub(super) fn inventory(cards: Vec<wire::Card>, malformed: &mut Malformed) -> Inventory {
    let mut usable = Vec::new();
    let mut ids = BTreeSet::new();
    for wire in at_most(cards, MOST_CARDS, "cards", malformed) {
        let id = text::one_line(&wire.id, 40);
        match card(wire, malformed) {
            Ok(card) if !ids.insert(card.id.clone()) => {
                malformed.add(&format!("card {id:?} is there twice, the first is taken"));
            }
            Ok(card) => usable.push(card),
            Err(why) => malformed.add(&format!("card {id:?}: {why}")),
        }
    }
    Inventory::new(usable).unwrap_or_else(|twice| {
        malformed.add(&twice.to_string());
        Inventory::default()
    })
}

fn card(wire: wire::Card, malformed: &mut Malformed) -> Result<Card, String> {
    let id = CardId::new(&wire.id).map_err(|e| e.to_string())?;
    let model = text::printable("model", &wire.model, 64)?;
    let uuid = text::printable("uuid", &wire.uuid, 128)?;
    let switch = text::printable("pcie_switch", &wire.pcie_switch, 64)?;
    if wire.memory_bytes == 0 || wire.memory_bytes > MOST_MEMORY {
        return Err(format!(
            "memory_bytes {} is not within 1 and {MOST_MEMORY}",
            wire.memory_bytes
        ));
    }
    let health = health(&wire);
    let links = links(&id, wire.links, malformed);
    let profiles = profiles(&id, wire.memory_bytes, wire.partition_profiles, malformed);
    Ok(Card {
        id,
        index: wire.index,
        kind: kind(wire.kind),
        model,
        uuid,
        memory: MemoryBytes::new(wire.memory_bytes),
        health,
        numa: wire.numa_node.filter(|n| *n <= MOST_NUMA),
        switch: Some(switch).filter(|s| !s.is_empty()),
        links,
        profiles,
        shareable: wire.shareable,
    })
}

fn kind(number: i32) -> CardKind {
    match wire::XpuKind::try_from(number) {
        Ok(wire::XpuKind::Gpu) => CardKind::Gpu,
        Ok(wire::XpuKind::Ppu) => CardKind::Ppu,
        Ok(wire::XpuKind::Gcu) => CardKind::Gcu,
        Ok(wire::XpuKind::Xpu) => CardKind::Xpu,
        Ok(wire::XpuKind::Amd) => CardKind::Amd,
        Ok(wire::XpuKind::Unspecified) | Err(_) => CardKind::Other,
    }
}

/// Anything but plainly healthy is unhealthy: a card is not given out on a guess.
fn health(card: &wire::Card) -> Health {
    match wire::CardHealth::try_from(card.health) {
        Ok(wire::CardHealth::Healthy) => Health::Healthy,
        Ok(wire::CardHealth::Unhealthy) => {
            let reason = text::one_line(&card.health_reason, 200);
            Health::Unhealthy(if reason.is_empty() {
                "no reason given".to_owned()
            } else {
                reason
            })
        }
        Ok(wire::CardHealth::Unspecified) => Health::Unhealthy("health not reported".to_owned()),
        Err(_) => Health::Unhealthy(format!("health {} is not known", card.health)),
    }
}

/// A link that makes no sense costs the link, not the card: it only steers placement.
fn links(id: &CardId, links: Vec<wire::Link>, malformed: &mut Malformed) -> Vec<Link> {
    let mut usable: Vec<Link> = Vec::new();
    let mut peers = BTreeSet::new();
    for link in at_most(links, MOST_LINKS, &format!("links of card {id}"), malformed) {
        let peer = match CardId::new(&link.peer_card_id) {
            Ok(peer) if peer == *id => Err("it is the card itself".to_owned()),
            Ok(peer) if !peers.insert(peer.clone()) => Err("it is there twice".to_owned()),
            Ok(peer) => Ok(peer),
            Err(error) => Err(error.to_string()),
        };
        match peer {
            Ok(peer) => usable.push(Link {
                peer,
                bandwidth: link.bandwidth_bytes_per_second,
            }),
            Err(why) => malformed.add(&format!(
                "card {id}: link to {:?}: {why}",
                text::one_line(&link.peer_card_id, 40)
            )),
        }
    }
    usable
}

fn profiles(
    id: &CardId,
    card_memory: u64,
    profiles: Vec<wire::PartitionProfile>,
    malformed: &mut Malformed,
) -> Vec<PartitionProfile> {
    let mut usable: Vec<PartitionProfile> = Vec::new();
    let what = format!("partition profiles of card {id}");
    for wire in at_most(profiles, MOST_PROFILES, &what, malformed) {
        match profile(&wire, card_memory) {
            Ok(profile) if usable.iter().any(|p| p.name == profile.name) => {
                malformed.add(&format!(
                    "card {id}: partition profile {} is there twice",
                    profile.name
                ));
            }
            Ok(profile) => usable.push(profile),
            Err(why) => malformed.add(&format!("card {id}: {why}")),
        }
    }
    usable
}

fn profile(wire: &wire::PartitionProfile, card_memory: u64) -> Result<PartitionProfile, String> {
    let name = ProfileName::new(&wire.name).map_err(|e| e.to_string())?;
    if !(1..=256).contains(&wire.slices) || !(1..=256).contains(&wire.max_count) {
        return Err(format!(
            "partition profile {name}: slices {} or max_count {} is not within 1 and 256",
            wire.slices, wire.max_count
        ));
    }
    if wire.memory_bytes == 0 || wire.memory_bytes > card_memory {
        return Err(format!(
            "partition profile {name}: memory_bytes {} of a card with {card_memory}",
            wire.memory_bytes
        ));
    }
    Ok(PartitionProfile {
        name,
        slices: wire.slices,
        memory: MemoryBytes::new(wire.memory_bytes),
        max_count: wire.max_count,
    })
}

pub(crate) fn supported(answer: &wire::ListSupportedXpuTypeResponse) -> Result<Supported, String> {
    let interface_version = text::printable("interface_version", &answer.interface_version, 32)?;
    let number = |part: &str| part.parse::<u32>().is_ok();
    if !interface_version
        .split_once('.')
        .is_some_and(|(major, minor)| number(major) && number(minor))
    {
        return Err(format!(
            "interface_version {interface_version:?} is not MAJOR.MINOR"
        ));
    }
    let kinds: BTreeSet<_> = answer.kinds.iter().copied().map(kind).collect();
    Ok(Supported {
        kinds: kinds.into_iter().collect(),
        interface_version,
        runtime_version: text::one_line(&answer.runtime_version, 64),
    })
}

pub(crate) fn operation_status(answer: &wire::OperationStatus) -> OperationStatus {
    let phase = match wire::FeaturePhase::try_from(answer.phase) {
        Ok(wire::FeaturePhase::Disabled) => Phase::Disabled,
        Ok(wire::FeaturePhase::Enabling) => Phase::Enabling,
        Ok(wire::FeaturePhase::Enabled) => Phase::Enabled,
        Ok(wire::FeaturePhase::Disabling) => Phase::Disabling,
        Ok(wire::FeaturePhase::Failed) => Phase::Failed,
        Ok(wire::FeaturePhase::Unspecified) | Err(_) => Phase::Unknown(answer.phase),
    };
    OperationStatus {
        phase,
        message: text::one_line(&answer.message, 300),
        progress_percent: answer.progress_percent.min(100),
    }
}

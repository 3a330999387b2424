//! How busy cards and containers are: figures that follow what is allocated, move with time, and
//! are the same in every run with the same seed.

use std::time::Duration;

use model::{card::Card, plan::GrantMode};
use runtime_proto::client::Consumer;

use crate::state::{CardState, State};

/// What only grows on a card. It follows what is allocated, not who asks for it and when.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Counters {
    /// Memory errors.
    pub ecc_errors: u64,
    /// To the card.
    pub received_bytes: f64,
    /// From the card.
    pub transmitted_bytes: f64,
}

/// A card in full use moves so much over PCIe in a second.
const MOST_PCIE: f64 = 20e9;

impl Counters {
    /// Time has passed while these had some of the card.
    pub fn pass<'a>(
        &mut self,
        card: &Card,
        passed: Duration,
        modes: impl Iterator<Item = &'a GrantMode>,
    ) {
        let part: f64 = modes.map(|mode| part(card, mode)).sum();
        let bytes = part.min(1.0) * MOST_PCIE * passed.as_secs_f64();
        self.received_bytes += bytes;
        self.transmitted_bytes += bytes / 4.0;
    }
}

/// One reading of a card.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CardLoad {
    /// 0 to 1.
    pub utilization: f64,
    /// Bytes.
    pub memory_used: f64,
    /// Watts.
    pub power: f64,
    /// Degrees Celsius.
    pub temperature: f64,
    /// Hertz.
    pub clock: f64,
    /// What only grows.
    pub counters: Counters,
}

/// One reading of a container on a card.
#[derive(Debug, Clone, PartialEq)]
pub struct ContainerLoad<'a> {
    /// For which allocation.
    pub allocation: &'a str,
    /// Whose.
    pub consumer: &'a Consumer,
    /// Of the card, 0 to 1.
    pub utilization: f64,
    /// Bytes.
    pub memory_used: f64,
}

/// What the containers on that card do now; one with several grants on it is one.
pub fn containers<'a>(state: &'a State, card: &'a CardState) -> Vec<ContainerLoad<'a>> {
    let mut all: Vec<ContainerLoad<'_>> = Vec::new();
    for (allocation, mode) in state.book().on_card(&card.card.id) {
        let consumer = &allocation.consumer;
        let phase = phase(state.seed(), consumer, &card.card);
        let wave = wave(state.now(), phase);
        let utilization = part(&card.card, mode) * (0.55 + 0.4 * wave);
        let memory_used = memory(&card.card, mode) * (0.6 + 0.3 * wave);
        match all.iter_mut().find(|l| l.allocation == allocation.id) {
            Some(load) => {
                load.utilization += utilization;
                load.memory_used += memory_used;
            }
            None => all.push(ContainerLoad {
                allocation: &allocation.id,
                consumer,
                utilization,
                memory_used,
            }),
        }
    }
    all
}

/// What the card does, given what its containers do.
pub fn card(state: &State, card: &CardState, containers: &[ContainerLoad<'_>]) -> CardLoad {
    let profile = state.profile();
    let sum = |f: fn(&ContainerLoad<'_>) -> f64| containers.iter().map(f).sum::<f64>();
    let size = bytes(card.card.memory.bytes());
    let utilization = sum(|c| c.utilization).min(1.0);
    let (idle, most) = (f64::from(profile.idle_watts), f64::from(profile.most_watts));
    let clock = f64::from(profile.most_megahertz) * 1e6;
    CardLoad {
        utilization,
        memory_used: sum(|c| c.memory_used).min(size),
        power: idle + (most - idle) * utilization,
        temperature: 32.0 + 45.0 * utilization + f64::from(card.card.index % 4),
        clock: if utilization > 0.0 {
            clock
        } else {
            clock / 4.0
        },
        counters: card.counters,
    }
}

/// How much of a card's compute the grant may use. Best effort gets a twentieth.
fn part(card: &Card, mode: &GrantMode) -> f64 {
    match mode {
        GrantMode::Whole => 1.0,
        GrantMode::Share { core, .. } if core.percent() == 0 => 0.05,
        GrantMode::Share { core, .. } => f64::from(core.percent()) / 100.0,
        GrantMode::Partition { profile, count } => {
            let all = card.profiles.iter().map(|p| p.slices).max().unwrap_or(1);
            let one = card.profiles.iter().find(|p| p.name == *profile);
            let slices = one.map_or(0, |p| p.slices.saturating_mul(*count));
            f64::from(slices) / f64::from(all.max(1))
        }
    }
}

fn memory(card: &Card, mode: &GrantMode) -> f64 {
    match mode {
        GrantMode::Whole => bytes(card.memory.bytes()),
        GrantMode::Share { memory, .. } => bytes(memory.bytes()),
        GrantMode::Partition { profile, count } => {
            let profile = card.profiles.iter().find(|p| p.name == *profile);
            let one = profile.map_or(0, |p| p.memory.bytes());
            bytes(one) * f64::from(*count)
        }
    }
}

/// Sizes of cards are whole KiB and far below 2^42 KiB: nothing is lost.
fn bytes(bytes: u64) -> f64 {
    u32::try_from(bytes >> 10).map_or(f64::from(u32::MAX), f64::from) * 1024.0
}

/// 0 to 1 and back, once a minute.
fn wave(now: Duration, phase: f64) -> f64 {
    let turn = (now.as_secs_f64() / 60.0 + phase) * std::f64::consts::TAU;
    0.5 - 0.5 * turn.cos()
}

/// Where a container is in its wave at the start: 0 to 1, by FNV-1a over its names.
fn phase(seed: u64, consumer: &Consumer, card: &Card) -> f64 {
    let text = [
        consumer.uid.as_str(),
        consumer.container.as_str(),
        card.id.as_str(),
    ];
    let start = 0xcbf2_9ce4_8422_2325_u64 ^ seed;
    let hash = text
        .iter()
        .flat_map(|t| t.bytes().chain([0]))
        .fold(start, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
    f64::from(u16::try_from(hash >> 48).unwrap_or_default()) / 65536.0
}

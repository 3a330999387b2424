//! Nodes and pods to try things on: small, and often nearly full.

use proptest::prelude::*;

use crate::{
    card::{
        Card, CardKind, Health, Inventory, Link,
        tests::{card, profiles},
    },
    quantity::MemoryBytes,
    request::{ContainerSpec, PodRequest, Role},
    settings::{Policy, Settings},
};

pub(super) const GPU: &str = "aliyun.com/gpu";
pub(super) const PPU: &str = "alibabacloud.com/ppu";
pub(super) const CORE: &str = "aliyun.com/gpu-core";
pub(super) const MEMORY: &str = "aliyun.com/gpu-memory";
pub(super) const SLICE: &str = "aliyun.com/gpu-slice";
pub(super) const PARTS: [&str; 2] = ["alibabacloud.com/ppu-1g", "alibabacloud.com/ppu-2g"];

/// A container as drawn: role, resources and amounts.
pub(super) type Drawn = (Role, Vec<(&'static str, u64)>);

pub(super) fn policy() -> impl Strategy<Value = Policy> {
    prop::sample::select(vec![Policy::Binpack, Policy::Spread])
}

fn role() -> impl Strategy<Value = Role> {
    prop::sample::select(vec![Role::Init, Role::Sidecar, Role::App])
}

fn limits() -> impl Strategy<Value = Vec<(&'static str, u64)>> {
    let core = prop_oneof![1_u64..=100, Just(50), Just(100)];
    let memory = prop_oneof![1_u64..=40, Just(10), Just(20)];
    prop_oneof![
        1 => Just(Vec::new()),
        2 => (1_u64..4).prop_map(|count| vec![(GPU, count)]),
        1 => (1_u64..3).prop_map(|count| vec![(PPU, count)]),
        2 => core.clone().prop_map(|core| vec![(CORE, core)]),
        3 => memory.clone().prop_map(|memory| vec![(MEMORY, memory)]),
        4 => (core, memory.clone()).prop_map(|(core, memory)| vec![(CORE, core), (MEMORY, memory)]),
        1 => (2_u64..4).prop_map(|cards| vec![(CORE, cards * 100)]),
        2 => prop::sample::select(vec![1_u64, 2, 7]).prop_map(|slices| vec![(SLICE, slices)]),
        2 => (prop::sample::select(PARTS.to_vec()), 1_u64..4).prop_map(|(name, count)| vec![(name, count)]),
        1 => (2_u64..4, memory).prop_map(|(cards, memory)| vec![(CORE, cards * 100), (MEMORY, memory * 2)]),
    ]
}

/// Init containers and sidecars first, as in a pod.
pub(super) fn pod() -> impl Strategy<Value = Vec<Drawn>> {
    prop::collection::vec((role(), limits()), 1..5).prop_map(|mut containers| {
        containers.sort_by_key(|(role, _)| *role == Role::App);
        containers
    })
}

pub(super) fn request(containers: &[Drawn]) -> PodRequest {
    let text: Vec<(String, Vec<(&str, String)>)> = containers
        .iter()
        .enumerate()
        .map(|(at, (_, limits))| {
            let limits = limits
                .iter()
                .map(|(name, count)| (*name, count.to_string()));
            (format!("c{at}"), limits.collect())
        })
        .collect();
    let specs = containers
        .iter()
        .zip(&text)
        .map(|((role, _), (name, limits))| ContainerSpec {
            name,
            role: *role,
            limits: limits
                .iter()
                .map(|(name, count)| (*name, count.as_str()))
                .collect(),
        });
    PodRequest::read(specs, &Settings::default()).unwrap()
}

fn some_card() -> impl Strategy<Value = Card> {
    let kind = prop::sample::select(vec![
        CardKind::Ppu,
        CardKind::Ppu,
        CardKind::Ppu,
        CardKind::Gpu,
    ]);
    let size = prop_oneof![Just(20_u64), Just(40), 1_u64..60];
    let odd = (
        prop::bool::weighted(0.1),
        prop::bool::weighted(0.1),
        prop::bool::weighted(0.5),
        0_u64..3,
    );
    let place = (prop::option::of(0_u32..2), prop::option::of(0_u32..3));
    let peers = prop::collection::vec((0_u32..6, 1_u64..4), 0..4);
    (kind, size, odd, place, peers).prop_map(|(kind, gib, odd, (numa, switch), peers)| {
        let (sick, solid, cuts, ragged) = odd;
        Card {
            kind,
            // Not a whole number of GiB now and then.
            memory: MemoryBytes::new((gib << 30) + ragged * 1_000),
            health: if sick {
                Health::Unhealthy("lost".into())
            } else {
                Health::Healthy
            },
            numa,
            switch: switch.map(|switch| format!("sw{switch}")),
            links: peers
                .into_iter()
                .map(|(peer, bandwidth)| Link {
                    peer: card(peer, 1).id,
                    bandwidth: bandwidth << 30,
                })
                .collect(),
            shareable: !solid,
            profiles: if cuts { profiles() } else { Vec::new() },
            ..card(0, gib)
        }
    })
}

pub(super) fn inventory() -> impl Strategy<Value = Inventory> {
    prop::collection::vec(some_card(), 0..6).prop_map(|cards| {
        let cards = (0..).zip(cards).map(|(n, some)| Card {
            id: card(n, 1).id,
            index: n,
            ..some
        });
        Inventory::new(cards.collect()).unwrap()
    })
}

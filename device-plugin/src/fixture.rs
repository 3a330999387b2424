//! Cards, pods and what kubelet shows of them, for tests.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use kubernetes::convert::{ContainerDevices, Life, PodDevices};
use model::{
    card::{Card, CardKind, Health, Inventory, PartitionProfile},
    name::{CardId, ContainerName, Namespace, PodName, PodRef, PodUid, ProfileName, ResourceName},
    plan::{Grant, GrantMode},
    quantity::{CorePercent, MemoryBytes},
    request::{ContainerSpec, PodRequest, Role},
    settings::Settings,
};

use crate::core::Core;
use crate::view::{Look, PodSource, PodView};

pub(crate) const GPU: &str = "aliyun.com/gpu";
pub(crate) const CORE: &str = "aliyun.com/gpu-core";
pub(crate) const MEMORY: &str = "aliyun.com/gpu-memory";
pub(crate) const SLICE: &str = "aliyun.com/gpu-slice";
pub(crate) const PART_2G: &str = "alibabacloud.com/ppu-2g";

pub(crate) fn resource(name: &str) -> ResourceName {
    ResourceName::new(name).expect("a resource name")
}

pub(crate) fn card_id(name: &str) -> CardId {
    CardId::new(name).expect("a card id")
}

pub(crate) fn uid(name: &str) -> PodUid {
    PodUid::new(&format!("uid-{name}")).expect("a uid")
}

pub(crate) fn pod_ref(name: &str) -> PodRef {
    PodRef {
        namespace: Namespace::new("default").expect("a namespace"),
        name: PodName::new(name).expect("a pod name"),
    }
}

pub(crate) fn container(name: &str) -> ContainerName {
    ContainerName::new(name).expect("a container name")
}

pub(crate) fn settings() -> Arc<Settings> {
    Arc::new(Settings::default())
}

/// `count` PPU cards `ppu-0` …, each with that memory.
pub(crate) fn cards(count: u32, gib: u64) -> Inventory {
    let card = |index: u32| Card {
        id: card_id(&format!("ppu-{index}")),
        index,
        kind: CardKind::Ppu,
        model: "PPU".to_owned(),
        uuid: format!("uuid-{index}"),
        memory: MemoryBytes::from_gib(gib),
        health: Health::Healthy,
        numa: None,
        switch: None,
        links: Vec::new(),
        profiles: Vec::new(),
        shareable: true,
    };
    Inventory::new((0..count).map(card).collect()).expect("different ids")
}

/// The same, cut by one, two or all of 7 slices of 1 GiB.
pub(crate) fn cuttable(count: u32, gib: u64) -> Inventory {
    let profile = |slices: u32| PartitionProfile {
        name: ProfileName::new(&format!("{slices}g")).expect("a profile"),
        slices,
        memory: MemoryBytes::from_gib(slices.into()),
        max_count: 7 / slices,
    };
    let cards = cards(count, gib).cards().to_vec();
    let cards = cards.into_iter().map(|card| Card {
        profiles: [1, 2, 7].map(profile).to_vec(),
        ..card
    });
    Inventory::new(cards.collect()).expect("different ids")
}

/// The plugin's state on such a node.
pub(crate) fn core(count: u32, gib: u64) -> Core {
    let mut core = Core::new(settings());
    core.set_cards(cards(count, gib));
    core
}

pub(crate) fn share(card: &str, core: u32, gib: u64) -> Grant {
    Grant {
        card: card_id(card),
        mode: GrantMode::Share {
            core: CorePercent::new(core),
            memory: MemoryBytes::from_gib(gib),
        },
    }
}

/// A container: name, role, and resource with count.
pub(crate) type Spec<'a> = (&'a str, Role, &'a [(&'a str, u64)]);

pub(crate) fn request(containers: &[Spec<'_>], settings: &Settings) -> PodRequest {
    let counts: Vec<Vec<(&str, String)>> = containers
        .iter()
        .map(|(_, _, limits)| limits.iter().map(|(r, n)| (*r, n.to_string())).collect())
        .collect();
    let specs = containers
        .iter()
        .zip(&counts)
        .map(|((name, role, _), limits)| ContainerSpec {
            name,
            role: *role,
            limits: limits.iter().map(|(r, n)| (*r, n.as_str())).collect(),
        });
    PodRequest::read(specs, settings).expect("a request with a meaning")
}

/// A pod that waits to be admitted.
pub(crate) fn pod(name: &str, created: i64, request: PodRequest) -> PodView {
    PodView {
        pod: pod_ref(name),
        uid: uid(name),
        request: Ok(request),
        life: Life::Holds,
        created,
        started: false,
        assigned: None,
        allocated: None,
    }
}

/// One container of one resource set.
pub(crate) fn simple(name: &str, created: i64, limits: &[(&str, u64)]) -> PodView {
    let one: [Spec<'_>; 1] = [("main", Role::App, limits)];
    pod(name, created, request(&one, &settings()))
}

/// A container of PodResources: name, and resource with ids.
pub(crate) type Shown<'a> = (&'a str, &'a [(&'a str, Vec<String>)]);

/// What PodResources shows of a pod.
pub(crate) fn shown(name: &str, containers: &[Shown<'_>]) -> PodDevices {
    PodDevices {
        pod: pod_ref(name),
        containers: containers
            .iter()
            .map(|(name, devices)| ContainerDevices {
                name: (*name).to_owned(),
                devices: devices
                    .iter()
                    .map(|(r, ids)| ((*r).to_owned(), ids.clone()))
                    .collect::<BTreeMap<_, _>>(),
            })
            .collect(),
    }
}

/// `ppu-0.core.0` … , sorted as text.
pub(crate) fn ids(card: &str, kind: &str, range: std::ops::Range<u32>) -> Vec<String> {
    let mut ids: Vec<String> = range.map(|n| format!("{card}.{kind}.{n}")).collect();
    ids.sort_unstable();
    ids
}

pub(crate) fn look(ticket: u64, listed: Option<Vec<PodDevices>>, pods: Vec<PodView>) -> Look {
    Look {
        ticket,
        listed,
        pods,
        source: PodSource::Kubelet,
        beyond: BTreeSet::new(),
    }
}

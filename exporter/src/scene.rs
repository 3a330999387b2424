//! Cards, pods and samples for tests.

use std::time::Duration;

use kubernetes::convert::{ContainerDevices, PodDevices};
use model::{
    card::{Card, CardKind, Health, Inventory},
    name::{CardId, ContainerName, Namespace, NodeName, PodName, PodRef, PodUid},
    quantity::MemoryBytes,
    settings::Settings,
};
use runtime_proto::client::{
    CardSample, Cards, Consumer, ContainerSample, Metric, MetricConfig, MetricType, Snapshot,
};

use crate::{
    exposition_reader::{Text, read},
    pods::PodLife,
    render::render,
    state::State,
};

/// What nobody can have told: the tests' own collection time.
pub(crate) const MILLISECONDS: u64 = 1_764_567_890_500;

pub(crate) fn state() -> State {
    State::new(NodeName::new("node-1").unwrap(), Settings::default())
}

/// Cards `ppu-0` … of 144 GiB.
pub(crate) fn cards(count: u32) -> Cards {
    let card = |index| Card {
        id: CardId::new(&format!("ppu-{index}")).unwrap(),
        index,
        kind: CardKind::Ppu,
        model: "PPU-144G".into(),
        uuid: format!("PPU-0000-{index}"),
        memory: MemoryBytes::from_gib(144),
        health: Health::Healthy,
        numa: None,
        switch: None,
        links: Vec::new(),
        profiles: Vec::new(),
        shareable: true,
    };
    Cards {
        generation: 1,
        inventory: Inventory::new((0..count).map(card).collect()).unwrap(),
        malformed: Vec::new(),
    }
}

#[expect(
    clippy::unnecessary_wraps,
    reason = "a configuration has one such entry a metric, none for a bad one"
)]
pub(crate) fn metric(name: &str, kind: MetricType) -> Option<Metric> {
    Some(Metric {
        name: name.into(),
        help: format!("About {name}."),
        kind,
    })
}

/// Version 1: utilisation and errors of cards, utilisation of containers.
pub(crate) fn config() -> MetricConfig {
    MetricConfig {
        version: 1,
        card: vec![
            metric("accel_card_utilization_ratio", MetricType::Gauge),
            metric("accel_card_ecc_errors_total", MetricType::Counter),
        ],
        container: vec![metric(
            "accel_container_utilization_ratio",
            MetricType::Gauge,
        )],
        collection_interval: Duration::from_secs(1),
        malformed: Vec::new(),
    }
}

pub(crate) fn card_sample(card: &str, values: &[f64]) -> CardSample {
    CardSample {
        card: CardId::new(card).unwrap(),
        values: values.to_vec(),
    }
}

/// `pod` has the uid `uid-of-<pod>` and is in `ns`.
pub(crate) fn container_sample(
    card: &str,
    pod: &str,
    container: &str,
    values: &[f64],
) -> ContainerSample {
    ContainerSample {
        card: CardId::new(card).unwrap(),
        consumer: Consumer {
            pod: pod_ref(pod),
            uid: PodUid::new(&format!("uid-of-{pod}")).unwrap(),
            container: ContainerName::new(container).unwrap(),
        },
        values: values.to_vec(),
    }
}

pub(crate) fn snapshot(cards: Vec<CardSample>, containers: Vec<ContainerSample>) -> Snapshot {
    Snapshot {
        config_version: 1,
        timestamp_milliseconds: MILLISECONDS,
        cards,
        containers,
        malformed: Vec::new(),
    }
}

pub(crate) fn pod_ref(name: &str) -> PodRef {
    PodRef {
        namespace: Namespace::new("ns").unwrap(),
        name: PodName::new(name).unwrap(),
    }
}

/// Running, or ended.
pub(crate) fn life(pod: &str, ended: bool) -> PodLife {
    PodLife {
        pod: pod_ref(pod),
        uid: PodUid::new(&format!("uid-of-{pod}")).unwrap(),
        ended,
        ended_init_containers: Vec::new(),
    }
}

/// A pod with one container and ids of its resources.
pub(crate) fn devices(pod: &str, container: &str, ids: &[(&str, Vec<String>)]) -> PodDevices {
    PodDevices {
        pod: pod_ref(pod),
        containers: vec![ContainerDevices {
            name: container.into(),
            devices: ids
                .iter()
                .map(|(resource, ids)| ((*resource).to_owned(), ids.clone()))
                .collect(),
        }],
    }
}

/// `core` percent and `gib` of memory of a card, from those numbers on.
pub(crate) fn share(
    card: &str,
    from: u32,
    core: u32,
    gib: u32,
) -> Vec<(&'static str, Vec<String>)> {
    let ids = |kind: &str, count: u32| {
        (from..from + count)
            .map(|n| format!("{card}.{kind}.{n}"))
            .collect()
    };
    let all = [
        ("aliyun.com/gpu-core", ids("core", core)),
        ("aliyun.com/gpu-memory", ids("mem", gib)),
    ];
    all.into_iter()
        .filter(|(_, ids): &(_, Vec<String>)| !ids.is_empty())
        .collect()
}

/// The answer of now, read.
pub(crate) fn shown(state: &State) -> Text {
    let text = String::from_utf8(render(state, Vec::new())).unwrap();
    read(&text).unwrap()
}

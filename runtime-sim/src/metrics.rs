//! Which metrics the simulated Runtime measures, and one collection of them.

use runtime_proto::wire;

use crate::{
    convert,
    load::{self, CardLoad, ContainerLoad},
    state::State,
};

/// Changes with the lists below.
const VERSION: u64 = 1;

const GAUGE: wire::MetricType = wire::MetricType::Gauge;
const COUNTER: wire::MetricType = wire::MetricType::Counter;

/// Of a card, in the order of [`card_values`].
const CARD: [(&str, wire::MetricType, &str); 8] = [
    (
        "accel_card_utilization_ratio",
        GAUGE,
        "Part of the card's compute in use, 0 to 1.",
    ),
    (
        "accel_card_memory_used_bytes",
        GAUGE,
        "Memory of the card in use.",
    ),
    (
        "accel_card_power_watts",
        GAUGE,
        "Power that the card draws.",
    ),
    (
        "accel_card_temperature_celsius",
        GAUGE,
        "Temperature of the card.",
    ),
    (
        "accel_card_clock_hertz",
        GAUGE,
        "Clock of the card's compute units.",
    ),
    (
        "accel_card_ecc_errors_total",
        COUNTER,
        "Memory errors that could not be corrected.",
    ),
    (
        "accel_card_pcie_transmit_bytes_total",
        COUNTER,
        "Bytes that the card sent over PCIe.",
    ),
    (
        "accel_card_pcie_receive_bytes_total",
        COUNTER,
        "Bytes that the card received over PCIe.",
    ),
];

fn card_values(load: &CardLoad) -> [f64; CARD.len()] {
    [
        load.utilization,
        load.memory_used,
        load.power,
        load.temperature,
        load.clock,
        u32::try_from(load.counters.ecc_errors).map_or(f64::from(u32::MAX), f64::from),
        load.counters.transmitted_bytes,
        load.counters.received_bytes,
    ]
}

/// Of a container on a card, in the order of [`container_values`].
const CONTAINER: [(&str, wire::MetricType, &str); 2] = [
    (
        "accel_container_utilization_ratio",
        GAUGE,
        "Part of the card's compute that the container uses, 0 to 1.",
    ),
    (
        "accel_container_memory_used_bytes",
        GAUGE,
        "Memory of the card that the container uses.",
    ),
];

fn container_values(load: &ContainerLoad<'_>) -> [f64; CONTAINER.len()] {
    [load.utilization, load.memory_used]
}

/// The configuration.
pub(crate) fn config(collection_interval_milliseconds: u32) -> wire::ExporterGetConfigResponse {
    let describe =
        |(name, kind, help): &(&str, wire::MetricType, &str), scope| wire::MetricDescriptor {
            name: (*name).to_owned(),
            help: (*help).to_owned(),
            r#type: i32::from(*kind),
            scope,
        };
    let card = CARD
        .iter()
        .map(|m| describe(m, wire::MetricScope::Card.into()));
    let container = CONTAINER
        .iter()
        .map(|m| describe(m, wire::MetricScope::Container.into()));
    wire::ExporterGetConfigResponse {
        config_version: VERSION,
        metrics: card.chain(container).collect(),
        collection_interval_milliseconds,
    }
}

/// One collection, of the cards that are there.
pub(crate) fn snapshot(state: &State, timestamp_milliseconds: u64) -> wire::MetricSnapshot {
    let mut snapshot = wire::MetricSnapshot {
        config_version: VERSION,
        timestamp_milliseconds,
        ..wire::MetricSnapshot::default()
    };
    for card in state.cards() {
        let loads = load::containers(state, card);
        let load = load::card(state, card, &loads);
        snapshot.cards.push(wire::CardSample {
            card_id: card.card.id.to_string(),
            values: card_values(&load).to_vec(),
        });
        for load in loads {
            snapshot.containers.push(wire::ContainerSample {
                card_id: card.card.id.to_string(),
                allocation_id: load.allocation.to_owned(),
                consumer: Some(convert::consumer(load.consumer)),
                values: container_values(&load).to_vec(),
            });
        }
    }
    snapshot
}

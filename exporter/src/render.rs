//! The whole answer: what is known, family by family.

use std::collections::BTreeMap;

use model::{
    card::CardKind,
    name::CardId,
    quantity::{CorePercent, MemoryBytes},
};

use crate::{
    exposition::{Exposition, Family, LabelSets},
    join::{self, Row},
    own::{self, Own},
    samples::Field,
    state::State,
};

/// Most series that one answer has. A node of 16 cards with 64 shares each has 10,500; a
/// Runtime that says more than ten times that is broken, and would take Prometheus down with it.
pub const MOST_SERIES: usize = 100_000;

/// Bytes of one container's labels, about: a guess that is too small only costs a copy.
const LABEL_BYTES: usize = 160;

/// Renders `state` into `buffer`, whose memory is used again.
pub fn render(state: &State, buffer: Vec<u8>) -> Vec<u8> {
    render_at_most(state, buffer, MOST_SERIES)
}

fn render_at_most(state: &State, buffer: Vec<u8>, most_series: usize) -> Vec<u8> {
    let mut text = Exposition::new(buffer, most_series);
    let rows = join::rows(state);
    exporter(state, &mut text);
    card_facts(state, &rows, &mut text);
    card_values(state, &mut text);
    containers(state, &rows, &mut text);
    let dropped = text.dropped();
    // Outside the limit, so that it shows exactly when it is needed.
    text.raise_limit(1);
    family(&mut text, own::SERIES_DROPPED).integer(NO_LABELS, dropped);
    text.finish()
}

/// An entry of [`LabelSets`] without labels.
const NO_LABELS: &str = " ";

fn family(text: &mut Exposition, own: Own) -> Family<'_> {
    text.family(own.name, own.help, own.kind)
}

fn exporter(state: &State, text: &mut Exposition) {
    let mut labels = LabelSets::default();
    labels.push(&[("version", env!("CARGO_PKG_VERSION"))]);
    for set in labels.iter() {
        family(text, own::BUILD_INFO).integer(set, 1);
    }
    for (own, value) in [
        (own::RUNTIME_UP, state.runtime_up()),
        (own::KUBELET_UP, state.consumers().from_kubelet),
        (own::POD_LIST_UP, state.pod_list_up()),
    ] {
        family(text, own).integer(NO_LABELS, value.into());
    }
    if let Some(milliseconds) = state.last_collection_milliseconds() {
        family(text, own::LAST_COLLECTION).float(NO_LABELS, seconds(milliseconds));
    }
    family(text, own::COLLECTIONS).integer(NO_LABELS, state.collections());
    let mut labels = LabelSets::default();
    for (source, _) in state.faults().counts() {
        labels.push(&[("source", source.name())]);
    }
    let mut malformed = family(text, own::MALFORMED);
    for (set, (_, count)) in labels.iter().zip(state.faults().counts()) {
        malformed.integer(set, count);
    }
}

/// What is known of the cards without measuring: static facts, and what was given away.
fn card_facts(state: &State, rows: &[Row<'_>], text: &mut Exposition) {
    let cards = state.inventory().cards();
    let node = state.node.as_str();
    let mut info = LabelSets::with_capacity(cards.len(), LABEL_BYTES);
    let mut labels = LabelSets::with_capacity(cards.len(), LABEL_BYTES);
    for card in cards {
        info.push(&[
            ("card", card.id.as_str()),
            ("index", itoa::Buffer::new().format(card.index)),
            ("uuid", &card.uuid),
            ("kind", kind(card.kind)),
            ("model", &card.model),
            ("node", node),
        ]);
        labels.push(&[("card", card.id.as_str()), ("node", node)]);
    }
    let mut cards_info = family(text, own::CARD_INFO);
    for set in info.iter() {
        cards_info.integer(set, 1);
    }
    // Health is a measurement: nobody knows it while the Runtime is away.
    if state.cards_are_live() {
        let mut healthy = family(text, own::CARD_HEALTHY);
        for (set, card) in labels.iter().zip(cards) {
            healthy.integer(set, card.health.is_healthy().into());
        }
    }
    let mut memory = family(text, own::CARD_MEMORY);
    for (set, card) in labels.iter().zip(cards) {
        memory.integer(set, card.memory.bytes());
    }
    if !state.consumers().known {
        return;
    }
    let allocated = allocated(rows);
    let mut core = family(text, own::CARD_CORE_ALLOCATED);
    for (set, card) in labels.iter().zip(cards) {
        let of_card = allocated.get(&card.id).copied().unwrap_or_default();
        core.float(set, ratio(of_card.0));
    }
    let mut memory = family(text, own::CARD_MEMORY_ALLOCATED);
    for (set, card) in labels.iter().zip(cards) {
        let of_card = allocated.get(&card.id).copied().unwrap_or_default();
        memory.integer(set, of_card.1.bytes());
    }
}

fn allocated<'a>(rows: &[Row<'a>]) -> BTreeMap<&'a CardId, (CorePercent, MemoryBytes)> {
    let mut allocated: BTreeMap<_, (CorePercent, MemoryBytes)> = BTreeMap::new();
    for row in rows {
        let (core, memory) = allocated.entry(row.card).or_default();
        *core = core.saturating_add(row.limits.core.unwrap_or_default());
        *memory = memory.saturating_add(row.limits.memory.unwrap_or_default());
    }
    allocated
}

/// What the Runtime measured of the cards.
fn card_values(state: &State, text: &mut Exposition) {
    let Some(collection) = state.collection() else {
        return;
    };
    let samples = &collection.snapshot.cards;
    let mut labels = LabelSets::with_capacity(samples.len(), LABEL_BYTES);
    for sample in samples {
        labels.push(&[
            ("card", sample.card.as_str()),
            ("node", state.node.as_str()),
        ]);
    }
    for field in &collection.fields.card {
        let values = samples.iter().map(|sample| sample.values.as_slice());
        measured(text, field, &labels, values);
    }
}

/// What containers were given, and what the Runtime measured of them.
fn containers(state: &State, rows: &[Row<'_>], text: &mut Exposition) {
    let mut labels = LabelSets::with_capacity(rows.len(), LABEL_BYTES);
    for row in rows {
        labels.push(&[
            ("card", row.card.as_str()),
            ("node", state.node.as_str()),
            ("namespace", row.pod.namespace.as_str()),
            ("pod", row.pod.name.as_str()),
            ("container", row.container),
        ]);
    }
    let mut core = family(text, own::CONTAINER_CORE_LIMIT);
    for (set, row) in labels.iter().zip(rows) {
        if let Some(limit) = row.limits.core {
            core.float(set, ratio(limit));
        }
    }
    let mut memory = family(text, own::CONTAINER_MEMORY_LIMIT);
    for (set, row) in labels.iter().zip(rows) {
        if let Some(limit) = row.limits.memory {
            memory.integer(set, limit.bytes());
        }
    }
    let Some(collection) = state.collection() else {
        return;
    };
    for field in &collection.fields.container {
        measured(text, field, &labels, rows.iter().map(|row| row.values));
    }
}

/// One of the Runtime's families. NaN is its word for "not measured": such a series is left out.
fn measured<'a>(
    text: &mut Exposition,
    field: &Field,
    labels: &LabelSets,
    values: impl Iterator<Item = &'a [f64]>,
) {
    let mut family = text.family(&field.name, &field.help, field.kind);
    for (set, values) in labels.iter().zip(values) {
        if let Some(value) = values.get(field.position).filter(|value| !value.is_nan()) {
            family.float(set, *value);
        }
    }
}

fn ratio(core: CorePercent) -> f64 {
    f64::from(core.percent()) / 100.0
}

#[expect(
    clippy::cast_precision_loss,
    reason = "milliseconds since 1970 stay below 2^53 for a quarter of a million years"
)]
fn seconds(milliseconds: u64) -> f64 {
    milliseconds as f64 / 1000.0
}

fn kind(kind: CardKind) -> &'static str {
    match kind {
        CardKind::Gpu => "gpu",
        CardKind::Ppu => "ppu",
        CardKind::Gcu => "gcu",
        CardKind::Xpu => "xpu",
        CardKind::Amd => "amd",
        CardKind::Other => "other",
    }
}

#[cfg(test)]
#[path = "render_tests.rs"]
mod tests;

//! Which container series there are, and with which values.

use std::cmp::Ordering;

use model::{
    name::{CardId, PodRef},
    settings::Settings,
};
use runtime_proto::client::ContainerSample;

use crate::{
    holding::{Holding, Limits},
    samples::{Key, key},
    state::State,
};

/// One container on one card.
#[derive(Debug, Clone, PartialEq)]
pub struct Row<'a> {
    /// Which card.
    pub card: &'a CardId,
    /// Whose.
    pub pod: &'a PodRef,
    /// Which of its containers.
    pub container: &'a str,
    /// What it was given; nothing is known of an init container that only the Runtime tells of.
    pub limits: Limits,
    /// The Runtime's values, by position.
    pub values: &'a [f64],
}

/// The rows, sorted by card, pod and container, each there once.
///
/// What kubelet lists is the truth: the Runtime gives values to it and adds only init
/// containers, which PodResources does not list, of pods that have not ended. Where kubelet does
/// not answer, the Runtime's book and samples are all there is.
pub fn rows(state: &State) -> Vec<Row<'_>> {
    let consumers = state.consumers();
    let lives = state.lives();
    let settings: &Settings = &state.settings;
    let samples = state.collection().map_or([].as_slice(), |collection| {
        collection.snapshot.containers.as_slice()
    });
    let mut samples = Latest(samples.iter().filter(|sample| {
        !lives.container_has_ended(&sample.consumer.uid, sample.consumer.container.as_str())
    }))
    .peekable();
    let holdings = &consumers.holdings;
    let mut rows = Vec::with_capacity(holdings.len());
    for holding in holdings.iter().filter(|h| !lives.has_ended(&h.pod)) {
        let mut values: &[f64] = &[];
        while let Some(sample) =
            samples.next_if(|sample| key(sample).cmp(&of(holding)) != Ordering::Greater)
        {
            if key(sample) == of(holding) {
                values = &sample.values;
            } else if may_be_added(sample, state) {
                rows.push(row(sample));
            }
        }
        rows.push(Row {
            card: &holding.card,
            pod: &holding.pod,
            container: &holding.container,
            limits: holding.limits(state.inventory(), settings),
            values,
        });
    }
    rows.extend(samples.filter(|s| may_be_added(s, state)).map(row));
    rows
}

/// Of samples in a row with the same key only the last.
struct Latest<I>(I);

impl<'a, I: Iterator<Item = &'a ContainerSample> + Clone> Iterator for Latest<I> {
    type Item = &'a ContainerSample;

    fn next(&mut self) -> Option<Self::Item> {
        let mut last = self.0.next()?;
        let mut ahead = self.0.clone();
        while let Some(sample) = ahead.next()
            && key(sample) == key(last)
        {
            last = sample;
            self.0 = ahead.clone();
        }
        Some(last)
    }
}

fn of(holding: &Holding) -> Key<'_> {
    (&holding.card, &holding.pod, &holding.container)
}

fn row(sample: &ContainerSample) -> Row<'_> {
    Row {
        card: &sample.card,
        pod: &sample.consumer.pod,
        container: sample.consumer.container.as_str(),
        limits: Limits::default(),
        values: &sample.values,
    }
}

/// Whether a container that only the Runtime tells of has series.
fn may_be_added(sample: &ContainerSample, state: &State) -> bool {
    let consumers = state.consumers();
    if !consumers.from_kubelet {
        return true;
    }
    let consumer = &sample.consumer;
    match consumers.listed.get(&consumer.pod) {
        Some(names) => names.iter().all(|name| name != consumer.container.as_str()),
        None => state.lives().is_live(&consumer.uid),
    }
}

#[cfg(test)]
#[path = "join_tests.rs"]
mod tests;

//! The Runtime's samples and the configuration that gives them names: two messages that change
//! at different times, brought together here.

use std::collections::BTreeSet;

use runtime_proto::client::{ContainerSample, Metric, MetricConfig, MetricType, Snapshot};

use crate::{exposition::Kind, own};

/// One of the Runtime's metrics, and where its value stands in a sample.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Field {
    /// Position in the sample.
    pub position: usize,
    /// Prometheus name; not one of the exporter's own, not used by another field.
    pub name: String,
    /// One line, never empty.
    pub help: String,
    /// Gauge or counter.
    pub kind: Kind,
}

/// A configuration as it is used.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Fields {
    /// Samples with another version do not follow it.
    pub version: u64,
    /// Values that a card's sample should have.
    pub card_width: usize,
    /// Values that a container's sample should have.
    pub container_width: usize,
    /// One value a card.
    pub card: Vec<Field>,
    /// One value a container and card.
    pub container: Vec<Field>,
}

impl Fields {
    /// Takes what can be shown. The second part is what can't, one line each.
    pub fn of(config: MetricConfig) -> (Self, Vec<String>) {
        let mut faults = config.malformed;
        let mut used = BTreeSet::new();
        let (card_width, container_width) = (config.card.len(), config.container.len());
        let card = fields(config.card, &mut used, &mut faults);
        let container = fields(config.container, &mut used, &mut faults);
        let fields = Self {
            version: config.version,
            card_width,
            container_width,
            card,
            container,
        };
        (fields, faults)
    }
}

fn fields(
    metrics: Vec<Option<Metric>>,
    used: &mut BTreeSet<String>,
    faults: &mut Vec<String>,
) -> Vec<Field> {
    let mut fields = Vec::with_capacity(metrics.len());
    for (position, metric) in metrics.into_iter().enumerate() {
        let Some(metric) = metric else { continue };
        if own::is_taken(&metric.name) {
            faults.push(format!(
                "metric {:?} has the name of one of the exporter's own and is not shown",
                metric.name
            ));
        } else if !used.insert(metric.name.clone()) {
            faults.push(format!(
                "metric {:?} is both a card's and a container's, the container's is not shown",
                metric.name
            ));
        } else {
            fields.push(Field {
                position,
                help: help(metric.help),
                name: metric.name,
                kind: match metric.kind {
                    MetricType::Gauge => Kind::Gauge,
                    MetricType::Counter => Kind::Counter,
                },
            });
        }
    }
    fields
}

fn help(text: String) -> String {
    if text.trim().is_empty() {
        "Measured by the Runtime, which says no more about it.".to_owned()
    } else {
        text
    }
}

/// One collection with the names of its values. Samples are in the order of the series, one a
/// card, or a card and container.
#[derive(Debug, Clone, Default)]
pub struct Collection {
    /// What the values are.
    pub fields: Fields,
    /// The values.
    pub snapshot: Snapshot,
}

impl Collection {
    /// Puts a snapshot in order. The second part is what is wrong with it, one line each.
    pub fn new(fields: Fields, mut snapshot: Snapshot) -> (Self, Vec<String>) {
        let mut faults = std::mem::take(&mut snapshot.malformed);
        snapshot.cards.sort_by(|a, b| a.card.cmp(&b.card));
        snapshot.cards.dedup_by(|later, first| {
            let twice = later.card == first.card;
            if twice {
                faults.push(format!("samples of card {} are there twice", later.card));
            }
            twice
        });
        // Stable: of a pod and its namesake before it, both still on the Runtime's list, the
        // one that the Runtime lists last stays last.
        snapshot.containers.sort_by(|a, b| key(a).cmp(&key(b)));
        for sample in &snapshot.cards {
            if sample.values.len() != fields.card_width {
                faults.push(format!(
                    "card {}: {} values, the configuration has {}",
                    sample.card,
                    sample.values.len(),
                    fields.card_width
                ));
            }
        }
        for sample in &snapshot.containers {
            if sample.values.len() != fields.container_width {
                faults.push(format!(
                    "card {}, pod {}, container {}: {} values, the configuration has {}",
                    sample.card,
                    sample.consumer.pod,
                    sample.consumer.container,
                    sample.values.len(),
                    fields.container_width
                ));
            }
        }
        (Self { fields, snapshot }, faults)
    }
}

/// What makes a container's series one of its own.
pub type Key<'a> = (&'a model::name::CardId, &'a model::name::PodRef, &'a str);

/// The key of a sample.
pub fn key(sample: &ContainerSample) -> Key<'_> {
    (
        &sample.card,
        &sample.consumer.pod,
        sample.consumer.container.as_str(),
    )
}

//! What the Runtime measures.

use std::time::Duration;

use model::name::CardId;

use super::{Consumer, Error};

/// What a metric's values are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MetricType {
    /// Goes up and down.
    Gauge,
    /// Only grows.
    Counter,
}

/// One metric that the Runtime measures.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Metric {
    /// A valid Prometheus name.
    pub name: String,
    /// One line.
    pub help: String,
    /// Gauge or counter.
    pub kind: MetricType,
}

/// Which metrics the Runtime measures. Invalid and repeated descriptors keep their position (so
/// that values stay aligned) as `None`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct MetricConfig {
    /// Samples carry the version that they follow.
    pub version: u64,
    /// One value a card.
    pub card: Vec<Option<Metric>>,
    /// One value a container and card.
    pub container: Vec<Option<Metric>>,
    /// How often the Runtime reads the hardware.
    pub collection_interval: Duration,
    /// What could not be used, one line each.
    pub malformed: Vec<String>,
}

/// Values of one card.
#[derive(Debug, Clone, PartialEq)]
pub struct CardSample {
    /// Which card.
    pub card: CardId,
    /// In the order of the configuration; NaN where not measured.
    pub values: Vec<f64>,
}

/// Values of one container on one card.
#[derive(Debug, Clone, PartialEq)]
pub struct ContainerSample {
    /// Which card.
    pub card: CardId,
    /// Whose.
    pub consumer: Consumer,
    /// In the order of the configuration; NaN where not measured.
    pub values: Vec<f64>,
}

/// One collection.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Snapshot {
    /// Which configuration the values follow.
    pub config_version: u64,
    /// Unix time of the collection, in milliseconds.
    pub timestamp_milliseconds: u64,
    /// One a card.
    pub cards: Vec<CardSample>,
    /// One a container and card.
    pub containers: Vec<ContainerSample>,
    /// What could not be used, one line each.
    pub malformed: Vec<String>,
}

/// What [`Client::watch_metrics`](super::Client::watch_metrics) yields.
#[derive(Debug, Clone)]
pub enum MetricEvent {
    /// The configuration, before the first snapshot that follows it.
    Config(MetricConfig),
    /// One collection.
    Snapshot(Snapshot),
    /// The connection broke; the next try comes after `retry_in`.
    Lost {
        /// Why.
        error: Error,
        /// When the next try is.
        retry_in: Duration,
    },
}

impl Snapshot {
    /// Without its values where they follow another configuration than `config`: they could not
    /// be told apart.
    #[must_use]
    pub(super) fn following(self, config: &MetricConfig) -> Self {
        if self.config_version == config.version {
            return self;
        }
        let why = format!(
            "the samples follow configuration {}, and the Runtime's is {}",
            self.config_version, config.version
        );
        Self {
            cards: Vec::new(),
            containers: Vec::new(),
            malformed: vec![why],
            ..self
        }
    }
}

//! All that the exporter knows, and how it changes: plain functions, no I/O.

use std::collections::BTreeMap;

use kubernetes::convert::PodDevices;
use model::{
    card::Inventory,
    name::{NodeName, PodRef},
    settings::Settings,
};
use runtime_proto::client::{Allocation, Cards, MetricConfig, Snapshot};

use crate::{
    faults::{Faults, Source},
    holding::{self, Holding},
    pods::{Lives, PodLife},
    samples::{Collection, Fields},
};

/// How the Runtime's metrics are doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Metrics {
    /// Asked, not answered yet.
    Waiting,
    /// Collections come.
    Live,
    /// This Runtime measures nothing: it is older than these calls.
    Absent,
    /// They stopped coming.
    Lost,
}

/// How the Runtime's card list is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CardList {
    Waiting,
    Live,
    Lost,
}

/// Which containers have cards.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Consumers {
    /// Whether `holdings` is kubelet's truth; else it is the Runtime's book.
    pub from_kubelet: bool,
    /// Whether `holdings` is known at all.
    pub known: bool,
    /// Sorted, one a card and container.
    pub holdings: Vec<Holding>,
    /// The containers that kubelet lists, with and without cards.
    pub listed: BTreeMap<PodRef, Vec<String>>,
}

/// All that the exporter knows. Every method that changes what is shown raises [`State::version`];
/// those that return lines return what is new for the log.
#[derive(Debug)]
pub struct State {
    /// The node's name.
    pub node: NodeName,
    /// Resource names and units.
    pub settings: Settings,
    cards: CardList,
    metrics: Metrics,
    inventory: Inventory,
    fields: Fields,
    collection: Option<Collection>,
    collections: u64,
    last_collection_milliseconds: Option<u64>,
    consumers: Consumers,
    pod_list_up: bool,
    lives: Lives,
    faults: Faults,
    version: u64,
}

impl State {
    /// Nothing known yet.
    pub fn new(node: NodeName, settings: Settings) -> Self {
        Self {
            node,
            settings,
            cards: CardList::Waiting,
            metrics: Metrics::Waiting,
            inventory: Inventory::default(),
            fields: Fields::default(),
            collection: None,
            collections: 0,
            last_collection_milliseconds: None,
            consumers: Consumers::default(),
            pod_list_up: false,
            lives: Lives::default(),
            faults: Faults::default(),
            version: 0,
        }
    }

    /// Grows with every change.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// Whether the first answers are there, or are known not to come now.
    pub fn is_settled(&self) -> bool {
        self.cards != CardList::Waiting && self.metrics != Metrics::Waiting
    }

    /// Whether the Runtime tells its cards and, if it has any, their metrics.
    pub fn runtime_up(&self) -> bool {
        self.cards == CardList::Live && matches!(self.metrics, Metrics::Live | Metrics::Absent)
    }

    /// The Runtime's card list.
    pub fn take_cards(&mut self, cards: Cards) -> Vec<String> {
        self.version += 1;
        self.cards = CardList::Live;
        self.inventory = cards.inventory;
        self.faults.note(Source::Cards, cards.malformed)
    }

    /// The card list can't be had now. What does not change about the cards stays: they are
    /// still in the machine, and containers still hold them.
    pub fn lose_cards(&mut self) {
        if self.cards != CardList::Lost {
            self.version += 1;
            self.cards = CardList::Lost;
        }
    }

    /// What the values of the snapshots to come mean.
    pub fn take_config(&mut self, config: MetricConfig) -> Vec<String> {
        let (fields, faults) = Fields::of(config);
        self.fields = fields;
        if !faults.is_empty() {
            self.version += 1;
        }
        self.faults.note(Source::Metrics, faults)
    }

    /// One collection. One that follows another configuration than the last known is passed
    /// over: its values could not be told apart, while those before it are still right.
    pub fn take_snapshot(&mut self, snapshot: Snapshot) -> Vec<String> {
        self.version += 1;
        if snapshot.config_version != self.fields.version {
            let skew = format!(
                "samples follow configuration {}, the last one known is {}",
                snapshot.config_version, self.fields.version
            );
            return self.faults.note(Source::Metrics, [skew]);
        }
        self.metrics = Metrics::Live;
        self.collections = self.collections.saturating_add(1);
        self.last_collection_milliseconds = Some(snapshot.timestamp_milliseconds);
        let (collection, faults) = Collection::new(self.fields.clone(), snapshot);
        self.collection = Some(collection);
        self.faults.note(Source::Metrics, faults)
    }

    /// Snapshots stopped coming. What was measured is dropped at once: a value that is not
    /// measured now is better missing than old.
    pub fn lose_metrics(&mut self) {
        self.end_metrics(Metrics::Lost);
    }

    /// The Runtime has no metrics at all.
    pub fn no_metrics(&mut self) {
        self.end_metrics(Metrics::Absent);
    }

    fn end_metrics(&mut self, to: Metrics) {
        if self.metrics != to || self.collection.is_some() {
            self.version += 1;
        }
        self.metrics = to;
        self.collection = None;
    }

    /// Kubelet's PodResources.
    pub fn take_pod_devices(&mut self, pods: &[PodDevices]) -> Vec<String> {
        let (holdings, faults) = holding::from_kubelet(pods, &self.settings);
        let mut listed: BTreeMap<PodRef, Vec<String>> = BTreeMap::new();
        for pod in pods {
            let names = pod.containers.iter().map(|c| c.name.clone());
            listed.entry(pod.pod.clone()).or_default().extend(names);
        }
        self.set_consumers(Consumers {
            from_kubelet: true,
            known: true,
            holdings,
            listed,
        });
        self.note(Source::Kubelet, faults)
    }

    /// Kubelet does not answer; the Runtime's book stands in for it, where that could be had.
    pub fn lose_pod_devices(&mut self, book: Option<&[Allocation]>) {
        self.set_consumers(Consumers {
            from_kubelet: false,
            known: book.is_some(),
            holdings: book.map(holding::from_book).unwrap_or_default(),
            listed: BTreeMap::new(),
        });
    }

    fn set_consumers(&mut self, consumers: Consumers) {
        if self.consumers != consumers {
            self.version += 1;
            self.consumers = consumers;
        }
    }

    /// The node's pods, and what of the list could not be read.
    pub fn take_pods(&mut self, pods: Vec<PodLife>, faults: Vec<String>) -> Vec<String> {
        let lives = Lives::of(pods);
        if !self.pod_list_up || self.lives != lives {
            self.version += 1;
        }
        self.pod_list_up = true;
        self.lives = lives;
        self.note(Source::Pods, faults)
    }

    /// The node's pods can't be had now. Those known to have ended stay ended.
    pub fn lose_pods(&mut self) {
        if std::mem::take(&mut self.pod_list_up) {
            self.version += 1;
        }
    }

    fn note(&mut self, source: Source, faults: Vec<String>) -> Vec<String> {
        if !faults.is_empty() {
            self.version += 1;
        }
        self.faults.note(source, faults)
    }

    /// The node's cards; the last known where the Runtime is away.
    pub fn inventory(&self) -> &Inventory {
        &self.inventory
    }

    /// Whether the card list is as the Runtime has it now.
    pub fn cards_are_live(&self) -> bool {
        self.cards == CardList::Live
    }

    /// The present values, if there are any.
    pub fn collection(&self) -> Option<&Collection> {
        self.collection.as_ref()
    }

    /// Collections so far.
    pub fn collections(&self) -> u64 {
        self.collections
    }

    /// Unix time of the last one.
    pub fn last_collection_milliseconds(&self) -> Option<u64> {
        self.last_collection_milliseconds
    }

    /// Which containers have cards.
    pub fn consumers(&self) -> &Consumers {
        &self.consumers
    }

    /// Which pods have ended.
    pub fn lives(&self) -> &Lives {
        &self.lives
    }

    /// Whether the pod list is fresh.
    pub fn pod_list_up(&self) -> bool {
        self.pod_list_up
    }

    /// What could not be used so far.
    pub fn faults(&self) -> &Faults {
        &self.faults
    }
}

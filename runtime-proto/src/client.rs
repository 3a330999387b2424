//! One client for both sockets: connects when first used, reconnects by itself.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use model::{
    card::Inventory,
    name::{ContainerName, PodRef, PodUid},
    plan::Grant,
};

/// Where the Runtime listens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sockets {
    /// `dp2mgr.sock`.
    pub device_manager: PathBuf,
    /// `config-daemon.sock`.
    pub config_daemon: PathBuf,
}

impl Sockets {
    /// Where vendors put it.
    pub const DEFAULT_FOLDER: &'static str = "/run/amp/eKitC/xdm/sockets";

    /// Both in that folder.
    pub fn in_folder(folder: &Path) -> Self {
        Self {
            device_manager: folder.join("dp2mgr.sock"),
            config_daemon: folder.join("config-daemon.sock"),
        }
    }
}

/// Why a call failed.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    /// No Runtime listens there, or it went away.
    #[error("no Runtime at {socket}: {why}")]
    Unavailable {
        /// Path of the socket.
        socket: String,
        /// From the transport.
        why: String,
    },
    /// It does not have this call: an older interface version.
    #[error("the Runtime has no {0}: it is older than this program")]
    Unimplemented(&'static str),
    /// It took longer than the caller allowed.
    #[error("the Runtime did not answer {call} within {within:?}")]
    Deadline {
        /// Which call.
        call: &'static str,
        /// How long was waited.
        within: Duration,
    },
    /// It said no.
    #[error("the Runtime refused {call}: {message}")]
    Refused {
        /// Which call.
        call: &'static str,
        /// Its words, cut to 300 characters.
        message: String,
    },
    /// What it said makes no sense.
    #[error("the Runtime's answer to {call} can't be used: {why}")]
    BadAnswer {
        /// Which call.
        call: &'static str,
        /// Which field of which object, and why.
        why: String,
    },
}

/// Who an allocation is for.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Consumer {
    /// The pod.
    pub pod: PodRef,
    /// Its uid.
    pub uid: PodUid,
    /// Which of its containers.
    pub container: ContainerName,
}

/// One allocation as asked, and as the Runtime's own book shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Allocation {
    /// Unique per container: `<pod uid>/<container>`.
    pub id: String,
    /// Who has it.
    pub consumer: Consumer,
    /// What.
    pub grants: Vec<Grant>,
}

/// What a container gets for its grants.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ContainerEdits {
    /// Environment, sorted by name.
    pub environment: Vec<(String, String)>,
    /// Mounts.
    pub mounts: Vec<Mount>,
    /// Device nodes.
    pub device_nodes: Vec<DeviceNode>,
    /// For the OCI runtime: `xdm.amp.com.<name>`, sorted.
    pub annotations: Vec<(String, String)>,
    /// Fully qualified CDI names.
    pub cdi_names: Vec<String>,
}

/// A bind mount.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mount {
    /// Absolute path in the container.
    pub container_path: String,
    /// Absolute path on the host.
    pub host_path: String,
    /// Whether it is read-only.
    pub read_only: bool,
}

/// A device node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceNode {
    /// Absolute path in the container.
    pub container_path: String,
    /// Absolute path on the host.
    pub host_path: String,
    /// Any of `r`, `w`, `m`.
    pub permissions: String,
}

/// The cards at one moment.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Cards {
    /// Grows with every change; starts again when the Runtime restarts.
    pub generation: u64,
    /// The usable cards of the message.
    pub inventory: Inventory,
    /// What of the message could not be used, one line each; such cards are not in `inventory`.
    pub malformed: Vec<String>,
}

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
    pub card: model::name::CardId,
    /// In the order of the configuration; NaN where not measured.
    pub values: Vec<f64>,
}

/// Values of one container on one card.
#[derive(Debug, Clone, PartialEq)]
pub struct ContainerSample {
    /// Which card.
    pub card: model::name::CardId,
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

/// Where the node's feature stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Off.
    Disabled,
    /// Being switched on.
    Enabling,
    /// On.
    Enabled,
    /// Being switched off.
    Disabling,
    /// The last switch failed.
    Failed,
    /// A phase that this version does not know.
    Unknown(i32),
}

/// The state of a switch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OperationStatus {
    /// Where it stands.
    pub phase: Phase,
    /// For a person.
    pub message: String,
    /// 0 to 100.
    pub progress_percent: u32,
}

/// A handle on the Runtime of this node. Cheap to clone; all clones share one connection a socket.
#[derive(Debug, Clone)]
pub struct Client {}

impl Client {
    /// Connects when first used.
    pub fn new(sockets: Sockets) -> Self {
        let _ = sockets;
        todo!("helper")
    }

    /// The Runtime's kinds and versions.
    pub async fn supported(&self) -> Result<Supported, Error> {
        todo!("helper")
    }

    /// The card lists: the first at once, then each change. On any break of the connection it
    /// says so, then reconnects with backoff (1 s, times 2, at most 30 s, jitter, reset after
    /// 60 s of health) for ever. Never ends; dropped, it stops.
    pub fn watch_cards(
        &self,
    ) -> impl futures_util::Stream<Item = CardEvent> + Send + Unpin + use<> {
        futures_util::stream::empty()
    }

    /// Grants cards to one container; idempotent.
    pub async fn allocate(
        &self,
        allocation: &Allocation,
        within: Duration,
    ) -> Result<ContainerEdits, Error> {
        let _ = (allocation, within);
        todo!("helper")
    }

    /// Ends allocations; idempotent. Those that existed.
    pub async fn release(&self, ids: &[String]) -> Result<Vec<String>, Error> {
        let _ = ids;
        todo!("helper")
    }

    /// The cards and the Runtime's own book.
    pub async fn book(&self) -> Result<(Cards, Vec<Allocation>), Error> {
        todo!("helper")
    }

    /// Which metrics it measures.
    pub async fn metric_config(&self) -> Result<MetricConfig, Error> {
        todo!("helper")
    }

    /// One collection.
    pub async fn metrics(&self) -> Result<Snapshot, Error> {
        todo!("helper")
    }

    /// Collections at an interval; reconnects like [`Client::watch_cards`].
    pub fn watch_metrics(
        &self,
        interval: Duration,
    ) -> impl futures_util::Stream<Item = MetricEvent> + Send + Unpin + use<> {
        let _ = interval;
        futures_util::stream::empty()
    }

    /// Starts switching the feature on.
    pub async fn enable(&self, request_id: &str) -> Result<OperationStatus, Error> {
        let _ = request_id;
        todo!("helper")
    }

    /// Starts switching it off.
    pub async fn disable(&self, request_id: &str) -> Result<OperationStatus, Error> {
        let _ = request_id;
        todo!("helper")
    }

    /// Where it stands.
    pub async fn feature_status(&self) -> Result<OperationStatus, Error> {
        todo!("helper")
    }
}

/// The Runtime's kinds and versions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Supported {
    /// Which kinds it drives.
    pub kinds: Vec<model::card::CardKind>,
    /// `MAJOR.MINOR` of the interface.
    pub interface_version: String,
    /// Of the Runtime itself.
    pub runtime_version: String,
}

/// What [`Client::watch_cards`] yields.
#[derive(Debug, Clone)]
pub enum CardEvent {
    /// The full list.
    Cards(Cards),
    /// The connection broke; the next try comes after `retry_in`.
    Lost {
        /// Why.
        error: Error,
        /// When the next try is.
        retry_in: Duration,
    },
}

/// What [`Client::watch_metrics`] yields.
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

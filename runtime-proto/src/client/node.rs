//! What the Runtime says of its node: kinds, cards, the feature.

use std::time::Duration;

use model::card::Inventory;

use super::Error;

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

/// What [`Client::watch_cards`](super::Client::watch_cards) yields.
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

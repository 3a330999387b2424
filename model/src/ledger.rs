//! The book of one node: what each pod holds on each card.
//!
//! Invariants, whatever calls are made in whatever order: no card's core or memory is promised
//! beyond its size; no card is in two modes; what was put in comes out exactly.

use crate::{
    card::{Card, Inventory},
    name::{CardId, PodUid},
    quantity::{CorePercent, MemoryBytes},
};

pub use crate::hold::{CardHold, Hold};

/// The mode a card is in now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CardMode {
    /// Nobody holds any of it.
    Free,
    /// One pod holds all of it.
    Whole,
    /// Time division.
    Shared,
    /// Cut into partitions.
    Partitioned,
}

/// Why a hold cannot be entered.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Conflict {
    /// No such card.
    #[error("card {0} is not on this node")]
    NoCard(CardId),
    /// Another pod's mode excludes this one.
    #[error("card {card} is {mode}")]
    Mode {
        /// Which card.
        card: CardId,
        /// `given whole`, `shared`, `partitioned`.
        mode: &'static str,
    },
    /// Not enough core left.
    #[error("card {card} has {free} core free of the {asked} asked")]
    Core {
        /// Which card.
        card: CardId,
        /// What is left.
        free: CorePercent,
        /// What was asked.
        asked: CorePercent,
    },
    /// Not enough memory left.
    #[error("card {card} has {free} free of the {asked} asked")]
    Memory {
        /// Which card.
        card: CardId,
        /// What is left.
        free: MemoryBytes,
        /// What was asked.
        asked: MemoryBytes,
    },
    /// The hold itself mixes modes on one card.
    #[error("one pod can't hold card {0} in two modes")]
    Mixed(CardId),
}

/// The book of one node.
#[derive(Debug, Clone, Default)]
pub struct Ledger {
    _fields_are_the_helpers_to_choose: (),
}

/// One card with what is left of it.
#[derive(Debug, Clone)]
pub struct CardState<'a> {
    /// The card.
    pub card: &'a Card,
    /// Its mode.
    pub mode: CardMode,
    /// Core not promised.
    pub free_core: CorePercent,
    /// Memory not promised.
    pub free_memory: MemoryBytes,
    /// How many pods hold some of it.
    pub pods: usize,
}

impl Ledger {
    /// An empty book over these cards.
    pub fn new(inventory: Inventory) -> Self {
        let _ = inventory;
        todo!("helper")
    }

    /// The cards.
    pub fn inventory(&self) -> &Inventory {
        todo!("helper")
    }

    /// The cards are now these: holds stay, also on a card that is gone (its pod still runs).
    pub fn set_inventory(&mut self, inventory: Inventory) {
        let _ = inventory;
        todo!("helper")
    }

    /// Each card with what is left of it, in the inventory's order.
    pub fn cards(&self) -> impl Iterator<Item = CardState<'_>> {
        std::iter::empty()
    }

    /// Whether `pod` could hold this instead of what it holds now.
    pub fn check(&self, pod: &PodUid, hold: &Hold) -> Result<(), Conflict> {
        let _ = (pod, hold);
        todo!("helper")
    }

    /// Enters what `pod` holds, in place of what it held before. On a conflict nothing changes.
    pub fn hold(&mut self, pod: &PodUid, hold: Hold) -> Result<(), Conflict> {
        let _ = (pod, hold);
        todo!("helper")
    }

    /// Enters what is already so (a running pod), even where it goes beyond a card: the truth is
    /// not refused. Says the first conflict it makes. Such a card gives nothing more out.
    pub fn hold_truth(&mut self, pod: &PodUid, hold: Hold) -> Option<Conflict> {
        let _ = (pod, hold);
        todo!("helper")
    }

    /// The pod has ended. What it held, if it held anything.
    pub fn remove(&mut self, pod: &PodUid) -> Option<Hold> {
        let _ = pod;
        todo!("helper")
    }

    /// What that pod holds.
    pub fn of(&self, pod: &PodUid) -> Option<&Hold> {
        let _ = pod;
        todo!("helper")
    }

    /// All pods with what they hold.
    pub fn pods(&self) -> impl Iterator<Item = (&PodUid, &Hold)> {
        std::iter::empty()
    }
}

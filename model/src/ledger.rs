//! The book of one node: what each pod holds on each card.
//!
//! Invariants, whatever calls are made in whatever order: no card's core or memory is promised
//! beyond its size; no card is in two modes; what was put in comes out exactly.
//!
//! What a pod holds is its peak (see [`crate::phase`]): kubelet keeps every device of a pod for
//! it until it ends, those of its init containers included.
//!
//! The sums of a card are never added to or taken from: they are made anew from the pods'
//! holds when one of them changes. A node has few pods, and a sum made anew can't drift.

use std::sync::Arc;

use crate::{
    card::{Card, CardKind, Inventory},
    name::{CardId, PodUid, ProfileName},
    quantity::{CorePercent, MemoryBytes},
    tally::Tally,
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
        /// `given whole`, `shared`, `partitioned`, `not shareable`, `promised beyond its size`.
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
    /// Not enough partitions left, or no such profile on the card.
    #[error("card {card} has room for {free} of the {asked} partitions {profile} asked")]
    Partition {
        /// Which card.
        card: CardId,
        /// Which cut.
        profile: ProfileName,
        /// How many more of it fit.
        free: u32,
        /// What was asked.
        asked: u32,
    },
    /// Nothing more is given out on a card that can't be used; what runs there stays.
    #[error("card {0} is unhealthy")]
    Unhealthy(CardId),
    /// The hold itself mixes modes on one card.
    #[error("one pod can't hold card {0} in two modes")]
    Mixed(CardId),
}

/// What placement asks of a card, kept ready: a scheduler looks at many thousands of cards for
/// each pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Room {
    /// Not promised.
    pub(crate) memory: MemoryBytes,
    /// All of the card's.
    pub(crate) size: MemoryBytes,
    /// How many pods hold some of it.
    pub(crate) pods: u32,
    /// How much of the card is promised, of 1000: the larger of core (or slices) and memory; all
    /// of it where it is given whole or gives nothing out.
    pub(crate) used: u16,
    /// Not promised.
    pub(crate) core: u8,
    pub(crate) kind: CardKind,
    /// Position of the first card of this model.
    pub(crate) model: u16,
    pub(crate) mode: CardMode,
    pub(crate) healthy: bool,
    /// Healthy, and not promised beyond its size.
    pub(crate) open: bool,
    pub(crate) shareable: bool,
    /// How many more of each of the card's profiles find room, each alone; empty where none can.
    pub(crate) partitions: Box<[u32]>,
}

impl Room {
    fn of(inventory: &Inventory, card: &Card, tally: &Tally<'_>) -> Self {
        let (core, memory) = (tally.free_core(card), tally.free_memory(card));
        let mode = tally.mode();
        let healthy = card.health.is_healthy();
        let open = healthy && !tally.is_beyond(card);
        let used = match mode {
            _ if !open => 1000,
            CardMode::Free => 0,
            CardMode::Whole => 1000,
            CardMode::Shared | CardMode::Partitioned => used(core.percent(), memory, card.memory),
        };
        Self {
            memory,
            size: card.memory,
            pods: tally.pods(),
            used,
            core: u8::try_from(core.percent()).unwrap_or(u8::MAX),
            kind: card.kind,
            model: first_like(inventory, card),
            mode,
            healthy,
            open,
            shareable: card.shareable,
            partitions: if open {
                tally.rooms_for(card)
            } else {
                Box::default()
            },
        }
    }
}

/// Where the first card of that card's model stands.
fn first_like(inventory: &Inventory, card: &Card) -> u16 {
    let mut all = inventory.cards().iter();
    let first = all.position(|other| other.model == card.model);
    first.map_or(u16::MAX, |at| u16::try_from(at).unwrap_or(u16::MAX))
}

/// How much of a shared card is promised, of 1000, when this much is left.
pub(crate) fn used(free_core: u32, free: MemoryBytes, size: MemoryBytes) -> u16 {
    let core = 1000 - free_core.min(100) * 10;
    let promised = size.saturating_sub(free).bytes();
    let memory = match promised.checked_mul(1000) {
        Some(thousandfold) => thousandfold / size.bytes().max(1),
        None => promised / (size.bytes() / 1000).max(1),
    };
    u16::try_from(u64::from(core).max(memory)).map_or(1000, |used| used.min(1000))
}

/// The book of one node.
#[derive(Debug, Clone, Default)]
pub struct Ledger {
    inventory: Arc<Inventory>,
    /// One a card, in the inventory's order.
    rooms: Box<[Room]>,
    /// Sum of the rooms' use, of 1000 a card.
    used: u64,
    /// Sorted by uid.
    pods: Vec<(PodUid, Hold)>,
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
    /// An empty book over these cards. Nodes with the same cards can share one inventory.
    pub fn new(inventory: impl Into<Arc<Inventory>>) -> Self {
        let mut ledger = Self::default();
        ledger.set_inventory(inventory);
        ledger
    }

    /// The cards.
    pub fn inventory(&self) -> &Inventory {
        &self.inventory
    }

    /// The cards are now these: holds stay, also on a card that is gone (its pod still runs).
    pub fn set_inventory(&mut self, inventory: impl Into<Arc<Inventory>>) {
        self.inventory = inventory.into();
        self.rooms = self
            .inventory
            .cards()
            .iter()
            .map(|card| Room::of(&self.inventory, card, &self.tally(&card.id, None)))
            .collect();
        self.sum_up();
    }

    /// Each card with what is left of it, in the inventory's order.
    pub fn cards(&self) -> impl Iterator<Item = CardState<'_>> {
        self.inventory
            .cards()
            .iter()
            .zip(&self.rooms)
            .map(|(card, room)| CardState {
                card,
                mode: room.mode,
                free_core: CorePercent::new(room.core.into()),
                free_memory: room.memory,
                pods: usize::try_from(room.pods).unwrap_or(usize::MAX),
            })
    }

    /// Whether `pod` could hold this instead of what it holds now.
    pub fn check(&self, pod: &PodUid, hold: &Hold) -> Result<(), Conflict> {
        let before = self.of(pod);
        for (id, asked) in hold.iter() {
            let card = self
                .inventory
                .get(id)
                .ok_or_else(|| Conflict::NoCard(id.clone()))?;
            let before = before.and_then(|before| before.get(id));
            if asked.is_mixed() {
                return Err(Conflict::Mixed(id.clone()));
            }
            if before.is_none() && !card.health.is_healthy() {
                return Err(Conflict::Unhealthy(id.clone()));
            }
            if asked.shares() && !card.shareable && !before.is_some_and(CardHold::shares) {
                return Err(Conflict::Mode {
                    card: id.clone(),
                    mode: "not shareable",
                });
            }
            self.tally(id, Some(pod)).check(card, asked)?;
        }
        Ok(())
    }

    /// Enters what `pod` holds, in place of what it held before. On a conflict nothing changes.
    pub fn hold(&mut self, pod: &PodUid, hold: Hold) -> Result<(), Conflict> {
        self.check(pod, &hold)?;
        self.enter(pod, hold);
        Ok(())
    }

    /// Enters what is already so (a running pod), even where it goes beyond a card: the truth is
    /// not refused. Says the first conflict it makes. Such a card gives nothing more out.
    pub fn hold_truth(&mut self, pod: &PodUid, hold: Hold) -> Option<Conflict> {
        let conflict = self.check(pod, &hold).err();
        self.enter(pod, hold);
        conflict
    }

    /// The pod has ended. What it held, if it held anything.
    pub fn remove(&mut self, pod: &PodUid) -> Option<Hold> {
        let at = self.find(pod).ok()?;
        let (_, hold) = self.pods.remove(at);
        for card in hold.cards() {
            self.refresh(card);
        }
        self.sum_up();
        Some(hold)
    }

    /// What that pod holds.
    pub fn of(&self, pod: &PodUid) -> Option<&Hold> {
        let at = self.find(pod).ok()?;
        self.pods.get(at).map(|(_, hold)| hold)
    }

    /// All pods with what they hold, sorted by uid.
    pub fn pods(&self) -> impl Iterator<Item = (&PodUid, &Hold)> {
        self.pods.iter().map(|(pod, hold)| (pod, hold))
    }

    pub(crate) fn rooms(&self) -> &[Room] {
        &self.rooms
    }

    /// The model of that room's card.
    pub(crate) fn model(&self, room: &Room) -> &str {
        let card = self.inventory.cards().get(usize::from(room.model));
        card.map_or("", |card| &card.model)
    }

    /// Whether the card at that position has room for these partitions beside what is held.
    pub(crate) fn has_room_for(&self, at: usize, asked: &[(usize, u32)]) -> bool {
        match asked {
            [] => true,
            // Kept ready.
            [(profile, count)] => {
                let room = self.rooms.get(at).and_then(|r| r.partitions.get(*profile));
                room.is_some_and(|room| room >= count)
            }
            _ => self.inventory.cards().get(at).is_some_and(|card| {
                self.tally(&card.id, None)
                    .have_room(card, asked.iter().copied())
            }),
        }
    }

    /// Sum of all cards' use, of 1000 a card.
    pub(crate) fn used(&self) -> u64 {
        self.used
    }

    fn enter(&mut self, pod: &PodUid, hold: Hold) {
        self.remove(pod);
        if hold.is_empty() {
            return;
        }
        let cards: Vec<CardId> = hold.cards().cloned().collect();
        if let Err(at) = self.find(pod) {
            self.pods.insert(at, (pod.clone(), hold));
        }
        for card in &cards {
            self.refresh(card);
        }
        self.sum_up();
    }

    fn find(&self, pod: &PodUid) -> Result<usize, usize> {
        self.pods.binary_search_by(|(known, _)| known.cmp(pod))
    }

    /// What all pods but `except` hold on that card.
    fn tally(&self, card: &CardId, except: Option<&PodUid>) -> Tally<'_> {
        let mut tally = Tally::default();
        for (pod, hold) in &self.pods {
            if Some(pod) != except
                && let Some(hold) = hold.get(card)
            {
                tally.add(hold);
            }
        }
        tally
    }

    fn refresh(&mut self, id: &CardId) {
        let Some(at) = self.inventory.position(id) else {
            return;
        };
        let Some(card) = self.inventory.cards().get(at) else {
            return;
        };
        let room = Room::of(&self.inventory, card, &self.tally(id, None));
        if let Some(slot) = self.rooms.get_mut(at) {
            *slot = room;
        }
    }

    fn sum_up(&mut self) {
        self.used = self.rooms.iter().map(|room| u64::from(room.used)).sum();
    }
}

#[cfg(test)]
#[path = "ledger_tests.rs"]
mod tests;

//! One node of the index: its ledger, and what keeps it from being used.

use model::{
    annotation::AnnotationError,
    card::Inventory,
    ledger::{Conflict, Hold, Ledger},
    name::{NodeName, PodUid},
};

use crate::{
    inventories::NodeInventory,
    memo::Memoized,
    reason::{Reason, Rejection},
};

/// What the watch says of a node.
#[derive(Debug, Clone)]
pub struct NodeSeen {
    /// Its name.
    pub name: NodeName,
    /// Its cards, as its inventory annotation has them.
    pub cards: NodeCards,
}

/// What a node's inventory annotation says.
#[derive(Debug, Clone)]
pub enum NodeCards {
    /// It has none.
    NotPublished,
    /// It can't be read.
    Unreadable(AnnotationError),
    /// The cards, and whether anything may be bound to them now.
    Known(NodeInventory),
}

/// What is known of the node's cards; [`NodeCards`] without the cards.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
enum Cards {
    /// Pods name the node, the watch has not shown it (yet, or any more).
    #[default]
    NoNode,
    NotPublished,
    Unreadable(AnnotationError),
    Known {
        paused: bool,
    },
}

/// One node of the index. It outlives its Kubernetes object while pods name it, because a pod
/// may be seen before its node, and holds its cards until the pod itself goes.
#[derive(Debug, Clone, Default)]
pub struct Node {
    room: Memoized<Room>,
    /// Pods of the index that name this node, those of [`Room::not_known`] included.
    pods: u32,
}

/// All that says whether a pod finds room.
#[derive(Debug, Clone, Default)]
pub(crate) struct Room {
    cards: Cards,
    ledger: Ledger,
    /// Pods that are bound here and whose cards are not known.
    not_known: u32,
}

impl Node {
    /// The book of this node.
    pub fn ledger(&self) -> &Ledger {
        &self.room.ledger
    }

    /// What findings are kept with.
    pub(crate) fn room(&self) -> &Memoized<Room> {
        &self.room
    }

    /// Pods bound here whose cards are not known.
    pub fn not_known(&self) -> u32 {
        self.room.not_known
    }

    /// Why nothing can be placed here now, whatever is asked.
    pub fn closed(&self) -> Option<Rejection> {
        let reason = match &self.room.cards {
            Cards::Known { paused: true } => Reason::Paused,
            Cards::Known { .. } if self.room.not_known == 0 => return None,
            Cards::Known { .. } => return Some(Rejection::mendable(Reason::CardsNotKnown)),
            Cards::NoNode => Reason::UnknownNode,
            Cards::NotPublished => Reason::NoInventory,
            Cards::Unreadable(_) => Reason::UnreadableInventory,
        };
        Some(Rejection::never(reason))
    }

    /// What is wrong with the inventory annotation.
    pub fn unreadable(&self) -> Option<&AnnotationError> {
        match &self.room.cards {
            Cards::Unreadable(error) => Some(error),
            _ => None,
        }
    }

    /// Whether the watch shows the node.
    pub fn is_present(&self) -> bool {
        self.room.cards != Cards::NoNode
    }

    /// Whether nothing is left that this entry is kept for.
    pub(crate) fn is_forgettable(&self) -> bool {
        !self.is_present() && self.pods == 0
    }

    /// Enters what the watch says of the cards. Holds stay as they are. An inventory that became
    /// unreadable is returned once.
    pub(crate) fn see(&mut self, cards: NodeCards) -> Option<AnnotationError> {
        let new = match cards {
            NodeCards::Known(NodeInventory { cards, paused }) => {
                // Heartbeats bring the same cards again and again.
                if !std::ptr::eq(self.room.ledger.inventory(), &raw const *cards)
                    && *self.room.ledger.inventory() != *cards
                {
                    self.room.change().ledger.set_inventory(cards);
                }
                Cards::Known { paused }
            }
            NodeCards::NotPublished => Cards::NotPublished,
            NodeCards::Unreadable(error) => Cards::Unreadable(error),
        };
        if !matches!(new, Cards::Known { .. }) {
            self.drop_cards();
        }
        let news = match &new {
            Cards::Unreadable(error) if self.room.cards != new => Some(error.clone()),
            _ => None,
        };
        if self.room.cards != new {
            self.room.change().cards = new;
        }
        news
    }

    /// The node's object is gone.
    pub(crate) fn gone(&mut self) {
        self.room.change().cards = Cards::NoNode;
        self.drop_cards();
    }

    fn drop_cards(&mut self) {
        if !self.room.ledger.inventory().cards().is_empty() {
            self.room
                .change()
                .ledger
                .set_inventory(Inventory::default());
        }
    }

    pub(crate) fn count_pod(&mut self) {
        self.pods = self.pods.saturating_add(1);
    }

    pub(crate) fn uncount_pod(&mut self) {
        self.pods = self.pods.saturating_sub(1);
    }

    pub(crate) fn count_not_known(&mut self) {
        let room = self.room.change();
        room.not_known = room.not_known.saturating_add(1);
    }

    pub(crate) fn uncount_not_known(&mut self) {
        let room = self.room.change();
        room.not_known = room.not_known.saturating_sub(1);
    }

    pub(crate) fn hold(&mut self, pod: &PodUid, hold: Hold) -> Result<(), Conflict> {
        self.room.change().ledger.hold(pod, hold)
    }

    pub(crate) fn hold_truth(&mut self, pod: &PodUid, hold: Hold) -> Option<Conflict> {
        self.room.change().ledger.hold_truth(pod, hold)
    }

    pub(crate) fn remove(&mut self, pod: &PodUid) {
        self.room.change().ledger.remove(pod);
    }
}

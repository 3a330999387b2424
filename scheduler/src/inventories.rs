//! Inventory annotations, each text read once: the nodes of a cluster mostly have the same cards,
//! and a node comes again with every heartbeat. Nodes with the same text share one inventory.

use std::{collections::HashMap, sync::Arc};

use model::{
    annotation::{AnnotationError, Published, read_inventory},
    card::Inventory,
};

/// Different texts that are kept: more kinds of server than any cluster has, each twice (paused
/// and not) and with some cards unhealthy.
const MOST: usize = 256;

/// What a node publishes.
#[derive(Debug, Clone)]
pub struct NodeInventory {
    /// Its cards.
    pub cards: Arc<Inventory>,
    /// Nothing is to be bound there now.
    pub paused: bool,
}

impl From<Published> for NodeInventory {
    fn from(Published { cards, paused }: Published) -> Self {
        Self {
            cards: Arc::new(cards),
            paused,
        }
    }
}

/// The texts that were read.
#[derive(Debug, Default)]
pub struct Inventories {
    known: HashMap<Box<str>, NodeInventory>,
}

impl Inventories {
    /// What the text says.
    pub fn read(&mut self, text: &str) -> Result<NodeInventory, AnnotationError> {
        if let Some(known) = self.known.get(text) {
            return Ok(known.clone());
        }
        let read = NodeInventory::from(read_inventory(text)?);
        if self.known.len() >= MOST {
            // Texts that no node has any more.
            self.known
                .retain(|_, known| Arc::strong_count(&known.cards) > 1);
        }
        if self.known.len() < MOST {
            self.known.insert(text.into(), read.clone());
        }
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use model::annotation::write_inventory;

    use super::*;
    use crate::testing::inventory;

    fn text(cards: u32, gib: u64) -> String {
        write_inventory(&Published {
            cards: inventory(cards, gib),
            paused: false,
        })
    }

    fn memory(read: &NodeInventory) -> Vec<u64> {
        let cards = read.cards.cards().iter();
        cards.map(|card| card.memory.bytes() >> 30).collect()
    }

    #[test]
    fn nodes_with_the_same_text_share_one_inventory() {
        let mut inventories = Inventories::default();
        let one = inventories.read(&text(2, 144)).unwrap();
        let other = inventories.read(&text(2, 144)).unwrap();
        assert!(Arc::ptr_eq(&one.cards, &other.cards));
        let smaller = inventories.read(&text(2, 80)).unwrap();
        assert_eq!(memory(&one), [144, 144]);
        assert_eq!(memory(&smaller), [80, 80]);
        assert!(inventories.read("{}").is_err());
    }

    #[test]
    fn no_number_of_different_texts_fills_the_memory() {
        let mut inventories = Inventories::default();
        let kept: Vec<_> = (1..300)
            .map(|gib| inventories.read(&text(1, gib)).unwrap())
            .collect();
        assert_eq!(inventories.known.len(), MOST);
        drop(kept);
        // Those of nodes that are gone make room.
        let after = inventories.read(&text(1, 300)).unwrap();
        assert_eq!(memory(&after), [300]);
        assert_eq!(inventories.known.len(), 1);
    }
}

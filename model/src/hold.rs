//! What one pod holds on its cards.

use std::collections::BTreeMap;

use crate::{
    name::{CardId, ProfileName},
    quantity::{CorePercent, MemoryBytes},
};

/// What one pod holds on one card. All zero never stands in a `Hold`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CardHold {
    /// All of it, alone.
    pub whole: bool,
    /// Of the card's 100.
    pub core: CorePercent,
    /// Of the card's memory.
    pub memory: MemoryBytes,
    /// Whether it shares the card (a share may be of 0 core and 0 memory).
    pub shared: bool,
    /// Partitions by profile.
    pub partitions: BTreeMap<ProfileName, u32>,
}

impl CardHold {
    /// All of the card.
    pub fn whole() -> Self {
        Self {
            whole: true,
            ..Self::default()
        }
    }

    /// A share of the card.
    pub fn share(core: CorePercent, memory: MemoryBytes) -> Self {
        Self {
            core,
            memory,
            shared: true,
            ..Self::default()
        }
    }

    /// Partitions of the card, all of one profile.
    pub fn partition(profile: ProfileName, count: u32) -> Self {
        Self {
            partitions: BTreeMap::from([(profile, count)]),
            ..Self::default()
        }
    }

    /// Whether it is by time division, said or to be seen from its core or memory.
    pub fn shares(&self) -> bool {
        self.shared || self.core > CorePercent::ZERO || self.memory > MemoryBytes::ZERO
    }

    /// Whether it is of partitions.
    pub fn partitioned(&self) -> bool {
        self.partitions.values().any(|count| *count > 0)
    }

    /// Whether it is of two modes at once.
    pub fn is_mixed(&self) -> bool {
        u8::from(self.whole) + u8::from(self.shares()) + u8::from(self.partitioned()) > 1
    }

    /// Whether it is of nothing at all.
    pub fn is_nothing(&self) -> bool {
        !self.whole && !self.shares() && !self.partitioned()
    }
}

/// What one pod holds on its cards: a map from card to [`CardHold`], kept as a short sorted
/// list because a scheduler keeps tens of thousands of them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Hold {
    cards: Vec<(CardId, CardHold)>,
}

impl Hold {
    /// Holds nothing.
    pub const fn new() -> Self {
        Self { cards: Vec::new() }
    }

    /// Whether it holds nothing.
    pub fn is_empty(&self) -> bool {
        self.cards.is_empty()
    }

    /// On how many cards.
    pub fn len(&self) -> usize {
        self.cards.len()
    }

    /// What it holds on that card.
    pub fn get(&self, card: &CardId) -> Option<&CardHold> {
        let at = self.find(card).ok()?;
        self.cards.get(at).map(|(_, hold)| hold)
    }

    /// Sets what it holds on that card; nothing takes the card out.
    pub fn insert(&mut self, card: CardId, hold: CardHold) {
        match (self.find(&card), hold.is_nothing()) {
            (Ok(at), true) => {
                self.cards.remove(at);
            }
            (Ok(at), false) => {
                if let Some((_, old)) = self.cards.get_mut(at) {
                    *old = hold;
                }
            }
            (Err(_), true) => {}
            (Err(at), false) => {
                self.cards.reserve_exact(1);
                self.cards.insert(at, (card, hold));
            }
        }
    }

    /// Each card with what it holds there, sorted by card.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&CardId, &CardHold)> {
        self.cards.iter().map(|(card, hold)| (card, hold))
    }

    /// The cards, sorted.
    pub fn cards(&self) -> impl ExactSizeIterator<Item = &CardId> {
        self.cards.iter().map(|(card, _)| card)
    }

    fn find(&self, card: &CardId) -> Result<usize, usize> {
        self.cards.binary_search_by(|(known, _)| known.cmp(card))
    }
}

impl FromIterator<(CardId, CardHold)> for Hold {
    fn from_iter<I: IntoIterator<Item = (CardId, CardHold)>>(cards: I) -> Self {
        let mut hold = Self::new();
        for (card, on_it) in cards {
            hold.insert(card, on_it);
        }
        hold
    }
}

impl IntoIterator for Hold {
    type Item = (CardId, CardHold);
    type IntoIter = std::vec::IntoIter<(CardId, CardHold)>;
    fn into_iter(self) -> Self::IntoIter {
        self.cards.into_iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn card(text: &str) -> CardId {
        CardId::new(text).unwrap()
    }

    #[test]
    fn is_a_map_sorted_by_card_in_which_nothing_never_stands() {
        let half = CardHold::share(CorePercent::new(50), MemoryBytes::ZERO);
        let mut hold: Hold = [
            (card("b"), CardHold::whole()),
            (card("a"), half.clone()),
            (card("c"), CardHold::default()),
        ]
        .into_iter()
        .collect();
        let cards: Vec<&str> = hold.cards().map(CardId::as_str).collect();
        assert_eq!(cards, ["a", "b"]);
        assert_eq!(hold.get(&card("a")), Some(&half));
        hold.insert(card("a"), CardHold::whole());
        assert_eq!(hold.get(&card("a")), Some(&CardHold::whole()));
        hold.insert(card("a"), CardHold::default());
        hold.insert(card("b"), CardHold::default());
        assert!(hold.is_empty());
    }

    #[test]
    fn a_share_of_nothing_is_a_hold() {
        let share = CardHold::share(CorePercent::ZERO, MemoryBytes::ZERO);
        assert!(!share.is_nothing() && share.shares());
    }

    #[test]
    fn two_modes_at_once_are_seen_even_where_sharing_is_not_said() {
        let profile = ProfileName::new("1g.18gb").unwrap();
        let mut hold = CardHold::partition(profile, 1);
        assert!(!hold.is_mixed());
        hold.core = CorePercent::new(1);
        assert!(hold.is_mixed());
    }
}

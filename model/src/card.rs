//! Cards of one node and how they hang together.

use serde::{Deserialize, Serialize};

use crate::{
    name::{CardId, ProfileName},
    quantity::MemoryBytes,
};

/// The family of accelerator.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CardKind {
    /// NVIDIA.
    Gpu,
    /// T-Head PPU.
    Ppu,
    /// Enflame.
    Gcu,
    /// Kunlunxin.
    Xpu,
    /// AMD.
    Amd,
    /// A kind that this version of the kit does not know: usable by the generic names.
    Other,
}

/// Whether a card can be given out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Health {
    /// It can.
    Healthy,
    /// It cannot, with the reason; what runs on it is left alone.
    Unhealthy(String),
}

impl Health {
    /// Whether the card can be given out.
    pub const fn is_healthy(&self) -> bool {
        matches!(self, Self::Healthy)
    }
}

/// One cut that a card can be divided into.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartitionProfile {
    /// Such as `1g.18gb`.
    pub name: ProfileName,
    /// Compute slices that one takes.
    pub slices: u32,
    /// Memory that one has.
    pub memory: MemoryBytes,
    /// How many of this profile alone fit on the card.
    pub max_count: u32,
}

/// Which partition is asked for.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Cut {
    /// One with so many slices; of several the one with the least memory.
    Slices(u32),
    /// Of that profile.
    Profile(ProfileName),
}

impl std::fmt::Display for Cut {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Slices(1) => write!(f, "of 1 slice"),
            Self::Slices(slices) => write!(f, "of {slices} slices"),
            Self::Profile(profile) => write!(f, "{profile}"),
        }
    }
}

/// A direct link to another card of the node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Link {
    /// The card at the other end.
    pub peer: CardId,
    /// Sum over all links of the pair, in each direction, in bytes a second.
    pub bandwidth: u64,
}

/// One accelerator card.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Card {
    /// Unique on the node, stable across restarts.
    pub id: CardId,
    /// Position on the node, from 0.
    pub index: u32,
    /// Its family.
    pub kind: CardKind,
    /// As sold, such as `PPU-144G`.
    pub model: String,
    /// The vendor's unique id.
    pub uuid: String,
    /// All of its memory.
    pub memory: MemoryBytes,
    /// Whether it can be given out.
    pub health: Health,
    /// Its NUMA node, where known.
    pub numa: Option<u32>,
    /// Cards with the same value hang on one PCIe switch.
    pub switch: Option<String>,
    /// Direct links to other cards.
    pub links: Vec<Link>,
    /// What it can be cut into.
    pub profiles: Vec<PartitionProfile>,
    /// Whether it can be shared by time division.
    pub shareable: bool,
}

impl Card {
    /// How many slices partitions can have together: as many as the profile that uses the most.
    pub fn slices(&self) -> u64 {
        let uses = |p: &PartitionProfile| u64::from(p.slices) * u64::from(p.max_count);
        self.profiles.iter().map(uses).max().unwrap_or(0)
    }

    /// Where the profile that is meant stands in [`Self::profiles`].
    pub fn position_of(&self, cut: &Cut) -> Option<usize> {
        match cut {
            Cut::Profile(name) => self.profiles.iter().position(|p| p.name == *name),
            Cut::Slices(slices) => {
                let all = self.profiles.iter().enumerate();
                all.filter(|(_, p)| p.slices == *slices)
                    .min_by_key(|(_, p)| (p.memory, &p.name))
                    .map(|(at, _)| at)
            }
        }
    }

    /// The profile that is meant.
    pub fn profile_of(&self, cut: &Cut) -> Option<&PartitionProfile> {
        self.profiles.get(self.position_of(cut)?)
    }
}

/// The cards of one node, in the order of their index; ids are unique.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Inventory {
    cards: Vec<Card>,
    /// The link between each two cards, row by row; empty where there are none.
    links: Box<[u32]>,
}

/// Two cards with the same id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("card id {0:?} is there twice")]
pub struct DuplicateCard(pub CardId);

impl Inventory {
    /// Sorts by index, then id; refuses two cards of the same id.
    pub fn new(mut cards: Vec<Card>) -> Result<Self, DuplicateCard> {
        cards.sort_by(|a, b| (a.index, &a.id).cmp(&(b.index, &b.id)));
        let mut ids: Vec<&CardId> = cards.iter().map(|c| &c.id).collect();
        ids.sort_unstable();
        if let Some(twice) = ids
            .windows(2)
            .find(|w| w.first() == w.last())
            .and_then(|w| w.first())
        {
            return Err(DuplicateCard((*twice).clone()));
        }
        let links = link_matrix(&mut cards);
        Ok(Self { cards, links })
    }

    /// All but that card.
    #[must_use]
    pub fn without(&self, id: &CardId) -> Self {
        let rest = self.cards.iter().filter(|c| c.id != *id).cloned();
        // Of cards without a twin none has one.
        Self::new(rest.collect()).unwrap_or_default()
    }

    /// All cards.
    pub fn cards(&self) -> &[Card] {
        &self.cards
    }

    /// Bandwidth in MiB/s between the cards at these two positions; 0 where no link is known.
    pub fn link(&self, a: usize, b: usize) -> u32 {
        let count = self.cards.len();
        if b >= count {
            return 0;
        }
        self.links.get(a * count + b).copied().unwrap_or(0)
    }

    /// The card of that id.
    pub fn get(&self, id: &CardId) -> Option<&Card> {
        self.cards.iter().find(|c| c.id == *id)
    }

    /// Where that card stands in [`Self::cards`].
    pub fn position(&self, id: &CardId) -> Option<usize> {
        self.cards.iter().position(|c| c.id == *id)
    }
}

/// Kept because placement asks for thousands of pairs a pod. Links to cards that are not there
/// are passed over; a link that only one end tells of counts for both.
fn link_matrix(cards: &mut [Card]) -> Box<[u32]> {
    /// No node has more cards; a longer list is somebody's mistake, not worth a matrix.
    const MOST_CARDS: usize = 64;
    let count = cards.len();
    if count > MOST_CARDS || cards.iter().all(|card| card.links.is_empty()) {
        return Box::default();
    }
    // The peers share the text of the cards' own ids: a scheduler keeps very many of them.
    let ids: Vec<CardId> = cards.iter().map(|card| card.id.clone()).collect();
    let mut links = vec![0_u32; count * count];
    for (a, card) in cards.iter_mut().enumerate() {
        for link in &mut card.links {
            let Some((b, id)) = ids.iter().enumerate().find(|(_, id)| **id == link.peer) else {
                continue;
            };
            link.peer = id.clone();
            if a == b {
                continue;
            }
            let mib = u32::try_from(link.bandwidth >> 20).map_or(u32::MAX, |mib| mib.max(1));
            for at in [a * count + b, b * count + a] {
                if let Some(slot) = links.get_mut(at) {
                    *slot = mib.max(*slot);
                }
            }
        }
    }
    links.into()
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A healthy PPU card without links, `ppu-<n>`.
    pub(crate) fn card(n: u32, gib: u64) -> Card {
        Card {
            id: CardId::new(&format!("ppu-{n}")).unwrap(),
            index: n,
            kind: CardKind::Ppu,
            model: "PPU-144G".into(),
            uuid: format!("PPU-{n:04}"),
            memory: MemoryBytes::from_gib(gib),
            health: Health::Healthy,
            numa: None,
            switch: None,
            links: Vec::new(),
            profiles: Vec::new(),
            shareable: true,
        }
    }

    /// 7 slices of 3 GiB, cut by one, two or all.
    pub(crate) fn profiles() -> Vec<PartitionProfile> {
        let profile = |slices: u32| PartitionProfile {
            name: ProfileName::new(&format!("{slices}g")).unwrap(),
            slices,
            memory: MemoryBytes::from_gib(u64::from(slices) * 3),
            max_count: 7 / slices,
        };
        [1, 2, 7].map(profile).to_vec()
    }

    #[test]
    fn of_several_profiles_of_so_many_slices_the_one_with_the_least_memory_is_meant() {
        let mut cut = card(0, 24);
        let mut large = profiles().remove(0);
        large.name = ProfileName::new("1g+mem").unwrap();
        large.memory = MemoryBytes::from_gib(6);
        cut.profiles = vec![large];
        cut.profiles.extend(profiles());
        let name = |cut_of: &Cut| cut.profile_of(cut_of).map(|p| p.name.as_str());
        assert_eq!(name(&Cut::Slices(1)), Some("1g"));
        assert_eq!(name(&Cut::Slices(3)), None);
        let exact = ProfileName::new("1g+mem").unwrap();
        assert_eq!(name(&Cut::Profile(exact)), Some("1g+mem"));
        assert_eq!(cut.slices(), 7);
    }

    #[test]
    fn an_inventory_is_sorted_by_index_and_ids_are_unique() {
        let inventory = Inventory::new(vec![card(2, 1), card(0, 1), card(1, 1)]).unwrap();
        let ids: Vec<&str> = inventory.cards().iter().map(|c| c.id.as_str()).collect();
        assert_eq!(ids, ["ppu-0", "ppu-1", "ppu-2"]);
        let id = CardId::new("ppu-1").unwrap();
        assert_eq!(inventory.position(&id), Some(1));
        assert_eq!(inventory.get(&id).map(|c| c.index), Some(1));
        let twice = Inventory::new(vec![card(1, 1), card(0, 1), card(1, 2)]);
        assert_eq!(twice, Err(DuplicateCard(id)));
    }
}

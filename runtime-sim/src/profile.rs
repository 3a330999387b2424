//! What hardware is simulated: data files, built in or the user's own.

use std::{collections::BTreeSet, path::Path};

use kit::Failure;
use model::{
    card::{Card, CardKind, Health, Inventory, Link, PartitionProfile},
    name::{CardId, ProfileName},
    quantity::MemoryBytes,
};
use serde::{Deserialize, Serialize};

/// The built-in profiles.
const BUILT_IN: [(&str, &str); 7] = [
    ("ppu-8x144", include_str!("../profiles/ppu-8x144.yaml")),
    ("ppu-8-cut", include_str!("../profiles/ppu-8-cut.yaml")),
    ("ppu-16x144", include_str!("../profiles/ppu-16x144.yaml")),
    ("gpu-8-mig", include_str!("../profiles/gpu-8-mig.yaml")),
    ("amd-8", include_str!("../profiles/amd-8.yaml")),
    ("gcu-8", include_str!("../profiles/gcu-8.yaml")),
    ("xpu-8", include_str!("../profiles/xpu-8.yaml")),
];

/// More cards than any machine has.
const MOST_CARDS: u32 = 256;

/// One kind of server, as its file says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Profile {
    /// The cards' family; also the first part of their ids.
    pub kind: CardKind,
    /// As sold.
    pub model: String,
    /// How many.
    pub cards: u32,
    /// Of each card.
    #[serde(rename = "memoryGiB")]
    pub memory_gib: u64,
    /// The cards are spread over so many NUMA nodes, in order; 0: not known.
    #[serde(default)]
    pub numa_nodes: u32,
    /// The cards are spread over so many PCIe switches, in order; 0: none.
    #[serde(default)]
    pub switches: u32,
    /// Direct links. The first that names two cards counts.
    #[serde(default)]
    pub links: Vec<Links>,
    /// What a card can be cut into.
    #[serde(default)]
    pub partitions: Vec<Partition>,
    /// Whether cards can be shared by time division.
    #[serde(default = "yes")]
    pub shareable: bool,
    /// Device node of a card; `{index}` is its number.
    pub device: String,
    /// Number of card 0's device node.
    #[serde(default)]
    pub first_device: u32,
    /// Device nodes that every container with a card gets.
    #[serde(default)]
    pub control_devices: Vec<String>,
    /// Folders of the host that every container with a card gets at the same path.
    #[serde(default)]
    pub mounts: Vec<String>,
    /// `vendor/class` of the CDI names.
    pub cdi: String,
    /// Power of a card with nothing to do.
    pub idle_watts: u32,
    /// Power of a card with all it can do.
    pub most_watts: u32,
    /// Clock of a card with all it can do.
    pub most_megahertz: u32,
}

/// Links of one speed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Links {
    /// Cards that are linked two by two.
    #[serde(default)]
    pub pairs: Vec<(u32, u32)>,
    /// Cards that are each linked to every other.
    #[serde(default)]
    pub mesh: Vec<u32>,
    /// In each direction, 10^9 bytes.
    pub gigabytes_per_second: u64,
}

/// One cut.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Partition {
    /// Such as `1g.18gb`.
    pub name: ProfileName,
    /// Compute slices.
    pub slices: u32,
    /// Memory.
    #[serde(rename = "memoryGiB")]
    pub memory_gib: u64,
    /// How many fit on a card.
    pub max_count: u32,
}

const fn yes() -> bool {
    true
}

impl Profile {
    /// The built-in profile of that name.
    pub fn built_in_called(name: &str) -> Result<Self, String> {
        let Some((name, text)) = BUILT_IN.iter().find(|(known, _)| *known == name) else {
            let name: String = name.chars().take(80).collect();
            let names: Vec<_> = Self::built_in().collect();
            let names = names.join(", ");
            return Err(format!("no profile {name:?}: there are {names}"));
        };
        kit::config::parse(text, name).map_err(|e| e.to_string())
    }

    /// The built-in profile of that name, or the file there.
    pub fn load(name_or_file: &str) -> Result<Self, Failure> {
        let profile: Self = if name_or_file.contains(['/', '.']) {
            kit::config::load(Path::new(name_or_file))?
        } else {
            Self::built_in_called(name_or_file)
                .map_err(|why| Failure::Usage(format!("{why}, or name a file")))?
        };
        let cards = profile
            .inventory()
            .map_err(|why| Failure::Usage(format!("profile {name_or_file}: {why}")))?;
        if cards.cards().is_empty() {
            return Err(Failure::Usage(format!("profile {name_or_file}: no cards")));
        }
        Ok(profile)
    }

    /// Names of the built-in profiles.
    pub fn built_in() -> impl Iterator<Item = &'static str> {
        BUILT_IN.iter().map(|(name, _)| *name)
    }

    /// The cards, all healthy.
    pub fn inventory(&self) -> Result<Inventory, String> {
        if self.cards > MOST_CARDS {
            return Err(format!("cards {} is past {MOST_CARDS}", self.cards));
        }
        if self.memory_gib == 0 {
            return Err("memoryGiB is 0".to_owned());
        }
        let cards = (0..self.cards).map(|index| self.card(index));
        Inventory::new(cards.collect::<Result<_, _>>()?).map_err(|e| e.to_string())
    }

    /// The device node of that card.
    pub fn device_node(&self, index: u32) -> String {
        let number = self.first_device.saturating_add(index);
        self.device.replace("{index}", &number.to_string())
    }

    fn prefix(&self) -> &'static str {
        match self.kind {
            CardKind::Gpu => "gpu",
            CardKind::Ppu => "ppu",
            CardKind::Gcu => "gcu",
            CardKind::Xpu => "xpu",
            CardKind::Amd => "amd",
            CardKind::Other => "card",
        }
    }

    fn id(&self, index: u32) -> Result<CardId, String> {
        CardId::new(&format!("{}-{index}", self.prefix())).map_err(|e| e.to_string())
    }

    fn card(&self, index: u32) -> Result<Card, String> {
        let id = self.id(index)?;
        // Which of `parts` equal parts the card is in.
        let part =
            |parts: u32| (parts > 0).then(|| index.saturating_mul(parts) / self.cards.max(1));
        Ok(Card {
            index,
            kind: self.kind,
            model: self.model.clone(),
            uuid: format!(
                "{}-{:08x}-0000-4000-8000-{index:012x}",
                self.prefix(),
                self.cards
            ),
            memory: MemoryBytes::from_gib(self.memory_gib),
            health: Health::Healthy,
            numa: part(self.numa_nodes),
            switch: part(self.switches).map(|n| format!("switch-{n}")),
            links: self.links_of(index)?,
            profiles: self.partitions.iter().map(Partition::profile).collect(),
            shareable: self.shareable,
            id,
        })
    }

    fn links_of(&self, index: u32) -> Result<Vec<Link>, String> {
        let mut seen = BTreeSet::new();
        let mut links = Vec::new();
        for group in &self.links {
            let in_pairs = group.pairs.iter().filter_map(|(a, b)| match index {
                i if i == *a => Some(*b),
                i if i == *b => Some(*a),
                _ => None,
            });
            let in_mesh = group.mesh.iter().filter(|_| group.mesh.contains(&index));
            for peer in in_pairs.chain(in_mesh.copied()) {
                if peer >= self.cards {
                    return Err(format!("links: there is no card {peer}"));
                }
                if peer != index && seen.insert(peer) {
                    links.push(Link {
                        peer: self.id(peer)?,
                        bandwidth: group.gigabytes_per_second.saturating_mul(1_000_000_000),
                    });
                }
            }
        }
        Ok(links)
    }
}

impl Partition {
    fn profile(&self) -> PartitionProfile {
        PartitionProfile {
            name: self.name.clone(),
            slices: self.slices,
            memory: MemoryBytes::from_gib(self.memory_gib),
            max_count: self.max_count,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn links(profile: &str, card: usize) -> Vec<(String, u64)> {
        let cards = Profile::load(profile).unwrap().inventory().unwrap();
        let mut links: Vec<_> = cards.cards()[card]
            .links
            .iter()
            .map(|l| (l.peer.to_string(), l.bandwidth / 1_000_000_000))
            .collect();
        links.sort();
        links
    }

    #[test]
    fn every_built_in_profile_has_its_cards_and_links_that_both_ends_know() {
        for (name, count) in [
            ("ppu-8x144", 8),
            ("ppu-16x144", 16),
            ("ppu-8-cut", 8),
            ("gpu-8-mig", 8),
            ("amd-8", 8),
            ("gcu-8", 8),
            ("xpu-8", 8),
        ] {
            let inventory = Profile::load(name).unwrap().inventory().unwrap();
            assert_eq!(inventory.cards().len(), count, "{name}");
            for card in inventory.cards() {
                assert_eq!(card.numa, Some(u32::from(card.index as usize >= count / 2)));
                for link in &card.links {
                    let back = &inventory.get(&link.peer).unwrap().links;
                    assert!(
                        back.iter()
                            .any(|l| l.peer == card.id && l.bandwidth == link.bandwidth),
                        "{name}: {} to {}",
                        card.id,
                        link.peer
                    );
                }
            }
        }
        assert_eq!(Profile::built_in().count(), 7);
    }

    #[test]
    fn the_ppu_server_has_8_cards_of_144_gib_on_4_switches() {
        let inventory = Profile::load("ppu-8x144").unwrap().inventory().unwrap();
        let first = &inventory.cards()[0];
        assert_eq!(first.id.as_str(), "ppu-0");
        assert_eq!(first.memory, MemoryBytes::from_gib(144));
        let switches: Vec<_> = inventory
            .cards()
            .iter()
            .filter_map(|c| c.switch.clone())
            .collect();
        assert_eq!(switches[1], switches[0]);
        assert_ne!(switches[2], switches[0]);
        assert_eq!(switches.iter().collect::<BTreeSet<_>>().len(), 4);
        assert_eq!(links("ppu-8x144", 0)[0], ("ppu-1".to_owned(), 200));
        assert_eq!(links("ppu-8x144", 0)[1], ("ppu-2".to_owned(), 100));
        assert_eq!(links("ppu-8x144", 0).len(), 7);
    }

    #[test]
    fn the_xpu_server_has_two_wings_with_four_links_across() {
        let peers: Vec<_> = links("xpu-8", 2)
            .into_iter()
            .map(|(peer, _)| peer)
            .collect();
        assert_eq!(peers, ["xpu-0", "xpu-1", "xpu-3", "xpu-6"]);
    }

    #[test]
    fn a_wrong_profile_is_a_usage_error_that_names_what_is_wrong() {
        let error = |text: &str| {
            let folder = tempfile::tempdir().unwrap();
            let file = folder.path().join("cards.yaml");
            std::fs::write(&file, text).unwrap();
            match Profile::load(file.to_str().unwrap()) {
                Err(Failure::Usage(text)) => text,
                other => panic!("{other:?}"),
            }
        };
        let good = include_str!("../profiles/amd-8.yaml");
        assert!(error(&good.replace("cdi:", "cdl:")).contains("cdl"));
        assert!(error(&good.replace("cards: 8", "cards: 4")).contains("no card 4"));
        assert!(error(&good.replace("cards: 8", "cards: 4000")).contains("4000"));
        let Err(Failure::Usage(text)) = Profile::load("ppu-9") else {
            panic!("a profile of no name");
        };
        assert!(text.contains("ppu-8x144"), "{text}");
    }
}

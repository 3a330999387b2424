//! A node's cards:
//! `{"v":1,"cards":[{"id":"ppu-0","index":0,"kind":"ppu","model":"PPU-144G","memory":154618822656}]}`.

use serde::{Deserialize, Deserializer, Serialize};

use super::{AnnotationError, MOST_INVENTORY_BYTES, VERSION, read, write};
use crate::{
    card::{Card, CardKind, Health, Inventory, Link, PartitionProfile},
    name::{CardId, ProfileName},
    quantity::MemoryBytes,
};

/// Of a Runtime's words why a card can't be used, the most that goes to the API server.
const MOST_REASON: usize = 200;

/// What a node publishes for the scheduler.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Published {
    /// Its cards.
    pub cards: Inventory,
    /// Its device plugin is starting or stopping: kubelet would reject what is bound there now.
    pub paused: bool,
}

/// A node's cards: what the scheduler needs of them, so the vendor's unique ids are left out.
/// What is as usual is left out too: a healthy card, one that can be shared, no links.
pub fn write_inventory(published: &Published) -> String {
    write(&InventoryText {
        v: VERSION,
        paused: published.paused,
        cards: published.cards.cards().iter().map(CardText::of).collect(),
    })
}

/// The reverse of [`write_inventory`]. A kind of card that is not known reads as
/// [`CardKind::Other`].
pub fn read_inventory(text: &str) -> Result<Published, AnnotationError> {
    let InventoryText { cards, paused, .. } = read(text, MOST_INVENTORY_BYTES)?;
    let cards = cards.into_iter().map(CardText::card).collect();
    let cards = Inventory::new(cards).map_err(|twice| AnnotationError::malformed(&twice))?;
    Ok(Published { cards, paused })
}

#[derive(Serialize, Deserialize)]
struct InventoryText {
    v: u64,
    #[serde(default, skip_serializing_if = "is_no")]
    paused: bool,
    cards: Vec<CardText>,
}

#[derive(Serialize, Deserialize)]
struct CardText {
    id: CardId,
    index: u32,
    #[serde(deserialize_with = "kind")]
    kind: CardKind,
    #[serde(default)]
    model: String,
    memory: MemoryBytes,
    /// The reason; none for a healthy card.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    unhealthy: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    numa: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    switch: Option<String>,
    /// Peer and bandwidth.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    links: Vec<(CardId, u64)>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    profiles: Vec<ProfileText>,
    #[serde(default = "yes", skip_serializing_if = "Clone::clone")]
    shareable: bool,
}

#[derive(Serialize, Deserialize)]
struct ProfileText {
    name: ProfileName,
    slices: u32,
    memory: MemoryBytes,
    max: u32,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes it so")]
fn is_no(flag: &bool) -> bool {
    !*flag
}

fn yes() -> bool {
    true
}

fn kind<'de, D: Deserializer<'de>>(deserializer: D) -> Result<CardKind, D::Error> {
    let text = serde_json::Value::String(String::deserialize(deserializer)?);
    Ok(serde_json::from_value(text).unwrap_or(CardKind::Other))
}

impl CardText {
    fn of(card: &Card) -> Self {
        let link = |link: &Link| (link.peer.clone(), link.bandwidth);
        let profile = |profile: &PartitionProfile| ProfileText {
            name: profile.name.clone(),
            slices: profile.slices,
            memory: profile.memory,
            max: profile.max_count,
        };
        Self {
            id: card.id.clone(),
            index: card.index,
            kind: card.kind,
            model: card.model.clone(),
            memory: card.memory,
            unhealthy: match &card.health {
                Health::Healthy => None,
                Health::Unhealthy(why) => Some(why.chars().take(MOST_REASON).collect()),
            },
            numa: card.numa,
            switch: card.switch.clone(),
            links: card.links.iter().map(link).collect(),
            profiles: card.profiles.iter().map(profile).collect(),
            shareable: card.shareable,
        }
    }

    fn card(self) -> Card {
        let link = |(peer, bandwidth)| Link { peer, bandwidth };
        let profile = |profile: ProfileText| PartitionProfile {
            name: profile.name,
            slices: profile.slices,
            memory: profile.memory,
            max_count: profile.max,
        };
        Card {
            id: self.id,
            index: self.index,
            kind: self.kind,
            model: self.model,
            uuid: String::new(),
            memory: self.memory,
            health: self.unhealthy.map_or(Health::Healthy, Health::Unhealthy),
            numa: self.numa,
            switch: self.switch,
            links: self.links.into_iter().map(link).collect(),
            profiles: self.profiles.into_iter().map(profile).collect(),
            shareable: self.shareable,
        }
    }
}

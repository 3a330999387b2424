//! Resource names and what they stand for.

use serde::{Deserialize, Serialize};

use crate::{
    card::{Card, CardKind, Inventory},
    name::{ProfileName, ResourceName},
    quantity::MemoryUnit,
};

/// One resource name and what it stands for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ResourceSetting {
    /// What pods ask for.
    pub name: ResourceName,
    /// What one of it is.
    pub gives: Gives,
    /// For memory: what one of it stands for. GiB where left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unit: Option<MemoryUnit>,
    /// For a partition: which one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profile: Option<ProfileName>,
    /// Only cards of these kinds count; all kinds where left out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub kinds: Vec<CardKind>,
    /// Only cards of these models count, called as their Runtime calls them; all models where
    /// left out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub models: Vec<String>,
}

impl ResourceSetting {
    /// The memory unit; only meaningful where `gives` is memory.
    pub fn memory_unit(&self) -> MemoryUnit {
        self.unit.unwrap_or(MemoryUnit::Gib)
    }

    /// Whether this card counts.
    pub fn covers(&self, card: &Card) -> bool {
        self.covers_kind(card.kind) && (self.models.is_empty() || self.models.contains(&card.model))
    }

    /// Whether a card of this kind counts, if it is of the right model.
    pub fn covers_kind(&self, kind: CardKind) -> bool {
        covers(&self.kinds, kind)
    }

    /// Whether a card can count for both.
    pub fn overlaps(&self, other: &Self) -> bool {
        self.overlaps_in_kind(other) && overlap(&self.models, &other.models)
    }

    /// Whether they count cards of one kind.
    pub(super) fn overlaps_in_kind(&self, other: &Self) -> bool {
        overlap(&self.kinds, &other.kinds)
    }
}

/// What one of a resource is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Gives {
    /// One card, alone.
    WholeCard,
    /// One percent of a card's compute.
    CorePercent,
    /// One unit of a card's memory.
    Memory,
    /// One slice of a card that can be cut: a request for 2 is one partition of 2 slices.
    Slice,
    /// One partition of one profile.
    Partition,
}

/// Names with a partition profile at their end: each profile that a card of these kinds has is
/// a resource.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PartitionNames {
    /// What stands before the profile, such as `nvidia.com/mig-`.
    pub prefix: String,
    /// Only cards of these kinds count; all kinds where left out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub kinds: Vec<CardKind>,
}

impl PartitionNames {
    /// The resource of that name, if it is one of these. Whether any card has such a profile is
    /// not known here.
    pub(super) fn resource(&self, name: &str) -> Option<ResourceSetting> {
        let profile = name.strip_prefix(self.prefix.as_str())?;
        self.with(&ProfileName::new(profile).ok()?)
    }

    /// One resource for each profile that these cards have.
    pub(super) fn resources_of(&self, inventory: &Inventory) -> Vec<ResourceSetting> {
        let cards = inventory.cards().iter();
        let cards = cards.filter(|card| covers(&self.kinds, card.kind));
        let mut profiles: Vec<&ProfileName> = cards
            .flat_map(|card| card.profiles.iter().map(|profile| &profile.name))
            .collect();
        profiles.sort_unstable();
        profiles.dedup();
        profiles.into_iter().filter_map(|p| self.with(p)).collect()
    }

    /// None where the profile can't stand at the end of a resource's name.
    fn with(&self, profile: &ProfileName) -> Option<ResourceSetting> {
        Some(ResourceSetting {
            name: ResourceName::new(&format!("{}{profile}", self.prefix)).ok()?,
            gives: Gives::Partition,
            unit: None,
            profile: Some(profile.clone()),
            kinds: self.kinds.clone(),
            models: Vec::new(),
        })
    }
}

/// No entry means all.
fn overlap<T: PartialEq>(one: &[T], other: &[T]) -> bool {
    one.is_empty() || other.is_empty() || one.iter().any(|entry| other.contains(entry))
}

fn covers(kinds: &[CardKind], kind: CardKind) -> bool {
    kinds.is_empty() || kinds.contains(&kind)
}

//! Device ids as kubelet sees them: `<card>.<kind>.<n>`, at most 63 characters, so that
//! kubelet's own books say which card was given.

use crate::{
    card::{Card, Inventory},
    name::CardId,
    quantity::CorePercent,
    settings::{Gives, ResourceSetting},
};

/// What one device id stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DeviceKind {
    /// `card`: the whole card.
    Card,
    /// `core`: one percent of it.
    Core,
    /// `mem`: one unit of its memory.
    Memory,
    /// `slice`: one of the slices that partitions are made of.
    Slice,
    /// `part`: one partition of the profile that the resource stands for.
    Partition,
}

/// One device of one resource.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DeviceId {
    /// The card it is on.
    pub card: CardId,
    /// What of the card.
    pub kind: DeviceKind,
    /// Which of these, from 0.
    pub n: u32,
}

/// Not a device id of ours.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a device id of the form <card>.<kind>.<n>")]
pub struct BadDeviceId(pub String);

impl std::fmt::Display for DeviceId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}.{}", self.card, self.kind.word(), self.n)
    }
}

impl std::str::FromStr for DeviceId {
    type Err = BadDeviceId;

    /// Takes exactly what [`DeviceId`]'s `Display` writes: no signs, no leading zeros.
    fn from_str(text: &str) -> Result<Self, BadDeviceId> {
        let bad = || BadDeviceId(text.chars().take(80).collect());
        let mut parts = text.split('.');
        let (Some(card), Some(kind), Some(n), None) =
            (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            return Err(bad());
        };
        let mut kinds = DeviceKind::ALL.into_iter();
        let kind = kinds.find(|known| known.word() == kind).ok_or_else(bad)?;
        let canonical = n.bytes().all(|b| b.is_ascii_digit()) && (n == "0" || !n.starts_with('0'));
        if !canonical {
            return Err(bad());
        }
        Ok(Self {
            card: CardId::new(card).map_err(|_| bad())?,
            kind,
            n: n.parse().map_err(|_| bad())?,
        })
    }
}

impl DeviceKind {
    const ALL: [Self; 5] = [
        Self::Card,
        Self::Core,
        Self::Memory,
        Self::Slice,
        Self::Partition,
    ];

    /// How it stands in an id.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Card => "card",
            Self::Core => "core",
            Self::Memory => "mem",
            Self::Slice => "slice",
            Self::Partition => "part",
        }
    }

    /// What the devices of a resource stand for.
    pub const fn of(gives: Gives) -> Self {
        match gives {
            Gives::WholeCard => Self::Card,
            Gives::CorePercent => Self::Core,
            Gives::Memory => Self::Memory,
            Gives::Slice => Self::Slice,
            Gives::Partition => Self::Partition,
        }
    }
}

/// How many devices of that resource this card has.
pub fn count_on(card: &Card, resource: &ResourceSetting) -> u64 {
    if !resource.covers(card) {
        return 0;
    }
    match resource.gives {
        Gives::WholeCard => 1,
        Gives::CorePercent => CorePercent::CARD.percent().into(),
        Gives::Memory => resource.memory_unit().count_in(card.memory),
        Gives::Slice => card.slices(),
        Gives::Partition => {
            let profiles = card.profiles.iter();
            let mut of_it = profiles.filter(|p| Some(&p.name) == resource.profile.as_ref());
            of_it.next().map_or(0, |p| p.max_count.into())
        }
    }
}

/// How many devices [`devices`] gives. Ask first: a small unit on large cards, or a Runtime
/// that says nonsense, makes more than kubelet takes in one message or than memory holds.
pub fn count(inventory: &Inventory, resource: &ResourceSetting) -> u64 {
    inventory.cards().iter().fold(0, |sum: u64, card| {
        sum.saturating_add(count_on(card, resource))
    })
}

/// All device ids of that resource on these cards, in the inventory's order, unhealthy cards
/// included.
pub fn devices(inventory: &Inventory, resource: &ResourceSetting) -> Vec<DeviceId> {
    let kind = DeviceKind::of(resource.gives);
    inventory
        .cards()
        .iter()
        .flat_map(|card| {
            let count = u32::try_from(count_on(card, resource)).unwrap_or(u32::MAX);
            (0..count).map(|n| DeviceId {
                card: card.id.clone(),
                kind,
                n,
            })
        })
        .collect()
}

#[cfg(test)]
#[path = "device_id_tests.rs"]
mod tests;

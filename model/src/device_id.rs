//! Device ids as kubelet sees them: `<card>.<kind>.<n>`, at most 63 characters, so that
//! kubelet's own books say which card was given.

use crate::{card::Inventory, name::CardId, settings::ResourceSetting};

/// What one device id stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DeviceKind {
    /// `card`: the whole card.
    Card,
    /// `core`: one percent of it.
    Core,
    /// `mem`: one unit of its memory.
    Memory,
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
        let kind = match self.kind {
            DeviceKind::Card => "card",
            DeviceKind::Core => "core",
            DeviceKind::Memory => "mem",
        };
        write!(f, "{}.{kind}.{}", self.card, self.n)
    }
}

impl std::str::FromStr for DeviceId {
    type Err = BadDeviceId;
    fn from_str(text: &str) -> Result<Self, BadDeviceId> {
        let _ = text;
        todo!("helper")
    }
}

/// All device ids of that resource on these cards, in the inventory's order, unhealthy cards included.
pub fn devices(inventory: &Inventory, resource: &ResourceSetting) -> Vec<DeviceId> {
    let _ = (inventory, resource);
    todo!("helper")
}

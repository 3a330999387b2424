//! Grants and plans: which card serves which container.

use crate::{
    name::{CardId, ContainerName, ProfileName},
    quantity::{CorePercent, MemoryBytes},
};

/// What one container has on one card.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum GrantMode {
    /// All of it, alone.
    Whole,
    /// Part of it by time division.
    Share {
        /// 0 to 100; 0 is best effort.
        core: CorePercent,
        /// Its own limit.
        memory: MemoryBytes,
    },
    /// `count` partitions of one profile.
    Partition {
        /// Which cut.
        profile: ProfileName,
        /// How many of it.
        count: u32,
    },
}

/// A mode on a card.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Grant {
    /// Which card.
    pub card: CardId,
    /// What of it.
    pub mode: GrantMode,
}

/// The grants of one container, at most one a card, sorted by card.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContainerGrants {
    /// Which container.
    pub container: ContainerName,
    /// What it has.
    pub grants: Vec<Grant>,
}

/// A pod's containers that ask for cards, in the order kubelet admits them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Plan {
    /// One entry a container; a container that asks for nothing has none.
    pub containers: Vec<ContainerGrants>,
}

impl Plan {
    /// The grants of that container.
    pub fn of(&self, container: &str) -> Option<&[Grant]> {
        self.containers
            .iter()
            .find(|c| c.container.as_str() == container)
            .map(|c| c.grants.as_slice())
    }
}

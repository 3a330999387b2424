//! Choosing cards for a pod on one node.
//!
//! Kubelet hands the devices of init containers on to later containers of the pod, whether they
//! suit or not (see [`crate::phase`]). A plan that kubelet would not follow is worth nothing, so
//! a container that will be handed something is planned onto the cards where that lies.

mod draft;
mod reason;
mod solver;
mod trial;
mod whole;

use crate::{
    card::{Cut, Inventory},
    ledger::Ledger,
    name::{CardId, ResourceName},
    plan::Plan,
    quantity::{CorePercent, MemoryBytes},
    request::PodRequest,
    settings::{Policy, Settings},
};

pub use trial::Trial;

/// Why a pod does not fit a node. Few different texts: kube-scheduler counts nodes by text.
#[derive(Debug, Clone, PartialEq, Eq, Hash, thiserror::Error)]
pub enum NoFit {
    /// The node has no card of a kind that the name covers, or none that can be shared.
    #[error("no card here serves {0}")]
    NoSuchCard(ResourceName),
    /// It has some, but none can be used now.
    #[error("no healthy card here serves {0}")]
    Unhealthy(ResourceName),
    /// Not enough cards even if all were free.
    #[error("only {has} of {asked} cards here")]
    TooFew {
        /// How many there are.
        has: u32,
        /// How many were asked.
        asked: u32,
    },
    /// Not enough free whole cards.
    #[error("{free} of {asked} whole cards free")]
    Whole {
        /// How many are free.
        free: u32,
        /// How many were asked.
        asked: u32,
    },
    /// Enough free whole cards, but with too little memory.
    #[error("no {count} free cards have {memory} together")]
    WholeMemory {
        /// How many cards were asked.
        count: u32,
        /// What they were to have together.
        memory: MemoryBytes,
    },
    /// No card that can be used is as large as that, even when free.
    #[error("no healthy card is as large as {0}")]
    TooLarge(MemoryBytes),
    /// No card has room for the share.
    #[error("no card has {} free", share(*.core, *.memory))]
    Share {
        /// What was asked.
        core: Option<CorePercent>,
        /// What was asked; none beside a core: the same percentage of the card's memory.
        memory: Option<MemoryBytes>,
    },
    /// The node has cards that can be cut, but none into this.
    #[error("no card here has a partition {0}")]
    NoSuchPartition(Cut),
    /// No card has room for the partitions.
    #[error("no card has {} free", partitions(*.count, .cut))]
    Partition {
        /// Which.
        cut: Cut,
        /// How many.
        count: u32,
    },
    /// The same where kubelet leaves no choice of the card.
    #[error(
        "no card has {} free beside the containers that kubelet puts on the same card",
        partitions(*.count, .cut)
    )]
    PartitionTogether {
        /// Which.
        cut: Cut,
        /// How many.
        count: u32,
    },
    /// Kubelet hands an init container's devices on to this share, and there is no card with
    /// room for what must then lie together.
    #[error(
        "no card has {} free beside the containers that kubelet puts on the same card",
        share(*.core, *.memory)
    )]
    Together {
        /// What was asked.
        core: Option<CorePercent>,
        /// What was asked; none beside a core: the same percentage of the card's memory.
        memory: Option<MemoryBytes>,
    },
    /// What kubelet hands on can't serve the later container.
    #[error("kubelet would hand an init container's {0} on to a container that it can't serve")]
    HandedOn(ResourceName),
}

/// `50 core and 24GiB`.
fn share(core: Option<CorePercent>, memory: Option<MemoryBytes>) -> String {
    match (core.map(CorePercent::percent), memory) {
        (Some(core), Some(memory)) => format!("{core} core and {memory}"),
        (Some(core), None) => format!("{core} core and {core}% of its memory"),
        (None, Some(memory)) => memory.to_string(),
        (None, None) => "nothing".to_owned(),
    }
}

/// `2 partitions 1g.18gb`, `a partition of 3 slices`.
fn partitions(count: u32, cut: &Cut) -> String {
    match count {
        1 => format!("a partition {cut}"),
        count => format!("{count} partitions {cut}"),
    }
}

/// Where the containers of this pod would go on this node.
///
/// Deterministic: the same ledger and request give the same plan. For one request on many
/// nodes, make a [`Trial`] once.
pub fn place(request: &PodRequest, ledger: &Ledger, settings: &Settings) -> Result<Plan, NoFit> {
    Trial::new(request, settings).place(ledger)
}

/// So many whole cards of one node that hang together best: those of `fixed` and the others from
/// `free`. None where there are not enough, or one is not on the node.
pub fn together(
    inventory: &Inventory,
    fixed: &[CardId],
    free: &[CardId],
    count: usize,
    cards: Policy,
) -> Option<Vec<CardId>> {
    let positions = |ids: &[CardId]| -> Option<Vec<usize>> {
        ids.iter().map(|id| inventory.position(id)).collect()
    };
    let chosen = whole::choose(
        inventory,
        &positions(fixed)?,
        &positions(free)?,
        count,
        cards,
    )?;
    let chosen = chosen
        .into_iter()
        .filter_map(|at| inventory.cards().get(at));
    Some(chosen.map(|card| card.id.clone()).collect())
}

/// How good this node is for the pod, 0 to 10, after `plan`.
pub fn score(plan: &Plan, ledger: &Ledger, nodes: Policy) -> u8 {
    draft::score_of_plan(plan, ledger, nodes)
}

#[cfg(test)]
mod tests;

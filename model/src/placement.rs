//! Choosing cards for a pod on one node.

use crate::{
    ledger::Ledger,
    plan::Plan,
    quantity::{CorePercent, MemoryBytes},
    request::PodRequest,
    settings::{Policy, Settings},
};

/// Why a pod does not fit a node. Few different texts: kube-scheduler counts nodes by text.
#[derive(Debug, Clone, PartialEq, Eq, Hash, thiserror::Error)]
pub enum NoFit {
    /// The node has no card of a kind that the name covers.
    #[error("no card here serves {0}")]
    NoSuchCard(String),
    /// Not enough free whole cards.
    #[error("{free} of {asked} whole cards free")]
    Whole {
        /// How many are free.
        free: u32,
        /// How many were asked.
        asked: u32,
    },
    /// No card has room for the share.
    #[error("no card has {core} core and {memory} free")]
    Share {
        /// What was asked.
        core: CorePercent,
        /// What was asked.
        memory: MemoryBytes,
    },
}

/// Where the containers of this pod would go on this node.
///
/// Deterministic: the same ledger and request give the same plan.
pub fn place(
    request: &PodRequest,
    ledger: &Ledger,
    settings: &Settings,
    cards: Policy,
) -> Result<Plan, NoFit> {
    let _ = (request, ledger, settings, cards);
    todo!("helper")
}

/// How good this node is for the pod, 0 to 10, after `plan`.
pub fn score(plan: &Plan, ledger: &Ledger, nodes: Policy) -> u8 {
    let _ = (plan, ledger, nodes);
    todo!("helper")
}

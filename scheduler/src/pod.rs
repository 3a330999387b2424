//! What the index keeps of a pod.

use std::{sync::Arc, time::Instant};

use model::{
    ledger::Hold,
    name::{NodeName, PodRef, PodUid},
    plan::Plan,
    request::PodRequest,
};

/// What the watch, or a GET, says of a pod.
#[derive(Debug, Clone)]
pub struct PodSeen {
    /// Namespace and name.
    pub pod: PodRef,
    /// Unique id.
    pub uid: PodUid,
    /// Where it stands.
    pub stand: Stand,
}

/// Where a pod stands, as far as cards are concerned.
#[derive(Debug, Clone)]
pub enum Stand {
    /// It asks for no card, or has ended: the index does not keep it.
    Nothing,
    /// Not bound.
    Pending(Wanted),
    /// Bound, its cards known.
    Holds {
        /// Where.
        node: NodeName,
        /// What.
        hold: Hold,
        /// As its annotations have it.
        plan: Plan,
    },
    /// Bound, its cards not known.
    NotKnown {
        /// Where.
        node: NodeName,
        /// Why not.
        why: NotKnown,
    },
}

/// Why a bound pod's cards are not known.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotKnown {
    /// Not written yet: bound by another scheduler, and not admitted so far. Passes by itself.
    #[error("neither planned nor allocated yet")]
    NotWritten,
    /// What is written, or what it asks, has no meaning.
    #[error("{0}")]
    Unreadable(String),
}

/// What a pod that is not bound wants, or why that can't be served.
pub type Wanted = Result<Arc<PodRequest>, Refusal>;

/// Why a pod is refused, whatever is free. The text names what is to be changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Refusal(pub String);

/// A bind that the index counts on, and the watch has not confirmed.
#[derive(Debug, Clone)]
pub struct Assumed {
    /// Where to.
    pub node: NodeName,
    /// What was promised.
    pub plan: Plan,
    /// What is asked: to go back to when the bind fails.
    pub request: Arc<PodRequest>,
    /// How far it came.
    pub step: BindStep,
    /// Since when an API call of unknown outcome may still take effect.
    pub doubt_since: Option<Instant>,
}

/// How far a bind came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BindStep {
    /// The API call is under way.
    Calling,
    /// The API server has said yes, at that time.
    Accepted(Instant),
    /// The call ended without an answer.
    Unknown,
}

/// One pod of the index.
#[derive(Debug, Clone)]
pub(crate) struct PodEntry {
    pub(crate) pod: PodRef,
    pub(crate) state: PodState,
    /// In which listing or watch it was last seen, for relists.
    pub(crate) stamp: u32,
}

/// What the index knows of a pod. What it holds stands in its node's ledger.
#[derive(Debug, Clone)]
pub(crate) enum PodState {
    Pending(Wanted),
    // Boxed: few pods are assumed at a time, and the others should stay small.
    Assumed(Box<Assumed>),
    Holds(NodeName),
    NotKnown(NodeName, Box<NotKnown>),
}

impl PodState {
    pub(crate) fn node(&self) -> Option<&NodeName> {
        match self {
            Self::Pending(_) => None,
            Self::Assumed(assumed) => Some(&assumed.node),
            Self::Holds(node) | Self::NotKnown(node, _) => Some(node),
        }
    }
}

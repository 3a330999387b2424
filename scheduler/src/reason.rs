//! Why a node is not for a pod.

use model::placement::NoFit;

/// Why a node is not for a pod. Few different texts: kube-scheduler counts nodes by text, and
/// people read the counts in `kubectl describe pod`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, thiserror::Error)]
pub enum Reason {
    /// The watch has not shown such a node.
    #[error("node unknown")]
    UnknownNode,
    /// No device plugin has published the node's cards.
    #[error("no accelerator inventory yet")]
    NoInventory,
    /// The inventory is there and can't be read.
    #[error("the node's accelerator inventory can't be read")]
    UnreadableInventory,
    /// Kubelet would reject what is bound there now.
    #[error("the node's device plugin is starting or stopping")]
    Paused,
    /// A pod is bound there whose cards nobody has written down, or not readably.
    #[error("a pod's cards on this node are not known yet")]
    CardsNotKnown,
    /// The pod may be bound to another node already.
    #[error("an earlier bind of this pod to another node is not settled")]
    Unsettled,
    /// What is free there is not enough.
    #[error(transparent)]
    NoFit(NoFit),
}

/// A reason, and whether removing pods from the node could mend it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rejection {
    /// Why.
    pub reason: Reason,
    /// Whether preemption there could make room.
    pub mendable: bool,
}

impl Rejection {
    /// One that preemption could mend.
    pub const fn mendable(reason: Reason) -> Self {
        Self {
            reason,
            mendable: true,
        }
    }

    /// One that no preemption can mend.
    pub const fn never(reason: Reason) -> Self {
        Self {
            reason,
            mendable: false,
        }
    }
}

//! Why kubelet's call is refused. Kubelet rejects the pod for good and shows this text to its
//! owner, so it names what stood in the way.

use model::{
    annotation::AnnotationError,
    ledger::Conflict,
    name::{CardId, ContainerName, PodRef, ResourceName},
    placement::NoFit,
};

use crate::{grants::BadDevices, identity::Unknown, prefer::NotOffered};

/// Why a call is refused.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Refusal {
    /// The consumer is not known.
    #[error(transparent)]
    Unknown(#[from] Unknown),
    /// The resource is not in the configuration.
    #[error("{0} is not a resource of this node's configuration")]
    NotOurs(ResourceName),
    /// The scheduler's plan can't be read.
    #[error("pod {pod}: annotation {key}: {why}")]
    BadPlan {
        /// Which pod.
        pod: PodRef,
        /// The annotation's key.
        key: String,
        /// What is wrong with it.
        why: AnnotationError,
    },
    /// The scheduler's plan does not serve what the container asks.
    #[error(
        "pod {pod}: annotation {key} has {planned} cards for container {container}, which asks for {asked}"
    )]
    PlanDiffers {
        /// Which pod.
        pod: PodRef,
        /// The annotation's key.
        key: String,
        /// Which container.
        container: ContainerName,
        /// Cards in the plan.
        planned: usize,
        /// Cards that the request needs.
        asked: usize,
    },
    /// No plan, and no room.
    #[error("pod {pod}: {why}")]
    NoFit {
        /// Which pod.
        pod: PodRef,
        /// What is missing.
        why: NoFit,
    },
    /// Kubelet can't give the planned devices.
    #[error("pod {pod} container {container}: {why}")]
    NotOffered {
        /// Which pod.
        pod: PodRef,
        /// Which container.
        container: ContainerName,
        /// What is missing.
        why: NotOffered,
    },
    /// The devices are not what the container asks.
    #[error("pod {pod} container {container}: {why}")]
    Devices {
        /// Which pod.
        pod: PodRef,
        /// Which container.
        container: ContainerName,
        /// What is wrong with them.
        why: BadDevices,
    },
    /// What the card has left is not enough, or it is in another mode.
    #[error("pod {pod} container {container}: {why}")]
    Conflict {
        /// Which pod.
        pod: PodRef,
        /// Which container.
        container: ContainerName,
        /// With what.
        why: Conflict,
    },
    /// The card can't be given out.
    #[error("pod {pod} container {container}: card {card} {why}")]
    Card {
        /// Which pod.
        pod: PodRef,
        /// Which container.
        container: ContainerName,
        /// Which card.
        card: CardId,
        /// `is not on this node`, or why it is unhealthy.
        why: String,
    },
    /// The Runtime did not grant it.
    #[error("pod {pod} container {container}: {why}")]
    Runtime {
        /// Which pod.
        pod: PodRef,
        /// Which container.
        container: ContainerName,
        /// From the Runtime.
        why: runtime_proto::Error,
    },
    /// What runs on the node is not known.
    #[error("the plugin does not know yet what runs on this node: {0}")]
    NotReady(String),
}

impl Refusal {
    /// Whether something that ended a moment ago may have stood in the way.
    pub const fn may_pass(&self) -> bool {
        match self {
            Self::Unknown(why) => why.may_pass(),
            Self::NoFit { .. } | Self::Conflict { .. } => true,
            _ => false,
        }
    }

    /// Short, for a metric's label.
    pub const fn reason(&self) -> &'static str {
        match self {
            Self::Unknown(_) => "unknown_consumer",
            Self::NotOurs(_) => "not_ours",
            Self::BadPlan { .. } => "bad_plan",
            Self::PlanDiffers { .. } => "plan_differs",
            Self::NoFit { .. } => "no_fit",
            Self::NotOffered { .. } => "not_offered",
            Self::Devices { .. } => "bad_devices",
            Self::Conflict { .. } => "conflict",
            Self::Card { .. } => "card",
            Self::Runtime { .. } => "runtime",
            Self::NotReady(_) => "not_ready",
        }
    }
}

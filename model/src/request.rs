//! What a pod asks for, container by container, in the order kubelet admits them.

use crate::{
    name::{ContainerName, ResourceName},
    quantity::{CorePercent, CountError, MemoryBytes},
    settings::Settings,
};

/// When a container runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Role {
    /// Runs to its end before the next container starts.
    Init,
    /// An init container with restartPolicy Always: starts in its place and stays.
    Sidecar,
    /// Runs beside the other app containers once all init containers have ended.
    App,
}

/// A container as the pod's spec has it: quantities still as text.
#[derive(Debug, Clone)]
pub struct ContainerSpec<'a> {
    /// Its name.
    pub name: &'a str,
    /// When it runs.
    pub role: Role,
    /// Resource name and quantity, limits (which requests default to and must equal).
    pub limits: Vec<(&'a str, &'a str)>,
}

/// What a container wants of the node's cards.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ask {
    /// No card.
    Nothing,
    /// `count` cards, each alone.
    Whole {
        /// At least 1.
        count: u32,
        /// Under which name: it limits the kinds of card.
        resource: ResourceName,
        /// Memory units asked beside a core of 200, 300 …: what the cards must have together.
        memory: Option<MemoryBytes>,
    },
    /// Part of one card.
    Share {
        /// 1 to 100, or none: best effort.
        core: Option<CorePercent>,
        /// None: the same percentage of the card's memory as of its core.
        memory: Option<MemoryBytes>,
    },
}

/// One resource of one container, as kubelet will ask the plugin for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Amount {
    /// Which resource.
    pub resource: ResourceName,
    /// How many device ids; at least 1.
    pub count: u64,
}

/// One container of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContainerRequest {
    /// Its name.
    pub name: ContainerName,
    /// When it runs.
    pub role: Role,
    /// What it means.
    pub ask: Ask,
    /// What it says, of our resources only, by name; nothing for an ask of nothing.
    pub amounts: Vec<Amount>,
}

/// A pod's request: all containers, init containers first, in the pod's order.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PodRequest {
    /// One entry a container, also those that ask for nothing.
    pub containers: Vec<ContainerRequest>,
}

/// Why a pod's request has no meaning. Says which container and which resource.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("container {container:?}: {why}")]
pub struct RequestError {
    /// Which container.
    pub container: String,
    /// What is wrong.
    pub why: RequestFault,
}

/// What is wrong with one container's request.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RequestFault {
    /// Not a valid container name.
    #[error(transparent)]
    Name(#[from] crate::name::NameError),
    /// Not a count.
    #[error("{resource}: {why}")]
    Count {
        /// Which resource.
        resource: ResourceName,
        /// Why not.
        why: CountError,
    },
    /// Core above 100 that is not a multiple of 100.
    #[error("{resource}: {value} is neither 1 to 100 nor a multiple of 100")]
    Core {
        /// Which resource.
        resource: ResourceName,
        /// What was asked.
        value: u64,
    },
    /// More than this kit can count: over 2^32 cards, or 2^64 bytes.
    #[error("{resource}: {value} is more than any node has")]
    TooMuch {
        /// Which resource.
        resource: ResourceName,
        /// What was asked.
        value: u64,
    },
    /// Whole cards and a share, or whole cards under two names.
    #[error("{first} and {second} can't be asked by one container")]
    Mixed {
        /// One.
        first: ResourceName,
        /// The other.
        second: ResourceName,
    },
}

impl PodRequest {
    /// Reads a pod's containers; resources that are not ours are passed over.
    pub fn read<'a>(
        containers: impl IntoIterator<Item = ContainerSpec<'a>>,
        settings: &Settings,
    ) -> Result<Self, RequestError> {
        let _ = (containers.into_iter().count(), settings);
        todo!("helper")
    }

    /// Whether no container asks for a card.
    pub fn is_empty(&self) -> bool {
        self.containers.iter().all(|c| c.ask == Ask::Nothing)
    }
}

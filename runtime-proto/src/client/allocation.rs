//! What a container has, and what it gets for it.

use model::{
    name::{ContainerName, PodRef, PodUid},
    plan::Grant,
};

/// Who an allocation is for.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Consumer {
    /// The pod.
    pub pod: PodRef,
    /// Its uid.
    pub uid: PodUid,
    /// Which of its containers.
    pub container: ContainerName,
}

/// One allocation as asked, and as the Runtime's own book shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Allocation {
    /// Unique per container: `<pod uid>/<container>`.
    pub id: String,
    /// Who has it.
    pub consumer: Consumer,
    /// What.
    pub grants: Vec<Grant>,
}

/// What a container gets for its grants.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ContainerEdits {
    /// Environment, sorted by name.
    pub environment: Vec<(String, String)>,
    /// Mounts.
    pub mounts: Vec<Mount>,
    /// Device nodes.
    pub device_nodes: Vec<DeviceNode>,
    /// For the OCI runtime: `xdm.amp.com.<name>`, sorted.
    pub annotations: Vec<(String, String)>,
    /// Fully qualified CDI names.
    pub cdi_names: Vec<String>,
}

/// A bind mount.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mount {
    /// Absolute path in the container.
    pub container_path: String,
    /// Absolute path on the host.
    pub host_path: String,
    /// Whether it is read-only.
    pub read_only: bool,
}

/// A device node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceNode {
    /// Absolute path in the container.
    pub container_path: String,
    /// Absolute path on the host.
    pub host_path: String,
    /// Any of `r`, `w`, `m`.
    pub permissions: String,
}

//! Between Kubernetes objects or kubelet's messages and `model` types.

use model::{
    name::{PodRef, PodUid},
    request::{PodRequest, RequestError},
    settings::Settings,
};

use crate::object::Pod;

/// What the kit knows of a pod, decoded.
#[derive(Debug, Clone)]
pub struct PodInfo {
    /// Namespace and name.
    pub pod: PodRef,
    /// Unique id.
    pub uid: PodUid,
    /// What it asks, or why that has no meaning.
    pub request: Result<PodRequest, RequestError>,
    /// Where it is bound.
    pub node: Option<model::name::NodeName>,
    /// Where it stands.
    pub life: Life,
    /// Seconds since 1970 of its creation.
    pub created: i64,
}

/// Where a pod stands, as far as its cards are concerned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Life {
    /// Not bound, or bound and not ended: what it has, it holds.
    Holds,
    /// Being deleted, its containers not known to be gone: it still holds its cards.
    Terminating,
    /// Succeeded or Failed: it holds nothing.
    Ended,
}

/// Why a pod object cannot be used at all.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadPod {
    /// A field that every pod has is missing.
    #[error("no {0}")]
    Missing(&'static str),
    /// Not a name.
    #[error(transparent)]
    Name(#[from] model::name::NameError),
}

/// Reads a pod.
pub fn pod(object: &Pod, settings: &Settings) -> Result<PodInfo, BadPod> {
    let _ = (object, settings);
    todo!("helper")
}

/// A pod of PodResources: its containers in order, with the device ids of each resource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodDevices {
    /// Namespace and name; PodResources has no uid.
    pub pod: PodRef,
    /// In kubelet's order.
    pub containers: Vec<ContainerDevices>,
}

/// A container of PodResources.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContainerDevices {
    /// Its name.
    pub name: String,
    /// Resource name to device ids; kubelet lists one entry an id, merged and sorted here.
    pub devices: std::collections::BTreeMap<String, Vec<String>>,
}

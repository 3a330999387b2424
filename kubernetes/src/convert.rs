//! Between Kubernetes objects or kubelet's messages and `model` types.

use std::collections::BTreeMap;

use model::{
    name::{Namespace, NodeName, PodName, PodRef, PodUid},
    request::{ContainerSpec, PodRequest, RequestError, Role},
    settings::Settings,
};

use crate::{
    object::{Container, Pod},
    pod_resources_wire as wire,
};

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
    pub node: Option<NodeName>,
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
    let meta = &object.metadata;
    let name = present(meta.name.as_deref(), "metadata.name")?;
    let namespace = present(meta.namespace.as_deref(), "metadata.namespace")?;
    let uid = present(meta.uid.as_deref(), "metadata.uid")?;
    let created = meta
        .creation_timestamp
        .as_ref()
        .ok_or(BadPod::Missing("metadata.creationTimestamp"))?;
    let node = object.spec.node_name.as_deref().filter(|n| !n.is_empty());
    Ok(PodInfo {
        pod: PodRef {
            namespace: Namespace::new(namespace)?,
            name: PodName::new(name)?,
        },
        uid: PodUid::new(uid)?,
        request: request(object, settings),
        node: node.map(NodeName::new).transpose()?,
        life: life(object),
        created: created.0.as_second(),
    })
}

/// A wish for a placement that has no meaning is passed over: the pod is bound, or the scheduler
/// refuses it.
fn request(object: &Pod, settings: &Settings) -> Result<PodRequest, RequestError> {
    let mut request = PodRequest::read(containers(object), settings)?;
    let annotations = object.metadata.annotations.as_ref();
    if let Some(wish) = annotations.and_then(|all| all.get(&settings.annotations.placement))
        && let Ok(placement) = settings.placement.with(wish)
    {
        request.placement = placement;
    }
    Ok(request)
}

fn present<'a>(value: Option<&'a str>, field: &'static str) -> Result<&'a str, BadPod> {
    value
        .filter(|text| !text.is_empty())
        .ok_or(BadPod::Missing(field))
}

/// Where a pod stands.
///
/// Kubelet reports Succeeded and Failed only once no container runs, so such a pod holds nothing
/// even while its object is still being deleted.
pub fn life(object: &Pod) -> Life {
    match object.status.phase.as_deref() {
        Some("Succeeded" | "Failed") => Life::Ended,
        _ if object.metadata.deletion_timestamp.is_some() => Life::Terminating,
        _ => Life::Holds,
    }
}

/// Init containers come first, as kubelet admits them.
fn containers(object: &Pod) -> impl Iterator<Item = ContainerSpec<'_>> {
    let init = object.spec.init_containers.iter().map(|container| {
        let sidecar = container.restart_policy.as_deref() == Some("Always");
        spec(container, if sidecar { Role::Sidecar } else { Role::Init })
    });
    let app = object.spec.containers.iter();
    init.chain(app.map(|container| spec(container, Role::App)))
}

/// Requests stand in for limits that are not given: an object from the API server has both and
/// they are equal, since Kubernetes lets nobody over-commit an extended resource.
fn spec(container: &Container, role: Role) -> ContainerSpec<'_> {
    let resources = &container.resources;
    let only_requested = resources
        .requests
        .iter()
        .filter(|(name, _)| !resources.limits.contains_key(*name));
    ContainerSpec {
        name: &container.name,
        role,
        limits: resources
            .limits
            .iter()
            .chain(only_requested)
            .map(|(name, quantity)| (name.as_str(), quantity.0.as_str()))
            .collect(),
    }
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
    pub devices: BTreeMap<String, Vec<String>>,
}

/// Reads one pod of a PodResources answer.
pub fn pod_devices(message: wire::PodResources) -> Result<PodDevices, BadPod> {
    let containers = message.containers.into_iter().map(|container| {
        let mut devices: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for entry in container.devices {
            devices
                .entry(entry.resource_name)
                .or_default()
                .extend(entry.device_ids);
        }
        for ids in devices.values_mut() {
            ids.sort_unstable();
            ids.dedup();
        }
        ContainerDevices {
            name: container.name,
            devices,
        }
    });
    Ok(PodDevices {
        pod: PodRef {
            namespace: Namespace::new(&message.namespace)?,
            name: PodName::new(&message.name)?,
        },
        containers: containers.collect(),
    })
}

#[cfg(test)]
#[path = "convert_tests.rs"]
mod tests;

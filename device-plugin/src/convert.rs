//! Between wire types (kubelet's messages, Kubernetes objects) and the plugin's own.

use kubernetes::{
    convert::{BadPod, pod},
    device_plugin as wire,
    object::Pod,
};
use model::settings::Settings;
use runtime_proto::client::ContainerEdits;

use crate::{offers::Offer, view::PodView};

/// Reads a pod.
pub fn pod_view(object: &Pod, settings: &Settings) -> Result<PodView, BadPod> {
    let info = pod(object, settings)?;
    let annotation = |key: &str| {
        object
            .metadata
            .annotations
            .as_ref()
            .and_then(|a| a.get(key))
            .cloned()
    };
    Ok(PodView {
        pod: info.pod,
        uid: info.uid,
        request: info.request,
        life: info.life,
        created: info.created,
        started: !object.status.container_statuses.is_empty()
            || !object.status.init_container_statuses.is_empty(),
        assigned: annotation(&settings.annotations.assigned),
        allocated: annotation(&settings.annotations.allocated),
    })
}

/// How a log line names a pod that can't be read.
pub fn pod_name(object: &Pod) -> String {
    let part = |p: &Option<String>| {
        p.as_deref()
            .unwrap_or("?")
            .chars()
            .take(80)
            .collect::<String>()
    };
    format!(
        "{}/{}",
        part(&object.metadata.namespace),
        part(&object.metadata.name)
    )
}

/// The message of a device list. Devices carry no topology: the plan chooses the card, and
/// kubelet's own NUMA preference would only work against it.
pub fn device_list(offer: &Offer) -> wire::ListAndWatchResponse {
    wire::ListAndWatchResponse {
        devices: offer
            .devices
            .iter()
            .map(|(id, healthy)| wire::Device {
                id: id.clone(),
                health: if *healthy { "Healthy" } else { "Unhealthy" }.to_owned(),
                topology: None,
            })
            .collect(),
    }
}

/// The answer for one container.
pub fn container_response(edits: ContainerEdits) -> wire::ContainerAllocateResponse {
    wire::ContainerAllocateResponse {
        envs: edits.environment.into_iter().collect(),
        mounts: edits
            .mounts
            .into_iter()
            .map(|m| wire::Mount {
                container_path: m.container_path,
                host_path: m.host_path,
                read_only: m.read_only,
            })
            .collect(),
        devices: edits
            .device_nodes
            .into_iter()
            .map(|d| wire::DeviceSpec {
                container_path: d.container_path,
                host_path: d.host_path,
                permissions: d.permissions,
            })
            .collect(),
        annotations: edits.annotations.into_iter().collect(),
        cdi_devices: edits
            .cdi_names
            .into_iter()
            .map(|name| wire::CdiDevice { name })
            .collect(),
    }
}

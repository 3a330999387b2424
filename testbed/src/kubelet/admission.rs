//! Admission of one pod: its containers one after the other, each extended resource in no fixed
//! order, through GetPreferredAllocation and Allocate.

use std::hash::{BuildHasher, RandomState};

use kubernetes::device_plugin::{
    AllocateRequest, ContainerAllocateRequest, ContainerPreferredAllocationRequest,
    PreferredAllocationRequest,
};
use prost::Message as _;
use serde_json::json;

use super::{
    devices::{Devices, Given, Ids, Next},
    pod::{Container, Kind, Local},
    state::{Endpoint, State, ids_json},
};

/// Gives the pod its devices. The error is kubelet's message.
pub(super) async fn admit(state: &State, pod: &Local) -> Result<(), String> {
    for container in pod.containers() {
        let known: Vec<_> = {
            let inner = state.lock();
            container
                .wants
                .iter()
                .filter(|(r, _)| inner.devices.knows(r))
                .cloned()
                .collect()
        };
        for (resource, size) in in_no_order(known) {
            if let Err(why) = give(state, pod, &container, &resource, size).await {
                return Err(format!("Allocate failed due to {why}, which is unexpected"));
            }
        }
        // Kubelet's record is written once a container has everything, not call by call: one that
        // is killed in between starts again from nothing.
        state.save();
        state.lock().devices.container_done(
            pod.uid(),
            &container.name,
            container.kind == Kind::Init,
        );
    }
    Ok(())
}

/// Go's maps have no order; neither has this.
fn in_no_order<T>(mut all: Vec<T>) -> Vec<T> {
    let random = RandomState::new();
    let mut mixed = Vec::with_capacity(all.len());
    while !all.is_empty() {
        let at = usize::try_from(random.hash_one(all.len()) % 1024).unwrap_or(0) % all.len();
        mixed.push(all.swap_remove(at));
    }
    mixed
}

async fn give(
    state: &State,
    pod: &Local,
    container: &Container,
    resource: &str,
    size: usize,
) -> Result<(), String> {
    let (next, endpoint) = {
        let mut inner = state.lock();
        inner.free_devices_of_ended_pods();
        let next = inner
            .devices
            .next(pod.uid(), &container.name, resource, size)?;
        (next, inner.endpoints.get(resource).cloned())
    };
    if next == Next::HasIt {
        return Ok(());
    }
    let endpoint =
        endpoint.ok_or_else(|| format!("cannot allocate unregistered device {resource}"))?;
    let call = Call {
        state,
        pod,
        container,
        resource,
    };
    let ids = match next {
        Next::HasIt => return Ok(()),
        Next::Reused(ids) => ids,
        Next::Choose {
            fixed,
            available,
            size,
        } => {
            let preferred = call
                .preferred(endpoint.clone(), &fixed, &available, size)
                .await?;
            Devices::choose(&fixed, &available, size, &preferred)
        }
    };
    let answer = call.allocate(endpoint, &ids).await?;
    state
        .lock()
        .devices
        .give(pod.uid(), &container.name, resource, Given { ids, answer });
    Ok(())
}

struct Call<'a> {
    state: &'a State,
    pod: &'a Local,
    container: &'a Container,
    resource: &'a str,
}

impl Call<'_> {
    async fn preferred(
        &self,
        mut endpoint: Endpoint,
        fixed: &Ids,
        available: &Ids,
        size: usize,
    ) -> Result<Vec<String>, String> {
        if !endpoint.prefers {
            return Ok(Vec::new());
        }
        let request = ContainerPreferredAllocationRequest {
            available_device_i_ds: available.union(fixed).cloned().collect(),
            must_include_device_i_ds: fixed.iter().cloned().collect(),
            allocation_size: i32::try_from(size).map_err(|e| e.to_string())?,
        };
        let request = PreferredAllocationRequest {
            container_requests: vec![request],
        };
        let answer = endpoint.client.get_preferred_allocation(request).await;
        match answer {
            Ok(answer) => {
                let ids = answer.into_inner().container_responses.into_iter().next();
                let ids = ids.map(|r| r.device_i_ds).unwrap_or_default();
                self.trace("GetPreferredAllocation", &json!({"size": size, "ids": ids}));
                Ok(ids)
            }
            Err(status) => {
                self.trace(
                    "GetPreferredAllocation",
                    &json!({"size": size, "error": status.message()}),
                );
                // As kubelet words it; the pod is rejected for it.
                Err(format!(
                    "device plugin GetPreferredAllocation rpc failed with err: {}",
                    rpc(&status)
                ))
            }
        }
    }

    async fn allocate(&self, mut endpoint: Endpoint, ids: &Ids) -> Result<Vec<u8>, String> {
        let request = ContainerAllocateRequest {
            devices_ids: ids.iter().cloned().collect(),
        };
        let answer = endpoint
            .client
            .allocate(AllocateRequest {
                container_requests: vec![request],
            })
            .await;
        let answer = match answer {
            Ok(answer) => answer.into_inner().container_responses.into_iter().next(),
            Err(status) => {
                self.trace(
                    "Allocate",
                    &json!({"ids": ids_json(ids), "error": status.message()}),
                );
                return Err(rpc(&status));
            }
        };
        let Some(answer) = answer else {
            self.trace(
                "Allocate",
                &json!({"ids": ids_json(ids), "error": "no containers in the answer"}),
            );
            return Err("no containers return in allocation response".into());
        };
        self.trace("Allocate", &json!({"ids": ids_json(ids)}));
        Ok(answer.encode_to_vec())
    }

    fn trace(&self, call: &str, more: &serde_json::Value) {
        let mut line = json!({
            "call": call, "resource": self.resource, "namespace": self.pod.namespace(), "pod": self.pod.name(),
            "uid": self.pod.uid(), "container": self.container.name,
        });
        if let (Some(line), Some(more)) = (line.as_object_mut(), more.as_object()) {
            line.extend(more.clone());
        }
        self.state.trace(&line);
    }
}

fn rpc(status: &tonic::Status) -> String {
    format!(
        "rpc error: code = {:?} desc = {}",
        status.code(),
        status.message()
    )
}

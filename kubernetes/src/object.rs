//! Pods and nodes trimmed to what the kit reads. Unknown fields are passed over, so any
//! Kubernetes version's objects decode, and little memory is used.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::{Deserialize, Serialize};

/// A pod.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Pod {
    /// Name, namespace, uid, annotations, labels, deletionTimestamp …
    pub metadata: ObjectMeta,
    /// What it asks.
    #[serde(default)]
    pub spec: PodSpec,
    /// What came of it.
    #[serde(default)]
    pub status: PodStatus,
}

/// The part of a pod's spec that matters here.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodSpec {
    /// Where it is bound.
    pub node_name: Option<String>,
    /// Which scheduler.
    pub scheduler_name: Option<String>,
    /// In order.
    pub init_containers: Vec<Container>,
    /// In order.
    pub containers: Vec<Container>,
    /// For preemption.
    pub priority: Option<i32>,
}

/// A container of a pod.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Container {
    /// Its name.
    pub name: String,
    /// Limits and requests.
    pub resources: Resources,
    /// `Always` on an init container makes it a sidecar.
    pub restart_policy: Option<String>,
}

/// A container's resources; quantities stay text.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Resources {
    /// By resource name.
    pub limits: BTreeMap<String, Quantity>,
    /// By resource name.
    pub requests: BTreeMap<String, Quantity>,
}

/// A quantity as text; JSON numbers are taken too, as Kubernetes does.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
#[serde(transparent)]
pub struct Quantity(pub String);

impl<'de> Deserialize<'de> for Quantity {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum TextOrNumber {
            Text(String),
            Number(serde_json::Number),
        }
        Ok(Self(match TextOrNumber::deserialize(deserializer)? {
            TextOrNumber::Text(text) => text,
            TextOrNumber::Number(number) => number.to_string(),
        }))
    }
}

/// The part of a pod's status that matters here.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodStatus {
    /// Pending, Running, Succeeded, Failed, Unknown.
    pub phase: Option<String>,
    /// Why it failed.
    pub reason: Option<String>,
    /// In words.
    pub message: Option<String>,
    /// Of its containers.
    pub container_statuses: Vec<ContainerStatus>,
    /// Of its init containers.
    pub init_container_statuses: Vec<ContainerStatus>,
    /// A pod that preemption made room for waits for this node.
    pub nominated_node_name: Option<String>,
}

/// A container's status.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ContainerStatus {
    /// Its name.
    pub name: String,
    /// `running`, `waiting` or `terminated`.
    pub state: BTreeMap<String, serde_json::Value>,
}

/// A node.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Node {
    /// Name, uid, labels, annotations …
    pub metadata: ObjectMeta,
    /// What it has.
    #[serde(default)]
    pub status: NodeStatus,
}

/// The part of a node's status that matters here.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct NodeStatus {
    /// By resource name.
    pub capacity: BTreeMap<String, Quantity>,
    /// By resource name.
    pub allocatable: BTreeMap<String, Quantity>,
}

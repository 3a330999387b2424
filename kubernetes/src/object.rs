//! Pods and nodes trimmed to what the kit reads. Unknown fields are passed over, so any
//! Kubernetes version's objects decode, and little memory is used. `null` in place of a list, a
//! map or an object is an empty one: Go programs write it so.

use std::{borrow::Cow, collections::BTreeMap};

use k8s_openapi::{
    ClusterResourceScope, NamespaceResourceScope, apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use serde::{Deserialize, Deserializer, Serialize};

fn null_is_empty<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Default + Deserialize<'de>,
{
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

/// A pod.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Pod {
    /// Name, namespace, uid, annotations, labels, deletionTimestamp …
    #[serde(default, deserialize_with = "null_is_empty")]
    pub metadata: ObjectMeta,
    /// What it asks.
    #[serde(default, deserialize_with = "null_is_empty")]
    pub spec: PodSpec,
    /// What came of it.
    #[serde(default, deserialize_with = "null_is_empty")]
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
    #[serde(default, deserialize_with = "null_is_empty")]
    pub init_containers: Vec<Container>,
    /// In order.
    #[serde(default, deserialize_with = "null_is_empty")]
    pub containers: Vec<Container>,
    /// For preemption.
    pub priority: Option<i32>,
}

/// A container of a pod.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Container {
    /// Its name.
    #[serde(default, deserialize_with = "null_is_empty")]
    pub name: String,
    /// Limits and requests.
    #[serde(default, deserialize_with = "null_is_empty")]
    pub resources: Resources,
    /// `Always` on an init container makes it a sidecar.
    pub restart_policy: Option<String>,
}

/// A container's resources; quantities stay text.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Resources {
    /// By resource name.
    #[serde(default, deserialize_with = "null_is_empty")]
    pub limits: BTreeMap<String, Quantity>,
    /// By resource name.
    #[serde(default, deserialize_with = "null_is_empty")]
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
    #[serde(default, deserialize_with = "null_is_empty")]
    pub container_statuses: Vec<ContainerStatus>,
    /// Of its init containers.
    #[serde(default, deserialize_with = "null_is_empty")]
    pub init_container_statuses: Vec<ContainerStatus>,
    /// A pod that preemption made room for waits for this node.
    pub nominated_node_name: Option<String>,
}

/// A container's status.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ContainerStatus {
    /// Its name.
    #[serde(default, deserialize_with = "null_is_empty")]
    pub name: String,
    /// `running`, `waiting` or `terminated`.
    #[serde(default, deserialize_with = "null_is_empty")]
    pub state: BTreeMap<String, serde_json::Value>,
}

/// A node.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Node {
    /// Name, uid, labels, annotations …
    #[serde(default, deserialize_with = "null_is_empty")]
    pub metadata: ObjectMeta,
    /// What it has.
    #[serde(default, deserialize_with = "null_is_empty")]
    pub status: NodeStatus,
}

/// The part of a node's status that matters here.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct NodeStatus {
    /// By resource name.
    #[serde(default, deserialize_with = "null_is_empty")]
    pub capacity: BTreeMap<String, Quantity>,
    /// By resource name.
    #[serde(default, deserialize_with = "null_is_empty")]
    pub allocatable: BTreeMap<String, Quantity>,
}

/// The JSON Pointer (RFC 6901) to a resource in a field of a node's status, for a JSON Patch.
pub fn status_pointer(field: &str, resource: &str) -> String {
    let escaped = resource.replace('~', "~0").replace('/', "~1");
    format!("/status/{field}/{escaped}")
}

impl kube::Resource for Pod {
    type DynamicType = ();
    type Scope = NamespaceResourceScope;

    fn kind((): &()) -> Cow<'_, str> {
        "Pod".into()
    }
    fn group((): &()) -> Cow<'_, str> {
        "".into()
    }
    fn version((): &()) -> Cow<'_, str> {
        "v1".into()
    }
    fn plural((): &()) -> Cow<'_, str> {
        "pods".into()
    }
    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }
    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

impl kube::Resource for Node {
    type DynamicType = ();
    type Scope = ClusterResourceScope;

    fn kind((): &()) -> Cow<'_, str> {
        "Node".into()
    }
    fn group((): &()) -> Cow<'_, str> {
        "".into()
    }
    fn version((): &()) -> Cow<'_, str> {
        "v1".into()
    }
    fn plural((): &()) -> Cow<'_, str> {
        "nodes".into()
    }
    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }
    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

#[cfg(test)]
mod tests {
    use kube::Resource;
    use serde_json::json;

    use super::*;

    #[test]
    fn null_decodes_as_empty_everywhere() {
        let pod: Pod = serde_json::from_value(json!({
            "metadata": {"name": "p", "labels": null, "annotations": null, "creationTimestamp": null,
                         "ownerReferences": null, "managedFields": null},
            "spec": {"containers": [{"name": "a", "resources": {"limits": null, "requests": null}},
                                    {"name": "b", "resources": null}],
                     "initContainers": null, "nodeName": null, "priority": null},
            "status": {"phase": null, "containerStatuses": null,
                       "initContainerStatuses": [{"name": "a", "state": null}]},
        }))
        .unwrap();
        assert_eq!(pod.spec.containers.len(), 2);
        assert!(pod.spec.init_containers.is_empty());
        assert!(pod.status.container_statuses.is_empty());
        let pod: Pod =
            serde_json::from_value(json!({"metadata": null, "spec": null, "status": null}))
                .unwrap();
        assert!(pod.metadata.name.is_none());
        let node: Node = serde_json::from_value(
            json!({"metadata": {}, "status": {"capacity": null, "allocatable": {"a/b": 8}}}),
        )
        .unwrap();
        assert!(node.status.capacity.is_empty());
        assert_eq!(node.status.allocatable["a/b"], Quantity("8".to_owned()));
    }

    #[test]
    fn unknown_fields_are_passed_over() {
        let pod: Pod = serde_json::from_value(json!({
            "apiVersion": "v1", "kind": "Pod", "later": {"a": [1]},
            "metadata": {"name": "p", "later": 1},
            "spec": {"later": true, "containers": [{"name": "a", "image": "x", "later": {}}]},
            "status": {"later": [], "hostIP": "10.0.0.1"},
        }))
        .unwrap();
        assert_eq!(pod.spec.containers[0].name, "a");
    }

    #[test]
    fn urls_are_those_of_the_core_group() {
        assert_eq!(Pod::url_path(&(), Some("ns")), "/api/v1/namespaces/ns/pods");
        assert_eq!(Node::url_path(&(), None), "/api/v1/nodes");
    }
}

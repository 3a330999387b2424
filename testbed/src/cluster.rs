//! What a person does to a cluster and reads from it, over the Kubernetes API alone: the same
//! on the stand-ins and on a real cluster.

use std::collections::BTreeMap;

use anyhow::Context;
use k8s_openapi::api::core::v1::{Event, Node, Pod};
use kube::{
    Api, Client,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams},
};
use model::{annotation::read_plan, plan::Plan, settings::Settings};
use serde_json::json;

use crate::{
    stage::{Deadline, until},
    workload::Workload,
};

/// A cluster that the kit is, or will be, installed on.
#[derive(Clone)]
pub struct Cluster {
    client: Client,
    settings: Settings,
    namespace: String,
}

/// A node's extended resources: name to (capacity, allocatable).
pub type NodeResources = BTreeMap<String, (String, String)>;

impl Cluster {
    /// Pods go to the namespace `default`.
    pub fn new(client: Client, settings: Settings) -> Self {
        Self {
            client,
            settings,
            namespace: "default".into(),
        }
    }

    /// The names in use.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    fn nodes(&self) -> Api<Node> {
        Api::all(self.client.clone())
    }

    /// The pods that workloads are made in.
    pub fn pods(&self) -> Api<Pod> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    /// Sets the kit's label on a node, or takes it off.
    pub async fn label_node(&self, node: &str, on: bool) -> anyhow::Result<()> {
        let label = &self.settings.node_label;
        let value = if on { json!(label.value) } else { json!(null) };
        let patch = json!({"metadata": {"labels": {&label.key: value}}});
        self.nodes()
            .patch(node, &PatchParams::default(), &Patch::Merge(patch))
            .await
            .with_context(|| format!("can't label {node}"))?;
        Ok(())
    }

    /// The node's extended resources (those with a `/` in their name).
    pub async fn node_resources(&self, node: &str) -> anyhow::Result<NodeResources> {
        let status = self.nodes().get(node).await?.status.unwrap_or_default();
        let allocatable = status.allocatable.unwrap_or_default();
        let capacity = status.capacity.unwrap_or_default();
        let names = capacity
            .keys()
            .chain(allocatable.keys())
            .filter(|name| name.contains('/'));
        let text =
            |of: &BTreeMap<String, k8s_openapi::apimachinery::pkg::api::resource::Quantity>,
             name: &str| {
                of.get(name).map_or_else(|| "-".to_owned(), |q| q.0.clone())
            };
        Ok(names
            .map(|name| {
                (
                    name.clone(),
                    (text(&capacity, name), text(&allocatable, name)),
                )
            })
            .collect())
    }

    /// Waits until the node offers exactly these, allocatable equal to capacity.
    pub async fn resources_are(
        &self,
        node: &str,
        wanted: &[(&str, u64)],
        deadline: Deadline,
    ) -> anyhow::Result<()> {
        let wanted: NodeResources = wanted
            .iter()
            .map(|(name, n)| ((*name).to_owned(), (n.to_string(), n.to_string())))
            .collect();
        until(&format!("the resources of {node}"), deadline, || async {
            match self.node_resources(node).await {
                Ok(now) if now == wanted => Ok(()),
                Ok(now) => Err(format!("it offers {now:?}, not {wanted:?}")),
                Err(error) => Err(format!("{error:#}")),
            }
        })
        .await
    }

    /// An annotation of a node.
    pub async fn node_annotation(&self, node: &str, key: &str) -> anyhow::Result<Option<String>> {
        Ok(self
            .nodes()
            .get(node)
            .await?
            .metadata
            .annotations
            .unwrap_or_default()
            .remove(key))
    }

    /// Makes the pod.
    pub async fn create(&self, workload: &Workload) -> anyhow::Result<()> {
        let pod = workload.pod()?;
        self.pods()
            .create(&PostParams::default(), &pod)
            .await
            .with_context(|| format!("can't create pod {}", workload.name()))?;
        Ok(())
    }

    /// Deletes the pod; one that is gone already is no error.
    pub async fn delete(&self, pod: &str) -> anyhow::Result<()> {
        match self.pods().delete(pod, &DeleteParams::default()).await {
            Ok(_) => Ok(()),
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
            Err(error) => Err(error).with_context(|| format!("can't delete pod {pod}")),
        }
    }

    /// The pod as it is now, or none.
    pub async fn pod(&self, name: &str) -> anyhow::Result<Option<Pod>> {
        Ok(self.pods().get_opt(name).await?)
    }

    /// Waits until the pod has that phase.
    pub async fn pod_is(&self, name: &str, phase: &str, deadline: Deadline) -> anyhow::Result<()> {
        until(&format!("pod {name} to be {phase}"), deadline, || async {
            let pod = self
                .pod(name)
                .await
                .map_err(|e| format!("{e:#}"))?
                .ok_or("it is not there")?;
            let status = pod.status.unwrap_or_default();
            let now = status.phase.unwrap_or_default();
            if now == phase {
                return Ok(());
            }
            let why = status.message.or(status.reason).unwrap_or_default();
            Err(format!(
                "it is {now} {why}; {}",
                self.last_events(name).await
            ))
        })
        .await
    }

    /// Waits until the pod is bound to a node.
    pub async fn pod_is_bound(&self, name: &str, deadline: Deadline) -> anyhow::Result<()> {
        until(&format!("{name} to be bound"), deadline, || async {
            let pod = self
                .pod(name)
                .await
                .map_err(|e| format!("{e:#}"))?
                .ok_or("it is gone")?;
            pod.spec
                .and_then(|s| s.node_name)
                .map(drop)
                .ok_or_else(|| "it is not".to_owned())
        })
        .await
    }

    /// Waits until the pod is gone.
    pub async fn pod_is_gone(&self, name: &str, deadline: Deadline) -> anyhow::Result<()> {
        until(&format!("pod {name} to go"), deadline, || async {
            match self.pod(name).await {
                Ok(None) => Ok(()),
                Ok(Some(_)) => Err("it is still there".to_owned()),
                Err(error) => Err(format!("{error:#}")),
            }
        })
        .await
    }

    /// What kubelet really gave the pod, once the device plugin has written it.
    pub async fn allocated(&self, name: &str, deadline: Deadline) -> anyhow::Result<Plan> {
        let key = &self.settings.annotations.allocated;
        until(
            &format!("pod {name} to say what it was given"),
            deadline,
            || async {
                let pod = self
                    .pod(name)
                    .await
                    .map_err(|e| format!("{e:#}"))?
                    .ok_or("it is not there")?;
                let text = pod
                    .metadata
                    .annotations
                    .unwrap_or_default()
                    .remove(key)
                    .ok_or(format!("no {key} yet"))?;
                read_plan(&text).map_err(|e| format!("{key}: {e}"))
            },
        )
        .await
    }

    /// The messages of the pod's events of that reason, oldest first.
    pub async fn events(&self, pod: &str, reason: &str) -> anyhow::Result<Vec<String>> {
        let events: Api<Event> = Api::namespaced(self.client.clone(), &self.namespace);
        let all = events.list(&ListParams::default()).await?;
        Ok(all
            .into_iter()
            .filter(|e| e.involved_object.name.as_deref() == Some(pod))
            .filter(|e| reason.is_empty() || e.reason.as_deref() == Some(reason))
            .filter_map(|e| e.message)
            .collect())
    }

    async fn last_events(&self, pod: &str) -> String {
        match self.events(pod, "").await {
            Ok(all) => all
                .last()
                .map_or_else(|| "no event".to_owned(), |e| format!("last event: {e}")),
            Err(error) => format!("events unknown: {error:#}"),
        }
    }
}

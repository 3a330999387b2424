//! The kit's workloads on a real cluster, and their pods.

use anyhow::ensure;
use k8s_openapi::api::{
    apps::v1::{DaemonSet, Deployment},
    core::v1::Pod,
};
use kube::{
    Api,
    api::{DeleteParams, ListParams, Patch, PatchParams},
};
use serde_json::json;
use testbed::stage::{Deadline, until};

use super::{Lab, NAMESPACE, SOON, on_every_node};

impl Lab {
    /// The kit's pods of a component.
    pub async fn component(&self, app: &str) -> anyhow::Result<Vec<Pod>> {
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), NAMESPACE);
        let labelled = ListParams::default().labels(&format!("app={app}"));
        Ok(pods.list(&labelled).await?.items)
    }

    /// Waits until a workload has as many ready pods of its newest template as it should have.
    pub async fn rolled_out(&self, app: &str) -> anyhow::Result<()> {
        until(
            &format!("{app} to be ready"),
            Deadline::seconds(SOON),
            || async {
                let done = self.is_rolled_out(app).await;
                if done.map_err(|e| format!("{e:#}"))? {
                    Ok(())
                } else {
                    Err("not yet".to_owned())
                }
            },
        )
        .await
    }

    async fn is_rolled_out(&self, app: &str) -> anyhow::Result<bool> {
        if on_every_node(app) {
            let sets: Api<DaemonSet> = Api::namespaced(self.client.clone(), NAMESPACE);
            let set = sets.get(app).await?;
            let status = set.status.unwrap_or_default();
            let wanted = status.desired_number_scheduled;
            return Ok(status.observed_generation == set.metadata.generation
                && status.updated_number_scheduled.unwrap_or(0) == wanted
                && status.number_ready == wanted
                && self.has_pods(app, wanted).await?);
        }
        let all: Api<Deployment> = Api::namespaced(self.client.clone(), NAMESPACE);
        let deployment = all.get(app).await?;
        let wanted = deployment.spec.and_then(|s| s.replicas).unwrap_or(1);
        let status = deployment.status.unwrap_or_default();
        Ok(status.observed_generation == deployment.metadata.generation
            && status.updated_replicas.unwrap_or(0) == wanted
            && status.ready_replicas.unwrap_or(0) == wanted
            && status.replicas.unwrap_or(0) == wanted
            && self.has_pods(app, wanted).await?)
    }

    /// Its pods that neither have ended nor are about to: while a rollout ends some of the former
    /// template are still listed.
    pub(super) async fn present(&self, app: &str) -> anyhow::Result<Vec<Pod>> {
        let mut pods = self.component(app).await?;
        pods.retain(|pod| !has_ended(pod) && !is_leaving(pod));
        Ok(pods)
    }

    /// Whether there are so many, all ready. A workload's status may be of a moment before a pod
    /// was deleted.
    async fn has_pods(&self, app: &str, wanted: i32) -> anyhow::Result<bool> {
        let mut pods = self.component(app).await?;
        pods.retain(|pod| !has_ended(pod));
        let as_they_should = pods.iter().all(|pod| is_ready(pod) && !is_leaving(pod));
        Ok(as_they_should && i32::try_from(pods.len())? == wanted)
    }

    pub(super) async fn scale(&self, app: &str, replicas: u32) -> anyhow::Result<()> {
        let all: Api<Deployment> = Api::namespaced(self.client.clone(), NAMESPACE);
        let patch = Patch::Merge(json!({"spec": {"replicas": replicas}}));
        all.patch(app, &PatchParams::default(), &patch).await?;
        if replicas == 0 {
            until(
                &format!("{app} to end"),
                Deadline::seconds(SOON),
                || async {
                    match self.component(app).await {
                        Ok(pods) if pods.is_empty() => Ok(()),
                        Ok(pods) => Err(format!("{} pods", pods.len())),
                        Err(error) => Err(format!("{error:#}")),
                    }
                },
            )
            .await?;
        }
        Ok(())
    }

    /// Ends the pod of a `DaemonSet` on the first node; its controller makes another.
    pub(super) async fn delete_on_first_node(&self, app: &str) -> anyhow::Result<()> {
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), NAMESPACE);
        let mut deleted = Vec::new();
        for pod in self.component(app).await? {
            let here = pod.spec.and_then(|s| s.node_name).as_deref() == Some("node-1");
            if let (true, Some(name)) = (here, pod.metadata.name) {
                pods.delete(&name, &DeleteParams::default()).await?;
                deleted.push(name);
            }
        }
        ensure!(!deleted.is_empty(), "no pod of {app} on node-1");
        for name in deleted {
            self.pod_has_ended(&pods, &name).await?;
        }
        Ok(())
    }

    pub(super) async fn pod_has_ended(&self, pods: &Api<Pod>, name: &str) -> anyhow::Result<()> {
        until(
            &format!("{name} to end"),
            Deadline::seconds(SOON),
            || async {
                match pods.get_opt(name).await {
                    Ok(None) => Ok(()),
                    Ok(Some(_)) => Err("it is still there".to_owned()),
                    Err(error) => Err(error.to_string()),
                }
            },
        )
        .await
    }
}

pub(super) fn is_leaving(pod: &Pod) -> bool {
    pod.metadata.deletion_timestamp.is_some()
}

/// Such as one that a node rejected: nobody takes it away, and another was made.
fn has_ended(pod: &Pod) -> bool {
    let phase = pod.status.as_ref().and_then(|s| s.phase.as_deref());
    matches!(phase, Some("Failed" | "Succeeded"))
}

fn is_ready(pod: &Pod) -> bool {
    let status = pod.status.as_ref();
    let conditions = status.and_then(|s| s.conditions.as_ref());
    let mut conditions = conditions.into_iter().flatten();
    conditions.any(|c| c.type_ == "Ready" && c.status == "True")
}

//! The two extenders of a real cluster: which of them leads, and how it ends.

use anyhow::{Context, bail, ensure};
use k8s_openapi::api::{coordination::v1::Lease, core::v1::Pod};
use kube::{Api, api::DeleteParams};
use testbed::stage::{Deadline, Signal, until};

use super::{EXTENDER, Lab, NAMESPACE, SOON, signal_name, workloads::is_leaving};
use crate::ground::{Ground, Victim};

/// A killed leader's lease runs out after 10 s, and is looked at every half second.
const FOLLOWED_WITHIN: u64 = 20;

impl Lab {
    /// Waits until one of the extenders' pods leads. A holder that is no pod any more has ended,
    /// and its lease runs out.
    pub(super) async fn leader(&self) -> anyhow::Result<Pod> {
        let leases: Api<Lease> = Api::namespaced(self.client(), NAMESPACE);
        let deadline = Deadline::seconds(FOLLOWED_WITHIN);
        until("an extender to lead", deadline, || async {
            let lease = leases.get(EXTENDER).await.map_err(|e| e.to_string())?;
            let holder = lease.spec.unwrap_or_default().holder_identity;
            let holder = holder.unwrap_or_default();
            let pods = self.component(EXTENDER).await;
            let pods = pods.map_err(|e| format!("{e:#}"))?;
            pods.into_iter()
                .filter(|pod| !is_leaving(pod))
                .find(|pod| leads(pod, &holder))
                .ok_or(format!("the lease's holder is {holder:?}"))
        })
        .await
    }

    /// Ends the extender that leads: its process alone, which kubelet starts again in its pod, and
    /// then the pod, or the pod politely. The other one takes over; another pod is made.
    pub(super) async fn end_leader(&self, signal: Signal) -> anyhow::Result<()> {
        let pod = self.leader().await?;
        if signal == Signal::Kill {
            self.kill_in(&pod, signal).await?;
        }
        let name = pod.metadata.name.context("a pod without a name")?;
        let pods: Api<Pod> = Api::namespaced(self.client(), NAMESPACE);
        pods.delete(&name, &DeleteParams::default()).await?;
        self.pod_has_ended(&pods, &name).await
    }

    /// Kills the extender of that pod, and no other one on the same node: its environment has the
    /// pod's name.
    async fn kill_in(&self, pod: &Pod, signal: Signal) -> anyhow::Result<()> {
        let name = pod.metadata.name.as_deref().context("no name")?;
        let node = pod.spec.as_ref().and_then(|s| s.node_name.as_deref());
        let number = node.and_then(|node| node.strip_prefix("node-")?.parse().ok());
        let number = number.with_context(|| format!("{name} is on {node:?}"))?;
        let signal = signal_name(signal);
        let line = format!(
            "for pid in $(pgrep -f '^/?{EXTENDER} '); do \
             if tr '\\0' '\\n' </proc/$pid/environ | grep -qx POD_NAME={name}; then \
             kill -{signal} $pid && echo $pid; fi; done"
        );
        let killed = self.on_node(number, &line).await?;
        ensure!(
            killed.split_whitespace().count() == 1,
            "processes of {name} on node-{number}: {killed:?}, not one"
        );
        Ok(())
    }
}

fn leads(pod: &Pod, holder: &str) -> bool {
    let name = pod.metadata.name.as_deref();
    name.is_some() && holder.split('_').next() == name
}

/// Two extenders are ready and one leads. Whichever way that one ends, it is the other one that
/// leads then, and not the first one's successor. At the end both answer.
pub async fn either_extender_may_go(lab: &Lab) -> anyhow::Result<()> {
    lab.rolled_out(EXTENDER).await?;
    for signal in [Signal::Term, Signal::Kill] {
        let before = lab.leader().await?;
        let others = lab.component(EXTENDER).await?;
        let others: Vec<_> = others
            .into_iter()
            .filter(|pod| pod.metadata.name != before.metadata.name)
            .collect();
        let [other] = others.as_slice() else {
            bail!("there are {} extenders beside the leader", others.len());
        };
        lab.stop(Victim::Extender, signal).await?;
        let now = lab.leader().await?;
        ensure!(
            now.metadata.uid == other.metadata.uid,
            "{:?} leads, not {:?}",
            now.metadata.name,
            other.metadata.name
        );
        lab.start(Victim::Extender).await?;
    }
    // Asked a few times, both are met: one of them passes the call on.
    let url =
        format!("/api/v1/namespaces/{NAMESPACE}/services/https:{EXTENDER}:9503/proxy/snapshot");
    until(
        "the extenders to answer",
        Deadline::seconds(SOON),
        || async {
            for _ in 0..10 {
                let request = http::Request::get(&url).body(Vec::new());
                let request = request.map_err(|e| e.to_string())?;
                let answer = lab.client().request_text(request).await;
                answer.map_err(|e| e.to_string())?;
            }
            Ok(())
        },
    )
    .await
}

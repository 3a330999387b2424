//! What users of a real cluster write: Jobs, pods that name nothing of the kit.

use anyhow::{Context, ensure};
use k8s_openapi::api::{batch::v1::Job, core::v1::Pod, node::v1::RuntimeClass};
use kube::{
    Api,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams, PropagationPolicy},
};
use serde_json::json;
use testbed::{
    stage::{Deadline, until},
    workload::Workload,
};

use super::{Lab, SOON};
use crate::ground::{
    Ground,
    names::{CORE, MEMORY, PPU},
};

/// A Job of as many pods as both nodes' cards take, all at once; one pod more stays Pending and
/// says why. With whole cards, where kubelet's count says it; with shares, where there is enough
/// in sum and no card has it, so that only the kit can say it.
pub async fn whole_cards_everywhere(lab: &Lab) -> anyhow::Result<()> {
    lab.switch_on(2).await?;
    full_house(lab, "whole", 4, &[(PPU, 4)], "alibabacloud.com/ppu").await?;
    full_house(
        lab,
        "shares",
        16,
        &[(CORE, 60), (MEMORY, 80)],
        "no card has 60 core",
    )
    .await?;
    lab.cluster().label_node("node-2", false).await
}

async fn full_house(
    lab: &Lab,
    name: &str,
    pods: usize,
    asks: &[(&str, u64)],
    reason: &str,
) -> anyhow::Result<()> {
    let deadline = || Deadline::seconds(SOON);
    let template = Workload::one("pod", asks).pod()?.spec;
    let jobs: Api<Job> = Api::namespaced(lab.client(), "default");
    let job: Job = serde_json::from_value(json!({
        "metadata": {"name": name},
        "spec": {
            "parallelism": pods,
            "completions": pods,
            "backoffLimit": 0,
            "template": {"metadata": {"labels": {"house": name}}, "spec": template},
        },
    }))?;
    jobs.create(&PostParams::default(), &job).await?;
    let labelled = ListParams::default().labels(&format!("house={name}"));
    until(
        &format!("{pods} pods of {name} to run"),
        deadline(),
        || async {
            let all = lab
                .cluster()
                .pods()
                .list(&labelled)
                .await
                .map_err(|e| e.to_string())?;
            let mut nodes = [0, 0];
            for pod in all {
                let running = pod.status.and_then(|s| s.phase).as_deref() == Some("Running");
                let node = pod.spec.and_then(|s| s.node_name).unwrap_or_default();
                let number = usize::from(node == "node-2");
                if running {
                    nodes[number] += 1;
                }
            }
            if nodes == [pods / 2, pods / 2] {
                Ok(())
            } else {
                Err(format!("{nodes:?} run"))
            }
        },
    )
    .await?;
    let extra = format!("{name}-extra");
    lab.cluster()
        .create(&Workload::one(&extra, &[asks[0]]))
        .await?;
    until(
        &format!("{extra} to say why it waits"),
        deadline(),
        || async {
            let events = lab.cluster().events(&extra, "FailedScheduling").await;
            let events = events.map_err(|e| format!("{e:#}"))?;
            if events.iter().any(|m| m.contains(reason)) {
                Ok(())
            } else {
                Err(format!("{events:?}"))
            }
        },
    )
    .await?;
    let background = DeleteParams {
        propagation_policy: Some(PropagationPolicy::Background),
        ..DeleteParams::default()
    };
    jobs.delete(name, &background).await?;
    // What was in its way has gone: it runs.
    lab.cluster().pod_is(&extra, "Running", deadline()).await?;
    lab.cluster().delete(&extra).await?;
    until("no pod of it is left", deadline(), || async {
        let left = lab.cluster().pods().list(&ListParams::default()).await;
        match left.map_err(|e| e.to_string())?.items.len() {
            0 => Ok(()),
            n => Err(format!("{n} pods")),
        }
    })
    .await
}

/// Names neither scheduler nor runtime class.
fn plain(name: &str, runtime_class: Option<&str>) -> anyhow::Result<Pod> {
    let mut pod = Workload::one(name, &[(CORE, 10), (MEMORY, 10)]).pod()?;
    let spec = pod.spec.as_mut().context("no spec")?;
    spec.scheduler_name = None;
    spec.runtime_class_name = runtime_class.map(str::to_owned);
    Ok(pod)
}

/// A pod that asks for cards gets scheduler and runtime class by itself; one that does not is
/// left alone.
pub async fn policy(lab: &Lab) -> anyhow::Result<()> {
    let pods = lab.cluster().pods();
    let made = pods
        .create(&PostParams::default(), &plain("named-by-policy", None)?)
        .await?;
    let of = |pod: Pod| {
        let spec = pod.spec.unwrap_or_default();
        (
            spec.scheduler_name.unwrap_or_default(),
            spec.runtime_class_name,
        )
    };
    ensure!(
        of(made.clone())
            == (
                "lj-runtimekit-scheduler".to_owned(),
                Some("lj-runtime".to_owned())
            ),
        "{:?}",
        of(made)
    );
    lab.cluster()
        .pod_is("named-by-policy", "Running", Deadline::seconds(SOON))
        .await?;
    let pod = lab
        .cluster()
        .pod("named-by-policy")
        .await?
        .context("it is gone")?;
    let key = &lab.cluster().settings().annotations.assigned;
    let planned = pod.metadata.annotations.unwrap_or_default();
    ensure!(planned.contains_key(key), "it has no plan: {planned:?}");

    // A resource that stands in no list: its name is made of a prefix and a profile.
    let mut cut = Workload::one("cut", &[("alibabacloud.com/ppu-2u.2g36gb", 1)]).pod()?;
    cut.spec.as_mut().context("no spec")?.scheduler_name = None;
    let made = pods.create(&PostParams::default(), &cut).await?;
    ensure!(
        of(made.clone()).0 == "lj-runtimekit-scheduler",
        "{:?}",
        of(made)
    );

    let mut other = Workload::one("asks-nothing", &[]).pod()?;
    other.spec.as_mut().context("no spec")?.scheduler_name = None;
    let made = pods.create(&PostParams::default(), &other).await?;
    ensure!(
        of(made.clone()) == ("default-scheduler".to_owned(), None),
        "{:?}",
        of(made)
    );
    Ok(())
}

/// The Runtime's annotations are in the OCI configuration of a container under the runtime class
/// `lj-runtime`, and not of one under another.
pub async fn annotations(lab: &Lab) -> anyhow::Result<()> {
    let classes: Api<RuntimeClass> = Api::all(lab.client());
    let other: RuntimeClass = serde_json::from_value(json!({
        "apiVersion": "node.k8s.io/v1",
        "kind": "RuntimeClass",
        "metadata": {"name": "e2e-plain"},
        "handler": "runc",
    }))?;
    let apply = PatchParams::apply("e2e");
    classes
        .patch("e2e-plain", &apply, &Patch::Apply(&other))
        .await?;
    for (name, class, wanted) in [
        ("with-annotations", None, true),
        ("without-annotations", Some("e2e-plain"), false),
    ] {
        lab.cluster()
            .pods()
            .create(&PostParams::default(), &plain(name, class)?)
            .await?;
        lab.cluster()
            .pod_is(name, "Running", Deadline::seconds(SOON))
            .await?;
        let pod = lab.cluster().pod(name).await?.context("it is gone")?;
        let id = pod
            .status
            .and_then(|s| s.container_statuses)
            .and_then(|c| c.into_iter().next())
            .and_then(|c| c.container_id)
            .context("no container id")?;
        let id = id.trim_start_matches("containerd://");
        let config =
            format!("cat /run/containerd/io.containerd.runtime.v2.task/k8s.io/{id}/config.json");
        let config: serde_json::Value = serde_json::from_str(&lab.on_node(1, &config).await?)?;
        let there = config["annotations"]["xdm.amp.com.cards"].is_string();
        ensure!(there == wanted, "{name}: {}", config["annotations"]);
    }
    classes
        .delete("e2e-plain", &DeleteParams::default())
        .await?;
    Ok(())
}

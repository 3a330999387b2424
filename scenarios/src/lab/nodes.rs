//! Nodes that are labelled, unlabelled, deleted and made again.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, ensure};
use k8s_openapi::api::{
    batch::v1::Job,
    core::v1::{Event, Node, Pod},
};
use kube::{
    Api,
    api::{DeleteParams, ListParams, PostParams},
};
use serde_json::json;
use testbed::{
    stage::{Deadline, until},
    workload::Workload,
};

use super::{Lab, NAMESPACE, SOON};
use crate::ground::{Ground, WHOLE_NODE, names::CORE};

const ON_NODES: [&str; 2] = ["lj-runtimekit-device-plugin", "lj-runtimekit-exporter"];

/// kubelet gives a name up 5 minutes after its plugin has ended; the controller looks after that.
const GIVEN_UP_WITHIN: u64 = 420;

/// The second node labelled: the programs of nodes appear there, the Job runs and is removed, the
/// annotation and the event say so. Unlabelled: all of it goes.
pub async fn label_and_unlabel(lab: &Lab) -> anyhow::Result<()> {
    on_second_node(lab, false).await?;
    lab.switch_on(2).await?;
    on_second_node(lab, true).await?;
    switched(lab, "enable").await?;
    // The first node's are where they were.
    for app in ON_NODES {
        ensure!(
            lab.component(app).await?.len() == 2,
            "{app} is elsewhere too"
        );
    }
    lab.cluster().label_node("node-2", false).await?;
    on_second_node(lab, false).await?;
    switched(lab, "disable").await
}

/// Waits until the programs of nodes run on the second node, or are gone from it.
async fn on_second_node(lab: &Lab, there: bool) -> anyhow::Result<()> {
    until(
        &format!("programs on node-2: {there}"),
        Deadline::seconds(SOON),
        || async {
            for app in ON_NODES {
                let pods = lab.component(app).await.map_err(|e| format!("{e:#}"))?;
                let here = pods.iter().any(|p| {
                    p.spec.as_ref().and_then(|s| s.node_name.as_deref()) == Some("node-2")
                });
                if here != there {
                    return Err(format!("{app} on node-2: {here}"));
                }
            }
            Ok(())
        },
    )
    .await
}

/// The Job of that action ran and is gone, and its outcome is told.
async fn switched(lab: &Lab, action: &str) -> anyhow::Result<()> {
    let job = format!("lj-agent-node-2-{action}");
    let key = &lab.cluster().settings().annotations.last_action_status;
    until(
        &format!("{job} to be told of"),
        Deadline::seconds(SOON),
        || async {
            let text = |e: &dyn std::fmt::Display| e.to_string();
            let told = lab.cluster().node_annotation("node-2", key).await;
            let told = told.map_err(|e| text(&e))?.unwrap_or_default();
            if !(told.contains(action) && told.contains("Succeeded")) {
                return Err(format!("the annotation says {told:?}"));
            }
            let events: Api<Event> = Api::namespaced(lab.client(), "default");
            let of_node =
                ListParams::default().fields("involvedObject.name=node-2,reason=ActionSucceeded");
            let events = events.list(&of_node).await.map_err(|e| text(&e))?;
            if !events
                .iter()
                .any(|e| e.message.as_ref().is_some_and(|m| m.contains(action)))
            {
                return Err(format!("no event of {action}"));
            }
            let jobs: Api<Job> = Api::namespaced(lab.client(), NAMESPACE);
            match jobs.get_opt(&job).await.map_err(|e| text(&e))? {
                None => Ok(()),
                Some(_) => Err("the Job is still there".to_owned()),
            }
        },
    )
    .await?;
    let events: Api<Event> = Api::namespaced(lab.client(), NAMESPACE);
    let of_job = ListParams::default().fields(&format!(
        "involvedObject.name={job},reason=SuccessfulCreate"
    ));
    ensure!(
        !events.list(&of_job).await?.items.is_empty(),
        "{job} made no pod"
    );
    Ok(())
}

/// The second node, unlabelled long ago, and the names that were renamed away on the first. The
/// list of names itself stays for 7 minutes from the controller's last start; that it goes is shown
/// on the stand-ins, and by undeploy.
pub async fn nothing_is_left_of_an_unlabelled_node(lab: &Lab) -> anyhow::Result<()> {
    let cluster = lab.cluster();
    let deadline = Deadline::seconds(GIVEN_UP_WITHIN);
    cluster.resources_are("node-2", &[], deadline).await?;
    cluster
        .resources_are("node-1", &WHOLE_NODE, deadline)
        .await?;
    let key = &cluster.settings().annotations.inventory;
    let inventory = cluster.node_annotation("node-2", key).await?;
    ensure!(inventory.is_none(), "{key} is still {inventory:?}");
    Ok(())
}

/// Nodes whose names are longer than a label value takes: the API server and the Job controller
/// take the Jobs, whose names differ, and their pods. The nodes are objects only, so nothing runs;
/// when they go the Jobs go.
pub async fn case_16_long_node_names(lab: &Lab) -> anyhow::Result<()> {
    let nodes: Api<Node> = Api::all(lab.client());
    let jobs: Api<Job> = Api::namespaced(lab.client(), NAMESPACE);
    let pods: Api<Pod> = Api::namespaced(lab.client(), NAMESPACE);
    let part = "rack-17.row-4.example";
    let long = format!("{}.{}", [part; 8].join("."), "n".repeat(200 - 8 * 22));
    let names = [
        format!("n{}", "0".repeat(51)),
        long.clone(),
        format!("{long}x"),
    ];
    ensure!(names[0].len() == 52 && long.len() == 200, "{names:?}");
    for name in &names {
        let node = serde_json::from_value(json!({"metadata": {"name": name}}))?;
        nodes.create(&PostParams::default(), &node).await?;
        lab.cluster().label_node(name, true).await?;
    }
    let of_nodes = async || -> anyhow::Result<BTreeMap<String, String>> {
        let all = jobs.list(&ListParams::default()).await?;
        let on = |job: Job| Some((job.spec?.template.spec?.node_name?, job.metadata.name?));
        let all: BTreeMap<_, _> = all.into_iter().filter_map(on).collect();
        Ok(all.into_iter().filter(|(n, _)| names.contains(n)).collect())
    };
    until(
        "a pod of each node's Job",
        Deadline::seconds(SOON),
        || async {
            let text = |e: &dyn std::fmt::Display| e.to_string();
            let found = of_nodes().await.map_err(|e| text(&e))?;
            let jobs: BTreeSet<&String> = found.values().collect();
            if jobs.len() != names.len() {
                return Err(format!("Jobs {found:?}"));
            }
            for job in jobs {
                let of_job = ListParams::default().labels(&format!("job-name={job}"));
                if job.len() > 63
                    || pods
                        .list(&of_job)
                        .await
                        .map_err(|e| text(&e))?
                        .items
                        .is_empty()
                {
                    return Err(format!("{job} has no pod"));
                }
            }
            Ok(())
        },
    )
    .await?;
    for name in &names {
        nodes.delete(name, &DeleteParams::default()).await?;
    }
    until("their Jobs to go", Deadline::seconds(SOON), || async {
        let left = of_nodes().await.map_err(|e| format!("{e:#}"))?;
        if left.is_empty() {
            Ok(())
        } else {
            Err(format!("{left:?}"))
        }
    })
    .await
}

/// The second node's object is deleted, and kubelet makes it again: another node of that name,
/// without a label. Labelled, it is as good as the first.
pub async fn node_made_again(lab: &Lab) -> anyhow::Result<()> {
    let nodes: Api<Node> = Api::all(lab.client());
    lab.switch_on(2).await?;
    let uid = async || anyhow::Ok(nodes.get_opt("node-2").await?.and_then(|n| n.metadata.uid));
    let before = uid().await?.context("no node-2")?;
    nodes.delete("node-2", &DeleteParams::default()).await?;
    lab.on_node(2, "kill $(cat /run/lab/kubelet.pid)").await?;
    until("another node-2", Deadline::seconds(SOON), || async {
        match uid().await {
            Ok(Some(now)) if now != before => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await?;
    on_second_node(lab, false).await?;
    lab.switch_on(2).await?;
    on_second_node(lab, true).await?;
    switched(lab, "enable").await?;
    // Bound past every scheduler: the device plugin places it.
    let pod = Workload::one("again", &[(CORE, 10)]).on_node("node-2");
    lab.cluster().create(&pod).await?;
    lab.cluster()
        .pod_is("again", "Running", Deadline::seconds(SOON))
        .await?;
    lab.cluster()
        .allocated("again", Deadline::seconds(SOON))
        .await?;
    lab.cluster().label_node("node-2", false).await
}

//! The node object: registered once, its status kept as kubelet keeps it.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use k8s_openapi::api::core::v1::Node;
use kube::{
    Api, Client,
    api::{Patch, PatchParams, PostParams},
};
use serde_json::{Map, Value, json};

use super::{
    KubeletArgs,
    state::{State, second},
};

/// Makes the node object unless it is there.
pub(super) async fn register(client: &Client, args: &KubeletArgs) -> anyhow::Result<()> {
    let nodes: Api<Node> = Api::all(client.clone());
    let mut labels = Map::from_iter([
        (
            "kubernetes.io/hostname".to_owned(),
            Value::from(args.node.as_str()),
        ),
        ("kubernetes.io/os".to_owned(), "linux".into()),
        ("kubernetes.io/arch".to_owned(), "amd64".into()),
    ]);
    for (key, value) in args.node_label.iter().filter_map(|l| l.split_once('=')) {
        labels.insert(key.to_owned(), value.into());
    }
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": args.node, "labels": labels}});
    match nodes
        .create(&PostParams::default(), &serde_json::from_value(node)?)
        .await
    {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(status)) if status.code == 409 => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Writes the status whenever it differs from what the API server has; registers again where the
/// node was deleted. Looks each second, as kubelet does when its devices change.
pub(super) async fn keep(client: Client, args: Arc<KubeletArgs>, state: Arc<State>) {
    let nodes: Api<Node> = Api::all(client.clone());
    let mut tick = tokio::time::interval(Duration::from_millis(500));
    let mut last_error = String::new();
    loop {
        tick.tick().await;
        let outcome = async {
            register(&client, &args).await?;
            bring_up_to_date(&nodes, &args, &state).await
        };
        let error = outcome
            .await
            .err()
            .map(|e| format!("{e:#}"))
            .unwrap_or_default();
        if error != last_error {
            if error.is_empty() {
                tracing::info!("the node's status is written again");
            } else {
                tracing::warn!(error, "the node's status can't be written");
            }
            last_error = error;
        }
    }
}

async fn bring_up_to_date(
    nodes: &Api<Node>,
    args: &KubeletArgs,
    state: &State,
) -> anyhow::Result<()> {
    let (devices, given_up) = state.lock().devices.capacity(second(), args.capacity_grace);
    let node = nodes.get(&args.node).await?;
    let status = node.status.unwrap_or_default();
    let mut wanted: (BTreeMap<String, String>, BTreeMap<String, String>) = (basics(), basics());
    for (name, (capacity, allocatable)) in devices {
        wanted.0.insert(name.clone(), capacity.to_string());
        wanted.1.insert(name, allocatable.to_string());
    }
    for name in given_up {
        wanted.0.insert(name.clone(), "0".into());
        wanted.1.insert(name, "0".into());
    }
    let same = |now: Option<&BTreeMap<String, _>>, wanted: &BTreeMap<String, String>| {
        wanted.iter().all(|(name, value)| {
            now.and_then(|n| n.get(name)).is_some_and(
                |q: &k8s_openapi::apimachinery::pkg::api::resource::Quantity| q.0 == *value,
            )
        })
    };
    let ready = status
        .conditions
        .iter()
        .flatten()
        .any(|c| c.type_ == "Ready" && c.status == "True");
    if ready
        && same(status.capacity.as_ref(), &wanted.0)
        && same(status.allocatable.as_ref(), &wanted.1)
    {
        return Ok(());
    }
    let patch = json!({"status": {
        "capacity": wanted.0,
        "allocatable": wanted.1,
        "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "stand-in kubelet"}],
        "addresses": [
            {"type": "InternalIP", "address": args.read_only_listen.ip().to_string()},
            {"type": "Hostname", "address": args.node},
        ],
        "nodeInfo": {"kubeletVersion": "v1.36.3", "osImage": "stand-in", "containerRuntimeVersion": "pretend://1",
            "machineID": "", "systemUUID": "", "bootID": "", "kernelVersion": "", "kubeProxyVersion": "",
            "operatingSystem": "linux", "architecture": "amd64"},
    }});
    nodes
        .patch_status(&args.node, &PatchParams::default(), &Patch::Merge(patch))
        .await?;
    Ok(())
}

fn basics() -> BTreeMap<String, String> {
    [
        ("cpu", "64"),
        ("memory", "512Gi"),
        ("pods", "110"),
        ("ephemeral-storage", "1Ti"),
    ]
    .into_iter()
    .map(|(name, value)| (name.to_owned(), value.to_owned()))
    .collect()
}

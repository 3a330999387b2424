//! A cluster as an API server lists it, as bytes made beforehand: nodes with their cards, pods
//! with what kubelet gave them, pods that wait.

use std::fmt::Write as _;

use bytes::Bytes;
use model::{
    annotation::{Published, write_inventory, write_plan},
    card::{Card, CardKind, Health, Inventory, Link},
    name::{CardId, ContainerName},
    plan::{ContainerGrants, Grant, GrantMode, Plan},
    quantity::{CorePercent, MemoryBytes},
    settings::Settings,
};
use serde_json::{Value, json};

/// Objects of one page: what kube's watcher asks for.
const PAGE: usize = 500;

/// The card's memory.
const GIB: u64 = 144;

/// How large a cluster.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Size {
    /// Nodes.
    pub(crate) nodes: usize,
    /// Pods with a share of a card on each.
    pub(crate) pods_a_node: usize,
    /// Cards on each.
    pub(crate) cards: u32,
    /// Pods that wait to be bound.
    pub(crate) waiting: usize,
}

/// The pages of both lists.
#[derive(Debug)]
pub(crate) struct Lists {
    /// Of nodes.
    pub(crate) nodes: Vec<Bytes>,
    /// Of pods.
    pub(crate) pods: Vec<Bytes>,
}

/// A node's name.
pub(crate) fn node_name(at: usize) -> String {
    format!("gpu-node-{at:05}")
}

/// A waiting pod's name.
pub(crate) fn waiting_name(at: usize) -> String {
    format!("waiting-{at:05}")
}

/// A pod's unique id, from its number.
pub(crate) fn uid(at: usize) -> String {
    format!("{at:08x}-0000-4000-8000-000000000000")
}

/// Number of the first waiting pod, past all others.
const FIRST_WAITING: usize = 1 << 24;

/// A waiting pod's unique id.
pub(crate) fn waiting_uid(at: usize) -> String {
    uid(FIRST_WAITING + at)
}

/// Cards `ppu-0` …, in boards of 8 that are linked within.
pub(crate) fn inventory(count: u32) -> anyhow::Result<Inventory> {
    let id = |index: u32| CardId::new(&format!("ppu-{index}"));
    let mut cards = Vec::new();
    for index in 0..count {
        let board = index / 8 * 8;
        let mut links = Vec::new();
        for peer in (board..count.min(board + 8)).filter(|peer| *peer != index) {
            let near = peer / 2 == index / 2;
            links.push(Link {
                peer: id(peer)?,
                bandwidth: if near {
                    200_000_000_000
                } else {
                    100_000_000_000
                },
            });
        }
        cards.push(Card {
            id: id(index)?,
            index,
            kind: CardKind::Ppu,
            model: "PPU-144G".into(),
            uuid: format!("PPU-00000000-0000-4000-8000-{index:012x}"),
            memory: MemoryBytes::from_gib(GIB),
            health: Health::Healthy,
            numa: Some(index / 8),
            switch: Some(format!("switch-{}", index / 2)),
            links,
            profiles: Vec::new(),
            shareable: true,
        });
    }
    Ok(Inventory::new(cards)?)
}

impl Lists {
    /// Makes both.
    pub(crate) fn of(size: Size) -> anyhow::Result<Self> {
        let settings = Settings::default();
        let inventory = write_inventory(&Published {
            cards: inventory(size.cards)?,
            paused: false,
        });
        let node = node(&settings, &inventory, size.cards).to_string();
        let nodes = (0..size.nodes).map(|at| {
            node.replace("@node@", &node_name(at))
                .replace("@number@", &at.to_string())
        });
        // One text a place on the node, with what differs from node to node still to be put in.
        let mut templates = Vec::new();
        for place in 0..size.pods_a_node {
            let card = u32::try_from(place * 3)? % size.cards;
            templates.push(running(&settings, card)?.to_string());
        }
        let nodes_and_places =
            (0..size.nodes).flat_map(|node| templates.iter().enumerate().map(move |at| (node, at)));
        let running = nodes_and_places
            .enumerate()
            .map(|(at, (node, (place, template)))| {
                template
                    .replace("@name@", &format!("serving-{node:05}-{place}"))
                    .replace("@node@", &node_name(node))
                    .replace("@uid@", &uid(at))
            });
        let waiting = pod(&json!({})).to_string();
        let waiting = (0..size.waiting).map(|at| {
            waiting
                .replace("@name@", &waiting_name(at))
                .replace("@uid@", &waiting_uid(at))
        });
        Ok(Self {
            nodes: pages("NodeList", nodes),
            pods: pages("PodList", running.chain(waiting)),
        })
    }
}

fn pages(kind: &str, objects: impl Iterator<Item = String>) -> Vec<Bytes> {
    let mut objects = objects.peekable();
    let mut pages = Vec::new();
    loop {
        let items: Vec<_> = objects.by_ref().take(PAGE).collect();
        let mut page = format!("{{\"kind\":\"{kind}\",\"apiVersion\":\"v1\",\"metadata\":");
        let more = objects.peek().is_some();
        let next = if more { pages.len() + 1 } else { 0 };
        // Writing to a string can't fail. The token is the next page's number.
        let _ = match next {
            0 => write!(page, "{{\"resourceVersion\":\"1\"}}"),
            n => write!(page, "{{\"resourceVersion\":\"1\",\"continue\":\"{n}\"}}"),
        };
        let _ = write!(page, ",\"items\":[{}]}}", items.join(","));
        pages.push(page.into());
        if !more {
            return pages;
        }
    }
}

/// About as much as a real node says of itself.
fn node(settings: &Settings, inventory: &str, cards: u32) -> Value {
    let resources = json!({
        "cpu": "128", "memory": "1056763524Ki", "ephemeral-storage": "1843269236Ki", "pods": "110",
        "hugepages-1Gi": "0", "hugepages-2Mi": "0",
        "alibabacloud.com/ppu": cards.to_string(),
        "aliyun.com/gpu": cards.to_string(),
        "aliyun.com/gpu-core": (cards * 100).to_string(),
        "aliyun.com/gpu-memory": (u64::from(cards) * GIB).to_string(),
    });
    let condition = |kind, status, reason| {
        let time = "2026-01-01T00:00:00Z";
        json!({"type": kind, "status": status, "reason": reason, "message": "as kubelet says it",
            "lastHeartbeatTime": time, "lastTransitionTime": time})
    };
    let image = |n: u32| {
        json!({"names": [format!("registry.example.com/ml/serving-{n:02}@sha256:{n:064x}"),
            format!("registry.example.com/ml/serving-{n:02}:v1.{n}.0")], "sizeBytes": 1_234_567_890})
    };
    json!({
        "metadata": {
            "name": "@node@", "uid": "node-@number@", "resourceVersion": "1",
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "labels": {"kubernetes.io/hostname": "@node@", "kubernetes.io/arch": "amd64",
                "kubernetes.io/os": "linux", "node.kubernetes.io/instance-type": "ppu-8x144",
                "topology.kubernetes.io/region": "region-1",
                "topology.kubernetes.io/zone": "region-1-a", "lj_runtimekit_enable": "true"},
            "annotations": {settings.annotations.inventory.clone(): inventory,
                "node.alpha.kubernetes.io/ttl": "0",
                "volumes.kubernetes.io/controller-managed-attach-detach": "true"},
        },
        "spec": {"podCIDR": "10.128.0.0/24", "providerID": "bench://@node@"},
        "status": {
            "capacity": resources, "allocatable": resources,
            "conditions": [condition("MemoryPressure", "False", "KubeletHasSufficientMemory"),
                condition("DiskPressure", "False", "KubeletHasNoDiskPressure"),
                condition("PIDPressure", "False", "KubeletHasSufficientPID"),
                condition("Ready", "True", "KubeletReady")],
            "addresses": [{"type": "Hostname", "address": "@node@"}],
            "nodeInfo": {"machineID": "@number@", "kernelVersion": "6.8.0",
                "osImage": "Ubuntu 24.04 LTS", "containerRuntimeVersion": "containerd://2.1.1",
                "kubeletVersion": "v1.36.3", "operatingSystem": "linux", "architecture": "amd64"},
            "images": (0..10).map(image).collect::<Vec<_>>(),
        },
    })
}

/// A pod that asks for a part of one card.
fn pod(annotations: &Value) -> Value {
    json!({
        "metadata": {"name": "@name@", "namespace": "default", "uid": "@uid@",
            "resourceVersion": "1", "creationTimestamp": "2026-01-01T00:00:00Z",
            "labels": {"app": "serving", "team": "ml"}, "annotations": annotations},
        "spec": {
            "schedulerName": "lj-scheduler", "serviceAccountName": "default",
            "restartPolicy": "Always",
            "containers": [{
                "name": "main", "image": "registry.example.com/ml/serving-00:v1.0.0",
                "imagePullPolicy": "IfNotPresent", "command": ["python3", "-m", "serve"],
                "env": [{"name": "MODEL", "value": "llm-7b"}, {"name": "PORT", "value": "8000"}],
                "ports": [{"containerPort": 8000}],
                "resources": {"limits": {"cpu": "4", "memory": "16Gi",
                    "aliyun.com/gpu-core": "30", "aliyun.com/gpu-memory": "16"}},
                "volumeMounts": [{"name": "token", "readOnly": true,
                    "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount"}],
            }],
            "volumes": [{"name": "token", "projected": {"sources": [
                {"serviceAccountToken": {"path": "token"}},
                {"configMap": {"name": "kube-root-ca.crt"}}]}}],
        },
        "status": {"phase": "Pending"},
    })
}

/// One that runs on that card of node `@node@`.
fn running(settings: &Settings, card: u32) -> anyhow::Result<Value> {
    let plan = write_plan(&Plan {
        containers: vec![ContainerGrants {
            container: ContainerName::new("main")?,
            grants: vec![Grant {
                card: CardId::new(&format!("ppu-{card}"))?,
                mode: GrantMode::Share {
                    core: CorePercent::new(30),
                    memory: MemoryBytes::from_gib(16),
                },
            }],
        }],
    });
    let keys = &settings.annotations;
    let mut pod = pod(&json!({keys.assigned.clone(): plan, keys.allocated.clone(): plan}));
    let set = |pod: &mut Value, at: &str, value| {
        if let Some(place) = pod.pointer_mut(at) {
            *place = value;
        }
    };
    if let Some(spec) = pod.get_mut("spec").and_then(Value::as_object_mut) {
        spec.insert("nodeName".into(), json!("@node@"));
    }
    let time = "2026-01-01T00:00:00Z";
    let condition = |kind| json!({"type": kind, "status": "True", "lastTransitionTime": time});
    let conditions = ["Initialized", "Ready", "ContainersReady", "PodScheduled"].map(condition);
    let status = json!({
        "phase": "Running", "hostIP": "10.0.0.1", "podIP": "10.200.0.1", "startTime": time,
        "conditions": conditions,
        "containerStatuses": [{"name": "main", "ready": true, "started": true, "restartCount": 0,
            "image": "registry.example.com/ml/serving-00:v1.0.0",
            "imageID": format!("registry.example.com/ml/serving-00@sha256:{:064x}", 1),
            "containerID": format!("containerd://{:064x}", 1),
            "state": {"running": {"startedAt": time}}}],
    });
    set(&mut pod, "/status", status);
    Ok(pod)
}

/// The body of filter and prioritize: a waiting pod that asks so much core, and every node by name.
pub(crate) fn question(nodes: usize, core: u32) -> Vec<u8> {
    let pod = pod(&json!({}))
        .to_string()
        .replace(
            "\"aliyun.com/gpu-core\":\"30\"",
            &format!("\"aliyun.com/gpu-core\":\"{core}\""),
        )
        .replace("@name@", &waiting_name(0))
        .replace("@uid@", &waiting_uid(0));
    let names: Vec<_> = (0..nodes).map(node_name).collect();
    let names = Value::from(names);
    format!("{{\"Pod\":{pod},\"Nodes\":null,\"NodeNames\":{names}}}").into_bytes()
}

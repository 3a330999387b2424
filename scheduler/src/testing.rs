//! Nodes and pods for tests.

use std::sync::Arc;

use model::{
    card::{Card, CardKind, Health, Inventory},
    name::{CardId, ContainerName, Namespace, NodeName, PodName, PodRef, PodUid},
    phase,
    plan::{ContainerGrants, Grant, GrantMode, Plan},
    quantity::{CorePercent, MemoryBytes},
    request::{ContainerSpec, PodRequest, Role},
    settings::Settings,
};

use crate::{
    index::Index,
    inventories::NodeInventory,
    node::{NodeCards, NodeSeen},
    pod::{PodSeen, Stand},
};

pub(crate) const CORE: &str = "aliyun.com/gpu-core";
pub(crate) const MEMORY: &str = "aliyun.com/gpu-memory";
pub(crate) const GPU: &str = "aliyun.com/gpu";

pub(crate) fn inventory(cards: u32, gib: u64) -> Inventory {
    let card = |index| Card {
        id: CardId::new(&format!("ppu-{index}")).unwrap(),
        index,
        kind: CardKind::Ppu,
        model: "PPU".into(),
        uuid: format!("u{index}"),
        memory: MemoryBytes::from_gib(gib),
        health: Health::Healthy,
        numa: None,
        switch: None,
        links: Vec::new(),
        profiles: Vec::new(),
        shareable: true,
    };
    Inventory::new((0..cards).map(card).collect()).unwrap()
}

pub(crate) fn node_name(name: &str) -> NodeName {
    NodeName::new(name).unwrap()
}

pub(crate) fn uid(uid: &str) -> PodUid {
    PodUid::new(uid).unwrap()
}

pub(crate) fn node(name: &str, cards: u32, gib: u64) -> NodeSeen {
    NodeSeen {
        name: node_name(name),
        cards: NodeCards::Known(NodeInventory {
            cards: Arc::new(inventory(cards, gib)),
            paused: false,
        }),
    }
}

pub(crate) fn pod_ref(name: &str) -> PodRef {
    PodRef {
        namespace: Namespace::new("default").unwrap(),
        name: PodName::new(name).unwrap(),
    }
}

pub(crate) fn request(limits: &[(&str, &str)]) -> PodRequest {
    let container = ContainerSpec {
        name: "main",
        role: Role::App,
        limits: limits.to_vec(),
    };
    PodRequest::read([container], &Settings::default()).unwrap()
}

/// A pod whose name is its uid.
pub(crate) fn pending(name: &str, limits: &[(&str, &str)]) -> PodSeen {
    PodSeen {
        pod: pod_ref(name),
        uid: uid(name),
        stand: Stand::Pending(Ok(Arc::new(request(limits)))),
    }
}

pub(crate) fn whole(cards: &[&str]) -> Plan {
    let grants = cards.iter().map(|c| Grant {
        card: CardId::new(c).unwrap(),
        mode: GrantMode::Whole,
    });
    plan(grants.collect())
}

pub(crate) fn share(card: &str, core: u32, gib: u64) -> Plan {
    let mode = GrantMode::Share {
        core: CorePercent::new(core),
        memory: MemoryBytes::from_gib(gib),
    };
    plan(vec![Grant {
        card: CardId::new(card).unwrap(),
        mode,
    }])
}

fn plan(grants: Vec<Grant>) -> Plan {
    Plan {
        containers: vec![ContainerGrants {
            container: ContainerName::new("main").unwrap(),
            grants,
        }],
    }
}

/// A pod that runs with that plan.
pub(crate) fn holding(name: &str, on: &str, limits: &[(&str, &str)], plan: Plan) -> PodSeen {
    let hold = phase::peak(&request(limits), &plan);
    PodSeen {
        pod: pod_ref(name),
        uid: uid(name),
        stand: Stand::Holds {
            node: node_name(on),
            hold,
            plan,
        },
    }
}

/// An index that has seen these nodes and nothing else, and is synced.
pub(crate) fn index(nodes: impl IntoIterator<Item = NodeSeen>) -> Index {
    let mut index = Index::new(Settings::default());
    for node in nodes {
        assert_eq!(index.apply_node(node), None);
    }
    index.nodes_complete();
    index.pods_complete();
    index
}

/// Free core and memory (GiB) of each card.
pub(crate) fn free(index: &Index, node: &str) -> Vec<(u32, u64)> {
    let ledger = index.node(node).unwrap().ledger();
    ledger
        .cards()
        .map(|c| (c.free_core.percent(), c.free_memory.bytes() >> 30))
        .collect()
}

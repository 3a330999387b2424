//! Any message at all: no panic, and what comes out is valid.

use std::collections::BTreeSet;

use model::{
    name::{CardId, ContainerName, Namespace, PodName, PodRef, PodUid, ProfileName},
    plan::{Grant, GrantMode},
    quantity::{CorePercent, MemoryBytes},
};
use proptest::{collection::vec, prelude::*};
use prost::Message;

use super::*;
use crate::{
    client::{Allocation, Cards, Consumer},
    wire,
};

/// Some right, some wrong, some hostile.
fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        3 => "[a-c]{1,3}",
        1 => any::<String>(),
        1 => Just(String::new()),
        1 => Just("x".repeat(100_000)),
        1 => Just("\u{0}\n\u{202e}".to_owned()),
    ]
}

fn memory() -> impl Strategy<Value = u64> {
    prop_oneof![any::<u64>(), 1..1_u64 << 40]
}

fn number() -> impl Strategy<Value = i32> {
    prop_oneof![-1..7_i32, any::<i32>()]
}

prop_compose! {
    fn link()(peer_card_id in text(), bandwidth_bytes_per_second in any::<u64>()) -> wire::Link {
        wire::Link { peer_card_id, bandwidth_bytes_per_second }
    }
}

prop_compose! {
    fn profile()(
        name in text(), slices in 0..9_u32, memory_bytes in memory(), max_count in any::<u32>(),
    ) -> wire::PartitionProfile {
        wire::PartitionProfile { name, slices, memory_bytes, max_count }
    }
}

prop_compose! {
    fn card()(
        (id, model, uuid, health_reason, pcie_switch) in (text(), text(), text(), text(), text()),
        (kind, health, index, numa_node) in (number(), number(), any::<u32>(), any::<Option<u32>>()),
        memory_bytes in memory(),
        links in vec(link(), 0..4),
        partition_profiles in vec(profile(), 0..4),
        shareable in any::<bool>(),
    ) -> wire::Card {
        wire::Card {
            id, index, kind, model, uuid, memory_bytes, health, health_reason, numa_node,
            pci_address: String::new(), pcie_switch, links, partition_profiles, shareable,
        }
    }
}

prop_compose! {
    fn grant()(card_id in text(), which in 0..4_u8, core_percent in 0..120_u32, profile in text()) -> wire::Grant {
        let mode = match which {
            0 => None,
            1 => Some(wire::grant::Mode::Whole(wire::WholeGrant {})),
            2 => Some(wire::grant::Mode::Share(wire::ShareGrant { core_percent, memory_bytes: 1 })),
            _ => Some(wire::grant::Mode::Partition(wire::PartitionGrant { profile })),
        };
        wire::Grant { card_id, mode }
    }
}

prop_compose! {
    fn consumer()(namespace in text(), pod in text(), pod_uid in text(), container in text()) -> wire::Consumer {
        wire::Consumer { namespace, pod, pod_uid, container }
    }
}

prop_compose! {
    fn allocation()(
        allocation_id in text(),
        consumer in prop::option::of(consumer()),
        grants in vec(grant(), 0..5),
    ) -> wire::Allocation {
        wire::Allocation { allocation_id, consumer, grants }
    }
}

fn check_lines(lines: &[String]) {
    assert!(lines.len() <= 17);
    for line in lines {
        assert!(
            line.chars().count() <= 300 && !line.chars().any(char::is_control),
            "{line:?}"
        );
    }
}

fn check_cards(cards: &Cards) {
    check_lines(&cards.malformed);
    let mut ids = BTreeSet::new();
    for card in cards.inventory.cards() {
        assert!(ids.insert(&card.id));
        assert!(card.model.chars().count() <= 64 && !card.model.contains('\n'));
        assert!(card.uuid.chars().count() <= 128);
        assert!((1..=1 << 44).contains(&card.memory.bytes()));
        assert!(card.numa.is_none_or(|n| n < 1024));
        let peers: BTreeSet<_> = card.links.iter().map(|l| &l.peer).collect();
        assert!(peers.len() == card.links.len() && !peers.contains(&card.id));
        let names: BTreeSet<_> = card.profiles.iter().map(|p| &p.name).collect();
        assert_eq!(names.len(), card.profiles.len());
        assert!(card.profiles.iter().all(|p| p.memory <= card.memory));
    }
}

fn check_allocations(allocations: &[Allocation]) {
    for allocation in allocations {
        assert!((1..=128).contains(&allocation.id.chars().count()));
        let mut places = BTreeSet::new();
        for grant in &allocation.grants {
            let profile = match &grant.mode {
                GrantMode::Partition { profile, .. } => Some(profile),
                GrantMode::Share { core, .. } => {
                    assert!(*core <= CorePercent::CARD);
                    None
                }
                GrantMode::Whole => None,
            };
            assert!(places.insert((&grant.card, profile)));
        }
        // What was read can be asked for again, and means the same.
        let asked = allocate_request(allocation).unwrap();
        let again = wire::ListGpuInfoResponse {
            allocations: vec![wire::Allocation {
                allocation_id: asked.allocation_id,
                consumer: asked.consumer,
                grants: asked.grants,
            }],
            ..wire::ListGpuInfoResponse::default()
        };
        assert_eq!(book(again).1, std::slice::from_ref(allocation));
    }
}

fn granted() -> impl Strategy<Value = GrantMode> {
    prop_oneof![
        Just(GrantMode::Whole),
        (0..=100_u32, any::<u64>()).prop_map(|(core, memory)| GrantMode::Share {
            core: CorePercent::new(core),
            memory: MemoryBytes::new(memory),
        }),
        ("[1-7]g", 1..8_u32).prop_map(|(profile, count)| GrantMode::Partition {
            profile: ProfileName::new(&profile).unwrap(),
            count,
        }),
    ]
}

proptest! {
    #[test]
    fn any_card_list_gives_a_valid_inventory(cards in vec(card(), 0..12), generation in any::<u64>()) {
        let cards = super::cards(wire::CardList { generation, cards });
        prop_assert_eq!(cards.generation, generation);
        check_cards(&cards);
    }

    #[test]
    fn any_book_gives_valid_allocations(
        cards in vec(card(), 0..3),
        allocations in vec(allocation(), 0..8),
    ) {
        let (cards, allocations) = book(wire::ListGpuInfoResponse { generation: 1, cards, allocations });
        check_cards(&cards);
        check_allocations(&allocations);
    }

    #[test]
    fn any_bytes_are_refused_or_give_something_valid(bytes in vec(any::<u8>(), 0..200)) {
        if let Ok(list) = wire::CardList::decode(&*bytes) {
            check_cards(&super::cards(list));
        }
        if let Ok(answer) = wire::ListGpuInfoResponse::decode(&*bytes) {
            let (cards, allocations) = book(answer);
            check_cards(&cards);
            check_allocations(&allocations);
        }
        if let Ok(answer) = wire::ExporterGetConfigResponse::decode(&*bytes) {
            check_lines(&metric_config(answer).malformed);
        }
        if let Ok(answer) = wire::MetricSnapshot::decode(&*bytes) {
            check_lines(&snapshot(answer).malformed);
        }
        if let Ok(answer) = wire::ListSupportedXpuTypeResponse::decode(&*bytes) {
            let _ = supported(&answer);
        }
        if let Ok(answer) = wire::OperationStatus::decode(&*bytes) {
            prop_assert!(operation_status(&answer).progress_percent <= 100);
        }
        if let Ok(answer) = wire::AllocateResponse::decode(&*bytes) {
            let _ = container_edits(answer);
        }
    }

    #[test]
    fn any_edits_are_refused_or_valid(
        environment in prop::collection::hash_map(text(), text(), 0..3),
        annotations in prop::collection::hash_map(prop_oneof![text(), "xdm\\.amp\\.com\\.[a-z/]{1,4}"], text(), 0..3),
        paths in vec((text(), prop_oneof![text(), "/[a-z./]{0,6}"], "[rwmx]{0,4}"), 0..3),
        cdi_names in vec(prop_oneof![text(), "[a-z]\\.[a-z]/[a-z]=[a-z0-9]{1,3}"], 0..3),
    ) {
        let mounts = paths.iter().map(|(a, b, _)| wire::Mount {
            container_path: a.clone(), host_path: b.clone(), read_only: true,
        });
        let nodes = paths.iter().map(|(_, b, c)| wire::DeviceNode {
            container_path: b.clone(), host_path: b.clone(), permissions: c.clone(),
        });
        let answer = wire::AllocateResponse {
            environment,
            mounts: mounts.collect(),
            device_nodes: nodes.collect(),
            annotations,
            cdi_names,
        };
        match container_edits(answer.clone()) {
            Ok(edits) => {
                prop_assert_eq!(edits.environment.len(), answer.environment.len());
                prop_assert!(edits.environment.is_sorted());
                prop_assert!(edits.annotations.iter().all(|(key, _)| !key.contains('/')));
                prop_assert!(edits.mounts.iter().all(|m| m.host_path.starts_with('/')));
                prop_assert!(edits.cdi_names.iter().all(|n| n.contains('/') && n.contains('=')));
            }
            Err(why) => prop_assert!(!why.is_empty() && why.len() < 1000),
        }
    }

    #[test]
    fn what_is_asked_is_read_back_from_the_book_the_same(
        cards in prop::collection::btree_map("[a-z]{1,3}", granted(), 1..5),
    ) {
        let grants = cards.into_iter().map(|(card, mode)| Grant {
            card: CardId::new(&card).unwrap(),
            mode,
        });
        check_allocations(&[Allocation {
            id: "uid/main".into(),
            consumer: Consumer {
                pod: PodRef {
                    namespace: Namespace::new("default").unwrap(),
                    name: PodName::new("a").unwrap(),
                },
                uid: PodUid::new("uid").unwrap(),
                container: ContainerName::new("main").unwrap(),
            },
            grants: grants.collect(),
        }]);
    }
}

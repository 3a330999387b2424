use std::collections::BTreeMap;

use model::{
    ledger::CardMode, name::CardId, plan::GrantMode, quantity::MemoryBytes, request::Role,
};
use proptest::prelude::*;

use super::core;
use crate::{
    core::Core,
    fixture::{
        CORE, GPU, MEMORY, PART_2G, SLICE, Spec, cuttable, pod, pod_ref, request, settings, uid,
    },
    fixture_kubelet::Kubelet,
};

const CARDS: u32 = 3;
const GIB: u64 = 8;

#[derive(Debug, Clone)]
enum Event {
    Admit(Vec<(Role, Vec<(&'static str, u64)>)>),
    Delete(usize),
    RestartPlugin,
    LoseRuntimeBook,
    Reconcile,
}

fn node_of_cards() -> Core {
    let mut node = core(CARDS, GIB);
    node.set_cards(cuttable(CARDS, GIB));
    node
}

fn limits() -> impl Strategy<Value = Vec<(&'static str, u64)>> {
    prop_oneof![
        2 => Just(vec![]),
        3 => (1..100u64, 1..GIB).prop_map(|(c, m)| vec![(CORE, c), (MEMORY, m)]),
        2 => (1..100u64).prop_map(|c| vec![(CORE, c)]),
        1 => (1..GIB).prop_map(|m| vec![(MEMORY, m)]),
        2 => (1..3u64).prop_map(|n| vec![(GPU, n)]),
        1 => (1..3u64).prop_map(|n| vec![(CORE, n * 100)]),
        1 => (1..3u64, 1..GIB).prop_map(|(n, m)| vec![(CORE, n * 100), (MEMORY, m)]),
        2 => (1..3u64).prop_map(|n| vec![(SLICE, n)]),
        2 => (1..4u64).prop_map(|n| vec![(PART_2G, n)]),
    ]
}

fn event() -> impl Strategy<Value = Event> {
    let role = prop_oneof![Just(Role::Init), Just(Role::Sidecar), Just(Role::App)];
    let pod = proptest::collection::vec((role, limits()), 1..4).prop_map(|mut containers| {
        containers.sort_by_key(|(role, _)| *role == Role::App);
        Event::Admit(containers)
    });
    prop_oneof![
        6 => pod,
        3 => any::<usize>().prop_map(Event::Delete),
        1 => Just(Event::RestartPlugin),
        1 => Just(Event::LoseRuntimeBook),
        1 => Just(Event::Reconcile),
    ]
}

/// What is promised of each card, from the Runtime's book alone: for each pod the most of any of
/// its containers, which its truth can't be below.
fn never_over_promised(kubelet: &Kubelet, core: &Core) -> Result<(), TestCaseError> {
    let mut cards: BTreeMap<CardId, [u64; 4]> = BTreeMap::new();
    let mut pods: BTreeMap<(String, CardId), [u64; 4]> = BTreeMap::new();
    for allocation in kubelet.runtime.values() {
        for grant in &allocation.grants {
            let key = (allocation.consumer.uid.to_string(), grant.card.clone());
            let most = pods.entry(key).or_default();
            let of_it = match &grant.mode {
                GrantMode::Whole => [1, 0, 0, 0],
                GrantMode::Share { core, memory } => [0, core.percent().into(), memory.bytes(), 0],
                GrantMode::Partition { profile, count } => {
                    let slices = if profile.as_str() == "1g" { 1 } else { 2 };
                    [0, 0, 0, slices * u64::from(*count)]
                }
            };
            for (most, of_it) in most.iter_mut().zip(of_it) {
                *most = of_it.max(*most);
            }
        }
    }
    for ((_, card), most) in pods {
        let sum = cards.entry(card).or_default();
        for (sum, most) in sum.iter_mut().zip(most) {
            *sum += most;
        }
    }
    for (card, [whole, core_sum, memory, slices]) in &cards {
        prop_assert!(*whole <= 1, "{card} is given whole {whole} times");
        prop_assert!(*core_sum <= 100, "{card} core {core_sum}");
        prop_assert!(*memory <= MemoryBytes::from_gib(GIB).bytes(), "{card}");
        prop_assert!(*slices <= 7, "{card} slices {slices}");
        let modes = [*whole, core_sum + memory, *slices];
        prop_assert!(
            modes.iter().filter(|n| **n > 0).count() <= 1,
            "{card} {modes:?}"
        );
    }
    for state in core.ledger().cards() {
        let holds = core.book().values().map(crate::book::PodEntry::hold);
        let peaks: Vec<_> = holds
            .filter_map(|h| h.get(&state.card.id).cloned())
            .collect();
        let core_peak: u32 = peaks.iter().map(|h| h.core.percent()).sum();
        let memory_peak: u64 = peaks.iter().map(|h| h.memory.bytes()).sum();
        prop_assert!(core_peak <= 100, "{} core {core_peak}", state.card.id);
        prop_assert!(memory_peak <= MemoryBytes::from_gib(GIB).bytes());
        let [whole, ..] = cards.get(&state.card.id).copied().unwrap_or_default();
        prop_assert_eq!(state.mode == CardMode::Whole, whole == 1);
    }
    Ok(())
}

/// Kubelet's own book, card by card, is the plugin's.
fn books_agree(kubelet: &Kubelet, core: &Core) -> Result<(), TestCaseError> {
    for (uid, given) in &kubelet.given {
        if !kubelet.pods.iter().any(|p| p.uid == *uid && p.is_live()) {
            continue;
        }
        for (name, devices) in given {
            let entry = &core.book()[uid].containers[name.as_str()];
            let cards: std::collections::BTreeSet<&str> = devices
                .values()
                .flatten()
                .filter_map(|id| id.split('.').next())
                .collect();
            for card in &cards {
                prop_assert!(entry.grants.iter().any(|g| g.card.as_str() == *card));
            }
            let id = crate::book::allocation_id(uid, &crate::fixture::container(name));
            prop_assert_eq!(&kubelet.runtime[&id].grants, &entry.grants);
        }
    }
    prop_assert!(kubelet.runtime.len() <= core.book().values().map(|e| e.containers.len()).sum());
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, ..ProptestConfig::default() })]

    #[test]
    fn no_sequence_of_pods_ends_and_restarts_over_promises_or_mistakes_a_consumer(
        events in proptest::collection::vec(event(), 1..25),
        orders in proptest::collection::vec(any::<bool>(), 32),
    ) {
        let mut node = node_of_cards();
        let mut kubelet = Kubelet::default();
        let mut orders = orders.into_iter().cycle();
        for (number, event) in events.into_iter().enumerate() {
            match event {
                Event::Admit(containers) => {
                    let name = format!("pod-{number}");
                    let names: Vec<String> =
                        (0..containers.len()).map(|i| format!("c{i}")).collect();
                    let specs: Vec<Spec<'_>> = containers
                        .iter()
                        .zip(&names)
                        .map(|((role, limits), name)| (name.as_str(), *role, limits.as_slice()))
                        .collect();
                    let view = pod(&name, 0, request(&specs, &settings()));
                    let before = kubelet.consumers.len();
                    let admitted =
                        kubelet.admit(&mut node, view, || orders.next() == Some(true));
                    for consumer in &kubelet.consumers[before..] {
                        prop_assert_eq!(&consumer.pod, &pod_ref(&name));
                    }
                    if admitted.is_err() {
                        prop_assert!(!node.book().contains_key(&uid(&name)));
                        kubelet.delete(&uid(&name));
                    }
                }
                Event::Delete(which) => {
                    if !kubelet.pods.is_empty() {
                        let uid = kubelet.pods[which % kubelet.pods.len()].uid.clone();
                        kubelet.delete(&uid);
                        kubelet.reconcile(&mut node);
                    }
                }
                Event::RestartPlugin => {
                    let before = node.ledger().clone();
                    node = node_of_cards();
                    kubelet.rebuild(&mut node);
                    for (uid, hold) in before.pods() {
                        prop_assert_eq!(node.ledger().of(uid), Some(hold));
                    }
                }
                Event::LoseRuntimeBook => {
                    kubelet.runtime.clear();
                    kubelet.rebuild(&mut node);
                }
                Event::Reconcile => kubelet.reconcile(&mut node),
            }
            never_over_promised(&kubelet, &node)?;
            books_agree(&kubelet, &node)?;
        }
    }
}

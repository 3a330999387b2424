use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use model::settings::Policy;
use proptest::prelude::*;

use super::*;
use crate::testing::{
    CORE, GPU, MEMORY, free, holding, index, node, node_name, pending, request, share, uid,
};

#[test]
fn case_7_of_two_binds_exactly_one_wins_and_the_other_is_told_why() {
    let mut index = index([node("n1", 1, 144)]);
    index.apply_pod(pending("a", &[(GPU, "1")]));
    index.apply_pod(pending("b", &[(GPU, "1")]));
    assert!(index.begin_bind(&uid("a"), &node_name("n1")).is_ok());
    let lost = index
        .begin_bind(&uid("b"), &node_name("n1"))
        .unwrap_err()
        .to_string();
    assert!(lost.contains("0 of 1 whole cards free"), "{lost}");
}

#[test]
fn a_pod_is_placed_as_it_says() {
    let mut index = index([node("n1", 2, 144)]);
    index.apply_pod(holding("a", "n1", &[(CORE, "50")], share("ppu-0", 50, 72)));
    for (name, policy, card) in [
        ("full", Policy::Binpack, "ppu-0"),
        ("empty", Policy::Spread, "ppu-1"),
    ] {
        let mut request = request(&[(CORE, "10")]);
        request.placement.cards = policy;
        let mut seen = pending(name, &[]);
        seen.stand = Stand::Pending(Ok(Arc::new(request)));
        index.apply_pod(seen);
        let plan = index.begin_bind(&uid(name), &node_name("n1")).unwrap();
        assert_eq!(plan.containers[0].grants[0].card.as_str(), card);
    }
}

#[test]
fn a_refused_bind_gives_back_and_may_be_tried_again() {
    let mut index = index([node("n1", 1, 144)]);
    index.apply_pod(pending("a", &[(GPU, "1")]));
    index.begin_bind(&uid("a"), &node_name("n1")).unwrap();
    assert_eq!(free(&index, "n1"), [(0, 0)]);
    assert_eq!(
        index.begin_bind(&uid("a"), &node_name("n1")),
        Err(NoBind::UnderWay)
    );
    index.bind_refused(&uid("a"));
    assert_eq!(free(&index, "n1"), [(100, 144)]);
    assert!(index.begin_bind(&uid("a"), &node_name("n1")).is_ok());
}

#[test]
fn a_bind_of_unknown_outcome_stays_promised_until_the_api_server_tells() {
    let mut index = index([node("n1", 1, 144), node("n2", 1, 144)]);
    index.apply_pod(pending("a", &[(GPU, "1")]));
    let now = Instant::now();
    let plan = index.begin_bind(&uid("a"), &node_name("n1")).unwrap();
    index.bind_unknown(&uid("a"), now);
    assert_eq!(free(&index, "n1"), [(0, 0)]);
    assert_eq!(index.doubtful(now).len(), 1);

    // An event from before the bind frees nothing.
    index.apply_pod(pending("a", &[(GPU, "1")]));
    assert_eq!(free(&index, "n1"), [(0, 0)]);
    // Seen unbound while the call can still take effect: it stays.
    index.settle(
        &uid("a"),
        Found::Pod(pending("a", &[(GPU, "1")])),
        index.asking(now + Duration::from_mins(1)),
    );
    assert_eq!(free(&index, "n1"), [(0, 0)]);
    // Elsewhere it can't go; there the same plan may be sent again.
    assert_eq!(
        index.begin_bind(&uid("a"), &node_name("n2")),
        Err(NoBind::Unsettled(node_name("n1")))
    );
    assert_eq!(index.begin_bind(&uid("a"), &node_name("n1")), Ok(plan));
    index.bind_unknown(&uid("a"), now);
    // Past that it is free.
    let later = now + CAN_STILL_TAKE_EFFECT;
    index.settle(
        &uid("a"),
        Found::Pod(pending("a", &[(GPU, "1")])),
        index.asking(later),
    );
    assert_eq!(free(&index, "n1"), [(100, 144)]);
}

#[test]
fn the_watch_turns_a_promise_into_what_is_so() {
    let mut index = index([node("n1", 2, 144)]);
    index.apply_pod(pending("a", &[(GPU, "1")]));
    let plan = index.begin_bind(&uid("a"), &node_name("n1")).unwrap();
    let now = Instant::now();
    index.bind_accepted(&uid("a"), now);
    assert!(index.doubtful(now).is_empty());
    assert_eq!(index.doubtful(now + CONFIRMED_WITHIN).len(), 1);
    index.apply_pod(holding("a", "n1", &[(GPU, "1")], plan));
    assert!(index.doubtful(now + CONFIRMED_WITHIN).is_empty());
    assert_eq!(
        index.begin_bind(&uid("a"), &node_name("n1")),
        Err(NoBind::Bound(node_name("n1")))
    );
}

#[test]
fn a_pod_deleted_between_filter_and_bind_is_gone_and_its_node_may_be_too() {
    let mut index = index([node("n1", 1, 144)]);
    assert_eq!(
        index.begin_bind(&uid("a"), &node_name("n1")),
        Err(NoBind::Gone)
    );
    index.apply_pod(pending("a", &[(GPU, "1")]));
    index.delete_node(&node_name("n1"));
    let why = index
        .begin_bind(&uid("a"), &node_name("n1"))
        .unwrap_err()
        .to_string();
    assert!(why.contains("node unknown"), "{why}");
}

#[derive(Debug, Clone)]
enum Act {
    Appear(u8, u8),
    Bind(u8),
    Accept(u8),
    Refuse(u8),
    Lose(u8),
    SettleUnbound(u8),
    Confirm(u8),
    Delete(u8),
    Wait,
    Relist,
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let pod = 0..6_u8;
    let act = prop_oneof![
        (pod.clone(), 0..4_u8).prop_map(|(p, s)| Act::Appear(p, s)),
        pod.clone().prop_map(Act::Bind),
        pod.clone().prop_map(Act::Bind),
        pod.clone().prop_map(Act::Accept),
        pod.clone().prop_map(Act::Refuse),
        pod.clone().prop_map(Act::Lose),
        pod.clone().prop_map(Act::SettleUnbound),
        pod.clone().prop_map(Act::Confirm),
        pod.prop_map(Act::Delete),
        Just(Act::Wait),
        Just(Act::Relist),
    ];
    proptest::collection::vec(act, 0..60)
}

const SIZES: [&[(&str, &str)]; 4] = [
    &[(GPU, "1")],
    &[(CORE, "60")],
    &[(CORE, "30"), (MEMORY, "100")],
    &[(GPU, "2")],
];

proptest! {
    /// What the index promised to pods that may be bound never goes beyond a card.
    #[test]
    fn no_sequence_of_binds_promises_more_than_a_card_has(acts in acts()) {
        let mut index = index([node("n1", 2, 144)]);
        let mut now = Instant::now();
        // What the API server may have taken: pod to (size, plan).
        let mut promised: std::collections::BTreeMap<u8, (u8, Plan)> =
            std::collections::BTreeMap::default();
        let mut size = [0_u8; 6];
        let name = |p: u8| format!("p{p}");
        for act in acts {
            match act {
                Act::Appear(p, s) if !promised.contains_key(&p) => {
                    size[usize::from(p)] = s;
                    index.delete_pod(&uid(&name(p)));
                    index.apply_pod(pending(&name(p), SIZES[usize::from(s)]));
                }
                Act::Bind(p) => {
                    if let Ok(plan) = index.begin_bind(&uid(&name(p)), &node_name("n1")) {
                        promised.insert(p, (size[usize::from(p)], plan));
                    }
                }
                Act::Accept(p) => index.bind_accepted(&uid(&name(p)), now),
                Act::Refuse(p) => index.bind_refused(&uid(&name(p))),
                Act::Lose(p) => index.bind_unknown(&uid(&name(p)), now),
                Act::SettleUnbound(p) => {
                    let seen = pending(&name(p), SIZES[usize::from(size[usize::from(p)])]);
                    index.settle(&uid(&name(p)), Found::Pod(seen), index.asking(now));
                }
                Act::Confirm(p) => {
                    if let Some((s, plan)) = promised.get(&p).filter(|_| index.assumed(&name(p)).is_some()) {
                        let seen = holding(&name(p), "n1", SIZES[usize::from(*s)], plan.clone());
                        prop_assert_eq!(index.apply_pod(seen), None);
                    }
                }
                Act::Delete(p) => index.delete_pod(&uid(&name(p))),
                Act::Wait => now += CAN_STILL_TAKE_EFFECT,
                Act::Relist => {
                    index.nodes_reset();
                    index.apply_node(node("n1", 2, 144));
                    index.nodes_complete();
                }
                Act::Appear(..) => {}
            }
            promised.retain(|p, _| {
                index.node("n1").is_some_and(|n| n.ledger().of(&uid(&name(*p))).is_some())
            });
            // An independent sum of what is promised, card by card.
            for card in ["ppu-0", "ppu-1"] {
                let (mut core, mut whole) = (0, 0);
                for (_, plan) in promised.values() {
                    for grant in plan.containers.iter().flat_map(|c| &c.grants).filter(|g| g.card.as_str() == card) {
                        match grant.mode {
                            model::plan::GrantMode::Share { core: c, .. } => core += c.percent(),
                            _ => whole += 1,
                        }
                    }
                }
                prop_assert!(core <= 100 && whole <= 1 && (whole == 0 || core == 0), "{card}: {promised:?}");
            }
        }
        for p in 0..6 {
            index.delete_pod(&uid(&name(p)));
        }
        prop_assert_eq!(free(&index, "n1"), vec![(100, 144), (100, 144)]);
    }
}

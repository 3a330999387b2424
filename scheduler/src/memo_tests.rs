//! Findings that are kept are those that would be found anew, whatever happens to the nodes.

use std::{borrow::Cow, sync::Arc};

use model::settings::Policy;
use proptest::prelude::*;

use super::*;
use crate::{
    convert::{Candidates, Question},
    filter::filter,
    index::Index,
    inventories::NodeInventory,
    node::{NodeCards, NodeSeen},
    pod::{NotKnown, PodSeen, Stand},
    prioritize::prioritize,
    reason::Reason,
    testing::{
        CORE, GPU, MEMORY, holding, index, inventory, node_name, pod_ref, request, share, uid,
        whole,
    },
    wire::Text,
};

const NODES: [&str; 3] = ["n0", "n1", "n2"];

/// Something that happens to a node.
#[derive(Debug, Clone)]
enum Change {
    Cards {
        node: usize,
        cards: u32,
        gib: u64,
        paused: bool,
    },
    NoInventory(usize),
    NodeGone(usize),
    Shares {
        pod: usize,
        node: usize,
        card: u32,
        core: u32,
    },
    Takes {
        pod: usize,
        node: usize,
        card: u32,
    },
    CardsNotKnown {
        pod: usize,
        node: usize,
    },
    PodGone(usize),
}

fn change() -> impl Strategy<Value = Change> {
    let (pod, node) = (0..4_usize, 0..NODES.len());
    prop_oneof![
        (node.clone(), 1..3_u32, 1..3_u64, any::<bool>()).prop_map(
            |(node, cards, size, paused)| {
                Change::Cards {
                    node,
                    cards,
                    gib: 16 * size,
                    paused,
                }
            }
        ),
        node.clone().prop_map(Change::NoInventory),
        node.clone().prop_map(Change::NodeGone),
        (pod.clone(), node.clone(), 0..2_u32, 1..100_u32).prop_map(|(pod, node, card, core)| {
            Change::Shares {
                pod,
                node,
                card,
                core,
            }
        }),
        (pod.clone(), node.clone(), 0..2_u32).prop_map(|(pod, node, card)| Change::Takes {
            pod,
            node,
            card
        }),
        (pod.clone(), node).prop_map(|(pod, node)| Change::CardsNotKnown { pod, node }),
        pod.prop_map(Change::PodGone),
    ]
}

fn happens(index: &mut Index, change: &Change) {
    let name = |pod: usize| format!("p{pod}");
    let see = |node: usize, cards| NodeSeen {
        name: node_name(NODES[node]),
        cards,
    };
    match *change {
        Change::Cards {
            node,
            cards,
            gib,
            paused,
        } => {
            let cards = Arc::new(inventory(cards, gib));
            let known = NodeCards::Known(NodeInventory { cards, paused });
            drop(index.apply_node(see(node, known)));
        }
        Change::NoInventory(node) => drop(index.apply_node(see(node, NodeCards::NotPublished))),
        Change::NodeGone(node) => index.delete_node(&node_name(NODES[node])),
        Change::Shares {
            pod,
            node,
            card,
            core,
        } => {
            let percent = core.to_string();
            let limits = [(CORE, percent.as_str())];
            let plan = share(&format!("ppu-{card}"), core, 4);
            drop(index.apply_pod(holding(&name(pod), NODES[node], &limits, plan)));
        }
        Change::Takes { pod, node, card } => {
            let plan = whole(&[&format!("ppu-{card}")]);
            drop(index.apply_pod(holding(&name(pod), NODES[node], &[(GPU, "1")], plan)));
        }
        Change::CardsNotKnown { pod, node } => {
            let (node, why) = (node_name(NODES[node]), NotKnown::NotWritten);
            drop(index.apply_pod(PodSeen {
                pod: pod_ref(&name(pod)),
                uid: uid(&name(pod)),
                stand: Stand::NotKnown { node, why },
            }));
        }
        Change::PodGone(pod) => index.delete_pod(&uid(&name(pod))),
    }
}

/// More than are remembered at once.
fn requests() -> Vec<PodRequest> {
    let whole = ["1", "2", "3"].map(|count| request(&[(GPU, count)]));
    let core = ["10", "50", "90", "100"].map(|core| request(&[(CORE, core)]));
    let memory = ["1", "20", "30"].map(|memory| request(&[(MEMORY, memory)]));
    let mut all: Vec<_> = whole.into_iter().chain(core).chain(memory).collect();
    // The same amount, to be placed in another way.
    for (at, policy) in [(1, Policy::LinkAware), (4, Policy::Spread)] {
        let mut other = all[at].clone();
        (other.placement.cards, other.placement.nodes) = (policy, policy);
        all.push(other);
    }
    assert!(all.len() > SLOTS);
    all
}

fn answers(index: &Index, request: &PodRequest) -> (Vec<u8>, Vec<u8>) {
    let names = NODES.map(|name| Text(Cow::Borrowed(name)));
    let question = Question {
        uid: Cow::Borrowed("new"),
        wanted: Ok(Arc::new(request.clone())),
        candidates: Candidates::Names(names.into()),
    };
    (filter(index, &question).0, prioritize(index, &question))
}

proptest! {
    #[test]
    fn what_is_kept_is_what_would_be_found_anew(
        steps in prop::collection::vec((change(), prop::collection::vec(0..12_usize, 0..4)), 1..40),
    ) {
        let requests = requests();
        let mut index = index([]);
        for (change, asked) in &steps {
            happens(&mut index, change);
            for request in asked.iter().map(|one| &requests[*one]) {
                // A copy remembers nothing.
                prop_assert_eq!(answers(&index, request), answers(&index.clone(), request));
            }
        }
    }
}

#[test]
fn a_finding_is_kept_until_the_value_changes() {
    let requests = Requests::default();
    let of = |cards| requests.of(&request(&[(GPU, cards)]));
    let mut value = Memoized::<u32>::default();
    let (one, two) = (of("1"), of("2"));
    assert_eq!(one.recall(&value), None);
    one.keep_fit(&value, None);
    let why = Rejection::never(Reason::Paused);
    two.keep_rejection(&value, &why);
    assert_eq!(of("1").recall(&value), Some(Finding::Fits));
    assert_eq!(of("2").recall(&value), Some(Finding::Rejected(&why)));
    one.keep_fit(&value, Some(7));
    assert_eq!(of("1").recall(&value), Some(Finding::Scored(7)));
    *value.change() += 1;
    assert_eq!((one.recall(&value), two.recall(&value)), (None, None));
}

#[test]
fn the_request_asked_about_longest_ago_makes_room() {
    let requests = Requests::default();
    let of = |cards: usize| requests.of(&request(&[(GPU, &cards.to_string())]));
    let value = Memoized::<u32>::default();
    (1..=SLOTS).for_each(|cards| of(cards).keep_fit(&value, None));
    assert!(of(1).recall(&value).is_some(), "asked about again");
    assert_eq!(of(SLOTS + 1).recall(&value), None);
    assert_eq!(
        of(SLOTS + 1).recall(&value),
        None,
        "a stranger's finding is not taken"
    );
    assert!(of(1).recall(&value).is_some());
    assert_eq!(of(2).recall(&value), None, "this one had to go");
}

#[test]
fn rejections_past_the_room_for_them_are_worked_out_each_time() {
    let requests = Requests::default();
    let memory = requests.of(&request(&[(GPU, "1")]));
    let value = Memoized::<u32>::default();
    let few = |asked| {
        let free = 0;
        Rejection::mendable(Reason::NoFit(model::placement::NoFit::Whole {
            free,
            asked,
        }))
    };
    for asked in 0..100 {
        memory.keep_rejection(&value, &few(asked));
        let kept = usize::try_from(asked).unwrap().min(REJECTIONS - 1);
        let kept = few(u32::try_from(kept).unwrap());
        assert_eq!(
            memory.recall(&value),
            Some(Finding::Rejected(&kept)),
            "{asked}"
        );
    }
}

use model::annotation::AnnotationError;

use super::*;
use crate::{
    node::NodeCards,
    pod::{PodSeen, Stand},
    testing::{
        CORE, GPU, free, holding, index, node, node_name, pending, pod_ref, share, uid, whole,
    },
};

#[test]
fn nothing_is_answered_before_both_listings_are_complete() {
    let mut index = Index::new(Settings::default());
    assert!(!index.is_synced());
    index.nodes_complete();
    assert!(!index.is_synced());
    index.pods_complete();
    assert!(index.is_synced());
}

#[test]
fn after_a_restart_pods_seen_before_their_nodes_hold_their_cards() {
    let mut index = Index::new(Settings::default());
    let pod = holding("a", "n1", &[(CORE, "50")], share("ppu-0", 50, 72));
    // Its card is not known yet: the truth is entered all the same.
    index.apply_pod(pod);
    index.pods_complete();
    assert_eq!(index.apply_node(node("n1", 2, 144)), None);
    index.nodes_complete();
    assert_eq!(free(&index, "n1"), [(50, 72), (100, 144)]);
}

#[test]
fn what_a_new_listing_does_not_show_is_gone() {
    let mut index = index([node("n1", 1, 144), node("n2", 1, 144)]);
    index.apply_pod(holding("a", "n1", &[(GPU, "1")], whole(&["ppu-0"])));
    index.apply_pod(holding("b", "n2", &[(GPU, "1")], whole(&["ppu-0"])));

    index.nodes_reset();
    index.apply_node(node("n1", 1, 144));
    index.nodes_complete();
    // b still names n2: the entry stays, closed.
    assert!(index.node("n2").unwrap().closed().is_some());

    index.pods_reset();
    index.apply_pod(holding("a", "n1", &[(GPU, "1")], whole(&["ppu-0"])));
    index.pods_complete();
    assert_eq!(index.pod_count(), 1);
    assert!(index.node("n2").is_none());
    assert_eq!(free(&index, "n1"), [(0, 0)]);
}

#[test]
fn case_6_replaced_cards_count_with_their_own_present_size() {
    let mut index = index([node("n1", 2, 10)]);
    index.apply_pod(holding("a", "n1", &[(CORE, "50")], share("ppu-0", 50, 5)));
    assert_eq!(free(&index, "n1"), [(50, 5), (100, 10)]);
    index.apply_node(node("n1", 2, 20));
    assert_eq!(free(&index, "n1"), [(50, 15), (100, 20)]);

    index.delete_node(&node_name("n1"));
    assert!(index.node("n1").unwrap().closed().is_some());
    index.apply_node(node("n1", 3, 30));
    assert_eq!(free(&index, "n1"), [(50, 25), (100, 30), (100, 30)]);
}

#[test]
fn a_bound_pod_without_plan_closes_its_node_until_it_is_written() {
    let mut index = index([node("n1", 1, 144)]);
    let stand = Stand::NotKnown {
        node: node_name("n1"),
        why: NotKnown::NotWritten,
    };
    let unknown = PodSeen {
        pod: pod_ref("a"),
        uid: uid("a"),
        stand,
    };
    assert_eq!(index.apply_pod(unknown), None);
    let closed = index.node("n1").unwrap().closed().unwrap();
    assert!(closed.mendable && closed.reason.to_string().contains("not known yet"));
    index.apply_pod(holding("a", "n1", &[(CORE, "50")], share("ppu-0", 50, 72)));
    assert_eq!(index.node("n1").unwrap().closed(), None);
    index.delete_pod(&uid("a"));
    assert_eq!(free(&index, "n1"), [(100, 144)]);
}

#[test]
fn what_cannot_be_read_closes_its_node_and_is_said_once() {
    let mut index = index([node("n1", 1, 144), node("n2", 1, 144)]);
    let bad = || NodeSeen {
        name: node_name("n2"),
        cards: NodeCards::Unreadable(AnnotationError::Version(9)),
    };
    assert!(matches!(
        index.apply_node(bad()),
        Some(Notice::UnreadableInventory { .. })
    ));
    assert_eq!(index.apply_node(bad()), None);
    assert!(!index.node("n2").unwrap().closed().unwrap().mendable);

    let unreadable = || PodSeen {
        pod: pod_ref("a"),
        uid: uid("a"),
        stand: Stand::NotKnown {
            node: node_name("n1"),
            why: NotKnown::Unreadable("version 9".into()),
        },
    };
    assert!(matches!(
        index.apply_pod(unreadable()),
        Some(Notice::UnreadablePod { .. })
    ));
    assert_eq!(index.apply_pod(unreadable()), None);
    assert!(index.node("n1").unwrap().closed().is_some());
}

#[test]
fn two_pods_that_hold_one_card_are_said_and_the_card_gives_nothing_more() {
    let mut index = index([node("n1", 1, 144)]);
    assert_eq!(
        index.apply_pod(holding("a", "n1", &[(GPU, "1")], whole(&["ppu-0"]))),
        None
    );
    let second = index.apply_pod(holding("b", "n1", &[(GPU, "1")], whole(&["ppu-0"])));
    assert!(matches!(second, Some(Notice::Conflict { .. })));
    assert_eq!(free(&index, "n1"), [(0, 0)]);
    index.delete_pod(&uid("a"));
    assert_eq!(free(&index, "n1"), [(0, 0)]);
    index.delete_pod(&uid("b"));
    assert_eq!(free(&index, "n1"), [(100, 144)]);
}

#[test]
fn an_ended_pod_is_not_kept_and_a_pending_one_holds_nothing() {
    let mut index = index([node("n1", 1, 144)]);
    index.apply_pod(pending("a", &[(GPU, "1")]));
    assert_eq!(
        (index.pod_count(), free(&index, "n1")),
        (1, vec![(100, 144)])
    );
    index.apply_pod(holding("a", "n1", &[(GPU, "1")], whole(&["ppu-0"])));
    assert_eq!(free(&index, "n1"), [(0, 0)]);
    index.apply_pod(PodSeen {
        pod: pod_ref("a"),
        uid: uid("a"),
        stand: Stand::Nothing,
    });
    assert_eq!(
        (index.pod_count(), free(&index, "n1")),
        (0, vec![(100, 144)])
    );
}

#[test]
fn an_event_from_before_the_binding_frees_nothing() {
    let mut index = index([node("n1", 1, 144)]);
    // Looked up by name, while the watch has the past still to show.
    index.apply_pod(holding("a", "n1", &[(GPU, "1")], whole(&["ppu-0"])));
    index.apply_pod(pending("a", &[(GPU, "1")]));
    assert_eq!(free(&index, "n1"), [(0, 0)]);
    index.delete_pod(&uid("a"));
    assert_eq!(free(&index, "n1"), [(100, 144)]);

    let unknown = || PodSeen {
        pod: pod_ref("b"),
        uid: uid("b"),
        stand: Stand::NotKnown {
            node: node_name("n1"),
            why: NotKnown::NotWritten,
        },
    };
    index.apply_pod(unknown());
    index.apply_pod(pending("b", &[(GPU, "1")]));
    assert!(index.node("n1").unwrap().closed().is_some());
}

use model::settings::Policy;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::testing::{CORE, GPU, inventory, node_name, share};

fn object(value: Value) -> object::Pod {
    serde_json::from_value(value).unwrap()
}

fn bound(annotations: &Value, limits: &Value) -> object::Pod {
    object(json!({
        "metadata": {"name": "p", "namespace": "default", "uid": "u", "creationTimestamp": "2026-01-01T00:00:00Z",
            "annotations": annotations},
        "spec": {"nodeName": "n1", "containers": [{"name": "main", "resources": {"limits": limits}}]},
    }))
}

#[test]
fn what_was_given_goes_before_what_was_planned() {
    let settings = Settings::default();
    let (planned, given) = (share("ppu-0", 50, 72), share("ppu-1", 50, 72));
    let limits = json!({CORE: "50"});
    let both = json!({
        "lj-runtimekit/assigned": annotation::write_plan(&planned),
        "lj-runtimekit/allocated": annotation::write_plan(&given),
    });
    for (annotations, expected) in [
        (
            json!({"lj-runtimekit/assigned": annotation::write_plan(&planned)}),
            &planned,
        ),
        (both, &given),
    ] {
        match pod(&bound(&annotations, &limits), &settings).unwrap().stand {
            Stand::Holds { node, plan, .. } => {
                assert_eq!((node, &plan), (node_name("n1"), expected));
            }
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn unknown_versions_and_undecodable_values_are_never_free() {
    let settings = Settings::default();
    for text in [
        "{\"v\":2}",
        "nonsense",
        "{\"v\":1,\"containers\":{\"main\":7}}",
    ] {
        let seen = pod(
            &bound(&json!({"lj-runtimekit/assigned": text}), &json!({GPU: "1"})),
            &settings,
        )
        .unwrap();
        assert!(
            matches!(
                seen.stand,
                Stand::NotKnown {
                    why: NotKnown::Unreadable(_),
                    ..
                }
            ),
            "{text}: {:?}",
            seen.stand
        );
    }
    let seen = pod(&bound(&Value::Null, &json!({GPU: "1"})), &settings).unwrap();
    assert!(matches!(
        seen.stand,
        Stand::NotKnown {
            why: NotKnown::NotWritten,
            ..
        }
    ));
    assert!(matches!(
        pod(&bound(&Value::Null, &json!({"cpu": "1"})), &settings)
            .unwrap()
            .stand,
        Stand::Nothing
    ));
}

#[test]
fn a_terminating_pod_holds_and_an_ended_one_does_not() {
    let settings = Settings::default();
    let mut terminating = bound(
        &json!({"lj-runtimekit/assigned": annotation::write_plan(&share("ppu-0", 50, 72))}),
        &json!({CORE: "50"}),
    );
    terminating.metadata.deletion_timestamp = terminating.metadata.creation_timestamp.clone();
    assert!(matches!(
        pod(&terminating, &settings).unwrap().stand,
        Stand::Holds { .. }
    ));
    terminating.status.phase = Some("Failed".into());
    assert!(matches!(
        pod(&terminating, &settings).unwrap().stand,
        Stand::Nothing
    ));
}

#[test]
fn allocated_before_the_pod_is_bound_is_refused() {
    let body = json!({
        "Pod": {"metadata": {"name": "p", "uid": "u", "annotations": {"lj-runtimekit/allocated": "{}"}},
            "spec": {"containers": [{"name": "main", "resources": {"limits": {GPU: "1"}}}]}},
        "NodeNames": ["n1"],
    })
    .to_string();
    let asked = question(body.as_bytes(), &Settings::default()).unwrap();
    assert!(
        asked
            .wanted
            .unwrap_err()
            .to_string()
            .contains("lj-runtimekit/allocated")
    );
}

#[test]
fn a_node_s_cards_are_as_its_annotation_says() {
    let settings = Settings::default();
    let node_of = |value: Option<&str>| {
        let annotations = value.map(|v| json!({"lj-runtimekit/inventory": v}));
        let object =
            serde_json::from_value(json!({"metadata": {"name": "n1", "annotations": annotations}}))
                .unwrap();
        let seen = node(&object, &settings, &mut Inventories::default());
        seen.unwrap().cards
    };
    assert!(matches!(node_of(None), NodeCards::NotPublished));
    assert!(matches!(
        node_of(Some("{\"v\":7}")),
        NodeCards::Unreadable(_)
    ));
    let text = annotation::write_inventory(&annotation::Published {
        cards: inventory(2, 144),
        paused: false,
    });
    assert!(
        matches!(node_of(Some(&text)), NodeCards::Known(published) if published.cards.cards().len() == 2)
    );
}

#[test]
fn a_binding_carries_node_and_plan() {
    let body =
        json!({"PodName": "p", "PodNamespace": "default", "PodUID": "u", "Node": "n1"}).to_string();
    let call = bind_call(body.as_bytes()).unwrap();
    let binding: Value = serde_json::from_slice(&binding(
        &call,
        Some(&share("ppu-0", 50, 1)),
        &Settings::default(),
    ))
    .unwrap();
    assert_eq!(
        binding,
        json!({
            "apiVersion": "v1", "kind": "Binding",
            "metadata": {"name": "p", "namespace": "default", "uid": "u", "annotations": {"lj-runtimekit/assigned":
                "{\"v\":1,\"containers\":{\"main\":[{\"card\":\"ppu-0\",\"core\":50,\"memory\":1073741824}]}}"}},
            "target": {"apiVersion": "v1", "kind": "Node", "name": "n1"},
        })
    );
}

#[test]
fn a_bind_call_that_lacks_something_says_what() {
    for (body, word) in [
        (
            json!({"PodName": "p", "PodNamespace": "default", "Node": "n1"}),
            "PodUID",
        ),
        (
            json!({"PodName": "P!", "PodNamespace": "default", "PodUID": "u", "Node": "n1"}),
            "pod name",
        ),
        (
            json!({"PodName": "p", "PodNamespace": "default", "PodUID": "u", "Node": ""}),
            "node name",
        ),
    ] {
        let why = bind_call(body.to_string().as_bytes())
            .unwrap_err()
            .to_string();
        assert!(why.contains(word), "{why}");
    }
}

#[test]
fn victims_come_by_uid_or_in_full_or_not_at_all() {
    let pod = json!({"metadata": {"name": "p", "uid": "u"}, "spec": {"containers": []}});
    let settings = Settings::default();
    let by_uid = json!({"Pod": pod, "NodeNameToVictims": null, "NodeNameToMetaVictims":
        {"n1": {"Pods": [{"UID": "a"}], "NumPDBViolations": 1}, "n2": {"Pods": null}, "n3": null}})
    .to_string();
    let call = preempt_call(by_uid.as_bytes(), &settings).unwrap();
    let victims: Vec<_> = call
        .proposals
        .iter()
        .map(|p| (&*p.node, p.victims.len(), p.broken_budgets))
        .collect();
    assert_eq!(victims, [("n1", 1, 1), ("n2", 0, 0), ("n3", 0, 0)]);
    let answer: Value = serde_json::from_slice(&preempt_answer(&call.proposals)).unwrap();
    assert_eq!(
        answer["NodeNameToMetaVictims"]["n1"],
        json!({"Pods": [{"UID": "a"}], "NumPDBViolations": 1})
    );
    assert_eq!(
        answer["NodeNameToMetaVictims"]["n2"],
        json!({"Pods": [], "NumPDBViolations": 0})
    );

    let full = json!({"Pod": pod, "NodeNameToVictims": {"n1": {"Pods": [{"metadata": {"name": "v", "uid": "a"}}]}}})
        .to_string();
    assert_eq!(
        preempt_call(full.as_bytes(), &settings).unwrap().proposals[0].victims,
        ["a"]
    );
}

proptest! {
    #[test]
    fn no_body_is_a_crash(bytes in proptest::collection::vec(any::<u8>(), 0..200), text in "[\\[\\]{}\":,a-zA-Z0-9 ]{0,80}") {
        let settings = Settings::default();
        for body in [bytes.as_slice(), text.as_bytes()] {
            let _ = question(body, &settings);
            let _ = bind_call(body);
            let _ = preempt_call(body, &settings);
        }
    }
}

/// From the watch and from kube-scheduler's call alike.
#[test]
fn a_pod_may_say_how_it_is_to_be_placed_and_nonsense_is_refused_by_name() {
    let settings = Settings::default();
    let wanted = |text: &str| {
        let pod_json = json!({
            "metadata": {"name": "p", "namespace": "default", "uid": "u",
                "creationTimestamp": "2026-01-01T00:00:00Z",
                "annotations": {"lj-runtimekit/placement": text}},
            "spec": {"containers": [{"name": "main", "resources": {"limits": {GPU: "2"}}}]},
        });
        let body = json!({"Pod": pod_json, "NodeNames": ["n1"]}).to_string();
        let asked = question(body.as_bytes(), &settings).unwrap().wanted;
        match pod(&object(pod_json), &settings).unwrap().stand {
            Stand::Pending(seen) => assert_eq!(seen, asked, "{text}"),
            other => panic!("{other:?}"),
        }
        asked
    };
    let placed = |text| {
        let placement = wanted(text).unwrap().placement;
        (placement.cards, placement.nodes)
    };
    assert_eq!(placed("spread"), (Policy::Spread, Policy::Spread));
    assert_eq!(
        placed("nodes=link-aware"),
        (Policy::Binpack, Policy::LinkAware)
    );
    let why = wanted("tight").unwrap_err().to_string();
    assert!(
        why.starts_with("annotation lj-runtimekit/placement: \"tight\" is no placement"),
        "{why}"
    );
    // What is bound is not judged by it.
    let limits = json!({GPU: "1"});
    let annotations = json!({
        "lj-runtimekit/placement": "tight",
        "lj-runtimekit/assigned": annotation::write_plan(&crate::testing::whole(&["ppu-0"])),
    });
    let stand = pod(&bound(&annotations, &limits), &settings).unwrap().stand;
    assert!(matches!(stand, Stand::Holds { .. }), "{stand:?}");
}

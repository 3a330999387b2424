use std::{borrow::Cow, sync::Arc};

use serde_json::{Value, json};

use super::*;
use crate::{
    convert::question,
    node::NodeCards,
    testing::{CORE, GPU, holding, index, node, pending, request, uid, whole},
};

fn ask(index: &Index, limits: &[(&str, &str)], names: &[&str]) -> Value {
    let candidates = Candidates::Names(
        names
            .iter()
            .map(|n| crate::wire::Text(Cow::Borrowed(*n)))
            .collect(),
    );
    let question = Question {
        uid: Cow::Borrowed("new"),
        wanted: Ok(Arc::new(request(limits))),
        candidates,
    };
    serde_json::from_slice(&filter(index, &question).0).unwrap()
}

#[test]
fn every_candidate_is_kept_or_rejected_with_its_reason() {
    let mut index = index([
        node("free", 2, 144),
        node("full", 1, 144),
        node("small", 1, 8),
    ]);
    index.apply_pod(holding("a", "full", &[(GPU, "1")], whole(&["ppu-0"])));
    let answer = ask(
        &index,
        &[(CORE, "50"), ("aliyun.com/gpu-memory", "24")],
        &["free", "full", "small", "nowhere"],
    );
    assert_eq!(
        answer,
        json!({
            "Nodes": null,
            "NodeNames": ["free"],
            "FailedNodes": {"full": "no card has 50 core and 24GiB free"},
            "FailedAndUnresolvableNodes": {
                "small": answer["FailedAndUnresolvableNodes"]["small"],
                "nowhere": "node unknown",
            },
            "Error": "",
        })
    );
    assert!(
        answer["FailedAndUnresolvableNodes"]["small"].is_string(),
        "{answer}"
    );
}

#[test]
fn nothing_goes_to_a_node_whose_device_plugin_is_between_two_starts() {
    let mut paused = node("n1", 2, 144);
    if let NodeCards::Known(published) = &mut paused.cards {
        published.paused = true;
    }
    let mut index = index([paused]);
    let refused = ask(&index, &[(GPU, "1")], &["n1"]);
    assert_eq!(
        refused["FailedAndUnresolvableNodes"]["n1"],
        "the node's device plugin is starting or stopping"
    );
    assert_eq!(ask(&index, &[], &["n1"])["NodeNames"], json!(["n1"]));
    index.apply_node(node("n1", 2, 144));
    assert_eq!(
        ask(&index, &[(GPU, "1")], &["n1"])["NodeNames"],
        json!(["n1"])
    );
}

#[test]
fn a_pod_that_asks_nothing_of_ours_goes_anywhere() {
    let index = index([]);
    assert_eq!(
        ask(&index, &[], &["x", "y"])["NodeNames"],
        json!(["x", "y"])
    );
}

#[test]
fn nodes_in_full_come_back_as_they_came_and_no_candidates_are_no_nodes() {
    let index = index([node("n1", 1, 144)]);
    let body = json!({
        "Pod": {"metadata": {"name": "p", "uid": "u"}, "spec": {"containers": [
            {"name": "main", "resources": {"limits": {GPU: "1"}}}]}},
        "Nodes": {"items": [
            {"metadata": {"name": "n1"}, "spec": {"x": [1, "\u{e9}"]}}, {"metadata": {"name": "n2"}}]},
        "NodeNames": null,
    });
    let answer = |body: &Value| -> Value {
        let body = body.to_string();
        let question = question(body.as_bytes(), index.settings()).unwrap();
        serde_json::from_slice(&filter(&index, &question).0).unwrap()
    };
    let both = answer(&body);
    assert_eq!(both["Nodes"]["items"], json!([body["Nodes"]["items"][0]]));
    assert_eq!(both["NodeNames"], json!(null));
    assert_eq!(
        both["FailedAndUnresolvableNodes"],
        json!({"n2": "node unknown"})
    );

    let none = answer(&json!({"Pod": body["Pod"], "Nodes": null, "NodeNames": null}));
    assert_eq!(
        (&none["NodeNames"], &none["Error"]),
        (&json!([]), &json!(""))
    );
}

#[test]
fn case_9_a_request_without_meaning_is_an_error_that_names_container_and_resource() {
    let index = index([node("n1", 1, 144)]);
    for (resource, value) in [
        (CORE, "101"),
        (CORE, "150"),
        (CORE, "16Gi"),
        (CORE, "10G"),
        (GPU, "9223372036854775808"),
        (GPU, "1.5"),
    ] {
        let body = json!({
            "Pod": {"metadata": {"name": "p", "uid": "u"}, "spec": {"containers": [
                {"name": "main", "resources": {"limits": {resource: value}}}]}},
            "NodeNames": ["n1"],
        })
        .to_string();
        let question = question(body.as_bytes(), index.settings()).unwrap();
        let answer: Value = serde_json::from_slice(&filter(&index, &question).0).unwrap();
        // 16Gi and 10G of core are exact multiples of 100 or not: either way nothing wraps.
        let refused = answer["Error"].as_str().unwrap();
        let kept = answer["NodeNames"]
            .as_array()
            .is_some_and(|n| !n.is_empty());
        assert!(!kept, "{resource} {value}: {answer}");
        if !refused.is_empty() {
            assert!(
                refused.contains("main") && refused.contains(resource),
                "{refused}"
            );
        }
    }
}

#[test]
fn a_pod_promised_to_one_node_is_kept_there_and_nowhere_else() {
    let mut index = index([node("n1", 1, 144), node("n2", 1, 144)]);
    index.apply_pod(pending("new", &[(GPU, "1")]));
    index
        .begin_bind(&uid("new"), &crate::testing::node_name("n1"))
        .unwrap();
    let answer = ask(&index, &[(GPU, "1")], &["n1", "n2"]);
    assert_eq!(answer["NodeNames"], json!(["n1"]));
    assert!(
        answer["FailedAndUnresolvableNodes"]["n2"]
            .as_str()
            .unwrap()
            .contains("not settled")
    );
}

#[test]
fn texts_with_quotes_are_escaped() {
    let answer: Value = serde_json::from_slice(&error("say \"why\"\n")).unwrap();
    assert_eq!(answer["Error"], "say \"why\"\n");
}

//! What kube-scheduler sends, and the answers to it.
#![no_main]

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::LazyLock,
};

use libfuzzer_sys::fuzz_target;
use model::{
    annotation::{Published, read_inventory},
    settings::Settings,
};
use scheduler::{
    convert::{self, Candidates},
    filter,
    index::Index,
    node::{NodeCards, NodeSeen},
    preempt, prioritize,
};
use serde_json::Value;

/// A name of three bytes may be answered with a reason of some hundred.
const EACH: usize = 2 << 10;

static INDEX: LazyLock<Index> = LazyLock::new(|| {
    let card = |n: u32| {
        format!(
            r#"{{"id":"ppu-{n}","index":{n},"kind":"ppu","model":"PPU","memory":154618822656}}"#
        )
    };
    let cards = [card(0), card(1)].join(",");
    let known = read_inventory(&format!(r#"{{"v":1,"cards":[{cards}]}}"#)).expect("an inventory");
    let paused = Published {
        paused: true,
        ..known.clone()
    };
    let mut index = Index::new(Settings::default());
    for (name, cards) in [
        ("n1", NodeCards::Known(known)),
        ("n2", NodeCards::Known(paused)),
        ("n3", NodeCards::NotPublished),
    ] {
        let name = name.parse().expect("a name");
        index.apply_node(NodeSeen { name, cards });
    }
    index.nodes_complete();
    index.pods_complete();
    index
});

fn json(answer: &[u8]) -> Value {
    serde_json::from_slice(answer).expect("an answer is JSON")
}

/// Names of a list of names, of nodes, or of an object by name.
fn names(value: &Value) -> BTreeSet<String> {
    let text = |v: &Value| v.as_str().map(str::to_owned);
    match value {
        Value::Array(list) => list
            .iter()
            .filter_map(|v| text(v).or_else(|| text(&v["metadata"]["name"])))
            .collect(),
        Value::Object(map) => map.keys().cloned().collect(),
        _ => BTreeSet::new(),
    }
}

fn question(body: &[u8], settings: &Settings) {
    let Ok(question) = fuzz::within(body.len(), EACH, || convert::question(body, settings)) else {
        return;
    };
    let (answer, tally) = fuzz::within(body.len(), EACH, || filter::filter(&INDEX, &question));
    let answer = json(&answer);
    let (asked, named): (BTreeSet<String>, usize) = match &question.candidates {
        Candidates::Names(all) => (all.iter().map(|n| n.0.to_string()).collect(), all.len()),
        Candidates::Full(all) => (all.iter().map(|(n, _)| n.to_string()).collect(), all.len()),
    };
    if answer["Error"] == "" {
        assert_eq!(tally.kept + tally.rejected, named);
        let kept = &names(&answer["NodeNames"]) | &names(&answer["Nodes"]["items"]);
        let failed = names(&answer["FailedNodes"]);
        let never = names(&answer["FailedAndUnresolvableNodes"]);
        assert_eq!(
            &(&kept | &failed) | &never,
            asked,
            "each is answered, no other is"
        );
        assert!(
            kept.is_disjoint(&failed) && kept.is_disjoint(&never) && failed.is_disjoint(&never)
        );
    }
    let scores = fuzz::within(body.len(), EACH, || {
        prioritize::prioritize(&INDEX, &question)
    });
    for score in json(&scores).as_array().expect("a list") {
        assert!(asked.contains(score["Host"].as_str().expect("a name")));
        assert!((0..=10).contains(&score["Score"].as_i64().expect("a number")));
    }
}

fn bind(body: &[u8], settings: &Settings) {
    let Ok(call) = fuzz::within(body.len(), EACH, || convert::bind_call(body)) else {
        return;
    };
    let binding = json(&convert::binding(&call, None, settings));
    assert_eq!(binding["target"]["name"], call.node.as_str());
    assert_eq!(binding["metadata"]["name"], call.pod.name.as_str());
    assert_eq!(
        binding["metadata"]["namespace"],
        call.pod.namespace.as_str()
    );
    assert_eq!(binding["metadata"]["uid"], call.uid.as_str());
}

fn preempt(body: &[u8], settings: &Settings) {
    let Ok(call) = fuzz::within(body.len(), EACH, || convert::preempt_call(body, settings)) else {
        return;
    };
    let proposed: BTreeMap<String, usize> = call
        .proposals
        .iter()
        .map(|p| (p.node.to_string(), p.victims.len()))
        .collect();
    let kept = fuzz::within(body.len(), EACH, || preempt::preempt(&INDEX, call));
    let answer = json(&convert::preempt_answer(&kept));
    let answered = answer["NodeNameToMetaVictims"]
        .as_object()
        .expect("an object");
    for (node, victims) in answered {
        let pods = victims["Pods"].as_array().expect("a list").len();
        assert_eq!(proposed.get(node), Some(&pods), "as proposed");
    }
}

fuzz_target!(|body: &[u8]| {
    let settings = INDEX.settings();
    question(body, settings);
    bind(body, settings);
    preempt(body, settings);
});

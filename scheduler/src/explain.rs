//! Why a pod is where it is, or is nowhere; and the whole book, for people.

use std::collections::BTreeMap;

use model::{
    ledger::{CardMode, Hold},
    plan::GrantMode,
    plan::Plan,
};
use serde_json::{Value, json};

use crate::{fit::Trial, index::Index, node::Node, pod::PodState};

/// How many nodes are named for each reason.
const EXAMPLES: usize = 5;

/// The answer to `/explain/<namespace>/<pod>`; none for a pod that is not known here.
pub fn explain(index: &Index, namespace: &str, name: &str) -> Option<Value> {
    let (uid, state) = index.find_pod(namespace, name)?;
    let pod = format!("{namespace}/{name}");
    Some(match state {
        PodState::Holds(node) => json!({
            "pod": pod, "uid": uid.as_str(), "state": "bound", "node": node.as_str(),
            "cards": index.held(node, uid).map(cards),
        }),
        PodState::Assumed(assumed) => json!({
            "pod": pod, "uid": uid.as_str(), "state": "being bound", "node": assumed.node.as_str(),
            "plan": plan(&assumed.plan),
        }),
        PodState::NotKnown(node, why) => json!({
            "pod": pod, "uid": uid.as_str(), "state": "bound, its cards not known", "node": node.as_str(),
            "why": why.to_string(),
        }),
        PodState::Pending(Err(refusal)) => json!({
            "pod": pod, "uid": uid.as_str(), "state": "refused", "why": refusal.to_string(),
        }),
        PodState::Pending(Ok(request)) => {
            let trial = Trial::new(request, index.settings());
            let mut fits = Vec::new();
            let mut reasons: BTreeMap<String, (usize, Vec<&str>)> = BTreeMap::new();
            for (name, node) in index.nodes().filter(|(_, n)| n.is_present()) {
                match trial.on(node) {
                    Ok(()) => fits.push(name.as_str()),
                    Err(rejection) => {
                        let (count, examples) =
                            reasons.entry(rejection.reason.to_string()).or_default();
                        *count += 1;
                        if examples.len() < EXAMPLES {
                            examples.push(name.as_str());
                        }
                    }
                }
            }
            fits.sort_unstable();
            let nodes_that_fit = fits.len();
            fits.truncate(EXAMPLES);
            let reasons: Vec<Value> = reasons
                .into_iter()
                .map(|(reason, (count, nodes))| json!({"reason": reason, "nodes": count, "such_as": nodes}))
                .collect();
            json!({
                "pod": pod, "uid": uid.as_str(), "state": "pending", "nodes_that_fit": nodes_that_fit,
                "such_as": fits, "rejected": reasons,
            })
        }
    })
}

/// The answer to `/snapshot`: every node with its cards and who holds them.
pub fn snapshot(index: &Index) -> Value {
    let mut nodes: Vec<_> = index.nodes().collect();
    nodes.sort_unstable_by_key(|(name, _)| *name);
    let nodes: Vec<Value> = nodes
        .into_iter()
        .map(|(name, node)| one_node(index, name.as_str(), node))
        .collect();
    json!({"synced": index.is_synced(), "pods": index.pod_count(), "nodes": nodes})
}

fn one_node(index: &Index, name: &str, node: &Node) -> Value {
    let cards: Vec<Value> = node
        .ledger()
        .cards()
        .map(|c| {
            json!({
                "card": c.card.id.as_str(), "mode": mode(c.mode), "healthy": c.card.health.is_healthy(),
                "free_core_percent": c.free_core.percent(), "free_memory_bytes": c.free_memory.bytes(),
                "pods": c.pods,
            })
        })
        .collect();
    let pods: Vec<Value> = node
        .ledger()
        .pods()
        .map(|(uid, hold)| {
            let pod = index.pod_name(uid).map(ToString::to_string);
            json!({"pod": pod, "uid": uid.as_str(), "cards": self::cards(hold)})
        })
        .collect();
    json!({
        "node": name, "closed": node.closed().map(|c| c.reason.to_string()),
        "unreadable": node.unreadable().map(ToString::to_string), "cards": cards, "holders": pods,
    })
}

const fn mode(mode: CardMode) -> &'static str {
    match mode {
        CardMode::Free => "free",
        CardMode::Whole => "whole",
        CardMode::Shared => "shared",
        CardMode::Partitioned => "partitioned",
    }
}

fn cards(hold: &Hold) -> Vec<Value> {
    hold.iter()
        .map(|(card, hold)| {
            json!({
                "card": card.as_str(), "whole": hold.whole, "core_percent": hold.core.percent(),
                "memory_bytes": hold.memory.bytes(),
            })
        })
        .collect()
}

fn plan(plan: &Plan) -> Vec<Value> {
    let grants = plan
        .containers
        .iter()
        .flat_map(|c| c.grants.iter().map(move |g| (c, g)));
    grants
        .map(|(container, grant)| {
            let what = match &grant.mode {
                GrantMode::Whole => json!("whole"),
                GrantMode::Share { core, memory } => {
                    json!({"core_percent": core.percent(), "memory_bytes": memory.bytes()})
                }
                GrantMode::Partition { profile, count } => json!({"partition": profile.as_str(), "count": count}),
            };
            json!({"container": container.container.as_str(), "card": grant.card.as_str(), "what": what})
        })
        .collect()
}

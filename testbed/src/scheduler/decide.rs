//! Which nodes fit a pod, which is taken, and what is said when none fits: pure.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::{
    cluster::{Cluster, Node},
    demand::{self, Amounts},
};
use crate::{
    api_server::{field, selector},
    quantity::Milli,
};

/// Why a node does not fit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Rejection {
    /// Each counts once in the message.
    pub reasons: Vec<String>,
    /// Whether the going of pods would not help.
    pub unresolvable: bool,
}

impl Rejection {
    fn unresolvable(reason: impl Into<String>) -> Self {
        Self {
            reasons: vec![reason.into()],
            unresolvable: true,
        }
    }

    /// What an extender said.
    pub(super) fn by_extender(reason: String, unresolvable: bool) -> Self {
        Self {
            reasons: vec![reason],
            unresolvable,
        }
    }
}

/// The nodes that fit, in order of name, and why the others do not.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Verdict {
    /// These fit.
    pub fits: Vec<String>,
    /// These do not.
    pub rejected: BTreeMap<String, Rejection>,
}

/// Looks at every node. Resources in `ignored` are left to the extender.
pub(super) fn filter(pod: &Value, cluster: &Cluster, ignored: &[String]) -> Verdict {
    let mut verdict = Verdict::default();
    let asked = demand::of_pod(pod);
    let used = cluster.used();
    let none = (Amounts::new(), 0);
    for (name, node) in cluster.nodes() {
        let taken = used.get(name.as_str()).unwrap_or(&none);
        match look(pod, &asked, node, taken, ignored) {
            None => verdict.fits.push(name.clone()),
            Some(rejection) => drop(verdict.rejected.insert(name.clone(), rejection)),
        }
    }
    verdict
}

fn look(
    pod: &Value,
    asked: &Amounts,
    node: &Node,
    (used, pods): &(Amounts, usize),
    ignored: &[String],
) -> Option<Rejection> {
    if node.is_cordoned()
        && !tolerates(
            pod,
            &json!({
        "key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}),
        )
    {
        return Some(Rejection::unresolvable("node(s) were unschedulable"));
    }
    for taint in field::list(&node.object, "/spec/taints") {
        let bars = matches!(field::text(taint, "/effect"), "NoSchedule" | "NoExecute");
        if bars && !tolerates(pod, taint) {
            let (key, value) = (field::text(taint, "/key"), field::text(taint, "/value"));
            let reason = format!("node(s) had untolerated taint {{{key}: {value}}}");
            return Some(Rejection::unresolvable(reason));
        }
    }
    if !is_selected(pod, node) {
        let reason = "node(s) didn't match Pod's node affinity/selector";
        return Some(Rejection::unresolvable(reason));
    }
    let mut reasons = Vec::new();
    let pods = i128::try_from(*pods).unwrap_or(i128::MAX);
    // A node that does not say takes any number.
    let most = node.allocatable.get("pods");
    if most.is_some_and(|most| Milli::whole(pods.saturating_add(1)) > *most) {
        reasons.push("Too many pods".to_owned());
    }
    let mut unresolvable = false;
    for (resource, amount) in asked.iter().filter(|(name, _)| !ignored.contains(name)) {
        let has = node.has(resource);
        let taken = used.get(resource).copied().unwrap_or_default();
        if taken.plus(*amount) > has {
            reasons.push(format!("Insufficient {resource}"));
            unresolvable |= *amount > has;
        }
    }
    (!reasons.is_empty()).then_some(Rejection {
        reasons,
        unresolvable,
    })
}

fn tolerates(pod: &Value, taint: &Value) -> bool {
    field::list(pod, "/spec/tolerations")
        .iter()
        .any(|toleration| {
            let same = |name: &str| field::text(toleration, name) == field::text(taint, name);
            let any = |name: &str| field::text(toleration, name).is_empty();
            let exists = field::text(toleration, "/operator") == "Exists";
            (any("/effect") || same("/effect"))
                && (any("/key") && exists || same("/key"))
                && (exists || same("/value"))
        })
}

/// `nodeSelector` and the required terms of node affinity.
fn is_selected(pod: &Value, node: &Node) -> bool {
    let labels = node.object.pointer("/metadata/labels");
    let label = |key: &str| labels.and_then(|l| l.get(key)).and_then(Value::as_str);
    let named = field::pairs(pod, "/spec/nodeSelector").all(|(k, v)| label(k) == Some(v));
    let required = "/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms";
    let terms = field::list(pod, required);
    named && (terms.is_empty() || terms.iter().any(|term| term_holds(term, node)))
}

fn term_holds(term: &Value, node: &Node) -> bool {
    let name = field::text(&node.object, "/metadata/name");
    let fields = field::list(term, "/matchFields").iter().all(|f| {
        field::text(f, "/key") == "metadata.name"
            && field::list(f, "/values").iter().any(|v| v == name)
    });
    let labels = field::list(term, "/matchExpressions")
        .iter()
        .all(|expression| {
            let key = field::text(expression, "/key");
            let values: Vec<_> = field::list(expression, "/values")
                .iter()
                .filter_map(Value::as_str)
                .collect();
            let values = values.join(",");
            let requirement = match field::text(expression, "/operator") {
                "In" => format!("{key} in ({values})"),
                "NotIn" => format!("{key} notin ({values})"),
                "Exists" => key.to_owned(),
                "DoesNotExist" => format!("!{key}"),
                // Gt and Lt: not carried out.
                _ => return false,
            };
            selector::labels_match(&requirement, &node.object).unwrap_or(false)
        });
    fields && labels
}

/// The best of the nodes that fit: the highest score, then the fewest pods, then by name.
pub(super) fn choose<'a>(
    fits: &'a [String],
    scores: &BTreeMap<String, i64>,
    cluster: &Cluster,
) -> Option<&'a str> {
    let used = cluster.used();
    let rank = |name: &str| {
        let score = scores.get(name).copied().unwrap_or(0);
        let pods = used.get(name).map_or(0, |(_, pods)| *pods);
        (std::cmp::Reverse(score), pods)
    };
    fits.iter()
        .min_by(|a, b| rank(a).cmp(&rank(b)).then_with(|| a.cmp(b)))
        .map(String::as_str)
}

/// What kube-scheduler says of a pod that fits nowhere.
pub(super) fn message(pod: &Value, nodes: &BTreeSet<String>, verdict: &Verdict) -> String {
    if nodes.is_empty() {
        return "no nodes available to schedule pods".to_owned();
    }
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for reason in verdict.rejected.values().flat_map(|r| &r.reasons) {
        *counts.entry(reason).or_default() += 1;
    }
    let total = nodes.len();
    // A node that an extender dropped without a word can't be helped either.
    let helpless = nodes
        .iter()
        .filter(|name| verdict.rejected.get(*name).is_none_or(|r| r.unresolvable))
        .count();
    let preemption = if field::text(pod, "/spec/preemptionPolicy") == "Never" {
        "not eligible due to preemptionPolicy=Never.".to_owned()
    } else {
        let counts = [
            (helpless, "Preemption is not helpful for scheduling"),
            (
                total - helpless,
                "No preemption victims found for incoming pod",
            ),
        ];
        let words = counts
            .iter()
            .filter(|(n, _)| *n > 0)
            .map(|(n, text)| format!("{n} {text}"));
        format!("0/{total} nodes are available: {}.", joined(words))
    };
    let words = counts.iter().map(|(reason, n)| format!("{n} {reason}"));
    let reasons = joined(words);
    let why = if reasons.is_empty() {
        String::new()
    } else {
        format!(": {reasons}")
    };
    format!("0/{total} nodes are available{why}. preemption: {preemption}")
}

fn joined(words: impl Iterator<Item = String>) -> String {
    let mut words: Vec<String> = words.collect();
    words.sort();
    words.join(", ")
}

#[cfg(test)]
#[path = "decide_tests.rs"]
mod tests;

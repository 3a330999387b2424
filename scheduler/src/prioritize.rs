//! Prioritize: how good each candidate is, 0 to 10. Read-only.

use serde_json::json;

use crate::{
    convert::{Candidates, Question},
    fit::Trial,
    index::Index,
};

/// The JSON of `HostPriorityList`. A pod that can't be served scores 0 everywhere: kube-scheduler
/// ignores errors here, and Filter has said what is wrong.
pub fn prioritize(index: &Index, question: &Question<'_>) -> Vec<u8> {
    let request = question.wanted.as_ref().ok().filter(|r| !r.is_empty());
    let trial = request.map(|request| Trial::new(request, index.settings()));
    let score = |name: &str| match (&trial, index.node(name)) {
        (Some(trial), Some(node)) => trial.score(node),
        _ => 0,
    };
    let hosts: Vec<_> = match &question.candidates {
        Candidates::Names(names) => names
            .iter()
            .map(|n| json!({"Host": n.0, "Score": score(&n.0)}))
            .collect(),
        Candidates::Full(nodes) => nodes
            .iter()
            .map(|(n, _)| json!({"Host": n, "Score": score(n)}))
            .collect(),
    };
    // Texts and numbers always have a JSON form.
    serde_json::to_vec(&hosts).unwrap_or_default()
}

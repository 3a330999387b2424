//! Prioritize: how good each candidate is, 0 to 10. Read-only.

use crate::{
    convert::{Candidates, Question},
    fit::KnownTrial,
    index::Index,
    json::{element, string},
    node::Node,
};

/// Bytes of one host's entry; a guess that is too small only costs a copy.
const TYPICAL_HOST: usize = 48;

/// The JSON of `HostPriorityList`. A pod that can't be served scores 0 everywhere: kube-scheduler
/// ignores errors here, and Filter has said what is wrong.
pub fn prioritize(index: &Index, question: &Question<'_>) -> Vec<u8> {
    let request = question.wanted.as_ref().ok().filter(|r| !r.is_empty());
    let trial = request.map(|request| KnownTrial::new(request, index));
    let score = |node: Option<&Node>| match (&trial, node) {
        (Some(trial), Some(node)) => trial.score(node),
        _ => 0,
    };
    let mut out = Vec::with_capacity(question.candidates.len() * TYPICAL_HOST + 2);
    out.push(b'[');
    let mut host = |name: &str, node| {
        let is_first = out.len() == 1;
        element(&mut out, is_first, |out| {
            out.extend_from_slice(b"{\"Host\":");
            string(out, name);
            out.extend_from_slice(b",\"Score\":");
            out.extend_from_slice(itoa::Buffer::new().format(score(node)).as_bytes());
            out.push(b'}');
        });
    };
    match &question.candidates {
        Candidates::Names(names) => {
            for (name, node) in names.iter().zip(index.find(names.iter().map(|n| &*n.0))) {
                host(&name.0, node);
            }
        }
        Candidates::Full(nodes) => nodes
            .iter()
            .for_each(|(name, _)| host(name, index.node(name))),
    }
    out.push(b']');
    out
}

#[cfg(test)]
mod tests {
    use std::{borrow::Cow, sync::Arc};

    use serde_json::{Value, json};

    use super::*;
    use crate::{
        testing::{CORE, holding, index, node, request, share},
        wire::Text,
    };

    #[test]
    fn every_candidate_has_its_score_in_the_order_asked() {
        let mut index = index([node("empty", 1, 144), node("used", 1, 144)]);
        let limits = [(CORE, "40")];
        index.apply_pod(holding("a", "used", &limits, share("ppu-0", 40, 57)));
        let names = ["used", "no\"where", "empty"];
        let question = Question {
            uid: Cow::Borrowed("new"),
            wanted: Ok(Arc::new(request(&limits))),
            candidates: Candidates::Names(names.map(|n| Text(Cow::Borrowed(n))).into()),
        };
        let answer: Value = serde_json::from_slice(&prioritize(&index, &question)).unwrap();
        let score = |at: usize| answer[at]["Score"].as_u64().unwrap();
        assert_eq!(
            answer,
            json!([
                {"Host": "used", "Score": score(0)},
                {"Host": "no\"where", "Score": 0},
                {"Host": "empty", "Score": score(2)},
            ])
        );
        assert!(score(0) > score(2), "binpack: {answer}");
    }
}

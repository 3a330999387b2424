//! Filter: which of the candidates could take the pod now. Read-only; every candidate is either
//! kept or rejected with a reason. The answer is written straight to bytes: it is as long as the
//! question, and asked once for each pod that waits.

use crate::{
    convert::{Candidates, Question},
    fit::Trial,
    index::Index,
    node::Node,
    reason::{Reason, Rejection},
};

/// What came of one call, for the metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Tally {
    /// Candidates kept.
    pub kept: usize,
    /// Candidates rejected.
    pub rejected: usize,
}

/// The JSON of `ExtenderFilterResult`.
pub fn filter(index: &Index, question: &Question<'_>) -> (Vec<u8>, Tally) {
    let request = match &question.wanted {
        Ok(request) => request,
        Err(refusal) => return (error(&refusal.to_string()), Tally::default()),
    };
    let trial = (!request.is_empty()).then(|| Trial::new(request, index.settings()));
    let assumed = index.assumed(&question.uid).map(|a| a.node.as_str());
    let verdict = |name: &str| -> Result<(), Rejection> {
        let Some(trial) = &trial else { return Ok(()) };
        match assumed {
            // What it was promised there is in that node's ledger already.
            Some(node) if node == name => return Ok(()),
            Some(_) => return Err(Rejection::never(Reason::Unsettled)),
            None => {}
        }
        index
            .node(name)
            .map_or(Err(Rejection::never(Reason::UnknownNode)), |node: &Node| {
                trial.on(node)
            })
    };
    let mut answer = Answer::default();
    match &question.candidates {
        Candidates::Names(names) => {
            let mut kept = Vec::with_capacity(names.len() * 24);
            for name in names {
                if answer.enter(&name.0, verdict(&name.0)) {
                    item(&mut kept, |out| string(out, &name.0));
                }
            }
            answer.finish(b"null", &list(b"", &kept, b""))
        }
        Candidates::Full(nodes) => {
            let mut kept = Vec::new();
            for (name, json) in nodes {
                if answer.enter(name, verdict(name)) {
                    item(&mut kept, |out| out.extend_from_slice(json.as_bytes()));
                }
            }
            answer.finish(&list(b"{\"metadata\":{},\"items\":", &kept, b"}"), b"null")
        }
    }
}

/// An `ExtenderFilterResult` that says only what is wrong.
pub fn error(text: &str) -> Vec<u8> {
    let mut out = Vec::new();
    out.extend_from_slice(
        b"{\"Nodes\":null,\"NodeNames\":null,\"FailedNodes\":null,\"FailedAndUnresolvableNodes\":null,\"Error\":",
    );
    string(&mut out, text);
    out.push(b'}');
    out
}

/// The rejections of one call, each list as the inside of a JSON object.
#[derive(Default)]
struct Answer {
    tally: Tally,
    failed: Vec<u8>,
    unresolvable: Vec<u8>,
    /// Texts are few: each is written once.
    texts: Vec<(Rejection, Vec<u8>)>,
}

impl Answer {
    /// Notes the verdict; whether the node is kept.
    fn enter(&mut self, name: &str, verdict: Result<(), Rejection>) -> bool {
        let rejection = match verdict {
            Ok(()) => {
                self.tally.kept += 1;
                return true;
            }
            Err(rejection) => rejection,
        };
        self.tally.rejected += 1;
        let mendable = rejection.mendable;
        let at = self
            .texts
            .iter()
            .position(|(known, _)| *known == rejection)
            .unwrap_or_else(|| {
                let mut text = Vec::new();
                string(&mut text, &rejection.reason.to_string());
                self.texts.push((rejection, text));
                self.texts.len() - 1
            });
        let text = self
            .texts
            .get(at)
            .map(|(_, text)| text.as_slice())
            .unwrap_or_default();
        let list = if mendable {
            &mut self.failed
        } else {
            &mut self.unresolvable
        };
        item(list, |out| {
            string(out, name);
            out.push(b':');
            out.extend_from_slice(text);
        });
        false
    }

    fn finish(self, nodes: &[u8], names: &[u8]) -> (Vec<u8>, Tally) {
        let mut out = Vec::with_capacity(
            nodes.len() + names.len() + self.failed.len() + self.unresolvable.len() + 128,
        );
        let object = |out: &mut Vec<u8>, inside: &[u8]| {
            if inside.is_empty() {
                out.extend_from_slice(b"null");
            } else {
                out.push(b'{');
                out.extend_from_slice(inside);
                out.push(b'}');
            }
        };
        out.extend_from_slice(b"{\"Nodes\":");
        out.extend_from_slice(nodes);
        out.extend_from_slice(b",\"NodeNames\":");
        out.extend_from_slice(names);
        out.extend_from_slice(b",\"FailedNodes\":");
        object(&mut out, &self.failed);
        out.extend_from_slice(b",\"FailedAndUnresolvableNodes\":");
        object(&mut out, &self.unresolvable);
        out.extend_from_slice(b",\"Error\":\"\"}");
        (out, self.tally)
    }
}

fn list(before: &[u8], inside: &[u8], after: &[u8]) -> Vec<u8> {
    [before, b"[", inside, b"]", after].concat()
}

fn item(out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
    if !out.is_empty() {
        out.push(b',');
    }
    write(out);
}

/// A JSON string. Names of Kubernetes need no escapes: those are copied as they are.
fn string(out: &mut Vec<u8>, text: &str) {
    if text.bytes().all(|b| b >= b' ' && b != b'"' && b != b'\\') {
        out.push(b'"');
        out.extend_from_slice(text.as_bytes());
        out.push(b'"');
    } else if let Ok(escaped) = serde_json::to_vec(text) {
        out.extend_from_slice(&escaped);
    }
}

#[cfg(test)]
#[path = "filter_tests.rs"]
mod tests;

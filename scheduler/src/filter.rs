//! Filter: which of the candidates could take the pod now. Read-only; every candidate is either
//! kept or rejected with a reason. The answer is written straight to bytes: it is as long as the
//! question, and asked once for each pod that waits.

use std::borrow::Cow;

use crate::{
    convert::{Candidates, Question},
    fit::KnownTrial,
    index::Index,
    json::{element, string},
    node::Node,
    reason::{Reason, Rejection},
};

/// Bytes of a node's name; a guess that is too small only costs a copy.
const TYPICAL_NAME: usize = 24;

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
    let trial = (!request.is_empty()).then(|| KnownTrial::new(request, index));
    let assumed = index.assumed(&question.uid).map(|a| a.node.as_str());
    let verdict = |name: &str, node: Option<&Node>| -> Result<(), Cow<'_, Rejection>> {
        let never = |reason| Err(Cow::Owned(Rejection::never(reason)));
        let Some(trial) = &trial else { return Ok(()) };
        match assumed {
            // What it was promised there is in that node's ledger already.
            Some(node) if node == name => return Ok(()),
            Some(_) => return never(Reason::Unsettled),
            None => {}
        }
        node.map_or_else(|| never(Reason::UnknownNode), |node| trial.on(node))
    };
    match &question.candidates {
        Candidates::Names(names) => {
            let room = names.len() * (TYPICAL_NAME + 3);
            let mut answer = Answer::new(b"{\"Nodes\":null,\"NodeNames\":[", room);
            for (name, node) in names.iter().zip(index.find(names.iter().map(|n| &*n.0))) {
                let verdict = verdict(&name.0, node);
                answer.enter(&name.0, verdict, |out| string(out, &name.0));
            }
            answer.finish(b"]")
        }
        Candidates::Full(nodes) => {
            let room = nodes.iter().map(|(_, json)| json.len() + 1).sum();
            let mut answer = Answer::new(b"{\"Nodes\":{\"metadata\":{},\"items\":[", room);
            for (name, json) in nodes {
                let verdict = verdict(name, index.node(name));
                answer.enter(name, verdict, |out| out.extend_from_slice(json.as_bytes()));
            }
            answer.finish(b"]},\"NodeNames\":null")
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

/// One call's answer in the making.
struct Answer {
    tally: Tally,
    /// All of it up to the last node that was kept.
    out: Vec<u8>,
    /// The inside of a JSON object.
    failed: Vec<u8>,
    /// The inside of a JSON object.
    unresolvable: Vec<u8>,
    /// Texts are few: each is written once.
    texts: Vec<(Rejection, Vec<u8>)>,
}

impl Answer {
    /// Begins with `head`; `room` bytes are what all nodes need.
    fn new(head: &[u8], room: usize) -> Self {
        let mut out = Vec::with_capacity(head.len() + room + 128);
        out.extend_from_slice(head);
        Self {
            tally: Tally::default(),
            out,
            failed: Vec::new(),
            unresolvable: Vec::new(),
            texts: Vec::new(),
        }
    }

    /// Notes the verdict; `write` writes the node where it is kept.
    fn enter(
        &mut self,
        name: &str,
        verdict: Result<(), Cow<'_, Rejection>>,
        write: impl FnOnce(&mut Vec<u8>),
    ) {
        match verdict {
            Ok(()) => {
                element(&mut self.out, self.tally.kept == 0, write);
                self.tally.kept += 1;
            }
            Err(rejection) => self.reject(name, rejection),
        }
    }

    fn reject(&mut self, name: &str, rejection: Cow<'_, Rejection>) {
        self.tally.rejected += 1;
        let mendable = rejection.mendable;
        let at = self
            .texts
            .iter()
            .position(|(known, _)| *known == *rejection)
            .unwrap_or_else(|| {
                let mut text = Vec::new();
                string(&mut text, &rejection.reason.to_string());
                self.texts.push((rejection.into_owned(), text));
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
        let is_first = list.is_empty();
        element(list, is_first, |out| {
            string(out, name);
            out.push(b':');
            out.extend_from_slice(text);
        });
    }

    /// Goes on with `tail` after the last node.
    fn finish(self, tail: &[u8]) -> (Vec<u8>, Tally) {
        let mut out = self.out;
        let object = |out: &mut Vec<u8>, inside: &[u8]| {
            if inside.is_empty() {
                out.extend_from_slice(b"null");
            } else {
                out.push(b'{');
                out.extend_from_slice(inside);
                out.push(b'}');
            }
        };
        out.extend_from_slice(tail);
        out.extend_from_slice(b",\"FailedNodes\":");
        object(&mut out, &self.failed);
        out.extend_from_slice(b",\"FailedAndUnresolvableNodes\":");
        object(&mut out, &self.unresolvable);
        out.extend_from_slice(b",\"Error\":\"\"}");
        (out, self.tally)
    }
}

#[cfg(test)]
#[path = "filter_tests.rs"]
mod tests;

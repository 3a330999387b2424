//! Watches: which events a change is to one watcher.
//!
//! A watch is a cursor in the window and a filter; it has no queue of its own.

use std::sync::Arc;

use bytes::Bytes;
use serde_json::{Value, json};

use super::{
    query::Query,
    refusal::Refusal,
    render::Render,
    selector::Selector,
    store::{Change, Store},
};

/// A started watch.
#[derive(Debug)]
pub struct Watch {
    render: Render,
    namespace: Option<String>,
    selector: Selector,
    /// Objects to tell first.
    initial: Vec<Arc<Value>>,
    /// Whether the end of these is told by a bookmark.
    tell_end: bool,
    /// The revision asked for is not to be had: the one thing that will be told.
    expired: Option<Refusal>,
    /// The revision told so far.
    cursor: u64,
    /// The revision of the last bookmark.
    marked: u64,
    /// Whether bookmarks are understood.
    pub bookmarks: bool,
    /// Seconds after which the watch ends.
    pub timeout: u64,
}

/// What the window holds for a watch.
#[derive(Debug, PartialEq, Eq)]
pub enum Step {
    /// Lines to send; more may be there at once.
    Send(Bytes),
    /// Nothing yet.
    Wait,
    /// Lines to send before the end.
    End(Bytes),
}

/// Kubernetes ends watches after 30 to 60 minutes.
const DEFAULT_TIMEOUT: u64 = 1800;

/// Starts a watch from the revision of the query: without one, or with `0`, the objects of now
/// come first.
pub(super) fn start(
    store: &Store,
    render: Render,
    (namespace, selector): (Option<String>, Selector),
    query: &Query,
) -> Result<Watch, Refusal> {
    if query.initial_events.is_some() && query.version_match != "NotOlderThan" {
        return Err(Refusal::unprocessable(
            "ListOptions.meta.k8s.io \"\" is invalid: resourceVersionMatch: Forbidden: sendInitialEvents requires setting resourceVersionMatch to NotOlderThan",
        ));
    }
    if query.initial_events == Some(true) && !query.bookmarks {
        return Err(Refusal::unprocessable(
            "ListOptions.meta.k8s.io \"\" is invalid: allowWatchBookmarks: Forbidden: sendInitialEvents requires allowWatchBookmarks",
        ));
    }
    let now = store.revision();
    let asked: u64 = match query.version.as_str() {
        "" => 0,
        text => text.parse().map_err(|_| {
            Refusal::bad_request(format!("Invalid value: {text:?}: invalid resource version"))
        })?,
    };
    let initial = query.initial_events.unwrap_or(asked == 0);
    // A revision that was never given out, or fell out of the window: list again. Told as an event
    // under status 200, as the real server does: clients start a watch anew after an HTTP error,
    // and list anew only after such an event.
    let expired = (asked > now || !initial && asked != 0 && asked < store.oldest())
        .then(|| Refusal::expired(asked, store.oldest()));
    let initial = initial && expired.is_none();
    let objects = store
        .range(render.resource.storage, namespace.as_deref(), None)
        .map(|(_, object)| object)
        .filter(|object| initial && selector.matches(object))
        .cloned()
        .collect();
    let cursor = if initial || asked == 0 { now } else { asked };
    Ok(Watch {
        render,
        namespace,
        selector,
        initial: objects,
        tell_end: query.initial_events == Some(true) && expired.is_none(),
        expired,
        cursor,
        marked: cursor,
        bookmarks: query.bookmarks,
        timeout: query.timeout.unwrap_or(DEFAULT_TIMEOUT).max(1),
    })
}

/// Objects told in one piece of the initial ones.
const PIECE: usize = 256;

impl Watch {
    /// What is to be sent before any change; nothing when all has been.
    pub fn first(&mut self) -> Option<Bytes> {
        let mut lines = Vec::new();
        let rest = self.initial.split_off(self.initial.len().min(PIECE));
        for object in std::mem::replace(&mut self.initial, rest) {
            line(&mut lines, "ADDED", &self.render.object(&object));
        }
        if self.initial.is_empty() && self.tell_end {
            self.tell_end = false;
            line(
                &mut lines,
                "BOOKMARK",
                &self.render.bookmark(self.cursor, true),
            );
        }
        (!lines.is_empty()).then(|| lines.into())
    }

    /// What the changes are to this watch.
    pub fn step(&mut self, changes: Result<Vec<Arc<Change>>, super::store::Compacted>) -> Step {
        if let Some(refusal) = self.expired.take() {
            let mut lines = Vec::new();
            line(&mut lines, "ERROR", &refusal.status());
            return Step::End(lines.into());
        }
        let changes = match changes {
            Ok(changes) => changes,
            Err(compacted) => {
                let mut lines = Vec::new();
                let refusal = Refusal::expired(self.cursor, compacted.oldest);
                line(&mut lines, "ERROR", &refusal.status());
                return Step::End(lines.into());
            }
        };
        let Some(last) = changes.last() else {
            return Step::Wait;
        };
        self.cursor = last.revision;
        let mut lines = Vec::new();
        for change in &changes {
            if let Some((kind, object)) = self.event(change) {
                line(&mut lines, kind, &object);
            }
        }
        Step::Send(lines.into())
    }

    /// The revision told so far.
    pub fn cursor(&self) -> u64 {
        self.cursor
    }

    /// A bookmark, where the revision has moved since the last one.
    pub fn bookmark(&mut self) -> Option<Bytes> {
        if !self.bookmarks || self.cursor == self.marked {
            return None;
        }
        self.marked = self.cursor;
        let mut lines = Vec::new();
        line(
            &mut lines,
            "BOOKMARK",
            &self.render.bookmark(self.cursor, false),
        );
        Some(lines.into())
    }

    /// An object that comes to match is new to the watcher, one that ceases to is gone for it.
    fn event(&self, change: &Change) -> Option<(&'static str, Value)> {
        let mine = change.key.storage == self.render.resource.storage
            && self
                .namespace
                .as_ref()
                .is_none_or(|n| *n == change.key.namespace);
        if !mine {
            return None;
        }
        let matched = change
            .before
            .as_ref()
            .is_some_and(|o| self.selector.matches(o));
        let now = change.after.as_ref().filter(|o| self.selector.matches(o));
        match (matched, now) {
            (false, None) => None,
            (false, Some(object)) => Some(("ADDED", self.render.object(object))),
            (true, Some(object)) => Some(("MODIFIED", self.render.object(object))),
            (true, None) => {
                let last = match (&change.last, &change.before) {
                    (Some(last), _) => (**last).clone(),
                    // The last state that matched, at the revision that ended it.
                    (None, Some(before)) => {
                        let mut last = (**before).clone();
                        let metadata = super::field::map(&mut last, "metadata");
                        let revision = change.revision.to_string();
                        metadata.insert("resourceVersion".into(), revision.into());
                        last
                    }
                    (None, None) => return None,
                };
                Some(("DELETED", self.render.object(&last)))
            }
        }
    }
}

fn line(lines: &mut Vec<u8>, kind: &str, object: &Value) {
    lines.extend_from_slice(
        json!({"type": kind, "object": object})
            .to_string()
            .as_bytes(),
    );
    lines.push(b'\n');
}

#[cfg(test)]
#[path = "watching_tests.rs"]
mod tests;

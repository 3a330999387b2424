//! Lists, whole or page by page.
//!
//! A page goes on from the objects of now, under the revision of the first page: nothing that
//! changes between pages is missed by a watch from that revision.

use std::sync::Arc;

use serde_json::{Value, json};

use super::{
    answer::Answer,
    query::Query,
    refusal::Refusal,
    render::Render,
    resource::Target,
    selector::Selector,
    store::{Key, Store},
};

/// Lists the objects of a kind.
pub(super) fn list(
    store: &Store,
    render: Render,
    target: &Target,
    selector: &Selector,
    query: &Query,
) -> Result<Answer, Refusal> {
    let storage = target.resource.storage;
    let (revision, after) = if query.cursor.is_empty() {
        (at_revision(store, query)?, None)
    } else {
        let (revision, after) = read_cursor(storage, &query.cursor)?;
        if revision < store.oldest() {
            return Err(Refusal::expired(revision, store.oldest()));
        }
        (revision, Some(after))
    };
    let limit = query.limit.unwrap_or(usize::MAX);
    let mut items: Vec<Arc<Value>> = Vec::new();
    let (mut last, mut left) = (None, 0_usize);
    for (key, object) in store.range(storage, target.namespace.as_deref(), after.as_ref()) {
        if !selector.matches(object) {
            continue;
        }
        if items.len() == limit {
            left += 1;
        } else {
            items.push(Arc::clone(object));
            last = Some(key);
        }
    }
    let mut metadata = json!({"resourceVersion": revision.to_string()});
    if let (Some(key), true, Some(fields)) = (last, left > 0, metadata.as_object_mut()) {
        fields.insert("continue".into(), cursor(revision, key).into());
        if selector.is_everything() {
            fields.insert("remainingItemCount".into(), left.into());
        }
    }
    Ok(Answer::List(render, items, metadata))
}

/// The revision of the list: always the latest, if that satisfies the request.
fn at_revision(store: &Store, query: &Query) -> Result<u64, Refusal> {
    let now = store.revision();
    if query.version.is_empty() {
        return Ok(now);
    }
    let asked: u64 = query.version.parse().map_err(|_| {
        Refusal::bad_request(format!("invalid resource version {:?}", query.version))
    })?;
    match query.version_match.as_str() {
        "Exact" if asked != now => Err(Refusal::expired(asked, now)),
        // A client from before this server's data was lost: it must start anew.
        _ if asked > now => Err(Refusal::expired(asked, now)),
        _ => Ok(now),
    }
}

fn cursor(revision: u64, key: &Key) -> String {
    format!("{revision}:{}/{}", key.namespace, key.name)
}

fn read_cursor(storage: &'static str, text: &str) -> Result<(u64, Key), Refusal> {
    let read = || {
        let (revision, rest) = text.split_once(':')?;
        let (namespace, name) = rest.split_once('/')?;
        Some((revision.parse().ok()?, Key::new(storage, namespace, name)))
    };
    read().ok_or_else(|| Refusal::bad_request(format!("continue key is not valid: {text:?}")))
}

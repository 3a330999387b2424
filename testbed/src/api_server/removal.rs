//! Deleting: grace periods, finalizers, preconditions, owners.

use std::sync::Arc;

use serde_json::{Value, json};

use super::{
    clock, field,
    refusal::Refusal,
    store::{Key, Store},
    write::Context,
};

/// Waits until its dependants are gone.
pub const FOREGROUND: &str = "foregroundDeletion";
/// Waits until its dependants are let go.
pub const ORPHAN: &str = "orphan";

/// What a deletion asks, from its body and its query.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Options {
    /// Seconds; the object's own where left out.
    pub grace: Option<i64>,
    /// `Orphan`, `Background` or `Foreground`.
    pub propagation: Option<String>,
    /// Only this very object.
    pub uid: Option<String>,
    /// Only this version of it.
    pub resource_version: Option<String>,
}

/// What became of the object.
#[derive(Debug, Clone)]
pub enum Removal {
    /// It is still there, marked.
    Waits(Arc<Value>),
    /// It is gone; its last state.
    Gone(Arc<Value>),
}

/// Deletes an object, or marks it to be deleted by the one that must let go of it first.
pub fn delete(
    store: &mut Store,
    context: &Context,
    key: &Key,
    options: &Options,
) -> Result<Removal, Refusal> {
    let resource = context.resource;
    let Some(old) = store.get(key).cloned() else {
        return Err(Refusal::not_found(resource, &key.name));
    };
    for (wanted, pointer, what) in [
        (&options.uid, "/metadata/uid", "UID"),
        (
            &options.resource_version,
            "/metadata/resourceVersion",
            "ResourceVersion",
        ),
    ] {
        let own = field::text(&old, pointer);
        if let Some(wanted) = wanted.as_deref().filter(|w| *w != own) {
            let why = format!(
                "Precondition failed: {what} in precondition: {wanted}, {what} in object meta: {own}"
            );
            return Err(Refusal::conflict(resource, &key.name, &why));
        }
    }
    let mut new = (*old).clone();
    add_finalizer(&mut new, options.propagation.as_deref());
    let grace = grace(&old, options.grace);
    let already = old.pointer("/metadata/deletionTimestamp").is_some();
    let left = field::number(&old, "/metadata/deletionGracePeriodSeconds").unwrap_or(0);
    let held =
        !field::list(&new, "/metadata/finalizers").is_empty() || resource.storage == "namespaces";
    if grace == 0 && !held {
        if context.dry_run {
            return Ok(Removal::Gone(old));
        }
        let last = store.remove(key);
        return Ok(Removal::Gone(last.unwrap_or(old)));
    }
    // A grace period is only ever made shorter.
    if !already || grace < left {
        let ends = clock::seconds(clock::later(context.now, grace));
        let metadata = field::map(&mut new, "metadata");
        metadata.insert("deletionTimestamp".into(), ends.into());
        metadata.insert("deletionGracePeriodSeconds".into(), json!(grace));
    }
    if resource.storage == "namespaces" {
        field::map(&mut new, "status").insert("phase".into(), "Terminating".into());
    }
    if new == *old || context.dry_run {
        return Ok(Removal::Waits(old));
    }
    Ok(Removal::Waits(store.put(key.clone(), new)))
}

fn add_finalizer(object: &mut Value, propagation: Option<&str>) {
    let (wanted, other) = match propagation {
        Some("Foreground") => (Some(FOREGROUND), ORPHAN),
        Some("Orphan") => (Some(ORPHAN), FOREGROUND),
        Some(_) => (None, ""),
        None => return,
    };
    let mut list: Vec<Value> = field::list(object, "/metadata/finalizers").to_vec();
    match wanted {
        Some(wanted) => {
            list.retain(|f| f != other);
            if !list.iter().any(|f| f == wanted) {
                list.push(wanted.into());
            }
        }
        None => list.retain(|f| f != FOREGROUND && f != ORPHAN),
    }
    let metadata = field::map(object, "metadata");
    if list.is_empty() {
        metadata.remove("finalizers");
    } else {
        metadata.insert("finalizers".into(), list.into());
    }
}

/// Only a pod on a node that has not ended is given time, for its kubelet to stop it.
fn grace(object: &Value, asked: Option<i64>) -> i64 {
    let ended = matches!(field::text(object, "/status/phase"), "Succeeded" | "Failed");
    let on_node = !field::text(object, "/spec/nodeName").is_empty();
    if field::text(object, "/kind") != "Pod" || !on_node || ended {
        return 0;
    }
    let own = field::number(object, "/spec/terminationGracePeriodSeconds");
    asked.or(own).unwrap_or(30).max(0)
}

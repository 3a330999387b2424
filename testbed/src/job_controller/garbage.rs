//! Objects whose owners are gone, owners that wait for their dependants, namespaces in deletion,
//! and pods whose node is gone.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};

use super::{decide::TRACKING, jobs, uid};
use crate::api_server::{
    field,
    refusal::Refusal,
    removal::{self, FOREGROUND, ORPHAN},
    resource::RESOURCES,
    store::{Key, Store},
    write::{self, Part},
};

/// Removes the pods of a node that is gone: nobody is left to stop them.
pub(super) fn pods_of_node(store: &mut Store, node: &str, now: Timestamp) {
    if store.get(&Key::new("nodes", "", node)).is_some() {
        // Back already, under the same name.
        return;
    }
    let pods = keys(store, |key, object| {
        key.storage == "pods" && field::text(object, "/spec/nodeName") == node
    });
    for key in pods {
        force(store, &key, now);
    }
}

/// One look at everything.
pub(super) fn sweep(store: &mut Store, now: Timestamp) {
    let objects: Vec<(Key, Arc<Value>)> = store
        .all()
        .map(|(key, object)| (key.clone(), Arc::clone(object)))
        .collect();
    let owners: BTreeMap<String, Arc<Value>> = objects
        .iter()
        .map(|(_, o)| (uid(o).to_owned(), Arc::clone(o)))
        .collect();
    let mut blocked = BTreeSet::new();
    for (key, object) in &objects {
        let result = dependant(store, key, object, &owners, &mut blocked, now);
        log(key, result);
    }
    for (key, object) in &objects {
        if is_going(object) {
            log(key, going(store, key, object, &blocked, now));
        }
    }
}

fn log(key: &Key, result: Result<(), Refusal>) {
    if let Err(refusal) = result {
        tracing::warn!(kind = key.storage, namespace = %key.namespace, name = %key.name,
            error = %refusal, "garbage is not collected");
    }
}

fn is_going(object: &Value) -> bool {
    object.pointer("/metadata/deletionTimestamp").is_some()
}

fn has_finalizer(object: &Value, finalizer: &str) -> bool {
    field::list(object, "/metadata/finalizers")
        .iter()
        .any(|f| f == finalizer)
}

/// An owner of a kind that is not served can't be looked up: it is taken to be there.
fn is_served(reference: &Value) -> bool {
    RESOURCES.iter().any(|r| {
        r.kind == field::text(reference, "/kind")
            && r.api_version() == field::text(reference, "/apiVersion")
    })
}

fn dependant(
    store: &mut Store,
    key: &Key,
    object: &Value,
    owners: &BTreeMap<String, Arc<Value>>,
    blocked: &mut BTreeSet<String>,
    now: Timestamp,
) -> Result<(), Refusal> {
    let references = field::list(object, "/metadata/ownerReferences");
    if references.is_empty() {
        return Ok(());
    }
    let find = |reference: &Value| owners.get(field::text(reference, "/uid"));
    let gone = |reference: &&Value| is_served(reference) && find(reference).is_none();
    let orphaned = |reference: &&Value| {
        find(reference).is_some_and(|o| is_going(o) && has_finalizer(o, ORPHAN))
    };
    let (mut waits, mut blocks) = (false, Vec::new());
    for reference in references {
        let owner = find(reference);
        if owner.is_some_and(|o| is_going(o) && has_finalizer(o, FOREGROUND)) {
            waits = true;
            if reference.get("blockOwnerDeletion") == Some(&json!(true)) {
                blocks.push(field::text(reference, "/uid").to_owned());
            }
        }
    }
    if references.iter().any(|r| orphaned(&r)) {
        let kept: Vec<Value> = references
            .iter()
            .filter(|r| !orphaned(r))
            .cloned()
            .collect();
        let mut new = object.clone();
        field::map(&mut new, "metadata").insert("ownerReferences".into(), kept.into());
        let Some(context) = jobs::context(key.storage, now) else {
            return Ok(());
        };
        return write::update(store, &context, key, Part::Main, new).map(drop);
    }
    // A pod kept for a Job to count it, when no such Job is left.
    if key.storage == "pods"
        && has_finalizer(object, TRACKING)
        && references.iter().all(|r| gone(&r))
    {
        jobs::release(store, key, TRACKING, now)?;
    }
    let all_gone = references.iter().all(|r| gone(&r));
    if (all_gone || waits) && !is_going(object) {
        delete(store, key, now)?;
    }
    if store.get(key).is_some() {
        blocked.extend(blocks);
    }
    Ok(())
}

/// An object in deletion: lets go what only waits for this sweep.
fn going(
    store: &mut Store,
    key: &Key,
    object: &Value,
    blocked: &BTreeSet<String>,
    now: Timestamp,
) -> Result<(), Refusal> {
    if has_finalizer(object, ORPHAN) {
        jobs::release(store, key, ORPHAN, now)?;
    }
    if has_finalizer(object, FOREGROUND) && !blocked.contains(uid(object)) {
        jobs::release(store, key, FOREGROUND, now)?;
    }
    let node = field::text(object, "/spec/nodeName");
    match key.storage {
        "pods" if !node.is_empty() && store.get(&Key::new("nodes", "", node)).is_none() => {
            force(store, key, now);
        }
        "namespaces" => {
            let content = keys(store, |k, o| k.namespace == key.name && !is_going(o));
            for key in content {
                delete(store, &key, now)?;
            }
            if keys(store, |k, _| k.namespace == key.name).is_empty() {
                store.remove(key);
            }
        }
        _ => {}
    }
    Ok(())
}

fn keys(store: &Store, wanted: impl Fn(&Key, &Value) -> bool) -> Vec<Key> {
    store
        .all()
        .filter(|(key, object)| wanted(key, object))
        .map(|(key, _)| key.clone())
        .collect()
}

fn delete(store: &mut Store, key: &Key, now: Timestamp) -> Result<(), Refusal> {
    let Some(context) = jobs::context(key.storage, now) else {
        return Ok(());
    };
    if store.get(key).is_none() {
        return Ok(());
    }
    let options = removal::Options {
        propagation: Some("Background".into()),
        ..removal::Options::default()
    };
    removal::delete(store, &context, key, &options).map(drop)
}

fn force(store: &mut Store, key: &Key, now: Timestamp) {
    let Some(context) = jobs::context(key.storage, now) else {
        return;
    };
    let options = removal::Options {
        grace: Some(0),
        ..removal::Options::default()
    };
    if store.get(key).is_some() {
        log(
            key,
            removal::delete(store, &context, key, &options).map(drop),
        );
    }
}

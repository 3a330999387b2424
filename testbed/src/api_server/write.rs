//! Creating, updating and patching: pure but for the store, the time comes in.

use std::sync::Arc;

use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};

use super::{
    clock, defaults, field, merge,
    refusal::{Cause, Refusal},
    resource::Resource,
    store::{Key, Store},
    strategy, validate,
};

/// What every write knows besides its body.
#[derive(Debug, Clone, Copy)]
pub struct Context {
    /// Which kind.
    pub resource: &'static Resource,
    /// Now.
    pub now: Timestamp,
    /// Answer as if it were done, and do nothing.
    pub dry_run: bool,
}

/// The part of an object that a request writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// All but the status, where the kind has that as a subresource.
    Main,
    /// The status.
    Status,
}

/// How a patch is to be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PatchKind {
    /// RFC 6902.
    Json,
    /// RFC 7386.
    Merge,
    /// Kubernetes' own.
    Strategic,
    /// Server-side apply, without ownership of fields.
    Apply,
}

impl Context {
    /// The key of an object of this kind.
    pub fn key(&self, namespace: &str, name: &str) -> Key {
        Key::new(self.resource.storage, namespace, name)
    }

    fn commit(&self, store: &mut Store, key: Key, object: Value) -> Arc<Value> {
        if self.dry_run {
            Arc::new(object)
        } else {
            store.put(key, object)
        }
    }

    /// Makes the body an object of this kind and place, or refuses.
    fn place(&self, body: &mut Value, namespace: &str) -> Result<(), Refusal> {
        let resource = self.resource;
        if !body.is_object() {
            return Err(Refusal::bad_request("the body is not a JSON object"));
        }
        let (kind, version) = (field::text(body, "/kind"), field::text(body, "/apiVersion"));
        let wanted = resource.api_version();
        if !matches!(kind, "") && kind != resource.kind || !version.is_empty() && version != wanted
        {
            return Err(Refusal::bad_request(format!(
                "{kind} in version {version:?} cannot be handled as a {} in version {wanted:?}",
                resource.kind
            )));
        }
        let given = field::text(body, "/metadata/namespace");
        if !given.is_empty() && given != namespace {
            return Err(Refusal::bad_request(
                "the namespace of the provided object does not match the namespace sent on the request",
            ));
        }
        field::drop_nulls(body);
        defaults::quantities(body);
        let fields = field::as_map(body);
        fields.insert("kind".into(), resource.kind.into());
        fields.insert("apiVersion".into(), wanted.into());
        let metadata = field::map(body, "metadata");
        metadata.remove("managedFields");
        metadata.remove("selfLink");
        if resource.namespaced {
            metadata.insert("namespace".into(), namespace.into());
        } else {
            metadata.remove("namespace");
        }
        Ok(())
    }

    fn check(&self, object: &Value, mut causes: Vec<Cause>) -> Result<(), Refusal> {
        causes.extend(validate::object(self.resource, object));
        if causes.is_empty() {
            return Ok(());
        }
        let name = field::text(object, "/metadata/name");
        Err(Refusal::invalid(self.resource, name, &causes))
    }
}

/// Creates an object.
pub fn create(
    store: &mut Store,
    context: &Context,
    namespace: &str,
    mut object: Value,
) -> Result<Arc<Value>, Refusal> {
    context.place(&mut object, namespace)?;
    let version = field::text(&object, "/metadata/resourceVersion");
    if !matches!(version, "" | "0") {
        return Err(Refusal::bad_request(
            "resourceVersion should not be set on objects to be created",
        ));
    }
    let metadata = field::map(&mut object, "metadata");
    for unset in [
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "generation",
    ] {
        metadata.remove(unset);
    }
    metadata.insert("uid".into(), clock::uid().into());
    metadata.insert(
        "creationTimestamp".into(),
        clock::seconds(context.now).into(),
    );
    let generate = metadata
        .get("generateName")
        .and_then(Value::as_str)
        .unwrap_or_default();
    if !metadata.contains_key("name") && !generate.is_empty() {
        // Room for the suffix in a label.
        let prefix: String = generate.chars().take(58).collect();
        metadata.insert("name".into(), format!("{prefix}{}", clock::suffix()).into());
    }
    if context.resource.namespaced {
        namespace_takes(store, context, namespace, &object)?;
    }
    strategy::create(store, context, &mut object)?;
    context.check(&object, Vec::new())?;
    let name = field::text(&object, "/metadata/name").to_owned();
    let key = context.key(namespace, &name);
    if store.get(&key).is_some() {
        return Err(Refusal::already_exists(context.resource, &name));
    }
    Ok(context.commit(store, key, object))
}

fn namespace_takes(
    store: &Store,
    context: &Context,
    namespace: &str,
    object: &Value,
) -> Result<(), Refusal> {
    let namespaces = super::resource::of_storage("namespaces");
    let found = store.get(&Key::new("namespaces", "", namespace));
    match (found, namespaces) {
        (Some(found), _) if found.pointer("/metadata/deletionTimestamp").is_some() => {
            let name = field::text(object, "/metadata/name");
            let why = format!(
                "unable to create new content in namespace {namespace} because it is being terminated"
            );
            Err(Refusal::forbidden(context.resource, name, &why))
        }
        (None, Some(namespaces)) => Err(Refusal::not_found(namespaces, namespace)),
        _ => Ok(()),
    }
}

/// Replaces an object or its status.
pub fn update(
    store: &mut Store,
    context: &Context,
    key: &Key,
    part: Part,
    mut new: Value,
) -> Result<Arc<Value>, Refusal> {
    let resource = context.resource;
    context.place(&mut new, &key.namespace)?;
    let name = field::text(&new, "/metadata/name").to_owned();
    if name != key.name {
        return Err(Refusal::bad_request(format!(
            "the name of the object ({name}) does not match the name on the URL ({})",
            key.name
        )));
    }
    let version = field::text(&new, "/metadata/resourceVersion").to_owned();
    let Some(old) = store.get(key).cloned() else {
        // These kinds are made by the first update.
        if matches!(resource.storage, "leases" | "events") && version.is_empty() {
            return create(store, context, &key.namespace, new);
        }
        return Err(Refusal::not_found(resource, &key.name));
    };
    if version.is_empty() {
        if matches!(resource.storage, "leases" | "runtimeclasses") {
            let at = "metadata.resourceVersion";
            let cause = Cause::invalid(at, "0", "must be specified for an update");
            return Err(Refusal::invalid(resource, &name, &[cause]));
        }
    } else if version != field::text(&old, "/metadata/resourceVersion") {
        return Err(Refusal::stale(resource, &name));
    }
    let uid = field::text(&new, "/metadata/uid");
    let own = field::text(&old, "/metadata/uid");
    if !uid.is_empty() && uid != own {
        let why =
            format!("Precondition failed: UID in precondition: {uid}, UID in object meta: {own}");
        return Err(Refusal::conflict(resource, &name, &why));
    }
    keep_metadata(&mut new, &old);
    let causes = strategy::update(context, &old, &mut new, part);
    context.check(&new, causes)?;
    if new == *old {
        // Nothing changes: no write, no event for watchers.
        return Ok(old);
    }
    if is_released(&new) && !context.dry_run {
        store.put(key.clone(), new);
        return store
            .remove(key)
            .ok_or_else(|| Refusal::not_found(resource, &name));
    }
    Ok(context.commit(store, key.clone(), new))
}

/// The fields that no update changes.
fn keep_metadata(new: &mut Value, old: &Value) {
    let empty = json!({});
    let old = old.get("metadata").unwrap_or(&empty);
    let Some(metadata) = new.get_mut("metadata") else {
        return;
    };
    for kept in [
        "uid",
        "creationTimestamp",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "generateName",
        "generation",
        "resourceVersion",
    ] {
        field::carry(metadata, old, kept);
    }
}

/// An object in deletion whose last finalizer is gone, and whose node need not stop it first.
fn is_released(object: &Value) -> bool {
    object.pointer("/metadata/deletionTimestamp").is_some()
        && field::list(object, "/metadata/finalizers").is_empty()
        && field::number(object, "/metadata/deletionGracePeriodSeconds").unwrap_or(0) == 0
        && object.pointer("/kind").and_then(Value::as_str) != Some("Namespace")
}

/// Patches an object or its status; apply creates what is missing.
pub fn patch(
    store: &mut Store,
    context: &Context,
    key: &Key,
    part: Part,
    (kind, body): (PatchKind, Value),
) -> Result<Arc<Value>, Refusal> {
    let Some(old) = store.get(key).cloned() else {
        if kind == PatchKind::Apply && part == Part::Main {
            let mut object = body;
            named(context.resource, &mut object, &key.name)?;
            return create(store, context, &key.namespace, object);
        }
        return Err(Refusal::not_found(context.resource, &key.name));
    };
    let mut new = (*old).clone();
    match kind {
        PatchKind::Json => {
            let patch: json_patch::Patch = serde_json::from_value(body)
                .map_err(|e| Refusal::bad_request(format!("not a JSON Patch: {e}")))?;
            json_patch::patch(&mut new, &patch).map_err(|e| {
                Refusal::unprocessable(format!(
                    "the server rejected our request due to an error in our request: {e}"
                ))
            })?;
        }
        PatchKind::Merge => json_patch::merge(&mut new, &body),
        PatchKind::Strategic => merge::strategic(&mut new, &body),
        PatchKind::Apply => {
            let mut body = body;
            named(context.resource, &mut body, &key.name)?;
            field::map(&mut body, "metadata").remove("managedFields");
            merge::strategic(&mut new, &body);
        }
    }
    update(store, context, key, part, new)
}

fn named(resource: &Resource, object: &mut Value, name: &str) -> Result<(), Refusal> {
    let kind = field::text(object, "/kind");
    if kind != resource.kind || field::text(object, "/apiVersion") != resource.api_version() {
        return Err(Refusal::bad_request(format!(
            "an applied object must have apiVersion {} and kind {}",
            resource.api_version(),
            resource.kind
        )));
    }
    field::default(field::map(object, "metadata"), "name", name);
    Ok(())
}

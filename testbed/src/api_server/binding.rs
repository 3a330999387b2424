//! `pods/<name>/binding`: node, annotations and labels in one write.

use serde_json::{Value, json};

use super::{
    clock, field,
    refusal::{Cause, Refusal},
    store::{Key, Store},
    write::Context,
};

/// Binds a pod to a node. The node need not exist, as in the real server.
pub(super) fn bind(
    store: &mut Store,
    context: &Context,
    key: &Key,
    binding: &Value,
) -> Result<(), Refusal> {
    let pods = context.resource;
    let node = field::text(binding, "/target/name");
    let mut causes = Vec::new();
    if node.is_empty() {
        causes.push(Cause::required("target.name", ""));
    }
    let kind = field::text(binding, "/target/kind");
    if !matches!(kind, "" | "Node") {
        causes.push(Cause::invalid(
            "target.kind",
            kind,
            "must be empty, or 'Node'",
        ));
    }
    if !causes.is_empty() {
        return Err(Refusal::invalid(pods, &key.name, &causes));
    }
    let Some(pod) = store.get(key) else {
        return Err(Refusal::not_found(pods, &key.name));
    };
    let refuse = |why: String| {
        let mut refusal = Refusal::conflict(pods, &key.name, &why);
        refusal.message = refusal.message.replacen(" pods ", " pods/binding ", 1);
        Err(refusal)
    };
    let (wanted, own) = (
        field::text(binding, "/metadata/uid"),
        field::text(pod, "/metadata/uid"),
    );
    if !wanted.is_empty() && wanted != own {
        return refuse(format!(
            "Precondition failed: UID in precondition: {wanted}, UID in object meta: {own}"
        ));
    }
    let name = &key.name;
    if pod.pointer("/metadata/deletionTimestamp").is_some() {
        return refuse(format!(
            "pod {name} is being deleted, cannot be assigned to a host"
        ));
    }
    let bound = field::text(pod, "/spec/nodeName");
    if !bound.is_empty() {
        return refuse(format!("pod {name} is already assigned to node {bound:?}"));
    }
    if !field::list(pod, "/spec/schedulingGates").is_empty() {
        return refuse(format!("pod {name} has non-empty .spec.schedulingGates"));
    }
    let mut new = (**pod).clone();
    field::map(&mut new, "spec").insert("nodeName".into(), node.into());
    let metadata = field::map(&mut new, "metadata");
    for field_name in ["annotations", "labels"] {
        let pointer = format!("/metadata/{field_name}");
        let Some(given) = binding.pointer(&pointer).and_then(Value::as_object) else {
            continue;
        };
        let own = field::as_map(metadata.entry(field_name).or_insert(Value::Null));
        own.extend(given.clone());
    }
    set_scheduled(&mut new, &clock::seconds(context.now));
    if !context.dry_run {
        store.put(key.clone(), new);
    }
    Ok(())
}

fn set_scheduled(pod: &mut Value, now: &str) {
    let status = field::map(pod, "status");
    let conditions = status.entry("conditions").or_insert_with(|| json!([]));
    if let Some(conditions) = conditions.as_array_mut() {
        conditions.retain(|c| field::text(c, "/type") != "PodScheduled");
        conditions.push(json!({"type": "PodScheduled", "status": "True",
            "lastProbeTime": null, "lastTransitionTime": now}));
    }
}

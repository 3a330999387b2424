//! What is particular to a kind when its objects are written.

use serde_json::{Value, json};

use super::{
    defaults, field,
    refusal::{Cause, Refusal},
    resource::Resource,
    store::Store,
    write::{Context, Part},
};

/// Prepares a new object.
pub(super) fn create(store: &Store, context: &Context, object: &mut Value) -> Result<(), Refusal> {
    match context.resource.storage {
        "pods" => {
            let priority = priority(store, context.resource, object)?;
            let spec = field::map(object, "spec");
            for (name, value) in priority {
                spec.insert(name.into(), value);
            }
            if let Some(spec) = object.get_mut("spec") {
                defaults::pod_spec(spec);
                defaults::tolerations(spec);
            }
            let class = defaults::qos_class(object.get("spec").unwrap_or(&Value::Null));
            let status = json!({"phase": "Pending", "qosClass": class});
            field::as_map(object).insert("status".into(), status);
        }
        "jobs" => {
            defaults::job(object);
            field::as_map(object).insert("status".into(), json!({}));
        }
        "namespaces" => {
            let name = field::text(object, "/metadata/name").to_owned();
            field::map(object, "spec").insert("finalizers".into(), json!(["kubernetes"]));
            field::as_map(object).insert("status".into(), json!({"phase": "Active"}));
            let metadata = field::map(object, "metadata");
            let labels = field::as_map(metadata.entry("labels").or_insert(Value::Null));
            labels.insert("kubernetes.io/metadata.name".into(), name.into());
        }
        "deployments" | "daemonsets" => {
            if let Some(spec) = object.pointer_mut("/spec/template/spec") {
                defaults::pod_spec(spec);
            }
            field::as_map(object).insert("status".into(), json!({}));
        }
        // A kubelet creates its Node with status.
        _ => {}
    }
    if has_generation(context.resource) {
        field::map(object, "metadata").insert("generation".into(), json!(1));
    }
    Ok(())
}

/// Core kinds have no generation here.
fn has_generation(resource: &Resource) -> bool {
    matches!(resource.group, "apps" | "batch" | "policy")
}

/// The priority that the pod's class has, as admission computes it.
fn priority(
    store: &Store,
    pods: &Resource,
    pod: &Value,
) -> Result<Vec<(&'static str, Value)>, Refusal> {
    let class = field::text(pod, "/spec/priorityClassName");
    let name = field::text(pod, "/metadata/name");
    let stored = |wanted: &dyn Fn(&Value) -> bool| {
        store
            .range("priorityclasses", None, None)
            .map(|(_, c)| c)
            .find(|c| wanted(c))
            .cloned()
    };
    let (value, policy) = match class {
        "system-node-critical" => (2_000_001_000, None),
        "system-cluster-critical" => (2_000_000_000, None),
        class => {
            let found = if class.is_empty() {
                stored(&|c| c.get("globalDefault") == Some(&json!(true)))
            } else {
                let found = stored(&|c| field::text(c, "/metadata/name") == class);
                if found.is_none() {
                    let why = format!("no PriorityClass with name {class} was found");
                    return Err(Refusal::forbidden(pods, name, &why));
                }
                found
            };
            let value = found.as_ref().and_then(|c| field::number(c, "/value"));
            let policy = found
                .as_ref()
                .and_then(|c| c.get("preemptionPolicy").cloned());
            (value.unwrap_or(0), policy)
        }
    };
    if field::number(pod, "/spec/priority").is_some_and(|given| given != value) {
        let why = format!(
            "the integer value of priority must not be provided in pod spec; priority admission controller computed {value} from the given PriorityClass name"
        );
        return Err(Refusal::forbidden(pods, name, &why));
    }
    let policy = policy.unwrap_or_else(|| json!("PreemptLowerPriority"));
    Ok(vec![
        ("priority", json!(value)),
        ("preemptionPolicy", policy),
    ])
}

/// Prepares an update: puts back what this part of the object may not change, and tells which
/// changes are not allowed at all.
pub(super) fn update(context: &Context, old: &Value, new: &mut Value, part: Part) -> Vec<Cause> {
    let resource = context.resource;
    let mut causes = Vec::new();
    match part {
        Part::Status => {
            // Labels and annotations go through with a status, as in the real server.
            field::carry(new, old, "spec");
            if resource.storage == "pods" {
                let owners = old.pointer("/metadata/ownerReferences").cloned();
                let metadata = field::map(new, "metadata");
                match owners {
                    Some(owners) => metadata.insert("ownerReferences".into(), owners),
                    None => metadata.remove("ownerReferences"),
                };
            }
        }
        Part::Main if resource.subresources.contains(&"status") => {
            field::carry(new, old, "status");
            match resource.storage {
                "pods" => pod_update(old, new, &mut causes),
                "jobs" => job_update(old, new, &mut causes),
                _ => {}
            }
        }
        Part::Main => {}
    }
    finalizers(old, new, &mut causes);
    if has_generation(resource) && new.get("spec") != old.get("spec") {
        let next = field::number(old, "/metadata/generation").unwrap_or(0) + 1;
        field::map(new, "metadata").insert("generation".into(), json!(next));
    }
    causes
}

fn finalizers(old: &Value, new: &Value, causes: &mut Vec<Cause>) {
    if old.pointer("/metadata/deletionTimestamp").is_none() {
        return;
    }
    let had = field::list(old, "/metadata/finalizers");
    let added = field::list(new, "/metadata/finalizers");
    if added.iter().any(|f| !had.contains(f)) {
        let why = "no new finalizers can be added if the object is being deleted";
        causes.push(Cause::forbidden("metadata.finalizers", why));
    }
}

fn pod_update(old: &Value, new: &mut Value, causes: &mut Vec<Cause>) {
    if let Some(spec) = new.get_mut("spec") {
        defaults::pod_spec(spec);
    }
    let fixed = |pod: &Value| {
        let mut spec = pod.get("spec").cloned().unwrap_or_default();
        for kind in ["initContainers", "containers"] {
            for container in spec
                .get_mut(kind)
                .and_then(Value::as_array_mut)
                .into_iter()
                .flatten()
            {
                field::as_map(container).remove("image");
            }
        }
        let fields = field::as_map(&mut spec);
        for free in [
            "activeDeadlineSeconds",
            "tolerations",
            "terminationGracePeriodSeconds",
            "schedulingGates",
        ] {
            fields.remove(free);
        }
        spec
    };
    if fixed(old) != fixed(new) {
        causes.push(Cause::forbidden(
            "spec",
            "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)",
        ));
    }
}

fn job_update(old: &Value, new: &mut Value, causes: &mut Vec<Cause>) {
    if let Some(spec) = new.pointer_mut("/spec/template/spec") {
        defaults::pod_spec(spec);
    }
    for name in ["template", "selector", "completionMode"] {
        let pointer = format!("/spec/{name}");
        if old.pointer(&pointer) != new.pointer(&pointer) {
            let shown = new
                .pointer(&pointer)
                .map(Value::to_string)
                .unwrap_or_default();
            causes.push(Cause::invalid(
                format!("spec.{name}"),
                &shown,
                "field is immutable",
            ));
        }
    }
}

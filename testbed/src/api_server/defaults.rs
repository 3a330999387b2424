//! What the API server fills in when an object is created.

use serde_json::{Map, Value, json};

use super::field;
use crate::quantity;

/// Writes numbers among quantities as text, as the API server answers them.
pub(crate) fn quantities(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                match (name.as_str(), value) {
                    (
                        "limits" | "requests" | "capacity" | "allocatable",
                        Value::Object(amounts),
                    ) => {
                        for amount in amounts.values_mut().filter(|a| a.is_number()) {
                            *amount = amount.to_string().into();
                        }
                    }
                    (_, value) => quantities(value),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(quantities),
        _ => {}
    }
}

/// Fills in a pod's spec.
pub(super) fn pod_spec(spec: &mut Value) {
    let fields = field::as_map(spec);
    for (name, value) in [
        ("restartPolicy", json!("Always")),
        ("schedulerName", json!("default-scheduler")),
        ("terminationGracePeriodSeconds", json!(30)),
        ("dnsPolicy", json!("ClusterFirst")),
        ("enableServiceLinks", json!(true)),
        ("securityContext", json!({})),
    ] {
        field::default(fields, name, value);
    }
    for kind in ["initContainers", "containers"] {
        let containers = spec.get_mut(kind).and_then(Value::as_array_mut);
        containers.into_iter().flatten().for_each(container);
    }
}

fn container(container: &mut Value) {
    let image = field::text(container, "/image").to_owned();
    let tag = image.rsplit('/').next().unwrap_or_default();
    let latest = !tag.contains([':', '@']) || tag.ends_with(":latest");
    let fields = field::as_map(container);
    let policy = if latest { "Always" } else { "IfNotPresent" };
    field::default(fields, "imagePullPolicy", policy);
    field::default(fields, "terminationMessagePath", "/dev/termination-log");
    field::default(fields, "terminationMessagePolicy", "File");
    field::default(fields, "resources", json!({}));
    let ports = fields.get_mut("ports").and_then(Value::as_array_mut);
    for port in ports.into_iter().flatten() {
        field::default(field::as_map(port), "protocol", "TCP");
    }
    let limits = container
        .pointer("/resources/limits")
        .and_then(Value::as_object)
        .cloned();
    let Some(limits) = limits else { return };
    if let Some(resources) = container.get_mut("resources") {
        let requests = field::map(resources, "requests");
        for (name, limit) in limits {
            field::default(requests, &name, limit);
        }
    }
}

/// Nodes without a working kubelet keep pods for five minutes.
pub(super) fn tolerations(spec: &mut Value) {
    let fields = field::as_map(spec);
    let tolerations = fields.entry("tolerations").or_insert_with(|| json!([]));
    let Some(list) = tolerations.as_array_mut() else {
        return;
    };
    for key in [
        "node.kubernetes.io/not-ready",
        "node.kubernetes.io/unreachable",
    ] {
        let tolerated = list.iter().any(|t| {
            let (its, effect) = (field::text(t, "/key"), field::text(t, "/effect"));
            (its == key || its.is_empty()) && matches!(effect, "" | "NoExecute")
        });
        if !tolerated {
            list.push(
                json!({"key": key, "operator": "Exists", "effect": "NoExecute",
                "tolerationSeconds": 300}),
            );
        }
    }
}

/// A pod's class: of CPU and memory alone.
pub(super) fn qos_class(spec: &Value) -> &'static str {
    let (mut any, mut guaranteed) = (false, true);
    for kind in ["/initContainers", "/containers"] {
        for container in field::list(spec, kind) {
            for name in ["cpu", "memory"] {
                let amount = |which: &str| {
                    container
                        .pointer(&format!("/resources/{which}/{name}"))
                        .and_then(quantity::parse)
                        .filter(|q| q.0 > 0)
                };
                let (request, limit) = (amount("requests"), amount("limits"));
                any |= request.is_some() || limit.is_some();
                guaranteed &= limit.is_some() && request == limit;
            }
        }
    }
    match (any, guaranteed) {
        (false, _) => "BestEffort",
        (true, true) => "Guaranteed",
        (true, false) => "Burstable",
    }
}

/// Fills in a Job whose UID is known: its selector and its template's labels name it.
pub(super) fn job(job: &mut Value) {
    let (name, uid) = (
        field::text(job, "/metadata/name").to_owned(),
        field::text(job, "/metadata/uid").to_owned(),
    );
    let spec = field::map(job, "spec");
    let unset = |spec: &Map<String, Value>, name: &str| spec.get(name).is_none_or(Value::is_null);
    if unset(spec, "completions") && unset(spec, "parallelism") {
        spec.insert("completions".into(), json!(1));
    }
    for (name, value) in [
        ("parallelism", json!(1)),
        ("backoffLimit", json!(6)),
        ("completionMode", json!("NonIndexed")),
        ("suspend", json!(false)),
        ("podReplacementPolicy", json!("TerminatingOrFailed")),
    ] {
        field::default(spec, name, value);
    }
    spec.insert(
        "selector".into(),
        json!({"matchLabels": {"batch.kubernetes.io/controller-uid": uid}}),
    );
    let template = spec.entry("template").or_insert_with(|| json!({}));
    let metadata = field::as_map(template)
        .entry("metadata")
        .or_insert_with(|| json!({}));
    let labels = field::map(metadata, "labels");
    for (key, value) in [
        ("batch.kubernetes.io/controller-uid", &uid),
        ("batch.kubernetes.io/job-name", &name),
        ("controller-uid", &uid),
        ("job-name", &name),
    ] {
        labels.insert(key.into(), json!(value));
    }
    if let Some(spec) = template.get_mut("spec") {
        pod_spec(spec);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_default_to_limits_and_keep_their_own() {
        let mut spec = json!({"containers": [{"image": "a/b:1", "resources": {
            "limits": {"a.io/gpu": "1", "cpu": "2"}, "requests": {"cpu": "1"}}}]});
        pod_spec(&mut spec);
        let container = &spec["containers"][0];
        assert_eq!(
            container["resources"]["requests"],
            json!({"a.io/gpu": "1", "cpu": "1"})
        );
        assert_eq!(container["imagePullPolicy"], "IfNotPresent");
        assert_eq!(spec["restartPolicy"], "Always");
    }

    #[test]
    fn the_class_of_a_pod_comes_from_cpu_and_memory() {
        let spec = |resources: Value| json!({"containers": [{"resources": resources}]});
        let both = json!({"cpu": "1", "memory": "1Gi"});
        assert_eq!(
            qos_class(&spec(json!({"limits": {"a.io/gpu": "1"}}))),
            "BestEffort"
        );
        assert_eq!(qos_class(&spec(json!({"requests": both}))), "Burstable");
        assert_eq!(
            qos_class(&spec(json!({"requests": both, "limits": both}))),
            "Guaranteed"
        );
    }

    #[test]
    fn a_job_is_found_again_in_its_pods() {
        let mut object = json!({"metadata": {"name": "j", "uid": "u"}, "spec": {"template": {
            "spec": {"restartPolicy": "Never", "containers": []}}}});
        job(&mut object);
        let labels = &object["spec"]["template"]["metadata"]["labels"];
        assert_eq!(labels["job-name"], "j");
        assert_eq!(labels["batch.kubernetes.io/controller-uid"], "u");
        assert_eq!(object["spec"]["completions"], 1);
    }
}

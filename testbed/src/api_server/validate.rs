//! The rules that objects must meet, as far as users of a test cluster can break them.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{field, refusal::Cause, resource::Resource};
use crate::quantity;

/// Most bytes of all annotations of an object.
const MOST_ANNOTATION_BYTES: usize = 256 << 10;

/// All rules that the object breaks.
pub(super) fn object(resource: &Resource, object: &Value) -> Vec<Cause> {
    let mut causes = Vec::new();
    metadata(resource, object, &mut causes);
    match resource.storage {
        "pods" => pod_spec(object, "spec", "/spec", &mut causes),
        "jobs" => job(object, &mut causes),
        "leases" => {
            if let Some(seconds) = field::number(object, "/spec/leaseDurationSeconds")
                && seconds <= 0
            {
                let at = "spec.leaseDurationSeconds";
                causes.push(Cause::invalid(
                    at,
                    &seconds.to_string(),
                    "must be greater than 0",
                ));
            }
        }
        _ => {}
    }
    causes
}

fn metadata(resource: &Resource, object: &Value, causes: &mut Vec<Cause>) {
    let name = field::text(object, "/metadata/name");
    let problem = match resource.storage {
        "namespaces" | "services" => label_problem(name),
        // RBAC names may hold anything that can stand in a path.
        "roles" | "rolebindings" | "clusterroles" | "clusterrolebindings" => None,
        _ => subdomain_problem(name),
    };
    if name.is_empty() {
        causes.push(Cause::required(
            "metadata.name",
            "name or generateName is required",
        ));
    } else if let Some(problem) = problem {
        causes.push(Cause::invalid("metadata.name", name, problem));
    }
    labels(object, "metadata.labels", "/metadata/labels", causes);
    let mut bytes = 0;
    for (key, value) in field::pairs(object, "/metadata/annotations") {
        bytes += key.len() + value.len();
        // Annotation keys are checked in lower case.
        if let Some(problem) = qualified_name_problem(&key.to_lowercase()) {
            causes.push(Cause::invalid("metadata.annotations", key, problem));
        }
    }
    if bytes > MOST_ANNOTATION_BYTES {
        causes.push(Cause {
            field: "metadata.annotations".into(),
            reason: "FieldValueTooLong",
            message: format!("Too long: may not be more than {MOST_ANNOTATION_BYTES} bytes"),
        });
    }
    not_text(object, "metadata.labels", "/metadata/labels", causes);
    not_text(
        object,
        "metadata.annotations",
        "/metadata/annotations",
        causes,
    );
}

fn not_text(object: &Value, at: &str, pointer: &str, causes: &mut Vec<Cause>) {
    let Some(fields) = object.pointer(pointer).and_then(Value::as_object) else {
        return;
    };
    for (key, value) in fields {
        if !value.is_string() {
            causes.push(Cause::invalid(
                format!("{at}.{key}"),
                &value.to_string(),
                "must be a string",
            ));
        }
    }
}

fn labels(object: &Value, at: &str, pointer: &str, causes: &mut Vec<Cause>) {
    for (key, value) in field::pairs(object, pointer) {
        if let Some(problem) = qualified_name_problem(key) {
            causes.push(Cause::invalid(at, key, problem));
        }
        if let Some(problem) = label_value_problem(value) {
            causes.push(Cause::invalid(at, value, problem));
        }
    }
}

fn job(object: &Value, causes: &mut Vec<Cause>) {
    // The name becomes a label value of the pods.
    labels(
        object,
        "spec.template.labels",
        "/spec/template/metadata/labels",
        causes,
    );
    let at = "spec.template.spec.restartPolicy";
    match field::text(object, "/spec/template/spec/restartPolicy") {
        "Never" | "OnFailure" => {}
        "" => causes.push(Cause::required(
            at,
            "valid values: \"OnFailure\", \"Never\"",
        )),
        other => causes.push(Cause::invalid(
            at,
            other,
            "supported values: \"OnFailure\", \"Never\"",
        )),
    }
    pod_spec(object, "spec.template.spec", "/spec/template/spec", causes);
}

fn pod_spec(object: &Value, at: &str, pointer: &str, causes: &mut Vec<Cause>) {
    let mut names = BTreeSet::new();
    if field::list(object, &format!("{pointer}/containers")).is_empty() {
        causes.push(Cause::required(format!("{at}.containers"), ""));
    }
    for kind in ["initContainers", "containers"] {
        let containers = field::list(object, &format!("{pointer}/{kind}"));
        for (index, container) in containers.iter().enumerate() {
            let at = format!("{at}.{kind}[{index}]");
            let name = field::text(container, "/name");
            if name.is_empty() {
                causes.push(Cause::required(format!("{at}.name"), ""));
            } else if let Some(problem) = label_problem(name) {
                causes.push(Cause::invalid(format!("{at}.name"), name, problem));
            } else if !names.insert(name) {
                causes.push(Cause {
                    field: format!("{at}.name"),
                    reason: "FieldValueDuplicate",
                    message: format!("Duplicate value: {name:?}"),
                });
            }
            if field::text(container, "/image").is_empty() {
                causes.push(Cause::required(format!("{at}.image"), ""));
            }
            resources(container, &at, causes);
        }
    }
}

fn resources(container: &Value, at: &str, causes: &mut Vec<Cause>) {
    let limits = container
        .pointer("/resources/limits")
        .and_then(Value::as_object);
    let requests = container
        .pointer("/resources/requests")
        .and_then(Value::as_object);
    for (which, amounts) in [("limits", limits), ("requests", requests)] {
        for (name, value) in amounts.into_iter().flatten() {
            let at = format!("{at}.resources.{which}[{name}]");
            let shown = value
                .as_str()
                .map_or_else(|| value.to_string(), str::to_owned);
            match quantity::parse(value) {
                None => causes.push(Cause::invalid(at, &shown, "must be a quantity")),
                Some(amount) if amount.0 < 0 => {
                    causes.push(Cause::invalid(
                        at,
                        &shown,
                        "must be greater than or equal to 0",
                    ));
                }
                Some(amount) if is_extended(name) && !amount.is_whole() => {
                    causes.push(Cause::invalid(at, &shown, "must be an integer"));
                }
                Some(_) => {}
            }
            if !is_native(name) && qualified_name_problem(name).is_some() {
                let at = format!("resources.{which}");
                causes.push(Cause::invalid(
                    at,
                    name,
                    "must be a qualified resource name",
                ));
            }
        }
    }
    for (name, request) in requests.into_iter().flatten() {
        let limit = limits.and_then(|l| l.get(name));
        let (asked, most) = (quantity::parse(request), limit.and_then(quantity::parse));
        let at = format!("{at}.resources.requests");
        let shown = request.as_str().unwrap_or_default();
        if is_extended(name) && asked != most {
            // Devices can't be overcommitted.
            causes.push(Cause::invalid(
                at,
                shown,
                &format!("must be equal to {name} limit"),
            ));
        } else if let (Some(asked), Some(most)) = (asked, most)
            && asked > most
        {
            let why = format!("must be less than or equal to {name} limit");
            causes.push(Cause::invalid(at, shown, &why));
        }
    }
}

/// Whether Kubernetes itself defines the resource.
fn is_native(name: &str) -> bool {
    !name.contains('/') || name.contains("kubernetes.io/")
}

/// Whether a device plugin or an administrator defines the resource.
pub(super) fn is_extended(name: &str) -> bool {
    !is_native(name) && !name.starts_with("requests.")
}

fn label_problem(name: &str) -> Option<&'static str> {
    let ok = name.len() <= 63
        && starts_and_ends_well(name, |c| c.is_ascii_lowercase() || c.is_ascii_digit())
        && name
            .bytes()
            .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == b'-');
    (!ok).then_some(
        "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character, no more than 63 characters",
    )
}

fn subdomain_problem(name: &str) -> Option<&'static str> {
    let part_ok = |part: &str| {
        starts_and_ends_well(part, |c| c.is_ascii_lowercase() || c.is_ascii_digit())
            && part
                .bytes()
                .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == b'-')
    };
    let ok = name.len() <= 253 && name.split('.').all(part_ok);
    (!ok).then_some(
        "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character, no more than 253 characters",
    )
}

fn label_value_problem(value: &str) -> Option<&'static str> {
    if value.len() > 63 {
        return Some("must be no more than 63 characters");
    }
    let ok = value.is_empty()
        || starts_and_ends_well(value, |c| c.is_ascii_alphanumeric())
            && value
                .bytes()
                .all(|c| c.is_ascii_alphanumeric() || b"-_.".contains(&c));
    (!ok).then_some(
        "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character",
    )
}

fn qualified_name_problem(key: &str) -> Option<&'static str> {
    let (prefix, name) = match key.split_once('/') {
        Some((prefix, name)) => (Some(prefix), name),
        None => (None, key),
    };
    let ok = !name.is_empty()
        && label_value_problem(name).is_none()
        && prefix.is_none_or(|p| subdomain_problem(p).is_none());
    (!ok).then_some(
        "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character, with an optional DNS subdomain prefix and '/'",
    )
}

fn starts_and_ends_well(text: &str, good: impl Fn(u8) -> bool) -> bool {
    let bytes = text.as_bytes();
    bytes.first().copied().is_some_and(&good) && bytes.last().copied().is_some_and(&good)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::api_server::resource::find;

    fn pod_causes(pod: &Value) -> Vec<String> {
        let pods = find("", "v1", "pods").unwrap();
        object(pods, pod).into_iter().map(|c| c.field).collect()
    }

    fn pod(name: &str, resources: &Value) -> Value {
        json!({"metadata": {"name": name}, "spec": {"containers": [
            {"name": "a", "image": "i", "resources": resources}]}})
    }

    #[test]
    fn names_follow_the_rules_of_dns() {
        for good in ["a", "a-b.c", "0"] {
            assert_eq!(pod_causes(&pod(good, &json!({}))), [""; 0], "{good}");
        }
        for bad in ["", "A", "a_b", "-a", "a.", &"a".repeat(254)] {
            assert_eq!(
                pod_causes(&pod(bad, &json!({}))),
                ["metadata.name"],
                "{bad}"
            );
        }
    }

    #[test]
    fn device_counts_are_whole_and_not_overcommitted() {
        let whole = json!({"limits": {"a.io/gpu": "2"}, "requests": {"a.io/gpu": 2}});
        assert!(pod_causes(&pod("p", &whole)).is_empty());
        for bad in [
            json!({"limits": {"a.io/gpu": "1500m"}, "requests": {"a.io/gpu": "1500m"}}),
            json!({"limits": {"a.io/gpu": "2"}, "requests": {"a.io/gpu": "1"}}),
            json!({"requests": {"a.io/gpu": "1"}}),
            json!({"limits": {"cpu": "1"}, "requests": {"cpu": "2"}}),
            json!({"limits": {"cpu": "many"}}),
        ] {
            assert!(!pod_causes(&pod("p", &bad)).is_empty(), "{bad}");
        }
    }

    #[test]
    fn a_job_name_must_fit_into_a_label() {
        let jobs = find("batch", "v1", "jobs").unwrap();
        let name = "a".repeat(64);
        let job = json!({"metadata": {"name": name}, "spec": {"template": {
            "metadata": {"labels": {"job-name": name}},
            "spec": {"restartPolicy": "Never", "containers": [{"name": "a", "image": "i"}]}}}});
        let causes = object(jobs, &job);
        assert_eq!(causes.len(), 1);
        assert_eq!(causes[0].field, "spec.template.labels");
    }
}

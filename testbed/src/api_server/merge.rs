//! Strategic merge patch, for the kinds that are served.
//!
//! Lists of objects are merged by the key that Kubernetes' own types name for the field, lists of
//! `finalizers` as sets, all other lists are replaced. `$patch`, `$deleteFromPrimitiveList`,
//! `$setElementOrder` (read for nothing but the elements that it does not name: the order kept is
//! the stored one) and `$retainKeys` are understood. Keys are told by field name alone, not by
//! type, which is enough for these kinds.

use serde_json::{Map, Value};

use super::field;

/// The key that the elements of a list are merged by.
fn merge_key(list: &str, element: &Map<String, Value>) -> Option<&'static str> {
    Some(match list {
        "containers"
        | "initContainers"
        | "ephemeralContainers"
        | "volumes"
        | "env"
        | "imagePullSecrets"
        | "secrets"
        | "resourceClaims" => "name",
        "volumeMounts" => "mountPath",
        "volumeDevices" => "devicePath",
        // A Service's ports have `port`, a container's have `containerPort`.
        "ports" if element.contains_key("containerPort") => "containerPort",
        "ports" => "port",
        "conditions" | "addresses" => "type",
        "ownerReferences" => "uid",
        "hostAliases" | "podIPs" | "hostIPs" => "ip",
        "topologySpreadConstraints" => "topologyKey",
        _ => return None,
    })
}

/// Merges `patch` into `target`.
pub(super) fn strategic(target: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        *target = patch.clone();
        return;
    };
    if patch.get("$patch").and_then(Value::as_str) == Some("replace") {
        let mut new = patch.clone();
        new.remove("$patch");
        *target = Value::Object(new);
        return;
    }
    let fields = field::as_map(target);
    if let Some(Value::Array(keep)) = patch.get("$retainKeys") {
        fields.retain(|name, _| keep.iter().any(|k| k.as_str() == Some(name)));
    }
    for (name, value) in patch {
        if let Some(list) = name.strip_prefix("$deleteFromPrimitiveList/") {
            if let (Some(Value::Array(items)), Value::Array(gone)) = (fields.get_mut(list), value) {
                items.retain(|item| !gone.contains(item));
            }
        } else if name.starts_with('$') {
            // A directive: read above, or of no matter.
        } else if value.is_null() || is_deletion(value) {
            fields.remove(name);
        } else if let Value::Array(new) = value {
            let current = fields.entry(name.clone()).or_insert(Value::Null);
            list(name, current, new);
        } else {
            strategic(fields.entry(name.clone()).or_insert(Value::Null), value);
        }
    }
}

fn is_deletion(value: &Value) -> bool {
    value.get("$patch").and_then(Value::as_str) == Some("delete")
}

fn list(name: &str, current: &mut Value, new: &[Value]) {
    let first = new.iter().find_map(Value::as_object);
    let key = first.and_then(|element| {
        let any = new.iter().filter_map(Value::as_object);
        any.filter_map(|e| merge_key(name, e))
            .find(|k| element.contains_key(*k))
    });
    let replace = new
        .iter()
        .any(|e| e.get("$patch").and_then(Value::as_str) == Some("replace"));
    if !current.is_array() || replace {
        *current = Value::Array(Vec::new());
    }
    let Value::Array(items) = current else { return };
    match key {
        Some(key) => {
            for element in new.iter().filter(|e| e.get(key).is_some()) {
                let place = items.iter().position(|i| i.get(key) == element.get(key));
                match (place, is_deletion(element)) {
                    (Some(place), true) => drop(items.remove(place)),
                    (Some(place), false) => {
                        if let Some(item) = items.get_mut(place) {
                            strategic(item, element);
                        }
                    }
                    (None, true) => {}
                    (None, false) => items.push(without_directives(element)),
                }
            }
        }
        None if name == "finalizers" => {
            for element in new {
                if !items.contains(element) {
                    items.push(element.clone());
                }
            }
        }
        None => *items = new.iter().map(without_directives).collect(),
    }
}

fn without_directives(value: &Value) -> Value {
    match value {
        Value::Object(_) => {
            let mut made = Value::Object(Map::new());
            strategic(&mut made, value);
            made
        }
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn merged(mut target: Value, patch: &Value) -> Value {
        strategic(&mut target, patch);
        target
    }

    #[test]
    fn conditions_are_merged_by_type() {
        let node = json!({"status": {"conditions": [
            {"type": "Ready", "status": "True", "reason": "x"}, {"type": "Disk", "status": "False"}]}});
        let patch = json!({"status": {
            "$setElementOrder/conditions": [{"type": "Disk"}, {"type": "Ready"}],
            "conditions": [{"type": "Ready", "status": "False"}, {"type": "New", "status": "True"}]}});
        assert_eq!(
            merged(node, &patch)["status"]["conditions"],
            json!([{"type": "Ready", "status": "False", "reason": "x"},
                {"type": "Disk", "status": "False"}, {"type": "New", "status": "True"}])
        );
    }

    #[test]
    fn null_and_delete_take_away() {
        let pod = json!({"metadata": {"labels": {"a": "1", "b": "2"}},
            "spec": {"containers": [{"name": "a"}, {"name": "b"}]}});
        let patch = json!({"metadata": {"labels": {"a": null}},
            "spec": {"containers": [{"name": "a", "$patch": "delete"}]}});
        assert_eq!(
            merged(pod, &patch),
            json!({"metadata": {"labels": {"b": "2"}}, "spec": {"containers": [{"name": "b"}]}})
        );
    }

    #[test]
    fn lists_without_a_key_are_replaced_and_finalizers_are_a_set() {
        let object = json!({"args": ["a"], "metadata": {"finalizers": ["x", "y"]}});
        let patch = json!({"args": ["b"], "metadata": {
            "$deleteFromPrimitiveList/finalizers": ["x"], "finalizers": ["y", "z"]}});
        assert_eq!(
            merged(object, &patch),
            json!({"args": ["b"], "metadata": {"finalizers": ["y", "z"]}})
        );
    }

    #[test]
    fn replace_puts_the_whole_value() {
        let object = json!({"strategy": {"type": "A", "more": 1}});
        let patch = json!({"strategy": {"$patch": "replace", "type": "B"}});
        assert_eq!(merged(object, &patch), json!({"strategy": {"type": "B"}}));
        let object = json!({"strategy": {"type": "A", "more": 1}});
        let patch = json!({"strategy": {"$retainKeys": ["type"], "type": "B"}});
        assert_eq!(merged(object, &patch), json!({"strategy": {"type": "B"}}));
    }
}

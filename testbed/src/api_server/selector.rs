//! Label and field selectors.

use serde_json::Value;

use super::{field, refusal::Refusal, resource::Resource};

/// One requirement of a label selector.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Label {
    In(String, Vec<String>),
    NotIn(String, Vec<String>),
    Exists(String),
    Absent(String),
}

/// Which objects of a kind a list or watch is about. All requirements must hold.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Selector {
    labels: Vec<Label>,
    /// JSON pointer, value, and whether it must be equal.
    fields: Vec<(String, String, bool)>,
}

impl Selector {
    /// Reads both selectors as they stand in a query.
    pub fn parse(resource: &Resource, labels: &str, fields: &str) -> Result<Self, Refusal> {
        Ok(Self {
            labels: parse_labels(labels)?,
            fields: parse_fields(resource, fields)?,
        })
    }

    /// Adds that the object has this name.
    #[must_use]
    pub fn named(mut self, name: &str) -> Self {
        self.fields
            .push(("/metadata/name".into(), name.into(), true));
        self
    }

    /// Whether everything matches.
    pub fn is_everything(&self) -> bool {
        self.labels.is_empty() && self.fields.is_empty()
    }

    /// Whether this object is selected.
    pub fn matches(&self, object: &Value) -> bool {
        self.labels.iter().all(|l| label_holds(l, object))
            && self
                .fields
                .iter()
                .all(|(pointer, wanted, equal)| (field_text(object, pointer) == *wanted) == *equal)
    }
}

/// Whether an object's labels meet a selector such as `a=b,c!=d,e in (f,g),h,!i`.
pub fn labels_match(selector: &str, object: &Value) -> Result<bool, Refusal> {
    let labels = parse_labels(selector)?;
    Ok(labels.iter().all(|l| label_holds(l, object)))
}

fn label_holds(label: &Label, object: &Value) -> bool {
    let value = |key: &str| {
        object
            .pointer("/metadata/labels")
            .and_then(|labels| labels.get(key))
            .and_then(Value::as_str)
    };
    match label {
        Label::In(key, values) => value(key).is_some_and(|v| values.iter().any(|w| w == v)),
        Label::NotIn(key, values) => value(key).is_none_or(|v| values.iter().all(|w| w != v)),
        Label::Exists(key) => value(key).is_some(),
        Label::Absent(key) => value(key).is_none(),
    }
}

fn field_text(object: &Value, pointer: &str) -> String {
    match object.pointer(pointer) {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Bool(flag)) => flag.to_string(),
        Some(Value::Number(number)) => number.to_string(),
        // Flags that are left out are false to a selector, texts are empty.
        _ if matches!(pointer, "/spec/unschedulable" | "/spec/hostNetwork") => "false".into(),
        _ if pointer == "/status/succeeded" => "0".into(),
        _ => String::new(),
    }
}

fn parse_labels(text: &str) -> Result<Vec<Label>, Refusal> {
    split_outside_parentheses(text)
        .into_iter()
        .map(|part| {
            parse_label(part).ok_or_else(|| {
                Refusal::bad_request(format!("unable to parse requirement: {part:?}"))
            })
        })
        .collect()
}

fn split_outside_parentheses(text: &str) -> Vec<&str> {
    let mut depth = 0_u32;
    text.split(|c: char| {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        c == ',' && depth == 0
    })
    .map(str::trim)
    .filter(|part| !part.is_empty())
    .collect()
}

fn parse_label(part: &str) -> Option<Label> {
    let key_ok = |key: &str| {
        !key.is_empty()
            && key
                .chars()
                .all(|c| c.is_ascii_alphanumeric() || "-_./".contains(c))
    };
    if let Some(key) = part.strip_prefix('!') {
        let key = key.trim();
        return key_ok(key).then(|| Label::Absent(key.into()));
    }
    if let Some((left, values)) = part.split_once('(') {
        let values = values.strip_suffix(')')?;
        let values = values.split(',').map(|v| v.trim().to_owned()).collect();
        let mut words = left.split_whitespace();
        let (key, operator) = (words.next()?, words.next()?);
        return match operator {
            "in" if key_ok(key) => Some(Label::In(key.into(), values)),
            "notin" if key_ok(key) => Some(Label::NotIn(key.into(), values)),
            _ => None,
        };
    }
    let (key, value, equal) = if let Some((key, value)) = part.split_once("!=") {
        (key, value, false)
    } else if let Some((key, value)) = part.split_once("==") {
        (key, value, true)
    } else if let Some((key, value)) = part.split_once('=') {
        (key, value, true)
    } else {
        return key_ok(part).then(|| Label::Exists(part.into()));
    };
    let (key, values) = (key.trim(), vec![value.trim().to_owned()]);
    key_ok(key).then(|| {
        if equal {
            Label::In(key.into(), values)
        } else {
            Label::NotIn(key.into(), values)
        }
    })
}

/// The fields that a kind can be selected by, besides name and namespace.
fn selectable(resource: &Resource) -> &'static [(&'static str, &'static str)] {
    match (resource.group, resource.storage) {
        ("", "pods") => &[
            ("spec.nodeName", "/spec/nodeName"),
            ("spec.restartPolicy", "/spec/restartPolicy"),
            ("spec.schedulerName", "/spec/schedulerName"),
            ("spec.serviceAccountName", "/spec/serviceAccountName"),
            ("spec.hostNetwork", "/spec/hostNetwork"),
            ("status.phase", "/status/phase"),
            ("status.podIP", "/status/podIP"),
            ("status.nominatedNodeName", "/status/nominatedNodeName"),
        ],
        ("", "nodes") => &[("spec.unschedulable", "/spec/unschedulable")],
        ("", "namespaces") => &[("status.phase", "/status/phase")],
        ("", "events") => &[
            ("involvedObject.kind", "/involvedObject/kind"),
            ("involvedObject.namespace", "/involvedObject/namespace"),
            ("involvedObject.name", "/involvedObject/name"),
            ("involvedObject.uid", "/involvedObject/uid"),
            ("involvedObject.apiVersion", "/involvedObject/apiVersion"),
            (
                "involvedObject.resourceVersion",
                "/involvedObject/resourceVersion",
            ),
            ("involvedObject.fieldPath", "/involvedObject/fieldPath"),
            ("reason", "/reason"),
            ("reportingComponent", "/reportingComponent"),
            ("source", "/source/component"),
            ("type", "/type"),
        ],
        ("events.k8s.io", "events") => &[
            ("regarding.kind", "/involvedObject/kind"),
            ("regarding.namespace", "/involvedObject/namespace"),
            ("regarding.name", "/involvedObject/name"),
            ("regarding.uid", "/involvedObject/uid"),
            ("regarding.apiVersion", "/involvedObject/apiVersion"),
            ("reason", "/reason"),
            ("reportingController", "/reportingComponent"),
            ("type", "/type"),
        ],
        ("batch", "jobs") => &[("status.successful", "/status/succeeded")],
        ("", "secrets") => &[("type", "/type")],
        _ => &[],
    }
}

fn parse_fields(resource: &Resource, text: &str) -> Result<Vec<(String, String, bool)>, Refusal> {
    let mut fields = Vec::new();
    for part in text.split(',').filter(|p| !p.is_empty()) {
        let (label, value, equal) = if let Some((label, value)) = part.split_once("!=") {
            (label, value, false)
        } else if let Some((label, value)) = part.split_once("==") {
            (label, value, true)
        } else if let Some((label, value)) = part.split_once('=') {
            (label, value, true)
        } else {
            return Err(Refusal::bad_request(format!(
                "invalid field selector {text:?}; can't understand {part:?}"
            )));
        };
        let pointer = match label {
            "metadata.name" => "/metadata/name",
            "metadata.namespace" if resource.namespaced => "/metadata/namespace",
            other => selectable(resource)
                .iter()
                .find(|(name, _)| *name == other)
                .map(|(_, pointer)| *pointer)
                .ok_or_else(|| {
                    Refusal::bad_request(format!("field label not supported: {other}"))
                })?,
        };
        fields.push((pointer.to_owned(), value.to_owned(), equal));
    }
    Ok(fields)
}

/// The name and namespace of an object, for logs.
pub fn display(object: &Value) -> String {
    let (namespace, name) = (
        field::text(object, "/metadata/namespace"),
        field::text(object, "/metadata/name"),
    );
    if namespace.is_empty() {
        name.to_owned()
    } else {
        format!("{namespace}/{name}")
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::api_server::resource::find;

    fn selects(labels: &str, fields: &str, object: &Value) -> bool {
        let pods = find("", "v1", "pods").unwrap();
        Selector::parse(pods, labels, fields)
            .unwrap()
            .matches(object)
    }

    #[test]
    fn label_selectors_mean_what_kubectl_says() {
        let pod = json!({"metadata": {"name": "p", "labels": {"a": "1", "x.io/b": "2"}}});
        for (selector, holds) in [
            ("", true),
            ("a=1", true),
            ("a==1,x.io/b=2", true),
            ("a!=1", false),
            ("c!=1", true),
            ("a in (1, 3),x.io/b", true),
            ("a notin (1,2)", false),
            ("c notin (1)", true),
            ("!a", false),
            ("!c", true),
            ("c", false),
        ] {
            assert_eq!(selects(selector, "", &pod), holds, "{selector}");
        }
    }

    #[test]
    fn field_selectors_compare_text() {
        let pod = json!({"metadata": {"name": "p"}, "spec": {"nodeName": "n"}});
        assert!(selects("", "spec.nodeName=n,metadata.name=p", &pod));
        assert!(selects("", "status.phase!=Succeeded", &pod));
        assert!(!selects("", "spec.nodeName=", &pod));
    }

    #[test]
    fn what_can_not_be_read_is_refused() {
        let pods = find("", "v1", "pods").unwrap();
        for (labels, fields) in [("a in 1", ""), ("=", ""), ("", "spec.foo=1"), ("", "x")] {
            let refusal = Selector::parse(pods, labels, fields).unwrap_err();
            assert_eq!(refusal.code, 400, "{labels} {fields}");
        }
    }
}

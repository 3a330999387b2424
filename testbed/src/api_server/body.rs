//! Reading request bodies.

use bytes::Bytes;
use serde_json::Value;

use super::{refusal::Refusal, removal, write::PatchKind};

/// Media types of objects that are read.
const OBJECTS: &str = "application/json, application/yaml";
const PATCHES: &str = "application/json-patch+json, application/merge-patch+json, application/strategic-merge-patch+json, application/apply-patch+yaml";

/// An object, as JSON or YAML.
pub(super) fn object(content_type: &str, body: &Bytes) -> Result<Value, Refusal> {
    match media(content_type) {
        "" | "application/json" => json(body),
        "application/yaml" => yaml(body),
        other => Err(Refusal::unsupported(other, OBJECTS)),
    }
}

/// A patch and how it is to be read.
pub(super) fn patch(content_type: &str, body: &Bytes) -> Result<(PatchKind, Value), Refusal> {
    let (kind, value) = match media(content_type) {
        "application/json-patch+json" => (PatchKind::Json, json(body)?),
        "application/merge-patch+json" => (PatchKind::Merge, json(body)?),
        "application/strategic-merge-patch+json" => (PatchKind::Strategic, json(body)?),
        "application/apply-patch+yaml" => (PatchKind::Apply, yaml(body)?),
        other => return Err(Refusal::unsupported(other, PATCHES)),
    };
    let fits = match kind {
        PatchKind::Json => value.is_array(),
        _ => value.is_object(),
    };
    if fits {
        Ok((kind, value))
    } else {
        Err(Refusal::bad_request("the body is not a patch of its type"))
    }
}

/// The options of a deletion; an empty body has none.
pub(super) fn delete_options(
    content_type: &str,
    body: &Bytes,
) -> Result<removal::Options, Refusal> {
    if body.is_empty() {
        return Ok(removal::Options::default());
    }
    let value = object(content_type, body)?;
    let text = |pointer: &str| {
        let text = value.pointer(pointer).and_then(Value::as_str);
        text.map(str::to_owned)
    };
    let orphan = value.get("orphanDependents").and_then(Value::as_bool);
    Ok(removal::Options {
        grace: value.get("gracePeriodSeconds").and_then(Value::as_i64),
        propagation: text("/propagationPolicy")
            .or_else(|| (orphan == Some(true)).then(|| "Orphan".to_owned())),
        uid: text("/preconditions/uid"),
        resource_version: text("/preconditions/resourceVersion"),
    })
}

fn media(content_type: &str) -> &str {
    content_type.split(';').next().unwrap_or_default().trim()
}

fn json(body: &Bytes) -> Result<Value, Refusal> {
    serde_json::from_slice(body)
        .map_err(|e| Refusal::bad_request(format!("couldn't read the body as JSON: {e}")))
}

/// JSON is YAML too, but JSON's own reader is quicker and stricter.
fn yaml(body: &Bytes) -> Result<Value, Refusal> {
    if let Ok(value) = serde_json::from_slice(body) {
        return Ok(value);
    }
    let refuse = |e: &dyn std::fmt::Display| {
        Refusal::bad_request(format!("couldn't read the body as YAML: {e}"))
    };
    let text = std::str::from_utf8(body).map_err(|e| refuse(&e))?;
    // `y` and `n` are texts to Kubernetes.
    let options = serde_saphyr::options! { strict_booleans: true };
    serde_saphyr::from_str_with_options(text, options).map_err(|e| refuse(&e))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn bodies_are_read_by_their_type() {
        let json_body = Bytes::from_static(b"{\"a\": 1}");
        assert_eq!(
            object("application/json; charset=utf-8", &json_body),
            Ok(json!({"a": 1}))
        );
        let yaml_body = Bytes::from_static(b"a: 1\nb: [x, y]\n");
        assert_eq!(
            object("application/yaml", &yaml_body),
            Ok(json!({"a": 1, "b": ["x", "y"]}))
        );
        let apply = patch("application/apply-patch+yaml", &yaml_body).unwrap();
        assert_eq!(apply.0, PatchKind::Apply);
    }

    #[test]
    fn odd_bodies_are_refused() {
        let body = Bytes::from_static(b"{");
        assert_eq!(object("application/json", &body).unwrap_err().code, 400);
        let protobuf = "application/vnd.kubernetes.protobuf";
        assert_eq!(object(protobuf, &body).unwrap_err().code, 415);
        assert_eq!(patch("application/json", &body).unwrap_err().code, 415);
        let list = Bytes::from_static(b"[]");
        assert_eq!(
            patch("application/merge-patch+json", &list)
                .unwrap_err()
                .code,
            400
        );
    }
}

//! Events in the shape of `events.k8s.io/v1` and in that of the core group: one storage, kept in
//! the older shape, as in the real server.

use serde_json::{Map, Value};

use super::field;

/// Core name, newer name.
const NAMES: &[(&str, &str)] = &[
    ("involvedObject", "regarding"),
    ("message", "note"),
    ("source", "deprecatedSource"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("count", "deprecatedCount"),
    ("reportingComponent", "reportingController"),
];

/// The core shape of an event written to the newer group.
pub(super) fn to_core(event: Value) -> Value {
    renamed(event, "v1", |(core, new)| (new, core))
}

/// The newer shape of a stored event.
pub(super) fn to_new(event: Value) -> Value {
    renamed(event, "events.k8s.io/v1", |(core, new)| (core, new))
}

fn renamed(
    event: Value,
    version: &str,
    direction: impl Fn((&'static str, &'static str)) -> (&'static str, &'static str),
) -> Value {
    let Value::Object(fields) = event else {
        return event;
    };
    let mut made = Map::new();
    for (name, value) in fields {
        let other = NAMES
            .iter()
            .map(|pair| direction(*pair))
            .find(|(from, _)| *from == name);
        made.insert(other.map_or(name, |(_, to)| to.to_owned()), value);
    }
    let mut event = Value::Object(made);
    if !field::text(&event, "/apiVersion").is_empty() {
        field::as_map(&mut event).insert("apiVersion".into(), version.into());
    }
    event
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn both_shapes_tell_the_same() {
        let new = json!({"apiVersion": "events.k8s.io/v1", "kind": "Event", "note": "n",
            "regarding": {"name": "p"}, "reportingController": "c", "reason": "r"});
        let core = to_core(new.clone());
        assert_eq!(
            core,
            json!({"apiVersion": "v1", "kind": "Event", "message": "n",
                "involvedObject": {"name": "p"}, "reportingComponent": "c", "reason": "r"})
        );
        assert_eq!(to_new(core), new);
    }
}

//! The `Table` shape: what `kubectl get` prints.

use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};

use super::{clock, field, resource::Resource};

/// A column: name, type, and priority (above 0 only with `-o wide`).
type Column = (&'static str, &'static str, i32);

const NAME: Column = ("Name", "string", 0);
const AGE: Column = ("Age", "string", 0);

/// The table of some objects of a kind.
pub(super) fn table<'a>(
    resource: &Resource,
    objects: impl Iterator<Item = &'a Value>,
    metadata: &Value,
) -> Value {
    let (columns, cells) = layout(resource);
    let now = Timestamp::now();
    let columns: Vec<Value> = columns
        .iter()
        .map(|(name, kind, priority)| {
            json!({"name": name, "type": kind, "priority": priority, "description": "",
                "format": if *name == "Name" { "name" } else { "" }})
        })
        .collect();
    let rows: Vec<Value> = objects
        .map(|object| {
            json!({"cells": cells(object, now), "object": {
                "kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1",
                "metadata": object.get("metadata")}})
        })
        .collect();
    json!({"kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": metadata,
        "columnDefinitions": columns, "rows": rows})
}

type Cells = fn(&Value, Timestamp) -> Vec<Value>;

fn layout(resource: &Resource) -> (&'static [Column], Cells) {
    match resource.storage {
        "pods" => (
            &[
                NAME,
                ("Ready", "string", 0),
                ("Status", "string", 0),
                ("Restarts", "integer", 0),
                AGE,
                ("IP", "string", 1),
                ("Node", "string", 1),
                ("Nominated Node", "string", 1),
            ],
            pod,
        ),
        "nodes" => (
            &[
                NAME,
                ("Status", "string", 0),
                ("Roles", "string", 0),
                AGE,
                ("Version", "string", 0),
                ("Internal-IP", "string", 1),
            ],
            node,
        ),
        "jobs" => (
            &[
                NAME,
                ("Status", "string", 0),
                ("Completions", "string", 0),
                ("Duration", "string", 0),
                AGE,
                ("Images", "string", 1),
            ],
            job,
        ),
        "events" => (
            &[
                ("Last Seen", "string", 0),
                ("Type", "string", 0),
                ("Reason", "string", 0),
                ("Object", "string", 0),
                ("Source", "string", 1),
                ("Message", "string", 0),
                ("Count", "integer", 1),
                ("Name", "string", 1),
            ],
            event,
        ),
        "namespaces" => (&[NAME, ("Status", "string", 0), AGE], |object, now| {
            let phase = field::text(object, "/status/phase");
            vec![name(object), phase.into(), age(object, now)]
        }),
        "leases" => (&[NAME, ("Holder", "string", 0), AGE], |object, now| {
            let holder = field::text(object, "/spec/holderIdentity");
            vec![name(object), holder.into(), age(object, now)]
        }),
        "runtimeclasses" => (&[NAME, ("Handler", "string", 0), AGE], |object, now| {
            let handler = field::text(object, "/handler");
            vec![name(object), handler.into(), age(object, now)]
        }),
        _ => (&[NAME, AGE], |object, now| {
            vec![name(object), age(object, now)]
        }),
    }
}

fn name(object: &Value) -> Value {
    field::text(object, "/metadata/name").into()
}

fn age(object: &Value, now: Timestamp) -> Value {
    since(field::text(object, "/metadata/creationTimestamp"), now).into()
}

fn since(time: &str, now: Timestamp) -> String {
    match clock::parse(time) {
        Some(then) => duration(now.as_second() - then.as_second()),
        None => "<unknown>".into(),
    }
}

/// `45s`, `3m20s`, `12m`, `5h3m`, `2d`: two figures at most, as kubectl shows.
fn duration(seconds: i64) -> String {
    let (s, m, h, d) = (
        seconds.max(0),
        seconds / 60,
        seconds / 3600,
        seconds / 86400,
    );
    match s {
        0..120 => format!("{s}s"),
        120..600 if s % 60 != 0 => format!("{m}m{}s", s % 60),
        120..10_800 => format!("{m}m"),
        10_800..28_800 if m % 60 != 0 => format!("{h}h{}m", m % 60),
        10_800..172_800 => format!("{h}h"),
        _ => format!("{d}d"),
    }
}

fn or_none(text: &str) -> Value {
    if text.is_empty() { "<none>" } else { text }.into()
}

fn pod(pod: &Value, now: Timestamp) -> Vec<Value> {
    let statuses = field::list(pod, "/status/containerStatuses");
    let ready = statuses
        .iter()
        .filter(|s| s.get("ready") == Some(&json!(true)))
        .count();
    let restarts: i64 = statuses
        .iter()
        .filter_map(|s| field::number(s, "/restartCount"))
        .sum();
    let total = field::list(pod, "/spec/containers").len();
    vec![
        name(pod),
        format!("{ready}/{total}").into(),
        pod_status(pod).into(),
        restarts.into(),
        age(pod, now),
        or_none(field::text(pod, "/status/podIP")),
        or_none(field::text(pod, "/spec/nodeName")),
        or_none(field::text(pod, "/status/nominatedNodeName")),
    ]
}

fn pod_status(pod: &Value) -> String {
    if pod.pointer("/metadata/deletionTimestamp").is_some() {
        return "Terminating".into();
    }
    let reason = field::text(pod, "/status/reason");
    if !reason.is_empty() {
        return reason.into();
    }
    for status in field::list(pod, "/status/containerStatuses") {
        for state in ["waiting", "terminated"] {
            let reason = field::text(status, &format!("/state/{state}/reason"));
            if !reason.is_empty() {
                return reason.into();
            }
        }
    }
    field::text(pod, "/status/phase").into()
}

fn node(node: &Value, now: Timestamp) -> Vec<Value> {
    let ready = field::list(node, "/status/conditions")
        .iter()
        .find(|c| field::text(c, "/type") == "Ready");
    let mut status = match ready.map(|c| field::text(c, "/status")) {
        Some("True") => "Ready".to_owned(),
        Some(_) => "NotReady".to_owned(),
        None => "Unknown".to_owned(),
    };
    if node.pointer("/spec/unschedulable") == Some(&json!(true)) {
        status.push_str(",SchedulingDisabled");
    }
    let roles: Vec<_> = field::pairs(node, "/metadata/labels")
        .filter_map(|(key, _)| key.strip_prefix("node-role.kubernetes.io/"))
        .collect();
    let address = field::list(node, "/status/addresses")
        .iter()
        .find(|a| field::text(a, "/type") == "InternalIP");
    vec![
        name(node),
        status.into(),
        or_none(&roles.join(",")),
        age(node, now),
        field::text(node, "/status/nodeInfo/kubeletVersion").into(),
        or_none(address.map_or("", |a| field::text(a, "/address"))),
    ]
}

fn job(job: &Value, now: Timestamp) -> Vec<Value> {
    let holds = |kind: &str| {
        field::list(job, "/status/conditions")
            .iter()
            .any(|c| field::text(c, "/type") == kind && field::text(c, "/status") == "True")
    };
    let status = if holds("Complete") {
        "Complete"
    } else if holds("Failed") {
        "Failed"
    } else {
        "Running"
    };
    let succeeded = field::number(job, "/status/succeeded").unwrap_or(0);
    let completions = field::number(job, "/spec/completions").unwrap_or(1);
    let started = clock::parse(field::text(job, "/status/startTime"));
    let ended = clock::parse(field::text(job, "/status/completionTime")).unwrap_or(now);
    let took = started.map_or(String::new(), |s| {
        duration(ended.as_second() - s.as_second())
    });
    let images: Vec<_> = field::list(job, "/spec/template/spec/containers")
        .iter()
        .map(|c| field::text(c, "/image"))
        .collect();
    vec![
        name(job),
        status.into(),
        format!("{succeeded}/{completions}").into(),
        took.into(),
        age(job, now),
        images.join(",").into(),
    ]
}

fn event(event: &Value, now: Timestamp) -> Vec<Value> {
    let times = [
        "/series/lastObservedTime",
        "/lastTimestamp",
        "/eventTime",
        "/firstTimestamp",
    ];
    let seen = times
        .iter()
        .map(|t| field::text(event, t))
        .find(|t| !t.is_empty());
    let object = format!(
        "{}/{}",
        field::text(event, "/involvedObject/kind").to_lowercase(),
        field::text(event, "/involvedObject/name")
    );
    let source = [
        field::text(event, "/source/component"),
        field::text(event, "/reportingComponent"),
    ];
    vec![
        since(seen.unwrap_or_default(), now).into(),
        field::text(event, "/type").into(),
        field::text(event, "/reason").into(),
        object.into(),
        source
            .into_iter()
            .find(|s| !s.is_empty())
            .unwrap_or_default()
            .into(),
        field::text(event, "/message").into(),
        field::number(event, "/count").unwrap_or(1).into(),
        name(event),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api_server::resource::RESOURCES;

    #[test]
    fn every_kind_has_a_cell_for_each_column() {
        for resource in RESOURCES {
            let (columns, cells) = layout(resource);
            assert_eq!(
                cells(&json!({}), Timestamp::now()).len(),
                columns.len(),
                "{}",
                resource.plural
            );
        }
    }

    #[test]
    fn ages_are_short() {
        for (seconds, text) in [
            (5, "5s"),
            (119, "119s"),
            (130, "2m10s"),
            (600, "10m"),
            (200_000, "2d"),
        ] {
            assert_eq!(duration(seconds), text);
        }
    }

    #[test]
    fn a_pod_shows_the_most_telling_state() {
        let waiting = json!({"status": {"phase": "Pending", "containerStatuses": [
            {"state": {"waiting": {"reason": "ImagePullBackOff"}}}]}});
        assert_eq!(pod_status(&waiting), "ImagePullBackOff");
        let rejected = json!({"status": {"phase": "Failed", "reason": "UnexpectedAdmissionError"}});
        assert_eq!(pod_status(&rejected), "UnexpectedAdmissionError");
        let going = json!({"metadata": {"deletionTimestamp": "x"}, "status": {"phase": "Running"}});
        assert_eq!(pod_status(&going), "Terminating");
    }
}

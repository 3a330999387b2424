use std::sync::Arc;

use bytes::Bytes;
use http::Method;
use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};

use super::{
    answer::{Answer, Asked, answer},
    refusal::Refusal,
    store::{Key, Store},
};

const PODS: &str = "/api/v1/namespaces/default/pods";
const MERGE: &str = "application/merge-patch+json";

fn now() -> Timestamp {
    "2026-12-01T05:00:00Z".parse().unwrap()
}

/// A store with the namespace `default`.
fn store() -> Store {
    let mut store = Store::new(100);
    ask(
        &mut store,
        "POST",
        "/api/v1/namespaces",
        "",
        &json!({"metadata": {"name": "default"}}),
    )
    .unwrap();
    store
}

fn ask(
    store: &mut Store,
    method: &str,
    path: &str,
    kind: &str,
    body: &Value,
) -> Result<Arc<Value>, Refusal> {
    let (path, query) = path.split_once('?').unwrap_or((path, ""));
    let pairs = query.split('&').filter_map(|p| p.split_once('='));
    let asked = Asked {
        method: Method::from_bytes(method.as_bytes()).unwrap(),
        path: path.to_owned(),
        query: pairs.map(|(k, v)| (k.to_owned(), v.to_owned())).collect(),
        accept: String::new(),
        content_type: kind.to_owned(),
        body: if body.is_null() {
            Bytes::new()
        } else {
            Bytes::from(body.to_string())
        },
    };
    Ok(match answer(store, &asked, now())? {
        Answer::Plain(_, value) => Arc::new(value),
        Answer::Object(_, render, object) => Arc::new(render.object(&object)),
        Answer::List(render, items, metadata) => {
            Arc::new(render.list(items.iter().map(AsRef::as_ref), &metadata))
        }
        Answer::Fine | Answer::Watch(_) => panic!("not a document"),
    })
}

fn pod(name: &str) -> Value {
    json!({"kind": "Pod", "apiVersion": "v1", "metadata": {"name": name},
        "spec": {"containers": [{"name": "a", "image": "i:1"}]}})
}

fn code(result: Result<Arc<Value>, Refusal>) -> u16 {
    result.unwrap_err().code
}

#[test]
fn a_new_object_gets_what_the_server_gives() {
    let mut store = store();
    let made = ask(&mut store, "POST", PODS, "", &pod("p")).unwrap();
    assert_eq!(made["status"]["phase"], "Pending");
    assert_eq!(made["spec"]["schedulerName"], "default-scheduler");
    assert_eq!(
        made["metadata"]["creationTimestamp"],
        "2026-12-01T05:00:00Z"
    );
    assert_eq!(made["metadata"]["namespace"], "default");
    assert_eq!(
        made["metadata"]["resourceVersion"],
        store.revision().to_string()
    );
    let generated = json!({"metadata": {"generateName": "x-"}, "spec": {"containers": [{"name": "a", "image": "i"}]}});
    let made = ask(&mut store, "POST", PODS, "", &generated).unwrap();
    assert!(made["metadata"]["name"].as_str().unwrap().starts_with("x-"));
}

#[test]
fn creations_that_can_not_be_are_refused_each_with_its_code() {
    let mut store = store();
    ask(&mut store, "POST", PODS, "", &pod("p")).unwrap();
    assert_eq!(code(ask(&mut store, "POST", PODS, "", &pod("p"))), 409);
    assert_eq!(code(ask(&mut store, "POST", PODS, "", &pod("P"))), 422);
    let elsewhere = "/api/v1/namespaces/none/pods";
    assert_eq!(code(ask(&mut store, "POST", elsewhere, "", &pod("q"))), 404);
    let mut other = pod("q");
    other["metadata"]["namespace"] = json!("other");
    assert_eq!(code(ask(&mut store, "POST", PODS, "", &other)), 400);
    other = pod("q");
    other["kind"] = json!("Node");
    assert_eq!(code(ask(&mut store, "POST", PODS, "", &other)), 400);
    other = pod("q");
    other["metadata"]["resourceVersion"] = json!("7");
    assert_eq!(code(ask(&mut store, "POST", PODS, "", &other)), 400);
    assert_eq!(
        code(ask(&mut store, "POST", PODS, "text/plain", &pod("q"))),
        415
    );
    assert_eq!(code(ask(&mut store, "PUT", PODS, "", &pod("q"))), 405);
}

#[test]
fn an_update_that_changes_nothing_is_no_write() {
    let mut store = store();
    let made = ask(&mut store, "POST", PODS, "", &pod("p")).unwrap();
    let again = ask(&mut store, "PUT", &format!("{PODS}/p"), "", &made).unwrap();
    assert_eq!(made, again);
    let label = json!({"metadata": {"labels": {"a": "b"}}});
    let changed = ask(&mut store, "PATCH", &format!("{PODS}/p"), MERGE, &label).unwrap();
    assert_ne!(made, changed);
    let same = ask(&mut store, "PATCH", &format!("{PODS}/p"), MERGE, &label).unwrap();
    assert_eq!(changed, same);
}

#[test]
fn main_and_status_are_written_apart() {
    let mut store = store();
    ask(&mut store, "POST", PODS, "", &pod("p")).unwrap();
    let both = json!({"metadata": {"annotations": {"a": "b"}}, "status": {"phase": "Running"},
        "spec": {"activeDeadlineSeconds": 5}});
    let main = ask(&mut store, "PATCH", &format!("{PODS}/p"), MERGE, &both).unwrap();
    assert_eq!(main["status"]["phase"], "Pending");
    assert_eq!(main["spec"]["activeDeadlineSeconds"], 5);
    let other = json!({"metadata": {"annotations": {"c": "d"}}, "status": {"phase": "Running"},
        "spec": {"activeDeadlineSeconds": 6}});
    let status = ask(
        &mut store,
        "PATCH",
        &format!("{PODS}/p/status"),
        MERGE,
        &other,
    )
    .unwrap();
    assert_eq!(status["status"]["phase"], "Running");
    assert_eq!(status["spec"]["activeDeadlineSeconds"], 5);
    assert_eq!(
        status["metadata"]["annotations"],
        json!({"a": "b", "c": "d"})
    );
}

#[test]
fn a_pod_does_not_change_its_node_or_containers() {
    let mut store = store();
    ask(&mut store, "POST", PODS, "", &pod("p")).unwrap();
    for change in [
        json!({"spec": {"nodeName": "n"}}),
        json!({"spec": {"containers": [{"name": "b", "image": "i:1"}]}}),
    ] {
        let refused = ask(&mut store, "PATCH", &format!("{PODS}/p"), MERGE, &change);
        assert_eq!(code(refused), 422, "{change}");
    }
}

#[test]
fn json_patch_takes_a_resource_off_a_node() {
    let mut store = store();
    let node = json!({"metadata": {"name": "n"}, "status": {
        "capacity": {"a.io/gpu": 8, "cpu": "4"}}});
    ask(&mut store, "POST", "/api/v1/nodes", "", &node).unwrap();
    let patch = json!([
        {"op": "test", "path": "/status/capacity/a.io~1gpu", "value": "8"},
        {"op": "remove", "path": "/status/capacity/a.io~1gpu"}]);
    let (status, kind) = ("/api/v1/nodes/n/status", "application/json-patch+json");
    let left = ask(&mut store, "PATCH", status, kind, &patch).unwrap();
    assert_eq!(left["status"]["capacity"], json!({"cpu": "4"}));
    // Gone already.
    assert_eq!(code(ask(&mut store, "PATCH", status, kind, &patch)), 422);
}

#[test]
fn apply_creates_and_merges() {
    let mut store = store();
    let (path, kind) = (
        "/api/v1/nodes/n?fieldManager=m",
        "application/apply-patch+yaml",
    );
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"labels": {"a": "1"}}});
    let made = ask(&mut store, "PATCH", path, kind, &node).unwrap();
    assert_eq!(made["metadata"]["name"], "n");
    let more = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"labels": {"b": "2"}}});
    let merged = ask(&mut store, "PATCH", path, kind, &more).unwrap();
    assert_eq!(merged["metadata"]["labels"], json!({"a": "1", "b": "2"}));
    assert_eq!(
        code(ask(&mut store, "PATCH", "/api/v1/nodes/n", kind, &more)),
        422
    );
}

#[test]
fn a_dry_run_changes_nothing() {
    let mut store = store();
    let before = store.revision();
    ask(
        &mut store,
        "POST",
        &format!("{PODS}?dryRun=All"),
        "",
        &pod("p"),
    )
    .unwrap();
    assert_eq!(store.revision(), before);
}

#[test]
fn a_pod_on_a_node_is_only_gone_when_its_kubelet_says_so() {
    let mut store = store();
    let mut bound = pod("p");
    bound["spec"]["nodeName"] = json!("n");
    ask(&mut store, "POST", PODS, "", &bound).unwrap();
    let path = format!("{PODS}/p");
    let marked = ask(
        &mut store,
        "DELETE",
        &path,
        "",
        &json!({"gracePeriodSeconds": 20}),
    )
    .unwrap();
    assert_eq!(marked["metadata"]["deletionGracePeriodSeconds"], 20);
    assert_eq!(
        marked["metadata"]["deletionTimestamp"],
        "2026-12-01T05:00:20Z"
    );
    // Longer is no matter, shorter is.
    ask(
        &mut store,
        "DELETE",
        &path,
        "",
        &json!({"gracePeriodSeconds": 30}),
    )
    .unwrap();
    let sooner = ask(
        &mut store,
        "DELETE",
        &path,
        "",
        &json!({"gracePeriodSeconds": 5}),
    )
    .unwrap();
    assert_eq!(
        sooner["metadata"]["deletionTimestamp"],
        "2026-12-01T05:00:05Z"
    );
    ask(
        &mut store,
        "DELETE",
        &path,
        "",
        &json!({"gracePeriodSeconds": 0}),
    )
    .unwrap();
    assert_eq!(code(ask(&mut store, "GET", &path, "", &Value::Null)), 404);
    // One without a node, and one that has ended, go at once.
    ask(&mut store, "POST", PODS, "", &pod("q")).unwrap();
    ask(&mut store, "DELETE", &format!("{PODS}/q"), "", &Value::Null).unwrap();
    assert_eq!(
        code(ask(
            &mut store,
            "GET",
            &format!("{PODS}/q"),
            "",
            &Value::Null
        )),
        404
    );
}

#[test]
fn preconditions_name_this_very_object() {
    let mut store = store();
    ask(&mut store, "POST", PODS, "", &pod("p")).unwrap();
    let other = json!({"preconditions": {"uid": "someone-else"}});
    assert_eq!(
        code(ask(&mut store, "DELETE", &format!("{PODS}/p"), "", &other)),
        409
    );
}

#[test]
fn an_object_goes_with_its_last_finalizer() {
    let mut store = store();
    let map = json!({"metadata": {"name": "m", "finalizers": ["x/a", "x/b"]}});
    let path = "/api/v1/namespaces/default/configmaps";
    ask(&mut store, "POST", path, "", &map).unwrap();
    let one = format!("{path}/m");
    ask(&mut store, "DELETE", &one, "", &Value::Null).unwrap();
    let finalizers = |list: Value| json!({"metadata": {"finalizers": list}});
    let added = ask(
        &mut store,
        "PATCH",
        &one,
        MERGE,
        &finalizers(json!(["x/a", "x/b", "x/c"])),
    );
    assert_eq!(code(added), 422);
    ask(
        &mut store,
        "PATCH",
        &one,
        MERGE,
        &finalizers(json!(["x/b"])),
    )
    .unwrap();
    assert!(store.get(&Key::new("configmaps", "default", "m")).is_some());
    ask(&mut store, "PATCH", &one, MERGE, &finalizers(json!([]))).unwrap();
    assert!(store.get(&Key::new("configmaps", "default", "m")).is_none());
}

#[test]
fn a_binding_writes_node_and_plan_at_once_and_once() {
    let mut store = store();
    let made = ask(&mut store, "POST", PODS, "", &pod("p")).unwrap();
    let before = store.revision();
    let path = format!("{PODS}/p/binding");
    let binding = json!({"metadata": {"name": "p", "uid": made["metadata"]["uid"],
        "annotations": {"plan": "x"}, "labels": {"l": "m"}}, "target": {"kind": "Node", "name": "n"}});
    let mut stranger = binding.clone();
    stranger["metadata"]["uid"] = json!("someone-else");
    assert_eq!(code(ask(&mut store, "POST", &path, "", &stranger)), 409);
    assert_eq!(code(ask(&mut store, "POST", &path, "", &json!({}))), 422);
    ask(&mut store, "POST", &path, "", &binding).unwrap();
    assert_eq!(store.revision(), before + 1);
    let bound = ask(&mut store, "GET", &format!("{PODS}/p"), "", &Value::Null).unwrap();
    assert_eq!(bound["spec"]["nodeName"], "n");
    assert_eq!(bound["metadata"]["annotations"]["plan"], "x");
    assert_eq!(bound["metadata"]["labels"]["l"], "m");
    assert_eq!(bound["status"]["conditions"][0]["type"], "PodScheduled");
    let again = ask(&mut store, "POST", &path, "", &binding).unwrap_err();
    assert_eq!(again.code, 409);
    assert!(
        again.message.contains("already assigned to node \"n\""),
        "{again}"
    );
    ask(&mut store, "DELETE", &format!("{PODS}/p"), "", &Value::Null).unwrap();
    let late = ask(&mut store, "POST", &path, "", &binding).unwrap_err();
    assert!(late.message.contains("is being deleted"), "{late}");
}

#[test]
fn pages_cover_everything_once() {
    let mut store = store();
    for n in 0..5 {
        ask(&mut store, "POST", PODS, "", &pod(&format!("p{n}"))).unwrap();
    }
    let (mut names, mut next) = (Vec::new(), String::new());
    loop {
        let path = format!("{PODS}?limit=2&continue={next}");
        let page = ask(&mut store, "GET", &path, "", &Value::Null).unwrap();
        for item in page["items"].as_array().unwrap() {
            names.push(item["metadata"]["name"].as_str().unwrap().to_owned());
            assert!(item.get("kind").is_none());
        }
        match page["metadata"]["continue"].as_str() {
            Some(more) => more.clone_into(&mut next),
            None => break,
        }
    }
    assert_eq!(names, ["p0", "p1", "p2", "p3", "p4"]);
}

#[test]
fn a_priority_comes_from_the_class() {
    let mut store = store();
    let class = json!({"metadata": {"name": "high"}, "value": 1000});
    let classes = "/apis/scheduling.k8s.io/v1/priorityclasses";
    ask(&mut store, "POST", classes, "", &class).unwrap();
    let mut urgent = pod("p");
    urgent["spec"]["priorityClassName"] = json!("high");
    let made = ask(&mut store, "POST", PODS, "", &urgent).unwrap();
    assert_eq!(made["spec"]["priority"], 1000);
    urgent["spec"]["priorityClassName"] = json!("none");
    assert_eq!(code(ask(&mut store, "POST", PODS, "", &urgent)), 403);
}

#[test]
fn an_event_is_the_same_in_both_groups() {
    let mut store = store();
    let event = json!({"apiVersion": "events.k8s.io/v1", "kind": "Event", "metadata": {"name": "e"},
        "note": "n", "reason": "r", "regarding": {"kind": "Pod", "name": "p", "namespace": "default"}});
    let new = "/apis/events.k8s.io/v1/namespaces/default/events";
    let made = ask(&mut store, "POST", new, "", &event).unwrap();
    assert_eq!(made["note"], "n");
    let core = "/api/v1/namespaces/default/events?fieldSelector=involvedObject.name=p";
    // The query is given decoded here, so the selector holds a second '='.
    let list = ask(&mut store, "GET", core, "", &Value::Null).unwrap();
    assert_eq!(list["items"][0]["message"], "n");
}

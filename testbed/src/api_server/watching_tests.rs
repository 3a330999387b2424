use serde_json::Value;

use super::*;
use crate::api_server::{
    query::Shape,
    resource,
    store::{Compacted, Key},
};

fn query(version: &str) -> Query {
    Query {
        version: version.into(),
        bookmarks: true,
        ..Query::default()
    }
}

fn begin(store: &Store, labels: &str, query: &Query) -> Result<Watch, Refusal> {
    let resource = resource::find("", "v1", "pods").unwrap();
    let selector = Selector::parse(resource, labels, "").unwrap();
    let render = Render {
        resource,
        shape: Shape::Object,
    };
    start(store, render, (Some("a".into()), selector), query)
}

fn put(store: &mut Store, namespace: &str, name: &str, label: &str) {
    let pod = json!({"metadata": {"name": name, "labels": {"l": label}}});
    store.put(Key::new("pods", namespace, name), pod);
}

/// Type and name of each event of some lines.
fn events(lines: &Bytes) -> Vec<(String, String)> {
    let text = std::str::from_utf8(lines).unwrap();
    text.lines()
        .map(|line| {
            let event: Value = serde_json::from_str(line).unwrap();
            let name = event["object"]["metadata"]["name"]
                .as_str()
                .unwrap_or_default();
            (event["type"].as_str().unwrap().to_owned(), name.to_owned())
        })
        .collect()
}

fn step(store: &Store, watch: &mut Watch) -> Vec<(String, String)> {
    match watch.step(store.changes_after(watch.cursor())) {
        Step::Send(lines) => events(&lines),
        other => panic!("{other:?}"),
    }
}

fn told(kind: &str, name: &str) -> (String, String) {
    (kind.into(), name.into())
}

#[test]
fn an_object_comes_and_goes_with_the_selector() {
    let mut store = Store::new(10);
    let mut watch = begin(&store, "l=x", &query(&store.revision().to_string())).unwrap();
    put(&mut store, "a", "p", "y");
    put(&mut store, "a", "p", "x");
    put(&mut store, "b", "other", "x");
    put(&mut store, "a", "p", "x");
    put(&mut store, "a", "p", "z");
    assert_eq!(
        step(&store, &mut watch),
        [
            told("ADDED", "p"),
            told("MODIFIED", "p"),
            told("DELETED", "p")
        ]
    );
    store.remove(&Key::new("pods", "a", "p"));
    assert!(step(&store, &mut watch).is_empty());
    assert_eq!(watch.cursor(), store.revision());
    assert_eq!(watch.step(Ok(Vec::new())), Step::Wait);
}

#[test]
fn without_a_revision_the_objects_of_now_come_first() {
    let mut store = Store::new(10);
    put(&mut store, "a", "p", "x");
    let mut watch = begin(&store, "", &query("")).unwrap();
    assert_eq!(events(&watch.first().unwrap()), [told("ADDED", "p")]);
    assert_eq!(watch.first(), None);
}

#[test]
fn a_streamed_list_ends_with_its_bookmark() {
    let mut store = Store::new(10);
    put(&mut store, "a", "p", "x");
    let streamed = Query {
        initial_events: Some(true),
        version_match: "NotOlderThan".into(),
        ..query("")
    };
    let mut watch = begin(&store, "", &streamed).unwrap();
    let lines = watch.first().unwrap();
    assert_eq!(events(&lines), [told("ADDED", "p"), told("BOOKMARK", "")]);
    assert!(
        std::str::from_utf8(&lines)
            .unwrap()
            .contains("k8s.io/initial-events-end")
    );
    let unmatched = Query {
        version_match: String::new(),
        ..streamed
    };
    assert_eq!(begin(&store, "", &unmatched).unwrap_err().code, 422);
}

#[test]
fn a_watch_from_before_the_window_is_gone() {
    let mut store = Store::new(2);
    let old = store.revision().to_string();
    for _ in 0..5 {
        put(&mut store, "a", "p", "x");
    }
    for version in [old.as_str(), "99999"] {
        let mut watch = begin(&store, "", &query(version)).unwrap();
        assert_eq!(watch.first(), None);
        let Step::End(line) = watch.step(Ok(Vec::new())) else {
            panic!("the watch goes on from {version}");
        };
        let event: serde_json::Value = serde_json::from_slice(&line).unwrap();
        assert_eq!(
            (&event["type"], &event["object"]["code"]),
            (&"ERROR".into(), &410.into())
        );
    }
    assert_eq!(begin(&store, "", &query("x")).unwrap_err().code, 400);
}

#[test]
fn a_watcher_that_falls_behind_is_told_and_ended() {
    let store = Store::new(10);
    let mut watch = begin(&store, "", &query("")).unwrap();
    match watch.step(Err(Compacted { oldest: 9 })) {
        Step::End(lines) => {
            assert_eq!(events(&lines), [told("ERROR", "")]);
            assert!(
                std::str::from_utf8(&lines)
                    .unwrap()
                    .contains("\"code\":410")
            );
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_bookmark_is_sent_only_when_the_revision_has_moved() {
    let mut store = Store::new(10);
    let mut watch = begin(&store, "", &query("")).unwrap();
    assert_eq!(watch.bookmark(), None);
    put(&mut store, "b", "other", "x");
    assert!(step(&store, &mut watch).is_empty());
    assert_eq!(events(&watch.bookmark().unwrap()), [told("BOOKMARK", "")]);
    assert_eq!(watch.bookmark(), None);
}

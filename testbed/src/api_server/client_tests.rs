//! The server as the kube crate sees it.

use futures_util::{StreamExt, TryStreamExt, stream::BoxStream};
use k8s_openapi::api::core::v1::{ConfigMap, Event, Node, Pod};
use kube::{
    Api, Resource, ResourceExt,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams, WatchEvent, WatchParams},
    core::PartialObjectMeta,
    runtime::events::{Event as NewEvent, EventType, Recorder, Reporter},
    runtime::watcher::{self, watcher},
};
use serde_json::{Value, json};

use super::{
    ApiServerArgs,
    testing::{Server, code, create, within},
};

fn server() -> Server {
    Server::start(&ApiServerArgs::default())
}

fn map(name: &str, value: &str) -> Value {
    json!({"metadata": {"name": name, "labels": {"v": value}}, "data": {"v": value}})
}

async fn next<T>(stream: &mut BoxStream<'_, kube::Result<WatchEvent<T>>>) -> WatchEvent<T> {
    within(stream.try_next())
        .await
        .unwrap()
        .expect("the watch ended")
}

#[tokio::test]
async fn a_list_and_a_watch_from_it_miss_nothing() {
    let server = server();
    let maps: Api<ConfigMap> = server.api();
    create(&maps, map("a", "1")).await.unwrap();
    let list = maps
        .list(&ListParams::default().labels("v=1"))
        .await
        .unwrap();
    assert_eq!(list.items.len(), 1);
    create(&maps, map("b", "1")).await.unwrap();
    let from = list.metadata.resource_version.unwrap();
    let params = WatchParams::default().labels("v=1");
    let mut events = maps.watch(&params, &from).await.unwrap().boxed();
    assert!(matches!(next(&mut events).await, WatchEvent::Added(m) if m.name_any() == "b"));
    let patch = Patch::Merge(json!({"metadata": {"labels": {"v": "2"}}}));
    maps.patch("b", &PatchParams::default(), &patch)
        .await
        .unwrap();
    assert!(matches!(next(&mut events).await, WatchEvent::Deleted(m) if m.name_any() == "b"));
    maps.delete("a", &DeleteParams::default()).await.unwrap();
    assert!(matches!(next(&mut events).await, WatchEvent::Deleted(m) if m.name_any() == "a"));
}

#[tokio::test]
async fn a_watch_ends_at_its_time_with_a_bookmark() {
    let server = server();
    let maps: Api<ConfigMap> = server.api();
    let from = maps
        .list(&ListParams::default())
        .await
        .unwrap()
        .metadata
        .resource_version
        .unwrap();
    let nodes: Api<Node> = server.cluster_api();
    create(&nodes, json!({"metadata": {"name": "n"}}))
        .await
        .unwrap();
    let params = WatchParams::default().timeout(1);
    let events: Vec<_> = within(maps.watch(&params, &from).await.unwrap().collect()).await;
    let [Ok(WatchEvent::Bookmark(bookmark))] = events.as_slice() else {
        panic!("{events:?}");
    };
    assert!(bookmark.metadata.resource_version.parse::<u64>().unwrap() > from.parse().unwrap());
}

#[tokio::test]
async fn a_watch_from_too_long_ago_is_gone_and_the_watcher_lists_again() {
    let server = Server::start(&ApiServerArgs {
        event_window: 2,
        ..ApiServerArgs::default()
    });
    let maps: Api<ConfigMap> = server.api();
    let from = create(&maps, map("a", "0"))
        .await
        .unwrap()
        .resource_version()
        .unwrap();
    let mut seen = watcher(maps.clone(), watcher::Config::default()).boxed();
    for n in 1..6 {
        maps.replace(
            "a",
            &PostParams::default(),
            &serde_json::from_value(map("a", &n.to_string())).unwrap(),
        )
        .await
        .unwrap();
    }
    let gone = maps.watch(&WatchParams::default(), &from).await.unwrap();
    match within(gone.boxed().next()).await {
        Some(Ok(kube::core::WatchEvent::Error(status))) => assert_eq!(status.code, 410),
        other => panic!("not told that it is gone: {other:?}"),
    }
    // The watcher saw it all the same.
    within(async {
        loop {
            if let Some(Ok(watcher::Event::InitApply(m) | watcher::Event::Apply(m))) =
                seen.next().await
                && m.data
                    .unwrap_or_default()
                    .get("v")
                    .is_some_and(|v| v == "5")
            {
                break;
            }
        }
    })
    .await;
}

#[tokio::test]
async fn streamed_lists_and_metadata_watches_are_served() {
    let server = server();
    let pods: Api<Pod> = server.api();
    let pod =
        json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "a", "image": "i"}]}});
    create(&pods, pod).await.unwrap();
    let metadata: Api<PartialObjectMeta<Pod>> = server.api();
    for config in [
        watcher::Config::default().streaming_lists(),
        watcher::Config::default(),
    ] {
        let events = watcher(metadata.clone(), config).take(3);
        let events: Vec<_> = within(events.collect()).await;
        let names: Vec<String> = events
            .into_iter()
            .filter_map(|e| match e.unwrap() {
                watcher::Event::InitApply(p) => Some(p.name_any()),
                _ => None,
            })
            .collect();
        assert_eq!(names, ["p"]);
    }
}

#[tokio::test]
async fn the_second_of_two_writers_meets_a_conflict() {
    let server = server();
    let maps: Api<ConfigMap> = server.api();
    let first = create(&maps, map("a", "1")).await.unwrap();
    let second = first.clone();
    maps.replace("a", &PostParams::default(), &{
        let mut first = first;
        first.labels_mut().insert("w".into(), "1".into());
        first
    })
    .await
    .unwrap();
    let mut second = second;
    second.labels_mut().insert("w".into(), "2".into());
    assert_eq!(
        code(maps.replace("a", &PostParams::default(), &second).await),
        409
    );
}

#[tokio::test]
async fn every_kind_of_patch_is_understood() {
    let server = server();
    let nodes: Api<Node> = server.cluster_api();
    let params = PatchParams::apply("test");
    let apply = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n", "labels": {"a": "1"}}});
    nodes
        .patch("n", &params, &Patch::Apply(apply))
        .await
        .unwrap();
    let plain = PatchParams::default();
    let merge = json!({"metadata": {"labels": {"b": "2"}}});
    nodes
        .patch("n", &plain, &Patch::Merge(merge))
        .await
        .unwrap();
    let conditions = json!({"status": {"conditions": [{"type": "Ready", "status": "True"}]}});
    nodes
        .patch_status("n", &plain, &Patch::Strategic(conditions))
        .await
        .unwrap();
    let json = json!([{"op": "remove", "path": "/metadata/labels/a"}]);
    let json: Patch<()> = Patch::Json(serde_json::from_value(json).unwrap());
    let node = nodes.patch("n", &plain, &json).await.unwrap();
    assert_eq!(
        node.labels().iter().collect::<Vec<_>>(),
        [(&"b".to_owned(), &"2".to_owned())]
    );
    assert_eq!(node.status.unwrap().conditions.unwrap().len(), 1);
}

#[tokio::test]
async fn odd_requests_are_answered_with_a_status() {
    let server = server();
    let json = ("content-type", "application/json");
    for (method, path, headers, body, wanted) in [
        ("GET", "/api/v1/nothing", &[][..], "", 404),
        ("GET", "/api/v1/pods?watch=perhaps", &[], "", 400),
        (
            "GET",
            "/api/v1/pods?fieldSelector=spec.foo%3D1",
            &[],
            "",
            400,
        ),
        ("GET", "/api/v1/pods", &[("accept", "image/png")], "", 406),
        (
            "DELETE",
            "/api/v1/namespaces/default/pods/none",
            &[],
            "",
            404,
        ),
        ("POST", "/api/v1/nodes", &[json], "{", 400),
        ("POST", "/api/v1/nodes", &[json], "[]", 400),
        (
            "POST",
            "/api/v1/nodes",
            &[("content-type", "x/y")],
            "{}",
            415,
        ),
        ("OPTIONS", "/api/v1/nodes", &[], "", 405),
    ] {
        let (code, status) = within(server.send(method, path, headers, body)).await;
        assert_eq!(code, wanted, "{method} {path}");
        assert_eq!(status["kind"], "Status", "{method} {path}");
        assert_eq!(status["code"], wanted, "{method} {path}");
    }
    let (code, _) = server
        .send("POST", "/api/v1/nodes", &[json], vec![b' '; 4 << 20])
        .await;
    assert_eq!(code, 413);
}

#[tokio::test]
async fn events_of_the_new_group_are_found_by_the_old_one() {
    let server = server();
    let nodes: Api<Node> = server.cluster_api();
    let node = create(&nodes, json!({"metadata": {"name": "n"}}))
        .await
        .unwrap();
    let recorder = Recorder::new(server.client.clone(), Reporter::from("tester"));
    let event = NewEvent {
        type_: EventType::Warning,
        reason: "Because".into(),
        note: Some("a note".into()),
        action: "Acting".into(),
        secondary: None,
    };
    recorder
        .publish(&event, &node.object_ref(&()))
        .await
        .unwrap();
    recorder
        .publish(&event, &node.object_ref(&()))
        .await
        .unwrap();
    let events: Api<Event> = server.api();
    let about = ListParams::default().fields("involvedObject.kind=Node,involvedObject.name=n");
    let found = events.list(&about).await.unwrap().items;
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].message.as_deref(), Some("a note"));
    assert_eq!(found[0].series.as_ref().and_then(|s| s.count), Some(2));
}

#[tokio::test]
async fn a_restart_keeps_objects_and_goes_on_counting() {
    let folder = tempfile::tempdir().unwrap();
    let args = ApiServerArgs {
        state: Some(folder.path().join("state")),
        audit: Some(folder.path().join("audit")),
        ..ApiServerArgs::default()
    };
    let first = Server::start(&args);
    let made = create(&first.api::<ConfigMap>(), map("a", "1"))
        .await
        .unwrap();
    drop(first);
    let second = Server::start(&args);
    let maps: Api<ConfigMap> = second.api();
    let kept = maps.get("a").await.unwrap();
    assert_eq!(kept, made);
    let next = create(&maps, map("b", "1"))
        .await
        .unwrap()
        .resource_version()
        .unwrap();
    let version = |text: &str| text.parse::<u64>().unwrap();
    assert!(version(&next) > version(&made.resource_version().unwrap()));
    let audit = std::fs::read_to_string(folder.path().join("audit")).unwrap();
    assert!(
        audit
            .lines()
            .any(|l| l.contains("\"code\":201") && l.contains("configmaps"))
    );
}

use std::convert::Infallible;

use axum::{body::Body, http::Request};
use http_body_util::BodyExt as _;
use kubernetes::api::ApiArgs;
use model::settings::Settings;
use serde_json::{Value, json};
use tower::ServiceExt as _;

use super::*;
use crate::{
    index::Index,
    metrics::Metrics,
    testing::{GPU, free, holding, index, node, pending, whole},
};

/// A server over this index whose API server is not there: nothing listens on port 1.
fn server(index: Index) -> (Router, Shared) {
    let api = ApiArgs {
        kubeconfig: None,
        api_server: Some("http://127.0.0.1:1".into()),
    };
    let shared = Shared::new(index, Metrics::new(&prometheus::Registry::new()).unwrap());
    let leadership = Leadership::alone();
    let binder = Binder::new(api.client().unwrap(), shared.clone(), leadership.clone());
    let forwarder = Forwarder::new(None, shared.metrics.clone());
    let tasks = kit::Tasks::default();
    let server = Server::new(shared.clone(), binder, leadership, forwarder, tasks);
    (server.router(), shared)
}

async fn call(router: &Router, request: Request<Body>) -> (u16, String) {
    let answer = router.clone().oneshot(request).await.unwrap();
    let status = answer.status().as_u16();
    let body = answer.into_body().collect().await.unwrap().to_bytes();
    (status, String::from_utf8(body.to_vec()).unwrap())
}

async fn post_to(router: &Router, path: &str, body: &str) -> (u16, String) {
    call(
        router,
        Request::post(path)
            .body(Body::from(body.to_owned()))
            .unwrap(),
    )
    .await
}

fn question(pod: &str) -> String {
    json!({
        "Pod": {"metadata": {"name": pod, "uid": pod}, "spec": {"containers": [
            {"name": "main", "resources": {"limits": {GPU: "1"}}}]}},
        "NodeNames": ["n1"],
    })
    .to_string()
}

#[tokio::test]
async fn nothing_is_answered_before_the_watches_have_shown_everything() {
    let (router, _) = server(Index::new(Settings::default()));
    for verb in ["/filter", "/prioritize", "/bind", "/preempt"] {
        assert_eq!(
            post_to(&router, verb, &question("p")).await.0,
            503,
            "{verb}"
        );
    }
}

#[tokio::test]
async fn filter_prioritize_and_explain_tell_the_same_story() {
    let mut index = index([node("n1", 1, 144)]);
    index.apply_pod(pending("p", &[(GPU, "1")]));
    let (router, shared) = server(index);
    let (status, body) = post_to(&router, "/filter", &question("p")).await;
    let answer: Value = serde_json::from_str(&body).unwrap();
    assert_eq!((status, &answer["NodeNames"]), (200, &json!(["n1"])));
    let (_, body) = post_to(&router, "/prioritize", &question("p")).await;
    let scores: Value = serde_json::from_str(&body).unwrap();
    assert_eq!(scores[0]["Host"], "n1");
    assert!(scores[0]["Score"].as_u64().unwrap() <= 10);

    let explain = || {
        Request::get("/explain/default/p")
            .body(Body::empty())
            .unwrap()
    };
    let (_, body) = call(&router, explain()).await;
    assert_eq!(
        serde_json::from_str::<Value>(&body).unwrap()["nodes_that_fit"],
        1
    );
    shared.write().delete_node(&crate::testing::node_name("n1"));
    let (_, body) = call(&router, explain()).await;
    assert_eq!(
        serde_json::from_str::<Value>(&body).unwrap()["nodes_that_fit"],
        0
    );
    let gone = Request::get("/explain/default/other")
        .body(Body::empty())
        .unwrap();
    assert_eq!(call(&router, gone).await.0, 404);
}

#[tokio::test]
async fn a_change_that_kube_scheduler_saw_first_is_waited_for() {
    let mut index = index([node("n1", 1, 144)]);
    index.apply_pod(holding("old", "n1", &[(GPU, "1")], whole(&["ppu-0"])));
    index.apply_pod(pending("p", &[(GPU, "1")]));
    let (router, shared) = server(index);
    let watch = async {
        // Word of something else comes first.
        shared.changes.tell();
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        shared.write().delete_pod(&crate::testing::uid("old"));
        shared.changes.tell();
    };
    let asked = question("p");
    let ((_, body), ()) = tokio::join!(post_to(&router, "/filter", &asked), watch);
    let answer: Value = serde_json::from_str(&body).unwrap();
    assert_eq!(answer["NodeNames"], json!(["n1"]), "{body}");
    let waited = shared
        .metrics
        .calls
        .with_label_values(&["filter", "some_after_wait"]);
    assert_eq!(waited.get(), 1);
    let rejected = shared.metrics.candidates.with_label_values(&["rejected"]);
    assert_eq!(rejected.get(), 0, "only what is answered counts");
}

#[tokio::test]
async fn a_body_that_cannot_be_read_is_an_error_in_words() {
    let (router, _) = server(index([]));
    for (verb, status) in [
        ("/filter", 200),
        ("/bind", 200),
        ("/prioritize", 400),
        ("/preempt", 400),
    ] {
        let (got, text) = post_to(&router, verb, "{\"Pod\": 7").await;
        assert_eq!(got, status, "{verb}");
        assert!(text.contains("can't be read"), "{verb}: {text}");
    }
}

#[tokio::test]
async fn a_bind_whose_answer_is_lost_stays_promised() {
    let mut index = index([node("n1", 1, 144)]);
    index.apply_pod(pending("p", &[(GPU, "1")]));
    let (router, shared) = server(index);
    let body =
        json!({"PodName": "p", "PodNamespace": "default", "PodUID": "p", "Node": "n1"}).to_string();
    let (status, answer) = post_to(&router, "/bind", &body).await;
    let answer: Value = serde_json::from_str(&answer).unwrap();
    assert_eq!(status, 200);
    assert!(
        answer["Error"].as_str().unwrap().contains("not known"),
        "{answer}"
    );
    assert_eq!(free(&shared.read(), "n1"), [(0, 0)]);
}

#[tokio::test]
async fn victims_are_kept_where_their_going_makes_room() {
    let mut index = index([node("n1", 1, 144), node("n2", 1, 144)]);
    index.apply_pod(holding("v1", "n1", &[(GPU, "1")], whole(&["ppu-0"])));
    index.apply_pod(holding("v2", "n2", &[(GPU, "1")], whole(&["ppu-0"])));
    let (router, _) = server(index);
    let mut body: Value = serde_json::from_str(&question("p")).unwrap();
    body["NodeNameToMetaVictims"] = json!({
        "n1": {"Pods": [{"UID": "v1"}], "NumPDBViolations": 0},
        "n2": {"Pods": [], "NumPDBViolations": 0},
    });
    let (_, answer) = post_to(&router, "/preempt", &body.to_string()).await;
    let answer: Value = serde_json::from_str(&answer).unwrap();
    assert_eq!(
        answer,
        json!({"NodeNameToMetaVictims": {"n1": {"Pods": [{"UID": "v1"}], "NumPDBViolations": 0}}})
    );
}

#[tokio::test]
async fn a_body_that_is_announced_too_large_is_not_read() {
    let (router, _) = server(index([]));
    let request = Request::post("/filter").header("content-length", (64 << 20) + 1);
    assert_eq!(
        call(&router, request.body(Body::empty()).unwrap()).await.0,
        413
    );
    let request = Request::post("/filter").header("content-length", 3);
    assert_eq!(
        call(&router, request.body(Body::from("longer")).unwrap())
            .await
            .0,
        400
    );
}

#[tokio::test]
async fn calls_for_whose_bodies_there_is_no_room_are_counted_while_they_wait() {
    let (router, shared) = server(index([node("n1", 1, 144)]));
    let largest = || {
        let never = Body::from_stream(futures_util::stream::pending::<Result<Bytes, Infallible>>());
        let request = Request::post("/filter").header(header::CONTENT_LENGTH, MOST_BODY_BYTES);
        let router = router.clone();
        tokio::spawn(async move { router.oneshot(request.body(never).unwrap()).await })
    };
    let most = BODIES_KIB / (MOST_BODY_BYTES / 1024 + 1);
    let read: Vec<_> = (0..most).map(|_| largest()).collect();
    let waiting = [largest(), largest()];
    let queued = || shared.metrics.queued.get();
    while queued() < 2 {
        tokio::task::yield_now().await;
    }
    let [one, other] = waiting;
    one.abort();
    assert!(one.await.unwrap_err().is_cancelled());
    assert_eq!(queued(), 1, "one hung up");
    for call in read {
        call.abort();
    }
    while queued() > 0 {
        tokio::task::yield_now().await;
    }
    other.abort();
}

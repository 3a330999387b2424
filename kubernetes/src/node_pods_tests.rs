use std::{convert::Infallible, sync::atomic::AtomicUsize};

use http_body_util::Full;
use hyper::{Request, Response, body::Incoming, service::service_fn};
use serde_json::json;
use tokio::net::TcpListener;

use super::*;

type Answer = Arc<dyn Fn(&Request<Incoming>) -> (u16, String) + Send + Sync>;

/// Serves on a free port of loopback for as long as the test runs.
async fn serve(
    answer: impl Fn(&Request<Incoming>) -> (u16, String) + Send + Sync + 'static,
) -> String {
    let answer: Answer = Arc::new(answer);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let answer = Arc::clone(&answer);
            tokio::spawn(async move {
                let service = service_fn(move |request| {
                    let (status, body) = answer(&request);
                    let mut response = Response::new(Full::new(Bytes::from(body)));
                    *response.status_mut() = http::StatusCode::from_u16(status).unwrap();
                    async move { Ok::<_, Infallible>(response) }
                });
                let _ = hyper::server::conn::http1::Builder::new()
                    .serve_connection(TokioIo::new(stream), service)
                    .await;
            });
        }
    });
    url
}

fn pod(name: &str) -> serde_json::Value {
    json!({"metadata": {"name": name, "namespace": "ns"}, "spec": {"containers": []}})
}

fn names(pods: &[Pod]) -> Vec<&str> {
    pods.iter()
        .filter_map(|p| p.metadata.name.as_deref())
        .collect()
}

fn client(url: &str) -> kube::Client {
    crate::api::ApiArgs {
        kubeconfig: None,
        api_server: Some(url.to_owned()),
    }
    .client()
    .unwrap()
}

fn node() -> model::name::NodeName {
    model::name::NodeName::new("n1").unwrap()
}

#[tokio::test]
async fn pods_are_read_from_the_read_only_port() {
    let url = serve(|request| {
        assert_eq!(request.uri().path(), "/pods");
        (
            200,
            json!({"kind": "PodList", "items": [pod("a"), pod("b")]}).to_string(),
        )
    })
    .await;
    let pods = NodePods::read_only_port(&format!("{url}/")).list().await;
    assert_eq!(names(&pods.unwrap()), ["a", "b"]);
}

#[tokio::test]
async fn no_pods_may_be_written_as_null() {
    let url = serve(|_| (200, json!({"kind": "PodList", "items": null}).to_string())).await;
    assert!(
        NodePods::read_only_port(&url)
            .list()
            .await
            .unwrap()
            .is_empty()
    );
}

#[tokio::test]
async fn one_malformed_pod_does_not_hide_the_others() {
    let url = serve(|_| {
        let bad = json!({"metadata": {"name": "x"}, "spec": {"containers": 7}});
        (200, json!({"items": [pod("a"), bad, pod("b")]}).to_string())
    })
    .await;
    let pods = NodePods::read_only_port(&url).list().await.unwrap();
    assert_eq!(names(&pods), ["a", "b"]);
}

#[tokio::test]
async fn what_is_no_pod_list_is_an_error_that_names_the_url() {
    let url = serve(|_| (200, "not json".to_owned())).await;
    let text = NodePods::read_only_port(&url)
        .list()
        .await
        .err()
        .unwrap()
        .to_string();
    assert!(text.contains(&url), "{text}");
    let url = serve(|_| (404, String::new())).await;
    let text = NodePods::read_only_port(&url)
        .list()
        .await
        .err()
        .unwrap()
        .to_string();
    assert!(text.contains("404"), "{text}");
    assert!(NodePods::read_only_port("nonsense").list().await.is_err());
}

#[tokio::test]
async fn pods_are_read_from_the_api_server_page_by_page() {
    let url = serve(|request| {
        let query = request.uri().query().unwrap_or_default();
        assert!(
            query.contains("fieldSelector=spec.nodeName%3Dn1"),
            "{query}"
        );
        let list = if query.contains("continue=next") {
            assert!(!query.contains("resourceVersion="), "{query}");
            json!({"metadata": {"resourceVersion": "7"}, "items": [pod("b")]})
        } else {
            assert!(query.contains("resourceVersion=0"), "{query}");
            json!({"metadata": {"resourceVersion": "7", "continue": "next"}, "items": [pod("a")]})
        };
        (200, list.to_string())
    })
    .await;
    let pods = NodePods::api_server(client(&url), &node()).list().await;
    assert_eq!(names(&pods.unwrap()), ["a", "b"]);
}

#[tokio::test]
async fn the_second_source_serves_while_the_first_does_not() {
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&calls);
    let first = serve(move |_| {
        if counted.fetch_add(1, Ordering::SeqCst) == 0 {
            (500, String::new())
        } else {
            (200, json!({"items": [pod("first")]}).to_string())
        }
    })
    .await;
    let second = serve(|_| {
        (
            200,
            json!({"metadata": {}, "items": [pod("second")]}).to_string(),
        )
    })
    .await;
    let pods = NodePods::either(
        NodePods::read_only_port(&first),
        NodePods::api_server(client(&second), &node()),
    );
    assert_eq!(names(&pods.list().await.unwrap()), ["second"]);
    assert_eq!(names(&pods.list().await.unwrap()), ["first"]);
}

#[tokio::test]
async fn both_sources_failing_names_both() {
    let url = serve(|_| (500, String::new())).await;
    let pods = NodePods::either(
        NodePods::read_only_port(&url),
        NodePods::read_only_port("http://127.0.0.1:1"),
    );
    let text = pods.list().await.err().unwrap().to_string();
    assert!(
        text.contains(&url) && text.contains("127.0.0.1:1"),
        "{text}"
    );
}

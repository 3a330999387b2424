use std::{net::SocketAddr, sync::atomic::Ordering};

use axum::{
    body::Body,
    http::{Method, Request, StatusCode},
};
use http_body_util::BodyExt;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};
use tower::ServiceExt;

use super::*;
use crate::{
    kubelet::tests::{Lister, kubelet, page, pod, serve},
    scene::{card_sample, cards, config, snapshot},
};

struct Answer {
    status: StatusCode,
    content_type: String,
    length: Option<String>,
    body: String,
}

async fn ask(router: &Router, method: Method, path: &str) -> Answer {
    let request = Request::builder()
        .method(method)
        .uri(path)
        .body(Body::empty())
        .unwrap();
    let response = router.clone().oneshot(request).await.unwrap();
    let header = |name| {
        let value = response.headers().get(name);
        value.map(|value| value.to_str().unwrap().to_owned())
    };
    Answer {
        status: response.status(),
        content_type: header(header::CONTENT_TYPE).unwrap_or_default(),
        length: header(header::CONTENT_LENGTH),
        body: {
            let body = response.into_body().collect().await.unwrap().to_bytes();
            String::from_utf8(body.to_vec()).unwrap()
        },
    }
}

fn collect(page: &Page) {
    page.update(|state| state.take_cards(cards(8)));
    page.update(|state| state.take_config(config()));
    page.update(|state| {
        let samples = (0..8).map(|n| card_sample(&format!("ppu-{n}"), &[0.5, 0.0]));
        state.take_snapshot(snapshot(samples.collect(), Vec::new()))
    });
}

#[tokio::test]
async fn methods_and_paths_are_answered_as_http_wants() {
    let folder = tempfile::tempdir().unwrap();
    let page = page();
    collect(&page);
    let kubelet = Arc::new(kubelet(&page, folder.path(), Duration::from_hours(1)));
    let router = router(page, kubelet);
    let got = ask(&router, Method::GET, "/metrics").await;
    assert_eq!(got.status, StatusCode::OK);
    assert_eq!(got.content_type, "text/plain; version=0.0.4; charset=utf-8");
    assert!(got.body.starts_with("# HELP "));
    let head = ask(&router, Method::HEAD, "/metrics").await;
    assert_eq!((head.status, head.body.as_str()), (StatusCode::OK, ""));
    assert_eq!(head.length, Some(got.body.len().to_string()));
    let post = ask(&router, Method::POST, "/metrics").await;
    assert_eq!(post.status, StatusCode::METHOD_NOT_ALLOWED);
    assert_eq!(
        ask(&router, Method::GET, "/nothing").await.status,
        StatusCode::NOT_FOUND
    );
    let root = ask(&router, Method::GET, "/").await;
    assert_eq!(root.status, StatusCode::OK);
    assert!(root.body.contains("/metrics"));
}

#[tokio::test]
async fn case_14_one_collection_serves_two_scrapers() {
    let folder = tempfile::tempdir().unwrap();
    let lister = Lister {
        pods: vec![pod("a", "ppu-0", 10)],
        ..Lister::default()
    };
    let _served = serve(&lister, &folder.path().join("kubelet.sock"));
    let page = page();
    collect(&page);
    let kubelet = Arc::new(kubelet(&page, folder.path(), Duration::from_hours(1)));
    let router = router(Arc::clone(&page), kubelet);
    for _ in 0..3 {
        let (one, two) = tokio::join!(
            ask(&router, Method::GET, "/metrics"),
            ask(&router, Method::GET, "/metrics")
        );
        assert_eq!(one.body, two.body);
        assert!(one.body.contains("accel_exporter_collections_total 1\n"));
        assert!(one.body.contains("pod=\"a\""));
    }
    assert_eq!(
        lister.calls.load(Ordering::SeqCst),
        1,
        "kubelet was asked once"
    );
    assert_eq!(page.renderings(), 1, "and the text written once");
}

#[tokio::test]
async fn the_first_scrape_waits_for_the_first_collection() {
    let folder = tempfile::tempdir().unwrap();
    let page = page();
    let kubelet = Arc::new(kubelet(&page, folder.path(), Duration::from_hours(1)));
    let router = router(Arc::clone(&page), kubelet);
    let (answer, ()) = tokio::join!(ask(&router, Method::GET, "/metrics"), async {
        tokio::task::yield_now().await;
        collect(&page);
    });
    assert_eq!(
        answer
            .body
            .matches("\naccel_card_utilization_ratio{")
            .count(),
        8
    );
}

#[tokio::test(start_paused = true)]
async fn a_scrape_gives_up_waiting_and_says_that_the_runtime_is_away() {
    let folder = tempfile::tempdir().unwrap();
    let page = page();
    let kubelet = Arc::new(kubelet(&page, folder.path(), Duration::from_hours(1)));
    let before = tokio::time::Instant::now();
    let answer = ask(&router(page, kubelet), Method::GET, "/metrics").await;
    assert_eq!(answer.status, StatusCode::OK);
    assert!(answer.body.contains("accel_exporter_runtime_up 0\n"));
    assert!(before.elapsed() < Duration::from_secs(5));
}

async fn scrape_at(address: SocketAddr) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let request = "GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer
}

#[tokio::test]
async fn case_15_one_address_or_both_families_are_served() {
    let folder = tempfile::tempdir().unwrap();
    let page = page();
    collect(&page);
    let kubelet = Arc::new(kubelet(&page, folder.path(), Duration::from_hours(1)));
    let router = router(page, kubelet);
    let tasks = kit::Tasks::default();
    let start = |listen: &str| {
        let listener = kit::listen(listen.parse().unwrap()).unwrap();
        let port = listener.local_addr().unwrap().port();
        let server = kit::serve(
            listener,
            router.clone(),
            tasks.clone(),
            kit::Limits::default(),
        );
        (port, tokio::spawn(server))
    };
    let ok = |answer: String| {
        assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
        assert!(answer.contains("accel_card_info{"));
    };
    let (port, both) = start("[::]:0");
    ok(scrape_at(([127, 0, 0, 1], port).into()).await);
    let v6: std::net::IpAddr = "::1".parse().unwrap();
    // A machine without IPv6 shows the other half of the case: the default took IPv4.
    if let Ok(probe) = std::net::TcpListener::bind((v6, 0)) {
        drop(probe);
        ok(scrape_at((v6, port).into()).await);
        let (port, only) = start("[::1]:0");
        ok(scrape_at((v6, port).into()).await);
        only.abort();
    }
    both.abort();
}

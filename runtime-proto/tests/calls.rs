//! Single calls of the client.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

mod fake;

use std::{
    sync::{Arc, atomic::Ordering},
    time::{Duration, Instant},
};

use axum::{body::Body, extract::Request, routing::post};
use fake::{Answer, Runtime, Script, client, soon, timing};
use futures_util::future::join_all;
use model::name::{ContainerName, Namespace, PodName, PodRef, PodUid};
use runtime_proto::{
    Error,
    client::{Allocation, Consumer, Timing},
    wire,
};
use tonic::Status;

const WITHIN: Duration = Duration::from_secs(5);

fn allocation() -> Allocation {
    Allocation {
        id: "uid-1/main".into(),
        consumer: Consumer {
            pod: PodRef {
                namespace: Namespace::new("default").unwrap(),
                name: PodName::new("a").unwrap(),
            },
            uid: PodUid::new("uid-1").unwrap(),
            container: ContainerName::new("main").unwrap(),
        },
        grants: Vec::new(),
    }
}

#[tokio::test]
async fn without_a_runtime_a_call_fails_at_once_and_names_the_socket() {
    let folder = tempfile::tempdir().unwrap();
    let client = client(folder.path(), timing());
    let start = Instant::now();
    let error = client.supported().await.unwrap_err();
    assert!(start.elapsed() < Duration::from_secs(2));
    let text = error.to_string();
    assert!(matches!(error, Error::Unavailable { .. }), "{text}");
    assert!(
        text.contains("dp2mgr.sock") && text.contains("No such file"),
        "{text}"
    );
}

#[tokio::test]
async fn a_socket_that_nobody_listens_on_fails_at_once() {
    let folder = tempfile::tempdir().unwrap();
    drop(std::os::unix::net::UnixListener::bind(folder.path().join("dp2mgr.sock")).unwrap());
    let error = client(folder.path(), timing()).book().await.unwrap_err();
    assert!(error.to_string().contains("refused"), "{error}");
    assert!(matches!(error, Error::Unavailable { .. }), "{error}");
}

#[tokio::test]
async fn a_call_after_the_runtime_was_replaced_just_works() {
    let folder = tempfile::tempdir().unwrap();
    let script = Arc::new(Script::default());
    let client = client(folder.path(), timing());
    for _ in 0..5 {
        let runtime = Runtime::start(folder.path(), &script);
        for _ in 0..3 {
            let supported = soon(client.supported()).await.unwrap();
            assert_eq!(supported.runtime_version, "fake");
        }
        drop(runtime);
    }
    let error = soon(client.supported()).await.unwrap_err();
    assert!(matches!(error, Error::Unavailable { .. }), "{error}");
}

#[tokio::test]
async fn a_slow_answer_ends_at_the_caller_s_deadline() {
    let folder = tempfile::tempdir().unwrap();
    let script = Arc::new(Script::default());
    *script.allocate.lock().unwrap() = Some(Answer::Hang);
    let _runtime = Runtime::start(folder.path(), &script);
    let client = client(folder.path(), timing());
    let within = Duration::from_millis(60);
    let error = soon(client.allocate(&allocation(), within))
        .await
        .unwrap_err();
    assert!(
        matches!(error, Error::Deadline { call: "Allocate", within: w } if w == within),
        "{error}"
    );
}

#[tokio::test]
async fn a_frozen_runtime_ends_a_call_at_its_deadline() {
    let folder = tempfile::tempdir().unwrap();
    let script = Arc::new(Script::default());
    let mut runtime = Runtime::start(folder.path(), &script);
    let quick = Timing {
        call: Duration::from_millis(80),
        ..timing()
    };
    let client = client(folder.path(), quick);
    soon(client.supported()).await.unwrap();
    runtime.freeze();
    let error = soon(client.supported()).await.unwrap_err();
    assert!(matches!(error, Error::Deadline { .. }), "{error}");
}

#[tokio::test]
async fn a_refusal_is_one_line_of_at_most_300_characters() {
    let folder = tempfile::tempdir().unwrap();
    let script = Arc::new(Script::default());
    let long = format!("card\nppu-0 {}", "x".repeat(1000));
    *script.allocate.lock().unwrap() = Some(Answer::Fail(Status::failed_precondition(long)));
    let _runtime = Runtime::start(folder.path(), &script);
    let answer = client(folder.path(), timing())
        .allocate(&allocation(), WITHIN)
        .await;
    let Err(Error::Refused { message, .. }) = answer else {
        panic!("{answer:?}");
    };
    assert!(message.starts_with("card ppu-0 xxx"), "{message}");
    assert_eq!(message.chars().count(), 300);
}

#[tokio::test]
async fn a_call_that_the_runtime_lacks_is_told_apart() {
    let folder = tempfile::tempdir().unwrap();
    let _runtime = Runtime::start(folder.path(), &Arc::new(Script::default()));
    let error = client(folder.path(), timing()).book().await.unwrap_err();
    assert!(
        matches!(error, Error::Unimplemented("ListGpuInfo")),
        "{error}"
    );
}

#[tokio::test]
async fn a_service_that_the_runtime_lacks_is_told_apart() {
    let folder = tempfile::tempdir().unwrap();
    let _runtime = Runtime::serve(folder.path(), tonic::service::Routes::default());
    let error = client(folder.path(), timing())
        .supported()
        .await
        .unwrap_err();
    assert!(
        matches!(error, Error::Unimplemented("ListSupportedXPUType")),
        "{error}"
    );
}

#[tokio::test]
async fn an_answer_past_16_mib_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let script = Arc::new(Script::default());
    let mut cards = fake::list(1, 1).cards;
    cards[0].health_reason = "x".repeat(17 << 20);
    *script.book.lock().unwrap() = Some(wire::ListGpuInfoResponse {
        cards,
        ..wire::ListGpuInfoResponse::default()
    });
    let _runtime = Runtime::start(folder.path(), &script);
    let error = soon(client(folder.path(), timing()).book())
        .await
        .unwrap_err();
    assert!(matches!(error, Error::BadAnswer { .. }), "{error}");
    assert!(error.to_string().contains("16 MiB"), "{error}");
}

#[tokio::test]
async fn an_answer_that_is_no_message_is_a_bad_answer_and_the_authority_is_a_host_name() {
    let folder = tempfile::tempdir().unwrap();
    let answer = |request: Request| async move {
        assert_eq!(request.uri().authority().unwrap(), "localhost");
        let mut body = vec![0, 0, 0, 0, 3];
        body.extend([0x12, 0xff, 0xff]);
        http::Response::builder()
            .header("content-type", "application/grpc")
            .body(Body::from(body))
            .unwrap()
    };
    let path = "/runtimekit.runtime.v1.DeviceManager/ListGpuInfo";
    let routes = axum::Router::new().route(path, post(answer));
    let _runtime = Runtime::serve(folder.path(), routes.into());
    let error = soon(client(folder.path(), timing()).book())
        .await
        .unwrap_err();
    assert!(matches!(error, Error::BadAnswer { .. }), "{error:?}");
}

#[tokio::test]
async fn edits_that_make_no_sense_are_a_bad_answer_that_names_them() {
    let folder = tempfile::tempdir().unwrap();
    let script = Arc::new(Script::default());
    *script.allocate.lock().unwrap() = Some(Answer::Give(wire::AllocateResponse {
        annotations: [("xdm.amp.com/cards".to_owned(), String::new())].into(),
        ..wire::AllocateResponse::default()
    }));
    let _runtime = Runtime::start(folder.path(), &script);
    let error = client(folder.path(), timing())
        .allocate(&allocation(), WITHIN)
        .await
        .unwrap_err();
    assert!(matches!(error, Error::BadAnswer { .. }), "{error}");
    assert!(error.to_string().contains("xdm.amp.com/cards"), "{error}");
}

#[tokio::test]
async fn only_ids_that_were_asked_for_count_as_released() {
    let folder = tempfile::tempdir().unwrap();
    let _runtime = Runtime::start(folder.path(), &Arc::new(Script::default()));
    let client = client(folder.path(), timing());
    assert_eq!(client.release(&["a".into()]).await.unwrap(), ["a"]);
}

#[tokio::test]
async fn at_most_32_calls_are_in_flight_and_the_rest_wait_within_their_deadlines() {
    let folder = tempfile::tempdir().unwrap();
    let script = Arc::new(Script::default());
    *script.allocate.lock().unwrap() = Some(Answer::Hang);
    let _runtime = Runtime::start(folder.path(), &script);
    let client = client(folder.path(), timing());
    let asked = allocation();
    let first = (0..32).map(|_| client.allocate(&asked, Duration::from_mins(1)));
    let late = (0..8).map(|_| client.allocate(&asked, Duration::from_millis(200)));
    let late = tokio::select! {
        biased;
        ended = join_all(first) => panic!("{ended:?}"),
        late = soon(join_all(late)) => late,
    };
    for answer in late {
        assert!(matches!(answer, Err(Error::Deadline { .. })), "{answer:?}");
    }
    assert_eq!(script.allocations.load(Ordering::SeqCst), 32);
}

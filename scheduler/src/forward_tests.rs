use std::{net::SocketAddr, time::Duration};

use axum::{Router, body::Bytes, routing::any};
use futures_util::stream;
use http_body_util::BodyExt as _;
use serde_json::{Value, json};
use tokio::{
    io::AsyncReadExt as _,
    net::TcpListener,
    sync::{mpsc, watch},
    time::Instant,
};

use super::*;
use crate::certificate::testing::{Served, served};

const SOON: Duration = Duration::from_secs(20);
const NAME: &str = "scheduler.kube-system.svc";

fn metrics() -> Metrics {
    Metrics::new(&prometheus::Registry::new()).unwrap()
}

fn plain() -> Forwarder {
    Forwarder::new(None, metrics())
}

fn over_tls(current: &Arc<Current>, name: &'static str) -> Forwarder {
    let name = ServerName::try_from(name).unwrap();
    Forwarder::new(Some((Arc::clone(current), name)), metrics())
}

/// Serves these routes, over TLS where there is something to serve with.
fn leader(router: Router, tls: Option<&Served>) -> SocketAddr {
    let listener = kit::listen("127.0.0.1:0".parse().unwrap()).unwrap();
    let address = listener.local_addr().unwrap();
    let limits = kit::Limits {
        max_connections: 2 * MOST_CALLS,
        ..kit::Limits::default()
    };
    let tasks = kit::Tasks::default();
    match tls {
        None => drop(tokio::spawn(kit::serve(listener, router, tasks, limits))),
        Some(tls) => {
            let config = Arc::clone(&tls.config);
            let serve = kit::serve_tls(listener, router, tasks, limits, config);
            drop(tokio::spawn(serve));
        }
    }
    address
}

/// Answers with what was asked.
fn echo() -> Router {
    let handler = async |request: Request| {
        let (head, body) = request.into_parts();
        let headers = head.headers.iter();
        let headers: std::collections::BTreeMap<_, _> = headers
            .map(|(name, value)| (name.as_str(), value.to_str().unwrap()))
            .collect();
        let body = body.collect().await.unwrap().to_bytes();
        let seen = json!({
            "method": head.method.as_str(),
            "uri": head.uri.to_string(),
            "headers": headers,
            "body": String::from_utf8(body.to_vec()).unwrap(),
        });
        let mut answer = (StatusCode::IM_A_TEAPOT, seen.to_string()).into_response();
        let headers = answer.headers_mut();
        headers.insert(header::CONTENT_TYPE, "application/x-seen".parse().unwrap());
        headers.insert("x-other", "other".parse().unwrap());
        answer
    };
    Router::new().fallback(any(handler))
}

fn request(body: &str) -> Request {
    Request::post("/filter?a=b")
        .header(header::CONTENT_TYPE, "application/json")
        .header(header::CONTENT_LENGTH, body.len())
        .header(header::USER_AGENT, "kube-scheduler")
        .header(header::HOST, "scheduler.kube-system.svc:9503")
        .header(header::CONNECTION, "keep-alive")
        .header(header::AUTHORIZATION, "Bearer secret")
        .body(Body::from(body.to_owned()))
        .unwrap()
}

async fn text(answer: Response) -> (u16, String) {
    let status = answer.status().as_u16();
    let body = answer.into_body().collect();
    let body = timeout(SOON, body).await.unwrap().unwrap().to_bytes();
    (status, String::from_utf8(body.to_vec()).unwrap())
}

fn counted(forwarder: &Forwarder, outcome: &str) -> u64 {
    let all = &forwarder.metrics.forwarded;
    all.with_label_values(&[outcome]).get()
}

/// An address at which nobody listens.
async fn nowhere() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    listener.local_addr().unwrap()
}

#[tokio::test]
async fn a_call_and_its_answer_are_passed_on_as_they_are() {
    let forwarder = plain();
    let leader = leader(echo(), None);
    let answer = forwarder.forward(request("{\"Pod\": 1}"), leader).await;
    let headers = answer.headers().clone();
    assert_eq!(headers[header::CONTENT_TYPE], "application/x-seen");
    assert!(!headers.contains_key("x-other"));
    let length = headers[header::CONTENT_LENGTH].to_str().unwrap().to_owned();
    let (status, body) = text(answer).await;
    assert_eq!((status, length), (418, body.len().to_string()));
    let seen: Value = serde_json::from_str(&body).unwrap();
    let wanted = json!({
        "method": "POST",
        "uri": "/filter?a=b",
        "headers": {
            "content-type": "application/json",
            "content-length": "10",
            "user-agent": "kube-scheduler",
            "host": leader.to_string(),
            FORWARDED.as_str(): "1",
        },
        "body": "{\"Pod\": 1}",
    });
    assert_eq!(seen, wanted);
    let get = Request::get("/snapshot").body(Body::empty()).unwrap();
    let (status, body) = text(forwarder.forward(get, leader).await).await;
    assert!(status == 418 && body.contains("\"GET\""), "{body}");
    assert_eq!(counted(&forwarder, "answered"), 2);
}

#[tokio::test]
async fn a_call_is_passed_on_once_and_never_again() {
    let forwarder = plain();
    let (asked, was_asked) = watch::channel(false);
    let handler = move || {
        asked.send_replace(true);
        async { "again" }
    };
    let leader = leader(Router::new().fallback(any(handler)), None);
    let mut passed_on = request("");
    let mark = HeaderValue::from_static("1");
    passed_on.headers_mut().insert(FORWARDED, mark);
    let (status, body) = text(forwarder.forward(passed_on, leader).await).await;
    assert_eq!(status, 503);
    assert!(body.contains("passed on already"), "{body}");
    assert!(!*was_asked.borrow());
    assert_eq!(counted(&forwarder, "circle"), 1);
}

#[tokio::test]
async fn a_leader_that_is_away_is_named() {
    let forwarder = plain();
    let leader = nowhere().await;
    let (status, body) = text(forwarder.forward(request(""), leader).await).await;
    assert_eq!(status, 503);
    let named = format!("the leading replica at {leader} did not answer: it takes no connection");
    assert!(body.starts_with(&named), "{body}");
    assert_eq!(counted(&forwarder, "failed"), 1);
    assert_eq!(forwarder.places.available_permits(), MOST_CALLS);
}

#[tokio::test]
async fn a_leader_that_hangs_up_is_no_answer() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let leader = listener.local_addr().unwrap();
    let forwarder = plain();
    let asked = forwarder.forward(request(""), leader);
    let hangs_up = async {
        let (mut stream, _) = listener.accept().await.unwrap();
        stream.read_u8().await.unwrap();
    };
    let (answer, ()) = timeout(SOON, async { tokio::join!(asked, hangs_up) })
        .await
        .unwrap();
    let (status, body) = text(answer).await;
    assert_eq!(status, 503);
    assert!(body.contains(&leader.to_string()), "{body}");
}

#[tokio::test]
async fn a_leader_that_never_answers_is_given_up_in_time() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let leader = listener.local_addr().unwrap();
    let forwarder = plain();
    let since = watch::Sender::new(None);
    let silent = async {
        let (mut stream, _) = listener.accept().await.unwrap();
        stream.read_u8().await.unwrap();
        // The call is with the leader: from here on there is nothing but time.
        tokio::time::pause();
        since.send_replace(Some(Instant::now()));
        std::future::pending::<()>().await;
        drop(stream);
    };
    let answer = tokio::select! {
        answer = forwarder.forward(request(""), leader) => answer,
        () = silent => unreachable!(),
    };
    let took = since.borrow().unwrap().elapsed();
    let limit = kit::Limits::default().request_timeout;
    assert!(took + CONNECT_WITHIN < limit, "{took:?}");
    let (status, body) = text(answer).await;
    assert_eq!(status, 503);
    assert!(body.contains("no answer within 25s"), "{body}");
}

#[tokio::test]
async fn a_body_that_never_ends_is_given_up_in_time() {
    let (sender, receiver) = mpsc::channel(1);
    sender.send(Bytes::from("begun")).await.unwrap();
    let receiver = Arc::new(std::sync::Mutex::new(Some(receiver)));
    let handler = move || {
        let receiver = receiver.lock().unwrap().take().unwrap();
        async { body_of(receiver) }
    };
    let leader = leader(Router::new().fallback(any(handler)), None);
    let forwarder = plain();
    let answer = forwarder.forward(request(""), leader).await;
    assert_eq!(answer.status(), 200);
    let mut body = answer.into_body();
    assert_eq!(frame(&mut body).await.unwrap(), "begun");
    tokio::time::pause();
    let since = Instant::now();
    assert!(body.frame().await.unwrap().is_err());
    assert!(since.elapsed() <= EXCHANGE_WITHIN + Duration::from_secs(1));
    tokio::time::resume();
    let given_back = forwarder.places.acquire_many(256);
    let given_back = timeout(SOON, given_back).await.unwrap();
    assert!(given_back.is_ok(), "its place is free");
    drop(sender);
}

#[tokio::test]
async fn a_handshake_that_never_ends_is_given_up_in_time() {
    let served = served(NAME);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let leader = listener.local_addr().unwrap();
    let forwarder = over_tls(&served.current, NAME);
    let silent = async {
        let (mut stream, _) = listener.accept().await.unwrap();
        stream.read_u8().await.unwrap();
        tokio::time::pause();
        std::future::pending::<()>().await;
        drop(stream);
    };
    let answer = tokio::select! {
        answer = forwarder.forward(request(""), leader) => answer,
        () = silent => unreachable!(),
    };
    let (status, body) = text(answer).await;
    assert_eq!(status, 503);
    assert!(body.contains("no answer within 3s"), "{body}");
}

/// A body of what is sent there.
fn body_of(receiver: mpsc::Receiver<Bytes>) -> Body {
    let next = |mut receiver: mpsc::Receiver<Bytes>| async {
        let part = receiver.recv().await?;
        Some((Ok::<_, std::convert::Infallible>(part), receiver))
    };
    Body::from_stream(stream::unfold(receiver, next))
}

/// The next part of a body; `None` at its end.
async fn frame(body: &mut Body) -> Option<Bytes> {
    let frame = timeout(SOON, body.frame()).await.unwrap()?;
    Some(frame.unwrap().into_data().unwrap())
}

#[tokio::test]
async fn bodies_are_streamed_in_both_directions() {
    const PART: usize = 1 << 20;
    let part = || Bytes::from(vec![b'x'; PART]);
    // Each part goes to the leader and back before the next one is made: nobody keeps the whole.
    let handler = async |request: Request| {
        let (sender, receiver) = mpsc::channel(1);
        let mut body = request.into_body();
        tokio::spawn(async move {
            while let Some(part) = frame(&mut body).await {
                sender.send(part).await.unwrap();
            }
        });
        body_of(receiver)
    };
    let leader = leader(Router::new().fallback(any(handler)), None);
    let forwarder = plain();
    let (sender, receiver) = mpsc::channel(1);
    let request = Request::post("/filter").body(body_of(receiver)).unwrap();
    sender.send(part()).await.unwrap();
    let answer = timeout(SOON, forwarder.forward(request, leader));
    let mut answer = answer.await.unwrap().into_body();
    for number in 0..64 {
        let mut back = 0;
        while back < PART {
            back += frame(&mut answer).await.unwrap().len();
        }
        assert_eq!(back, PART, "after part {number}");
        sender.send(part()).await.unwrap();
    }
    drop(sender);
    let mut back = 0;
    while let Some(part) = frame(&mut answer).await {
        back += part.len();
    }
    assert_eq!(back, PART, "the last one");
}

#[tokio::test]
async fn no_more_than_so_many_calls_are_on_their_way() {
    let (arrived, mut arrivals) = watch::channel(0);
    let (go, gone) = watch::channel(false);
    let handler = move || {
        arrived.send_modify(|n| *n += 1);
        let mut gone = gone.clone();
        async move {
            gone.wait_for(|gone| *gone).await.unwrap();
            "late"
        }
    };
    let leader = leader(Router::new().fallback(any(handler)), None);
    let forwarder = plain();
    let calls: Vec<_> = (0..MOST_CALLS)
        .map(|_| {
            let forwarder = forwarder.clone();
            tokio::spawn(async move { forwarder.forward(request(""), leader).await })
        })
        .collect();
    let all = arrivals.wait_for(|n| *n == MOST_CALLS);
    timeout(SOON, all).await.unwrap().unwrap();
    let (status, body) = text(forwarder.forward(request(""), leader).await).await;
    assert_eq!(status, 503);
    assert!(body.contains("too many calls"), "{body}");
    assert_eq!(*arrivals.borrow(), MOST_CALLS, "the leader is spared");
    go.send_replace(true);
    for call in calls {
        let answer = text(call.await.unwrap()).await;
        assert_eq!(answer, (200, "late".to_owned()));
    }
    let given_back = forwarder.places.acquire_many(256);
    assert!(timeout(SOON, given_back).await.unwrap().is_ok());
}

#[tokio::test]
async fn a_caller_that_hangs_up_gives_its_place_back() {
    let (arrived, mut arrivals) = watch::channel(false);
    let handler = move || {
        arrived.send_replace(true);
        std::future::pending::<()>()
    };
    let leader = leader(Router::new().fallback(any(handler)), None);
    let forwarder = plain();
    tokio::select! {
        _ = forwarder.forward(request(""), leader) => panic!("there is no answer"),
        arrived = arrivals.wait_for(|arrived| *arrived) => drop(arrived.unwrap()),
    }
    let given_back = forwarder.places.acquire_many(256);
    assert!(timeout(SOON, given_back).await.unwrap().is_ok());
}

#[tokio::test]
async fn only_a_leader_with_the_right_certificate_is_told_anything() {
    let ours = served(NAME);
    let leader = leader(echo(), Some(&ours));
    let forwarder = over_tls(&ours.current, NAME);
    let (status, body) = text(forwarder.forward(request("asked"), leader).await).await;
    assert_eq!(status, 418);
    assert!(body.contains("asked"), "{body}");

    let others = served(NAME);
    let nobody = Arc::new(Current::default());
    for (current, name, why) in [
        (&others.current, NAME, "invalid peer certificate"),
        (&ours.current, "other.kube-system.svc", "not valid for name"),
        (&nobody, NAME, "the CA of its certificate is not known yet"),
    ] {
        let forwarder = over_tls(current, name);
        let (status, body) = text(forwarder.forward(request(""), leader).await).await;
        assert_eq!(status, 503, "{why}");
        assert!(body.contains(why), "{why}: {body}");
        assert_eq!(counted(&forwarder, "failed"), 1);
    }
}

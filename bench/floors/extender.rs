//! The least extender: the same bodies in and out, each part that an extender needs decoded, and
//! no thought given to any of it. Every node is kept, every node scores 5.
//!
//! `floor-extender ADDR`

use std::borrow::Cow;

use axum::{
    Router,
    body::Bytes,
    extract::DefaultBodyLimit,
    http::{StatusCode, header},
    response::{IntoResponse, Response},
    routing::post,
    serve::ListenerExt as _,
};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

const MOST_BODY_BYTES: usize = 64 << 20;

#[derive(Deserialize, Serialize)]
#[serde(transparent)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

#[derive(Deserialize)]
struct Meta<'a> {
    #[serde(borrow)]
    name: Text<'a>,
    #[serde(borrow)]
    uid: Text<'a>,
}

#[derive(Deserialize)]
struct Container<'a> {
    #[serde(borrow)]
    name: Text<'a>,
    #[serde(borrow, default)]
    resources: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Spec<'a> {
    #[serde(borrow)]
    containers: Vec<Container<'a>>,
}

#[derive(Deserialize)]
struct Pod<'a> {
    #[serde(borrow)]
    metadata: Meta<'a>,
    #[serde(borrow)]
    spec: Spec<'a>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Question<'a> {
    #[serde(borrow)]
    pod: Pod<'a>,
    #[serde(borrow)]
    node_names: Vec<Text<'a>>,
}

impl Question<'_> {
    /// Keeps the compiler from leaving out what nothing here uses.
    fn pod_is_read(&self) {
        for container in &self.pod.spec.containers {
            std::hint::black_box((&container.name.0, container.resources));
        }
        std::hint::black_box((&self.pod.metadata.name.0, &self.pod.metadata.uid.0));
    }
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct Kept<'a> {
    nodes: Option<()>,
    node_names: &'a [Text<'a>],
    failed_nodes: Option<()>,
    failed_and_unresolvable_nodes: Option<()>,
    error: &'a str,
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct Scored<'a> {
    host: &'a str,
    score: u8,
}

fn answer(body: serde_json::Result<Vec<u8>>) -> Response {
    match body {
        Ok(body) => ([(header::CONTENT_TYPE, "application/json")], body).into_response(),
        Err(error) => (StatusCode::BAD_REQUEST, error.to_string()).into_response(),
    }
}

async fn filter(body: Bytes) -> Response {
    let question = serde_json::from_slice::<Question<'_>>(&body);
    answer(question.and_then(|question| {
        question.pod_is_read();
        serde_json::to_vec(&Kept {
            nodes: None,
            node_names: &question.node_names,
            failed_nodes: None,
            failed_and_unresolvable_nodes: None,
            error: "",
        })
    }))
}

async fn prioritize(body: Bytes) -> Response {
    let question = serde_json::from_slice::<Question<'_>>(&body);
    answer(question.and_then(|question| {
        question.pod_is_read();
        let names = question.node_names.iter();
        let scored: Vec<_> = names
            .map(|n| Scored {
                host: &n.0,
                score: 5,
            })
            .collect();
        serde_json::to_vec(&scored)
    }))
}

#[tokio::main]
async fn main() -> std::io::Result<()> {
    let address = std::env::args().nth(1).unwrap_or_default();
    let router = Router::new()
        .route("/filter", post(filter))
        .route("/prioritize", post(prioritize))
        .layer(DefaultBodyLimit::max(MOST_BODY_BYTES));
    let listener = tokio::net::TcpListener::bind(address).await?;
    // An answer held back for the client's acknowledgement would make the floor look slow.
    let listener = listener.tap_io(|stream| drop(stream.set_nodelay(true)));
    axum::serve(listener, router).await
}

//! The node's own corner of the API server, and kubelet's read-only port: one node, its pods, and
//! what is written on them.

use std::{
    net::SocketAddr,
    sync::{Arc, Mutex, PoisonError},
};

use axum::{
    Json, Router,
    extract::{Path, State},
    http::StatusCode,
    routing::{get, patch},
};
use serde_json::{Value, json};
use tokio::net::TcpListener;

use crate::{
    api_server::Served,
    kubelet::{NODE, Pods},
};

#[derive(Clone)]
struct Corner {
    pods: Pods,
    annotations: Arc<Mutex<Value>>,
}

/// Serves both under one address until the returned task is dropped.
pub(crate) async fn serve(pods: Pods) -> anyhow::Result<(SocketAddr, Served)> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    let corner = Corner {
        pods,
        annotations: Arc::new(Mutex::new(json!({}))),
    };
    let router = Router::new()
        .route("/pods", get(list))
        .route("/api/v1/pods", get(list))
        .route("/api/v1/nodes/{node}", get(node).patch(write_node))
        .route("/api/v1/namespaces/default/pods/{pod}", patch(write_pod))
        .with_state(corner);
    let listener = axum::serve::ListenerExt::tap_io(listener, |stream| {
        drop(stream.set_nodelay(true));
    });
    let task = tokio::spawn(async move { axum::serve(listener, router).await });
    Ok((address, Served(task)))
}

async fn list(State(corner): State<Corner>) -> Json<Value> {
    Json(corner.pods.list())
}

fn object(annotations: &Value) -> Json<Value> {
    Json(json!({"kind": "Node", "apiVersion": "v1",
        "metadata": {"name": NODE, "uid": "node-uid", "annotations": annotations},
        "status": {"capacity": {}, "allocatable": {}}}))
}

async fn node(State(corner): State<Corner>) -> Json<Value> {
    let annotations = corner.annotations.lock();
    object(&annotations.unwrap_or_else(PoisonError::into_inner))
}

async fn write_node(State(corner): State<Corner>, Json(patch): Json<Value>) -> Json<Value> {
    let annotations = corner.annotations.lock();
    let mut annotations = annotations.unwrap_or_else(PoisonError::into_inner);
    merge(&mut annotations, &patch);
    object(&annotations)
}

async fn write_pod(
    State(corner): State<Corner>,
    Path(name): Path<String>,
    Json(patch): Json<Value>,
) -> Result<Json<Value>, StatusCode> {
    let mut pods = corner.pods.lock();
    let pod = pods.iter_mut().find(|pod| pod.name == name);
    let pod = pod.ok_or(StatusCode::NOT_FOUND)?;
    merge(&mut pod.annotations, &patch);
    Ok(Json(json!({"kind": "Pod", "apiVersion": "v1",
        "metadata": {"name": name, "namespace": "default", "uid": pod.uid}})))
}

/// The annotations of a merge patch.
fn merge(annotations: &mut Value, patch: &Value) {
    let written = patch.pointer("/metadata/annotations");
    let written = written.and_then(Value::as_object);
    if let (Some(annotations), Some(written)) = (annotations.as_object_mut(), written) {
        annotations.extend(written.clone());
    }
}

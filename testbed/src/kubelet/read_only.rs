//! The read-only port: `/pods` as kubelet shows them, and `/healthz`.

use std::{net::SocketAddr, sync::Arc};

use axum::{Json, Router, extract::State as Shared, routing::get};
use serde_json::{Value, json};

use super::state::State;

/// Serves until shutdown.
pub(super) fn serve(
    state: Arc<State>,
    listen: SocketAddr,
    tasks: &kit::Tasks,
) -> Result<(), kit::Failure> {
    let listener = kit::listen(listen)?;
    let router = Router::new()
        .route("/pods", get(pods))
        .route("/healthz", get(|| async { "ok" }))
        .with_state(state);
    tasks.critical(
        "read-only port",
        kit::serve(listener, router, tasks.clone(), kit::Limits::default()),
    );
    Ok(())
}

/// Every pod that kubelet has taken up, rejected and ended ones included.
async fn pods(Shared(state): Shared<Arc<State>>) -> Json<Value> {
    let items: Vec<Value> = state.lock().pods.iter().map(|p| p.object.clone()).collect();
    Json(json!({"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": items}))
}

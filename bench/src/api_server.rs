//! The part of an API server that the extender calls, from bytes made beforehand: lists in
//! pages, watches that stay silent, and bindings, which are all accepted.

use std::{collections::HashMap, net::SocketAddr, sync::Arc};

use axum::{
    Router,
    body::{Body, Bytes},
    extract::{Query, State},
    http::{StatusCode, header},
    response::{IntoResponse as _, Response},
    routing::{get, post},
};
use futures_util::stream;
use tokio::net::TcpListener;
use tokio_stream::StreamExt as _;

use crate::cluster::Lists;

type Parameters = Query<HashMap<String, String>>;

/// Serves until the returned task is dropped.
pub(crate) async fn serve(lists: Arc<Lists>) -> anyhow::Result<(SocketAddr, Served)> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    let router = Router::new()
        .route("/api/v1/nodes", get(nodes))
        .route("/api/v1/pods", get(pods))
        .route("/api/v1/namespaces/default/pods/{pod}/binding", post(bind))
        .with_state(lists);
    let listener = axum::serve::ListenerExt::tap_io(listener, |stream| {
        drop(stream.set_nodelay(true));
    });
    let task = tokio::spawn(async move { axum::serve(listener, router).await });
    Ok((address, Served(task)))
}

/// A server's task; dropped, it serves no more.
pub(crate) struct Served(pub(crate) tokio::task::JoinHandle<std::io::Result<()>>);

impl Drop for Served {
    fn drop(&mut self) {
        self.0.abort();
    }
}

async fn nodes(State(lists): State<Arc<Lists>>, parameters: Parameters) -> Response {
    list(&lists.nodes, &parameters)
}

async fn pods(State(lists): State<Arc<Lists>>, parameters: Parameters) -> Response {
    list(&lists.pods, &parameters)
}

fn list(pages: &[Bytes], parameters: &Parameters) -> Response {
    let body = if parameters.contains_key("watch") {
        // Open and silent: nothing changes in this cluster.
        Body::from_stream(stream::pending::<std::io::Result<Bytes>>().fuse())
    } else {
        let page = parameters
            .get("continue")
            .map_or(Some(0), |n| n.parse().ok());
        match page.and_then(|page: usize| pages.get(page)) {
            Some(page) => Body::from(page.clone()),
            None => return StatusCode::GONE.into_response(),
        }
    };
    ([(header::CONTENT_TYPE, "application/json")], body).into_response()
}

async fn bind(_body: Bytes) -> Response {
    let status = "{\"kind\":\"Status\",\"apiVersion\":\"v1\",\"status\":\"Success\",\"code\":201}";
    let json = [(header::CONTENT_TYPE, "application/json")];
    (StatusCode::CREATED, json, status).into_response()
}

//! `:9501/metrics`.

use std::{sync::Arc, time::Duration};

use axum::{
    Router,
    http::{HeaderValue, header},
    response::{IntoResponse, Response},
    routing::get,
};
use tokio::time::timeout;

use crate::{kubelet::Kubelet, page::Page};

/// How long a scrape waits for the first collection: without it most series would be missing,
/// and look as if they had ended. Prometheus itself gives up after 10 s by default.
const FIRST_COLLECTION: Duration = Duration::from_secs(2);

/// The version of the format belongs to the type; Prometheus 3 refuses an answer without it.
const CONTENT_TYPE: HeaderValue =
    HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");

/// The routes. HEAD is answered wherever GET is, other methods with 405, other paths with 404.
///
/// Bodies are not compressed: most of a scrape's cost would be gzip, on a network of one hop.
pub fn router(page: Arc<Page>, kubelet: Arc<Kubelet>) -> Router {
    let metrics = move || {
        let (page, kubelet) = (Arc::clone(&page), Arc::clone(&kubelet));
        async move { scrape(&page, &kubelet).await }
    };
    Router::new()
        .route("/metrics", get(metrics))
        .route("/", get(|| async { "the metrics are at /metrics\n" }))
        .fallback(|| async {
            let text = "not here; the metrics are at /metrics\n";
            (axum::http::StatusCode::NOT_FOUND, text)
        })
}

async fn scrape(page: &Page, kubelet: &Kubelet) -> Response {
    // Where the time is up, what is known is told, with runtime_up at 0.
    let _ = tokio::join!(timeout(FIRST_COLLECTION, page.settled()), kubelet.refresh());
    ([(header::CONTENT_TYPE, CONTENT_TYPE)], page.body()).into_response()
}

#[cfg(test)]
#[path = "server_tests.rs"]
mod tests;

//! The admin server: `/healthz`, `/readyz`, `/metrics`.

use std::fmt::Write;

use axum::{
    Router,
    extract::State,
    http::{StatusCode, header},
    response::{IntoResponse, Response},
    routing::get,
};
use prometheus::{Encoder, Registry, TextEncoder};

use crate::{Failure, Readiness, failure::one_line, process::ProcessFigures};

/// `/healthz` answers 200 as long as the program's loop turns; `/readyz` 200 `ready`, or 503 with
/// one line `name: reason` for each condition that is not met; `/metrics` what is registered.
pub fn router(readiness: Readiness, metrics: Registry) -> Router {
    Router::new()
        .route("/healthz", get(async || "ok\n"))
        .route("/readyz", get(readyz).with_state(readiness))
        .route("/metrics", get(show_metrics).with_state(metrics))
}

async fn readyz(State(readiness): State<Readiness>) -> Response {
    let unmet = readiness.unmet();
    if unmet.is_empty() {
        return "ready\n".into_response();
    }
    let mut text = String::new();
    for (name, reason) in unmet {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{name}: {}", one_line(&reason));
    }
    (StatusCode::SERVICE_UNAVAILABLE, text).into_response()
}

async fn show_metrics(State(metrics): State<Registry>) -> Response {
    let encoder = TextEncoder::new();
    let mut text = String::new();
    match encoder.encode_utf8(&metrics.gather(), &mut text) {
        Ok(()) => {
            let content_type = [(header::CONTENT_TYPE, encoder.format_type().to_owned())];
            (content_type, text).into_response()
        }
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n")).into_response(),
    }
}

/// Puts what every program shows into its registry: `lj_runtimekit_build_info` and the process's
/// own figures.
pub(crate) fn register_process(metrics: &Registry, program: &str) -> Result<(), Failure> {
    let build = prometheus::IntGaugeVec::new(
        prometheus::Opts::new(
            "lj_runtimekit_build_info",
            "Which program this is, and its version; always 1.",
        ),
        &["program", "version"],
    );
    let registered = build.and_then(|build| {
        build
            .with_label_values(&[program, env!("CARGO_PKG_VERSION")])
            .set(1);
        metrics.register(Box::new(build))?;
        metrics.register(Box::new(ProcessFigures::new("/proc/self".into())?))
    });
    registered.map_err(Failure::fatal)
}

#[cfg(test)]
mod tests {
    use axum::{
        body::{Body, to_bytes},
        http::Request,
    };
    use tower::ServiceExt;

    use super::*;

    async fn ask(router: &Router, path: &str) -> (StatusCode, String) {
        let request = Request::get(path).body(Body::empty()).unwrap();
        let response = router.clone().oneshot(request).await.unwrap();
        let status = response.status();
        let body = to_bytes(response.into_body(), 1 << 20).await.unwrap();
        (status, String::from_utf8(body.to_vec()).unwrap())
    }

    #[tokio::test]
    async fn readyz_has_a_line_for_each_unmet_condition() {
        let readiness = Readiness::default();
        let router = router(readiness.clone(), Registry::new());
        assert_eq!(
            ask(&router, "/readyz").await,
            (StatusCode::OK, "ready\n".into())
        );
        let api = readiness.condition("api", "waiting for\nthe API server");
        let _runtime = readiness.condition("runtime", "no socket");
        assert_eq!(
            ask(&router, "/readyz").await,
            (
                StatusCode::SERVICE_UNAVAILABLE,
                "api: waiting for\\nthe API server\nruntime: no socket\n".into()
            )
        );
        api.met();
        assert_eq!(ask(&router, "/readyz").await.1, "runtime: no socket\n");
        assert_eq!(ask(&router, "/healthz").await.0, StatusCode::OK);
    }

    #[tokio::test]
    async fn metrics_show_the_build_and_the_process() {
        let metrics = Registry::new();
        register_process(&metrics, "lj-runtimekit-test").unwrap();
        let router = router(Readiness::default(), metrics);
        let (status, text) = ask(&router, "/metrics").await;
        assert_eq!(status, StatusCode::OK);
        let build = format!(
            "lj_runtimekit_build_info{{program=\"lj-runtimekit-test\",version=\"{}\"}} 1\n",
            env!("CARGO_PKG_VERSION")
        );
        assert!(text.contains(&build), "{text}");
        assert!(text.contains("# TYPE process_start_time_seconds gauge\n"));
    }

    #[tokio::test]
    async fn another_path_is_not_found() {
        let router = router(Readiness::default(), Registry::new());
        assert_eq!(ask(&router, "/").await.0, StatusCode::NOT_FOUND);
    }
}

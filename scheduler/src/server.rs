//! The extender's HTTP side.

use std::{sync::Arc, time::Instant};

use axum::{
    Router,
    body::Bytes,
    extract::{DefaultBodyLimit, Path, State},
    http::{StatusCode, header},
    response::{IntoResponse as _, Response},
    routing::{get, post},
};
use tokio::sync::{Semaphore, oneshot};

use crate::{bind::Binder, convert, explain, filter, preempt, prioritize, shared::Shared, wire};

/// 10,000 nodes in full, with their labels, annotations and images, stay below this.
const MOST_BODY_BYTES: usize = 128 << 20;

/// Bodies that are worked on at once; the others wait for their turn in the order they came.
/// Enough to keep every core busy, few enough to bound the memory.
const AT_ONCE: usize = 16;

/// What the handlers need.
#[derive(Clone)]
pub(crate) struct Server {
    shared: Shared,
    binder: Binder,
    tasks: kit::Tasks,
    turn: Arc<Semaphore>,
}

impl Server {
    /// Around these.
    pub(crate) fn new(shared: Shared, binder: Binder, tasks: kit::Tasks) -> Self {
        Self {
            shared,
            binder,
            tasks,
            turn: Arc::new(Semaphore::new(AT_ONCE)),
        }
    }

    /// All routes.
    pub(crate) fn router(self) -> Router {
        Router::new()
            .route("/filter", post(filter_nodes))
            .route("/prioritize", post(prioritize_nodes))
            .route("/bind", post(bind_pod))
            .route("/preempt", post(preempt_pods))
            .route("/explain/{namespace}/{pod}", get(explain_pod))
            .route("/snapshot", get(snapshot))
            .layer(DefaultBodyLimit::max(MOST_BODY_BYTES))
            .with_state(self)
    }

    fn done(&self, verb: &str, outcome: &str, since: Instant) {
        self.shared
            .metrics
            .calls
            .with_label_values(&[verb, outcome])
            .inc();
        self.shared
            .metrics
            .seconds
            .with_label_values(&[verb])
            .observe(since.elapsed().as_secs_f64());
    }

    fn bad_body(&self, verb: &str, error: &convert::BadBody) -> String {
        self.shared
            .metrics
            .malformed
            .with_label_values(&["body"])
            .inc();
        let text: String = error.to_string().chars().take(300).collect();
        tracing::warn!(verb, error = text, "a call can't be read");
        text
    }

    /// Before both watches have shown everything, any answer would be a guess: kube-scheduler
    /// takes this for a failure and tries again.
    fn not_synced(&self) -> Option<Response> {
        if self.shared.read().is_synced() {
            return None;
        }
        Some(
            (
                StatusCode::SERVICE_UNAVAILABLE,
                "not synced yet: nodes and pods are still being listed\n",
            )
                .into_response(),
        )
    }
}

fn json(body: Vec<u8>) -> Response {
    ([(header::CONTENT_TYPE, "application/json")], body).into_response()
}

fn error_only(text: &str) -> Response {
    json(serde_json::to_vec(&wire::ErrorOnly { error: text }).unwrap_or_default())
}

async fn filter_nodes(State(server): State<Server>, body: Bytes) -> Response {
    if let Some(answer) = server.not_synced() {
        return answer;
    }
    // The semaphore is never closed.
    let _turn = server.turn.acquire().await;
    let since = Instant::now();
    let index = server.shared.read();
    let (answer, outcome) = match convert::question(&body, index.settings()) {
        Ok(question) => {
            let (answer, tally) = filter::filter(&index, &question);
            let count = |n: usize| u64::try_from(n).unwrap_or(u64::MAX);
            server
                .shared
                .metrics
                .candidates
                .with_label_values(&["kept"])
                .inc_by(count(tally.kept));
            server
                .shared
                .metrics
                .candidates
                .with_label_values(&["rejected"])
                .inc_by(count(tally.rejected));
            let outcome = match (question.wanted.is_ok(), tally.kept) {
                (false, _) => "refused",
                (true, 0) => "none",
                (true, _) => "some",
            };
            (answer, outcome)
        }
        Err(error) => (
            filter::error(&server.bad_body("filter", &error)),
            "malformed",
        ),
    };
    drop(index);
    server.done("filter", outcome, since);
    json(answer)
}

async fn prioritize_nodes(State(server): State<Server>, body: Bytes) -> Response {
    if let Some(answer) = server.not_synced() {
        return answer;
    }
    let _turn = server.turn.acquire().await;
    let since = Instant::now();
    let index = server.shared.read();
    let answer = convert::question(&body, index.settings())
        .map(|question| prioritize::prioritize(&index, &question));
    drop(index);
    match answer {
        Ok(answer) => {
            server.done("prioritize", "scored", since);
            json(answer)
        }
        Err(error) => {
            let text = server.bad_body("prioritize", &error);
            server.done("prioritize", "malformed", since);
            (StatusCode::BAD_REQUEST, text).into_response()
        }
    }
}

async fn bind_pod(State(server): State<Server>, body: Bytes) -> Response {
    if let Some(answer) = server.not_synced() {
        return answer;
    }
    let since = Instant::now();
    let call = match convert::bind_call(&body) {
        Ok(call) => call,
        Err(error) => {
            let text = server.bad_body("bind", &error);
            server.done("bind", "malformed", since);
            return error_only(&text);
        }
    };
    // A task of its own: a caller that hangs up must not leave a promise half-way.
    let (tell, told) = oneshot::channel();
    let binder = server.binder.clone();
    server.tasks.detached("bind", async move {
        let outcome = binder.bind(&call).await;
        if let Err(why) = &outcome {
            tracing::info!(pod = %call.pod, node = %call.node, why, "not bound");
        }
        // The caller may be gone; the outcome stands in the index.
        let _ = tell.send(outcome);
    });
    let outcome = told
        .await
        .unwrap_or_else(|_| Err("the scheduler is ending".into()));
    server.done(
        "bind",
        if outcome.is_ok() { "bound" } else { "refused" },
        since,
    );
    error_only(&outcome.err().unwrap_or_default())
}

async fn preempt_pods(State(server): State<Server>, body: Bytes) -> Response {
    if let Some(answer) = server.not_synced() {
        return answer;
    }
    let _turn = server.turn.acquire().await;
    let since = Instant::now();
    let index = server.shared.read();
    let kept =
        convert::preempt_call(&body, index.settings()).map(|call| preempt::preempt(&index, call));
    drop(index);
    match kept {
        Ok(kept) => {
            server.done(
                "preempt",
                if kept.is_empty() { "none" } else { "some" },
                since,
            );
            json(convert::preempt_answer(&kept))
        }
        Err(error) => {
            let text = server.bad_body("preempt", &error);
            server.done("preempt", "malformed", since);
            (StatusCode::BAD_REQUEST, text).into_response()
        }
    }
}

async fn explain_pod(
    State(server): State<Server>,
    Path((namespace, pod)): Path<(String, String)>,
) -> Response {
    let answer = explain::explain(&server.shared.read(), &namespace, &pod);
    let Some(answer) = answer else {
        let text = format!("pod {namespace}/{pod} asks for no card, has ended, or is not there\n");
        return (StatusCode::NOT_FOUND, text).into_response();
    };
    json(serde_json::to_vec_pretty(&answer).unwrap_or_default())
}

async fn snapshot(State(server): State<Server>) -> Response {
    let answer = explain::snapshot(&server.shared.read());
    json(serde_json::to_vec(&answer).unwrap_or_default())
}

#[cfg(test)]
#[path = "server_tests.rs"]
mod tests;

//! The extender's HTTP side.

use std::{sync::Arc, time::Instant};

use axum::{
    Router,
    body::Bytes,
    extract::{Path, Request, State},
    http::{StatusCode, header},
    middleware::{Next, from_fn_with_state},
    response::{IntoResponse as _, Response},
    routing::{get, post},
};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, SemaphorePermit, oneshot};

use crate::{
    bind::Binder,
    convert, explain, filter,
    forward::{Forwarder, unavailable},
    lease::{Leadership, Turn},
    preempt, prioritize,
    shared::Shared,
    wire,
};

/// 10,000 nodes in full, with their labels, annotations and images, stay below this.
const MOST_BODY_BYTES: usize = 64 << 20;

/// KiB of bodies that are read or worked on at once: the memory that callers can take. A body
/// waits unread until there is room for all of it.
const BODIES_KIB: usize = 256 << 10;

/// What the handlers need.
#[derive(Clone)]
pub(crate) struct Server {
    shared: Shared,
    binder: Binder,
    leadership: Leadership,
    forwarder: Forwarder,
    tasks: kit::Tasks,
    /// Bodies that are worked on at once: one less than there are threads, so that health,
    /// readiness and metrics are answered whatever is asked here.
    turn: Arc<Semaphore>,
    room: Arc<Semaphore>,
}

/// What a filter call comes to.
enum Verdict {
    /// Each candidate was looked at.
    Judged(filter::Tally),
    /// What the pod asks makes no sense anywhere.
    Refused,
    /// The call can't be read.
    Malformed,
}

impl Server {
    /// Around these.
    pub(crate) fn new(
        shared: Shared,
        binder: Binder,
        leadership: Leadership,
        forwarder: Forwarder,
        tasks: kit::Tasks,
    ) -> Self {
        Self {
            shared,
            binder,
            leadership,
            forwarder,
            tasks,
            turn: Arc::new(Semaphore::new(crate::workers().saturating_sub(1).max(1))),
            room: Arc::new(Semaphore::new(BODIES_KIB)),
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
            .layer(from_fn_with_state(self.clone(), by_turn))
            .with_state(self)
    }

    /// The body, once there is room for it, and the room that it takes.
    async fn body(&self, request: Request) -> Result<(Bytes, OwnedSemaphorePermit), Response> {
        let too_large = || {
            let text = format!("a body may have {MOST_BODY_BYTES} bytes\n");
            (StatusCode::PAYLOAD_TOO_LARGE, text).into_response()
        };
        let length = request.headers().get(header::CONTENT_LENGTH);
        let length = length
            .and_then(|l| l.to_str().ok()?.parse().ok())
            .unwrap_or(MOST_BODY_BYTES);
        if length > MOST_BODY_BYTES {
            return Err(too_large());
        }
        let kib = u32::try_from(length / 1024 + 1).map_err(|_| too_large())?;
        // The semaphore is never closed, and no body asks more than it has.
        let room = self.room.clone().acquire_many_owned(kib);
        let room = self.shared.metrics.queue(room).await;
        let room = room.map_err(|_| too_large())?;
        match axum::body::to_bytes(request.into_body(), length).await {
            Ok(body) => Ok((body, room)),
            Err(error) => Err((
                StatusCode::BAD_REQUEST,
                format!("the body can't be read: {error}\n"),
            )
                .into_response()),
        }
    }

    /// Until it is dropped. The semaphore is never closed.
    async fn turn(&self) -> Option<SemaphorePermit<'_>> {
        self.shared.metrics.queue(self.turn.acquire()).await.ok()
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

    /// The answer to a filter call as things are now, what it comes to, and since when.
    async fn judge(&self, body: &[u8]) -> (Vec<u8>, Verdict, Instant) {
        let _turn = self.turn().await;
        let since = Instant::now();
        let index = self.shared.read();
        let (answer, verdict) = match convert::question(body, index.settings()) {
            Ok(question) => {
                let (answer, tally) = filter::filter(&index, &question);
                let verdict = match question.wanted {
                    Ok(_) => Verdict::Judged(tally),
                    Err(_) => Verdict::Refused,
                };
                (answer, verdict)
            }
            Err(error) => (
                filter::error(&self.bad_body("filter", &error)),
                Verdict::Malformed,
            ),
        };
        (answer, verdict, since)
    }

    /// Before both watches have shown everything, any answer would be a guess: kube-scheduler
    /// takes this for a failure and tries again.
    fn not_synced(&self) -> Option<Response> {
        if self.shared.read().is_synced() {
            return None;
        }
        Some(unavailable(
            "not synced yet: nodes and pods are still being listed",
        ))
    }
}

/// Answers where this replica decides, and passes the call on where another does.
async fn by_turn(State(server): State<Server>, request: Request, next: Next) -> Response {
    match server.leadership.turn(Instant::now()) {
        Turn::Mine => next.run(request).await,
        Turn::Of(leader) => server.forwarder.forward(request, leader).await,
        Turn::MineSoon => unavailable("this replica has just begun to lead and lists the pods"),
        Turn::Nobodys => unavailable("no replica leads at this moment"),
        Turn::Ended => unavailable("this replica is ending"),
    }
}

fn json(body: Vec<u8>) -> Response {
    ([(header::CONTENT_TYPE, "application/json")], body).into_response()
}

fn error_only(text: &str) -> Response {
    json(serde_json::to_vec(&wire::ErrorOnly { error: text }).unwrap_or_default())
}

async fn filter_nodes(State(server): State<Server>, request: Request) -> Response {
    if let Some(answer) = server.not_synced() {
        return answer;
    }
    let (body, _room) = match server.body(request).await {
        Ok(read) => read,
        Err(answer) => return answer,
    };
    let mut patience = server.shared.changes.patience();
    let mut first = true;
    loop {
        let (answer, verdict, since) = server.judge(&body).await;
        let nowhere = matches!(verdict, Verdict::Judged(tally) if tally.kept == 0);
        if nowhere && patience.change().await {
            first = false;
            continue;
        }
        let outcome = match verdict {
            Verdict::Judged(tally) => {
                server.shared.metrics.tally(tally);
                match (nowhere, first) {
                    (true, _) => "none",
                    (false, true) => "some",
                    (false, false) => "some_after_wait",
                }
            }
            Verdict::Refused => "refused",
            Verdict::Malformed => "malformed",
        };
        server.done("filter", outcome, since);
        return json(answer);
    }
}

async fn prioritize_nodes(State(server): State<Server>, request: Request) -> Response {
    if let Some(answer) = server.not_synced() {
        return answer;
    }
    let (body, _room) = match server.body(request).await {
        Ok(read) => read,
        Err(answer) => return answer,
    };
    let _turn = server.turn().await;
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

async fn bind_pod(State(server): State<Server>, request: Request) -> Response {
    if let Some(answer) = server.not_synced() {
        return answer;
    }
    let (body, _room) = match server.body(request).await {
        Ok(read) => read,
        Err(answer) => return answer,
    };
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

async fn preempt_pods(State(server): State<Server>, request: Request) -> Response {
    if let Some(answer) = server.not_synced() {
        return answer;
    }
    let (body, _room) = match server.body(request).await {
        Ok(read) => read,
        Err(answer) => return answer,
    };
    let _turn = server.turn().await;
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

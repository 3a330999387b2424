//! The HTTP side: requests read whole, answers written, watches streamed.

use std::{collections::VecDeque, time::Duration};

use axum::{
    Router,
    body::Body,
    extract::{Query as Pairs, Request, State},
    response::Response,
};
use bytes::Bytes;
use futures_util::stream;
use http::{HeaderMap, HeaderName, header};
use k8s_openapi::jiff::Timestamp;
use serde_json::Value;
use tokio::{sync::watch, time::Instant};
use tokio_util::sync::CancellationToken;

use super::{
    Api,
    answer::{self, Answer, Asked},
    audit::{Audit, Entry},
    refusal::Refusal,
    watching::{Step, Watch},
};

/// Largest body that is read, as in the real server.
const MOST_BODY_BYTES: usize = 3 << 20;

/// How often a watch that understands bookmarks gets one, if the revision has moved.
const BOOKMARK_EVERY: Duration = Duration::from_secs(5);

#[derive(Clone)]
struct Shell {
    api: Api,
    audit: Option<Audit>,
    shutdown: CancellationToken,
}

/// Answers every path.
pub(super) fn router(api: Api, audit: Option<Audit>, shutdown: CancellationToken) -> Router {
    Router::new().fallback(handle).with_state(Shell {
        api,
        audit,
        shutdown,
    })
}

async fn handle(State(shell): State<Shell>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let answer = match axum::body::to_bytes(body, MOST_BODY_BYTES).await {
        Err(_) => Err(Refusal::too_large(MOST_BODY_BYTES)),
        Ok(body) => match Pairs::<Vec<(String, String)>>::try_from_uri(&parts.uri) {
            Err(error) => Err(Refusal::bad_request(error.body_text())),
            Ok(Pairs(query)) => {
                let asked = Asked {
                    method: parts.method.clone(),
                    path: parts.uri.path().to_owned(),
                    query,
                    accept: text(&parts.headers, header::ACCEPT).to_owned(),
                    content_type: text(&parts.headers, header::CONTENT_TYPE).to_owned(),
                    body,
                };
                answer::answer(&mut shell.api.store(), &asked, Timestamp::now())
            }
        },
    };
    let response = respond(&shell, answer);
    if let Some(audit) = &shell.audit {
        audit.write(&Entry {
            method: parts.method.as_str(),
            path: parts.uri.path_and_query().map_or("", |p| p.as_str()),
            user_agent: text(&parts.headers, header::USER_AGENT),
            content_type: text(&parts.headers, header::CONTENT_TYPE),
            code: response.status().as_u16(),
        });
    }
    response
}

fn text(headers: &HeaderMap, name: HeaderName) -> &str {
    let value = headers.get(name).and_then(|v| v.to_str().ok());
    value.unwrap_or_default()
}

fn respond(shell: &Shell, answer: Result<Answer, Refusal>) -> Response {
    match answer {
        Ok(Answer::Fine) => response(200, "text/plain", Body::from("ok")),
        Ok(Answer::Plain(code, document)) => document_response(code, &document),
        Ok(Answer::Object(code, render, object)) => {
            document_response(code, &render.object(&object))
        }
        Ok(Answer::List(render, items, metadata)) => {
            let items = items.iter().map(AsRef::as_ref);
            document_response(200, &render.list(items, &metadata))
        }
        Ok(Answer::Watch(watch)) => {
            let body = Body::from_stream(Watching::new(shell, *watch).stream());
            response(200, "application/json", body)
        }
        Err(refusal) => document_response(refusal.code, &refusal.status()),
    }
}

fn document_response(code: u16, document: &Value) -> Response {
    response(code, "application/json", Body::from(document.to_string()))
}

fn response(code: u16, content_type: &'static str, body: Body) -> Response {
    let mut response = Response::new(body);
    // Every code is one of the constants of `Refusal` or of the answers above.
    *response.status_mut() = http::StatusCode::from_u16(code).unwrap_or_default();
    let content_type = http::HeaderValue::from_static(content_type);
    response
        .headers_mut()
        .insert(header::CONTENT_TYPE, content_type);
    response
}

/// A watch as it is streamed.
struct Watching {
    api: Api,
    watch: Watch,
    changed: watch::Receiver<u64>,
    shutdown: CancellationToken,
    ends: Instant,
    bookmark: Instant,
    /// Sent before the end.
    last: VecDeque<Bytes>,
    over: bool,
}

impl Watching {
    fn new(shell: &Shell, watch: Watch) -> Self {
        let now = Instant::now();
        Self {
            changed: shell.api.store().subscribe(),
            api: shell.api.clone(),
            ends: now + Duration::from_secs(watch.timeout.min(86_400)),
            bookmark: now + BOOKMARK_EVERY,
            watch,
            shutdown: shell.shutdown.clone(),
            last: VecDeque::new(),
            over: false,
        }
    }

    fn stream(self) -> impl stream::Stream<Item = Result<Bytes, std::convert::Infallible>> {
        stream::unfold(self, |mut watching| async move {
            let bytes = watching.next().await?;
            Some((Ok(bytes), watching))
        })
    }

    async fn next(&mut self) -> Option<Bytes> {
        loop {
            if let Some(bytes) = self.last.pop_front() {
                return Some(bytes);
            }
            if self.over {
                return None;
            }
            if let Some(bytes) = self.watch.first() {
                return Some(bytes);
            }
            // Seen before the look, so that a change during it is not slept over.
            self.changed.mark_unchanged();
            let changes = self.api.store().changes_after(self.watch.cursor());
            match self.watch.step(changes) {
                Step::Send(bytes) if bytes.is_empty() => {}
                Step::Send(bytes) => return Some(bytes),
                Step::End(bytes) => {
                    self.last.push_back(bytes);
                    self.over = true;
                }
                Step::Wait => self.wait().await,
            }
        }
    }

    async fn wait(&mut self) {
        tokio::select! {
            biased;
            () = self.shutdown.cancelled() => self.over = true,
            () = tokio::time::sleep_until(self.ends) => {
                self.last.extend(self.watch.bookmark());
                self.over = true;
            }
            () = tokio::time::sleep_until(self.bookmark) => {
                self.bookmark = Instant::now() + BOOKMARK_EVERY;
                self.last.extend(self.watch.bookmark());
            }
            changed = self.changed.changed() => self.over |= changed.is_err(),
        }
    }
}

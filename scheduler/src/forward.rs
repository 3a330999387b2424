//! Passes calls on to the leading replica, as they are.
//!
//! Bodies are streamed in both directions and never kept; how long they may be is for the leader
//! to say, which answers as it answers everybody. Each call has a connection of its own: whether
//! it reached the leader is then known, and no idle one can be closed under it.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use axum::{
    body::Body,
    extract::Request,
    http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header},
    response::{IntoResponse as _, Response},
};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
    sync::Semaphore,
    time::timeout,
};
use tokio_rustls::TlsConnector;

use crate::{certificate::Current, metrics::Metrics};

/// Marks a call that was passed on once: it is never passed on again, so that two replicas that
/// each take the other for the leader send it in no circle.
const FORWARDED: HeaderName = HeaderName::from_static("lj-runtimekit-forwarded");

/// Calls on their way at once. kube-scheduler has one, or with parallel binds a few.
const MOST_CALLS: usize = 256;

/// For the connection and its handshake: replicas are near each other.
const CONNECT_WITHIN: Duration = Duration::from_secs(3);

/// For the whole exchange after that. Together below this server's own limit of 30 s for a
/// request, which would end the call without a word of the leader.
const EXCHANGE_WITHIN: Duration = Duration::from_secs(25);

/// What of a head is passed on. The rest is about one connection, or of no matter.
const PASSED_ON: [HeaderName; 4] = [
    header::ACCEPT,
    header::CONTENT_LENGTH,
    header::CONTENT_TYPE,
    header::USER_AGENT,
];

/// Passes calls on. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Forwarder {
    tls: Option<Arc<Tls>>,
    places: Arc<Semaphore>,
    metrics: Metrics,
}

#[derive(Debug)]
struct Tls {
    current: Arc<Current>,
    name: ServerName<'static>,
}

/// Why a call did not reach the leader, or its answer not us.
#[derive(Debug, thiserror::Error)]
enum NoAnswer {
    #[error("too many calls are on their way to it")]
    Full,
    #[error("it takes no connection: {0}")]
    Connect(String),
    #[error("the CA of its certificate is not known yet")]
    NoCa,
    #[error("{0}")]
    Exchange(hyper::Error),
    #[error("no answer within {0:?}")]
    Late(Duration),
}

impl Forwarder {
    /// Over plain HTTP, or over TLS to a server of that name whose certificate those sign.
    pub(crate) fn new(tls: Option<(Arc<Current>, ServerName<'static>)>, metrics: Metrics) -> Self {
        Self {
            tls: tls.map(|(current, name)| Arc::new(Tls { current, name })),
            places: Arc::new(Semaphore::new(MOST_CALLS)),
            metrics,
        }
    }

    /// The leader's answer, or 503 with a line that says why there is none.
    pub(crate) async fn forward(&self, request: Request, leader: SocketAddr) -> Response {
        let count = |outcome| self.metrics.forwarded.with_label_values(&[outcome]).inc();
        if request.headers().contains_key(FORWARDED) {
            count("circle");
            return unavailable("this replica does not lead, and the call was passed on already");
        }
        match self.exchange(request, leader).await {
            Ok(answer) => {
                count("answered");
                answer
            }
            Err(why) => {
                count("failed");
                tracing::debug!(%leader, %why, "a call was not passed on");
                unavailable(&format!(
                    "the leading replica at {leader} did not answer: {why}"
                ))
            }
        }
    }

    async fn exchange(&self, request: Request, leader: SocketAddr) -> Result<Response, NoAnswer> {
        let place = Arc::clone(&self.places)
            .try_acquire_owned()
            .map_err(|_| NoAnswer::Full)?;
        let stream = timeout(CONNECT_WITHIN, self.connect(leader))
            .await
            .map_err(|_| NoAnswer::Late(CONNECT_WITHIN))??;
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream))
            .await
            .map_err(NoAnswer::Exchange)?;
        // It carries the answer's body too, which is read after this call has returned.
        tokio::spawn(async move {
            if let Ok(Err(error)) = timeout(EXCHANGE_WITHIN, connection).await {
                tracing::debug!(%error, "a connection to the leader ended badly");
            }
            drop(place);
        });
        let answer = timeout(
            EXCHANGE_WITHIN,
            sender.send_request(passed_on(request, leader)),
        )
        .await
        .map_err(|_| NoAnswer::Late(EXCHANGE_WITHIN))?
        .map_err(NoAnswer::Exchange)?;
        let (head, body) = answer.into_parts();
        let mut answer = Response::new(Body::new(body));
        *answer.status_mut() = head.status;
        *answer.headers_mut() = kept(&head.headers);
        Ok(answer)
    }

    async fn connect(&self, leader: SocketAddr) -> Result<Box<dyn Stream>, NoAnswer> {
        let failed = |error: std::io::Error| NoAnswer::Connect(error.to_string());
        let stream = TcpStream::connect(leader).await.map_err(failed)?;
        stream.set_nodelay(true).map_err(failed)?;
        let Some(tls) = &self.tls else {
            return Ok(Box::new(stream));
        };
        let connector = TlsConnector::from(tls.current.client().ok_or(NoAnswer::NoCa)?);
        let stream = connector.connect(tls.name.clone(), stream).await;
        Ok(Box::new(stream.map_err(failed)?))
    }
}

/// A connection, over TLS or not.
trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}

impl<S: AsyncRead + AsyncWrite + Unpin + Send> Stream for S {}

fn passed_on(request: Request, leader: SocketAddr) -> Request {
    let (head, body) = request.into_parts();
    let mut request = Request::new(body);
    *request.method_mut() = head.method;
    *request.uri_mut() = head.uri;
    let headers = request.headers_mut();
    *headers = kept(&head.headers);
    headers.insert(FORWARDED, HeaderValue::from_static("1"));
    if let Ok(host) = HeaderValue::from_str(&leader.to_string()) {
        headers.insert(header::HOST, host);
    }
    request
}

fn kept(headers: &HeaderMap) -> HeaderMap {
    let kept = PASSED_ON.iter().filter_map(|name| {
        let value = headers.get(name)?;
        Some((name.clone(), value.clone()))
    });
    kept.collect()
}

/// 503 with one line.
pub(crate) fn unavailable(why: &str) -> Response {
    (StatusCode::SERVICE_UNAVAILABLE, format!("{why}\n")).into_response()
}

#[cfg(test)]
#[path = "forward_tests.rs"]
mod tests;

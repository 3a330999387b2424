//! An HTTP/1 server that a slow, greedy or broken client can't hold up.
//!
//! Every program serves through this: the admin server here, the extender's and the exporter's
//! own ports, over TLS where it is asked for.

use std::{
    convert::Infallible,
    io,
    net::{Ipv4Addr, SocketAddr},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use axum::{
    Router,
    body::Body,
    http::{Request, Response, StatusCode, header},
};
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use socket2::{Domain, Protocol, Socket, Type};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, TcpStream},
    sync::{OwnedSemaphorePermit, Semaphore},
    task::JoinSet,
    time::{Instant, sleep, timeout},
};
use tokio_rustls::{TlsAcceptor, rustls::ServerConfig, server::TlsStream};
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;

use crate::{Failure, Tasks, timed_stream::TimedStream};

/// How long connections may take to finish what they are at once the program ends.
const DRAIN: Duration = Duration::from_secs(10);

/// Wait after a failed `accept`: long enough not to spin while the process is out of file
/// descriptors, short enough that a probe still gets through when one is free again.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Connections that may wait in the kernel before they are accepted.
const BACKLOG: i32 = 1024;

/// What one client may take. The default suits an admin server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Connections at once; more wait in the kernel's queue.
    pub max_connections: usize,
    /// From the connection's start to the end of its TLS handshake, where there is one.
    pub handshake_timeout: Duration,
    /// From the connection's start (over TLS, the handshake's end) to its first complete request
    /// head.
    pub header_timeout: Duration,
    /// From one request's end to the next one's complete head. kube-scheduler keeps idle
    /// connections for 90 s: stay above, or its next request may meet a closing connection.
    pub idle_timeout: Duration,
    /// From a complete head to the response's head: reading the body is part of it.
    pub request_timeout: Duration,
    /// For one write to a client that does not read.
    pub write_timeout: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            max_connections: 64,
            handshake_timeout: Duration::from_secs(10),
            header_timeout: Duration::from_secs(10),
            idle_timeout: Duration::from_mins(2),
            request_timeout: Duration::from_secs(30),
            write_timeout: Duration::from_secs(30),
        }
    }
}

/// Binds `address`. `[::]` takes IPv4 too, whatever the machine's `bindv6only` says; where there
/// is no IPv6 it becomes `0.0.0.0`, with a log line. Must be called on the runtime.
pub fn listen(address: SocketAddr) -> Result<TcpListener, Failure> {
    let failed = |address: SocketAddr, error: &io::Error| {
        Failure::fatal(format!("can't listen on {address}: {error}"))
    };
    match bind(address) {
        Ok(listener) => Ok(listener),
        Err(error) if address.is_ipv6() && address.ip().is_unspecified() && no_ipv6(&error) => {
            let instead = SocketAddr::from((Ipv4Addr::UNSPECIFIED, address.port()));
            tracing::info!(%address, %instead, "no IPv6 here, listening on IPv4");
            bind(instead).map_err(|error| failed(instead, &error))
        }
        Err(error) => Err(failed(address, &error)),
    }
}

/// Whether the error says that the machine has no IPv6: no such address family, or (IPv6 compiled
/// in and switched off) no such address.
fn no_ipv6(error: &io::Error) -> bool {
    const EAFNOSUPPORT: i32 = 97;
    error.kind() == io::ErrorKind::AddrNotAvailable || error.raw_os_error() == Some(EAFNOSUPPORT)
}

fn bind(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = Socket::new(
        Domain::for_address(address),
        Type::STREAM,
        Some(Protocol::TCP),
    )?;
    if address.is_ipv6() {
        socket.set_only_v6(false)?;
    }
    // A restarted program must not wait for its predecessor's connections to be forgotten.
    socket.set_reuse_address(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    TcpListener::from_std(socket.into())
}

/// Serves `router` on `listener` until the program ends, then lets the requests in flight finish
/// (at most 10 s) and returns `Ok`. Failing accepts and clients are never an error.
///
/// Bodies have no limit of their own here: set axum's `DefaultBodyLimit`.
pub async fn serve(
    listener: TcpListener,
    router: Router,
    tasks: Tasks,
    limits: Limits,
) -> Result<(), Failure> {
    serve_all(listener, router, tasks, limits, None).await
}

/// Like [`serve`], over TLS. A client in its handshake takes one of the places, and no other
/// client waits for it.
pub async fn serve_tls(
    listener: TcpListener,
    router: Router,
    tasks: Tasks,
    limits: Limits,
    config: Arc<ServerConfig>,
) -> Result<(), Failure> {
    serve_all(listener, router, tasks, limits, Some(Tls::new(config))).await
}

async fn serve_all(
    listener: TcpListener,
    router: Router,
    tasks: Tasks,
    limits: Limits,
    tls: Option<Tls>,
) -> Result<(), Failure> {
    let shutdown = tasks.shutdown_token();
    let places = Arc::new(Semaphore::new(limits.max_connections.max(1)));
    let mut connections = JoinSet::new();
    let mut acceptor = Acceptor::default();
    loop {
        let next = acceptor.accept(&listener, &places);
        tokio::select! {
            biased;
            () = shutdown.cancelled() => break,
            Some(ended) = connections.join_next() => log_panic(ended),
            (stream, place) = next => {
                let one = Connection {
                    router: router.clone(),
                    limits,
                    shutdown: shutdown.clone(),
                };
                let tls = tls.clone();
                connections.spawn(async move {
                    one.serve(stream, tls).await;
                    drop(place);
                });
            }
        }
    }
    drop(listener);
    let drain = async { while connections.join_next().await.is_some() {} };
    if timeout(DRAIN, drain).await.is_err() {
        tracing::warn!("gave up on connections that did not finish in {DRAIN:?}");
    }
    Ok(())
}

fn log_panic(ended: Result<(), tokio::task::JoinError>) {
    if let Err(error) = ended {
        tracing::error!(%error, "a request's handler panicked; its connection is closed");
    }
}

/// Accepts, and says once when that starts or stops working.
#[derive(Debug, Default)]
struct Acceptor {
    failing: bool,
    /// A server at its limit goes in and out of it with every connection.
    full: Seldom,
}

/// Lets through once a minute what could be said with every connection.
#[derive(Debug, Default)]
struct Seldom(Mutex<Option<Instant>>);

impl Seldom {
    const EVERY: Duration = Duration::from_mins(1);

    fn is_due(&self) -> bool {
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let due = last.is_none_or(|at| at.elapsed() >= Self::EVERY);
        if due {
            *last = Some(Instant::now());
        }
        due
    }
}

impl Acceptor {
    /// The next connection and its place. Safe to drop half-way.
    async fn accept(
        &mut self,
        listener: &TcpListener,
        places: &Arc<Semaphore>,
    ) -> (TcpStream, OwnedSemaphorePermit) {
        loop {
            if places.available_permits() == 0 && self.full.is_due() {
                tracing::warn!("as many connections as allowed, more have to wait");
            }
            // Never closed, so never an error.
            let Ok(place) = Arc::clone(places).acquire_owned().await else {
                return std::future::pending().await;
            };
            match listener.accept().await {
                Ok((stream, _peer)) => {
                    if std::mem::take(&mut self.failing) {
                        tracing::info!("connections are accepted again");
                    }
                    return (stream, place);
                }
                // That client went away before its turn.
                Err(error) if is_about_the_peer(&error) => {}
                Err(error) => {
                    if !std::mem::replace(&mut self.failing, true) {
                        tracing::warn!(%error, "can't accept connections, trying on");
                    }
                    sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }
}

fn is_about_the_peer(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionAborted
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::ConnectionRefused
    )
}

/// The server's side of TLS. Clones are one.
#[derive(Clone)]
struct Tls {
    acceptor: TlsAcceptor,
    refusals: Arc<Seldom>,
}

impl Tls {
    fn new(config: Arc<ServerConfig>) -> Self {
        Self {
            acceptor: TlsAcceptor::from(config),
            refusals: Arc::default(),
        }
    }

    /// The handshake; `None` where it failed or took too long.
    async fn accept<S>(&self, stream: S, within: Duration) -> Option<TlsStream<S>>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        match timeout(within, self.acceptor.accept(stream)).await {
            Ok(Ok(stream)) => return Some(stream),
            // A probe of the port: connects and goes away.
            Ok(Err(error)) if error.kind() == io::ErrorKind::UnexpectedEof => {}
            // A client that speaks plain HTTP or trusts another CA tries on and on.
            Ok(Err(error)) if self.refusals.is_due() => {
                tracing::warn!(%error, "a client's TLS handshake failed (said once a minute)");
            }
            Ok(Err(error)) => tracing::debug!(%error, "a client's TLS handshake failed"),
            Err(_elapsed) => tracing::debug!("a client's TLS handshake was not done in time"),
        }
        None
    }
}

/// What one connection is served with.
struct Connection {
    router: Router,
    limits: Limits,
    shutdown: CancellationToken,
}

impl Connection {
    async fn serve(self, stream: TcpStream, tls: Option<Tls>) {
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%error, "no TCP_NODELAY on a connection");
        }
        let stream = TimedStream::new(stream, self.limits.write_timeout);
        let Some(tls) = tls else {
            return self.exchange(stream).await;
        };
        let handshake = tls.accept(stream, self.limits.handshake_timeout);
        let stream = tokio::select! {
            stream = handshake => stream,
            // Nothing was asked yet.
            () = self.shutdown.cancelled() => None,
        };
        if let Some(stream) = stream {
            self.exchange(stream).await;
        }
    }

    /// Requests and answers until one side ends.
    async fn exchange<S>(self, stream: S)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send,
    {
        let Self {
            router,
            limits,
            shutdown,
        } = self;
        let asked = Arc::new(AtomicBool::new(false));
        let service = {
            let asked = Arc::clone(&asked);
            service_fn(move |request: Request<Incoming>| {
                asked.store(true, Ordering::Relaxed);
                answer(router.clone(), request, limits.request_timeout)
            })
        };
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(limits.idle_timeout)
            .serve_connection(TokioIo::new(stream), service);
        let mut connection = std::pin::pin!(connection);
        let mut first_head = std::pin::pin!(sleep(limits.header_timeout));
        let mut waits_for_first = true;
        let mut ending = false;
        loop {
            tokio::select! {
                ended = connection.as_mut() => {
                    if let Err(error) = ended {
                        tracing::debug!(%error, "a connection ended badly");
                    }
                    return;
                }
                () = first_head.as_mut(), if waits_for_first => {
                    if !asked.load(Ordering::Relaxed) {
                        tracing::debug!("a client connected and asked nothing in time");
                        return;
                    }
                    waits_for_first = false;
                }
                () = shutdown.cancelled(), if !ending => {
                    ending = true;
                    connection.as_mut().graceful_shutdown();
                }
            }
        }
    }
}

async fn answer(
    router: Router,
    request: Request<Incoming>,
    within: Duration,
) -> Result<Response<Body>, Infallible> {
    let request = request.map(Body::new);
    match timeout(within, router.oneshot(request)).await {
        Ok(response) => response,
        Err(_elapsed) => {
            let mut response = Response::new(Body::from("not answered in time\n"));
            *response.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
            response.headers_mut().insert(
                header::CONNECTION,
                header::HeaderValue::from_static("close"),
            );
            Ok(response)
        }
    }
}

#[cfg(test)]
#[path = "serve_tests.rs"]
mod tests;
#[cfg(test)]
#[path = "serve_tls_tests.rs"]
mod tls_tests;

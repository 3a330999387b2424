//! One socket: connecting, limits, and what a failed call means.

use std::{
    error::Error as _,
    future::Future,
    path::{Path, PathBuf},
    sync::OnceLock,
    time::Duration,
};

use hyper_util::rt::TokioIo;
use model::backoff::Backoff;
use tokio::{net::UnixStream, sync::Semaphore, time::timeout};
use tonic::{
    Code, Response, Status,
    transport::{Channel, Endpoint},
};

use super::Error;

/// Where the Runtime listens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sockets {
    /// `dp2mgr.sock`.
    pub device_manager: PathBuf,
    /// `config-daemon.sock`.
    pub config_daemon: PathBuf,
}

impl Sockets {
    /// Where vendors put it.
    pub const DEFAULT_FOLDER: &'static str = "/run/amp/eKitC/xdm/sockets";

    /// Both in that folder.
    pub fn in_folder(folder: &Path) -> Self {
        Self {
            device_manager: folder.join("dp2mgr.sock"),
            config_daemon: folder.join("config-daemon.sock"),
        }
    }
}

/// Every waiting time of a client. Programs use [`Timing::standard`]; tests shorten it.
#[doc(hidden)]
#[derive(Debug, Clone)]
pub struct Timing {
    /// Between tries to reconnect a stream.
    pub backoff: Backoff,
    /// A stream that lived so long makes the backoff start again.
    pub healthy: Duration,
    /// How long a call may take, where the caller does not say.
    pub call: Duration,
    /// How long a stream may take to open, and then to its first message.
    pub first_message: Duration,
    /// How often a connection with an open call is pinged.
    pub ping_interval: Duration,
    /// How long the Runtime may take to answer a ping.
    pub ping_timeout: Duration,
}

impl Timing {
    /// What the design sets. A Runtime that hangs is noticed on its streams within 20 s.
    pub const fn standard() -> Self {
        Self {
            backoff: Backoff::standard(),
            healthy: Duration::from_mins(1),
            call: Duration::from_secs(10),
            first_message: Duration::from_secs(10),
            ping_interval: Duration::from_secs(12),
            ping_timeout: Duration::from_secs(6),
        }
    }
}

impl super::Client {
    /// With another backoff between tries to reconnect, for tests.
    #[doc(hidden)]
    pub fn with_backoff(sockets: Sockets, backoff: Backoff) -> Self {
        Self::with_timing(
            sockets,
            Timing {
                backoff,
                ..Timing::standard()
            },
        )
    }
}

/// The largest message taken: 256 cards with all their links are about 3 MiB.
pub(super) const MOST_MESSAGE_BYTES: usize = 16 << 20;

/// Calls in flight on one socket; the rest wait their turn within their own deadline. Kubelet
/// admits one pod at a time, so more than a few is a burst of releases or of metrics.
const MOST_CALLS: usize = 32;

/// What the Runtime may send of one stream before it is read, so that a flood waits in the
/// Runtime and not here; and of all streams of a connection.
const STREAM_WINDOW: u32 = 256 << 10;
const CONNECTION_WINDOW: u32 = 1 << 20;

/// One socket with its connection, made when first used and again after it broke.
#[derive(Debug)]
pub(super) struct Connection {
    socket: PathBuf,
    timing: Timing,
    channel: OnceLock<Channel>,
    calls: Semaphore,
}

impl Connection {
    pub(super) fn new(socket: PathBuf, timing: Timing) -> Self {
        Self {
            socket,
            timing,
            channel: OnceLock::new(),
            calls: Semaphore::new(MOST_CALLS),
        }
    }

    /// Asks once, and once more at once where a connection turned out to be stale and the socket
    /// is there (again): every call of the contract is idempotent. No more than that: retrying
    /// over time is the caller's to decide.
    pub(super) async fn call<T, A, F>(
        &self,
        call: &'static str,
        within: Duration,
        ask: A,
    ) -> Result<T, Error>
    where
        A: Fn(Channel) -> F,
        F: Future<Output = Result<Response<T>, Status>>,
    {
        let answer = async {
            let _turn = self.calls.acquire().await;
            match ask(self.channel()).await {
                Err(status) if went_away(&status) && self.socket.exists() => {
                    ask(self.channel()).await
                }
                answer => answer,
            }
        };
        match timeout(within, answer).await {
            Ok(Ok(response)) => Ok(response.into_inner()),
            Ok(Err(status)) => Err(self.failed(call, within, &status)),
            Err(_) => Err(Error::Deadline { call, within }),
        }
    }

    fn channel(&self) -> Channel {
        self.channel
            .get_or_init(|| connect(&self.socket, &self.timing))
            .clone()
    }

    /// What that status means to a caller.
    pub(super) fn failed(&self, call: &'static str, within: Duration, status: &Status) -> Error {
        if went_away(status) {
            return self.unavailable(&innermost(status));
        }
        match status.code() {
            Code::Unavailable => self.unavailable(status.message()),
            Code::Unimplemented => Error::Unimplemented(call),
            Code::DeadlineExceeded => Error::Deadline { call, within },
            // Both are what tonic itself says of a message that it can't take.
            Code::OutOfRange
                if status
                    .message()
                    .contains("decoded message length too large") =>
            {
                Error::BadAnswer {
                    call,
                    why: format!("it is larger than {} MiB", MOST_MESSAGE_BYTES >> 20),
                }
            }
            Code::Internal
                if status
                    .message()
                    .contains("failed to decode Protobuf message") =>
            {
                Error::BadAnswer {
                    call,
                    why: one_line(status.message()),
                }
            }
            code => Error::Refused {
                call,
                message: match one_line(status.message()) {
                    empty if empty.is_empty() => format!("{code:?}"),
                    message => message,
                },
            },
        }
    }

    /// Nobody is there.
    pub(super) fn unavailable(&self, why: &str) -> Error {
        Error::Unavailable {
            socket: self.socket.display().to_string(),
            why: one_line(why),
        }
    }
}

fn connect(socket: &Path, timing: &Timing) -> Channel {
    let socket = socket.to_owned();
    // The authority goes into every request; servers refuse one that is not a host name.
    Endpoint::from_static("http://localhost")
        .connect_timeout(timing.call)
        .http2_keep_alive_interval(timing.ping_interval)
        .keep_alive_timeout(timing.ping_timeout)
        .keep_alive_while_idle(false)
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .buffer_size(MOST_CALLS)
        .connect_with_connector_lazy(tower::service_fn(move |_| {
            let socket = socket.clone();
            async move { UnixStream::connect(socket).await.map(TokioIo::new) }
        }))
}

/// Whether the transport failed, rather than the Runtime having said so: only tonic's own side
/// gives a status a source.
fn went_away(status: &Status) -> bool {
    status.source().is_some()
}

fn innermost(status: &Status) -> String {
    let mut error = status.source();
    let mut text = status.message().to_owned();
    while let Some(inner) = error {
        text = inner.to_string();
        error = inner.source();
    }
    text
}

/// At most 300 characters, without control characters.
fn one_line(text: &str) -> String {
    crate::convert::text::one_line(text, 300)
}

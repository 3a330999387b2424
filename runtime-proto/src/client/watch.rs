//! Streams that reconnect for ever.

use std::{future::Future, pin::Pin, time::Duration};

use futures_util::{Stream, stream};
use tokio::time::{Instant, sleep};

use super::{Error, Timing};

/// One kind of stream: how to open it, and what comes out.
pub(super) trait Feed: Send + 'static {
    /// What the consumer sees.
    type Event: Send;

    /// Connects; what an earlier connection left is forgotten.
    fn open(&mut self) -> impl Future<Output = Result<(), Error>> + Send;

    /// The next message; an error ends this connection.
    fn next(&mut self) -> impl Future<Output = Result<Self::Event, Error>> + Send;

    /// The event for a broken connection.
    fn lost(error: Error, retry_in: Duration) -> Self::Event;
}

enum State {
    Closed,
    Open(Instant),
    Waiting(Duration),
}

/// Events of `feed`, connected anew after each break. Nothing is read ahead: an event is taken
/// from the connection when the consumer asks for it, so a flood waits in the Runtime.
pub(super) fn watch<F: Feed>(
    feed: F,
    timing: Timing,
) -> Pin<Box<dyn Stream<Item = F::Event> + Send>> {
    Box::pin(stream::unfold(
        (feed, timing, State::Closed),
        |(mut feed, mut timing, mut state)| async move {
            loop {
                let error = match state {
                    State::Waiting(wait) => {
                        sleep(wait).await;
                        state = State::Closed;
                        continue;
                    }
                    State::Closed => match feed.open().await {
                        Ok(()) => {
                            state = State::Open(Instant::now());
                            continue;
                        }
                        Err(error) => error,
                    },
                    State::Open(since) => match feed.next().await {
                        Ok(event) => return Some((event, (feed, timing, state))),
                        Err(error) => {
                            if since.elapsed() >= timing.healthy {
                                timing.backoff.reset();
                            }
                            error
                        }
                    },
                };
                let retry_in = timing.backoff.next(random());
                let lost = F::lost(error, retry_in);
                return Some((lost, (feed, timing, State::Waiting(retry_in))));
            }
        },
    ))
}

/// Enough to spread the reconnects of many nodes; std's hasher keys are random.
fn random() -> u64 {
    use std::hash::{BuildHasher, Hasher, RandomState};
    RandomState::new().build_hasher().finish()
}

//! The two streams of the contract: cards, and metric snapshots.

use std::{sync::Arc, time::Duration};

use tokio::time::timeout;
use tonic::Streaming;

use super::{
    CardEvent, Error, MetricConfig, MetricEvent, Snapshot, connection::Connection, device_manager,
    watch::Feed,
};
use crate::{convert, wire};

const CARDS: &str = "ListAndWatch";
const METRICS: &str = "ExporterDataStream";

/// A stream that breaks off without a word was ended by the Runtime, orderly or not.
const ENDED: &str = "the Runtime ended the stream";

async fn message<T>(
    connection: &Connection,
    call: &'static str,
    stream: &mut Option<Streaming<T>>,
    within: Option<Duration>,
) -> Result<T, Error> {
    let Some(stream) = stream else {
        return Err(connection.unavailable(ENDED));
    };
    let answer = match within {
        None => stream.message().await,
        Some(within) => timeout(within, stream.message())
            .await
            .map_err(|_| Error::Deadline { call, within })?,
    };
    match answer {
        Ok(Some(message)) => Ok(message),
        Ok(None) => Err(connection.unavailable(ENDED)),
        Err(status) => Err(connection.failed(call, within.unwrap_or_default(), &status)),
    }
}

/// Card lists.
pub(super) struct CardFeed {
    connection: Arc<Connection>,
    stream: Option<Streaming<wire::CardList>>,
    first_message: Duration,
    has_sent: bool,
}

impl CardFeed {
    pub(super) fn new(connection: Arc<Connection>, first_message: Duration) -> Self {
        Self {
            connection,
            stream: None,
            first_message,
            has_sent: false,
        }
    }
}

impl Feed for CardFeed {
    type Event = CardEvent;

    async fn open(&mut self) -> Result<(), Error> {
        self.stream = None;
        self.has_sent = false;
        let stream = self
            .connection
            .call(CARDS, self.first_message, |channel| async {
                device_manager(channel)
                    .list_and_watch(wire::ListAndWatchRequest {})
                    .await
            })
            .await?;
        self.stream = Some(stream);
        Ok(())
    }

    /// The first list has to come at once; after that a list may stay the same for months, and
    /// the connection's pings tell a Runtime that hangs from one that has nothing to say.
    async fn next(&mut self) -> Result<CardEvent, Error> {
        let within = (!self.has_sent).then_some(self.first_message);
        let list = message(&self.connection, CARDS, &mut self.stream, within).await?;
        self.has_sent = true;
        Ok(CardEvent::Cards(convert::cards(list)))
    }

    fn lost(error: Error, retry_in: Duration) -> CardEvent {
        CardEvent::Lost { error, retry_in }
    }
}

/// Metric configuration and snapshots.
pub(super) struct MetricFeed {
    connection: Arc<Connection>,
    interval: Duration,
    first_message: Duration,
    call: Duration,
    stream: Option<Streaming<wire::MetricSnapshot>>,
    config: MetricConfig,
    config_is_new: bool,
    held_back: Option<Snapshot>,
}

impl MetricFeed {
    pub(super) fn new(
        connection: Arc<Connection>,
        interval: Duration,
        first_message: Duration,
        call: Duration,
    ) -> Self {
        Self {
            connection,
            interval,
            first_message,
            call,
            stream: None,
            config: MetricConfig::default(),
            config_is_new: false,
            held_back: None,
        }
    }

    /// Snapshots come at an interval: three of them missed is a Runtime that has stopped
    /// collecting, which no ping would show.
    fn patience(&self) -> Duration {
        let interval = if self.interval.is_zero() {
            self.config.collection_interval
        } else {
            self.interval
        };
        interval
            .saturating_mul(3)
            .saturating_add(self.first_message)
    }
}

impl Feed for MetricFeed {
    type Event = MetricEvent;

    async fn open(&mut self) -> Result<(), Error> {
        self.stream = None;
        self.held_back = None;
        self.config = super::metric_config(&self.connection, self.call).await?;
        self.config_is_new = true;
        let request = wire::ExporterDataStreamRequest {
            interval_milliseconds: u32::try_from(self.interval.as_millis()).unwrap_or(u32::MAX),
        };
        let stream = self
            .connection
            .call(METRICS, self.first_message, |channel| async {
                device_manager(channel).exporter_data_stream(request).await
            })
            .await?;
        self.stream = Some(stream);
        Ok(())
    }

    async fn next(&mut self) -> Result<MetricEvent, Error> {
        if std::mem::take(&mut self.config_is_new) {
            return Ok(MetricEvent::Config(self.config.clone()));
        }
        if let Some(snapshot) = self.held_back.take() {
            return Ok(MetricEvent::Snapshot(snapshot.following(&self.config)));
        }
        let within = Some(self.patience());
        let snapshot = message(&self.connection, METRICS, &mut self.stream, within).await?;
        let snapshot = convert::snapshot(snapshot);
        if snapshot.config_version != self.config.version {
            let config = super::metric_config(&self.connection, self.call).await?;
            if config != self.config {
                self.config = config;
                self.held_back = Some(snapshot);
                return Ok(MetricEvent::Config(self.config.clone()));
            }
        }
        Ok(MetricEvent::Snapshot(snapshot.following(&self.config)))
    }

    fn lost(error: Error, retry_in: Duration) -> MetricEvent {
        MetricEvent::Lost { error, retry_in }
    }
}

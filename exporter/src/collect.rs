//! Takes cards and metrics from the Runtime, for as long as the program runs.

use std::{convert::Infallible, sync::Arc, time::Duration};

use futures_util::StreamExt;
use kit::Ready;
use model::backoff::Backoff;
use runtime_proto::{
    Client, Error,
    client::{CardEvent, MetricEvent},
};
use tokio::time::{MissedTickBehavior, interval, sleep};

use crate::page::Page;

/// Follows the card list. Never ends.
pub async fn cards(client: Client, page: Arc<Page>, ready: Ready) {
    let mut events = client.watch_cards();
    let mut up = None;
    while let Some(event) = events.next().await {
        match event {
            CardEvent::Cards(cards) => {
                if up != Some(true) {
                    let count = cards.inventory.cards().len();
                    tracing::info!(cards = count, "the Runtime tells its cards");
                }
                up = Some(true);
                page.update(|state| state.take_cards(cards));
                ready.met();
            }
            CardEvent::Lost { error, retry_in } => {
                if up != Some(false) {
                    tracing::warn!(%error, ?retry_in, "no card list");
                }
                up = Some(false);
                page.update(|state| {
                    state.lose_cards();
                    Vec::new()
                });
                ready.unmet(format!("waiting for the Runtime: {error}"));
            }
        }
    }
}

/// Follows the metrics, by stream where the Runtime has one, else by asking. `every` must not be
/// zero. Never ends.
pub async fn metrics(client: Client, page: Arc<Page>, every: Duration) {
    let mut told = Told::default();
    let mut backoff = Backoff::standard();
    loop {
        let mut events = client.watch_metrics(every);
        while let Some(event) = events.next().await {
            match event {
                MetricEvent::Config(config) => page.update(|state| state.take_config(config)),
                MetricEvent::Snapshot(snapshot) => {
                    told.live("by stream");
                    backoff.reset();
                    page.update(|state| state.take_snapshot(snapshot));
                }
                MetricEvent::Lost {
                    error: Error::Unimplemented("ExporterDataStream"),
                    ..
                } => break,
                MetricEvent::Lost { error, .. } => lose(&page, &mut told, &error),
            }
        }
        drop(events);
        let Err(error) = poll(&client, &page, every, &mut told, &mut backoff).await;
        lose(&page, &mut told, &error);
        // The socket is this node's own: no other client waits in step, so no jitter.
        sleep(backoff.next(0)).await;
    }
}

/// Asks at an interval, until an answer fails: then the Runtime may be another one that has the
/// stream.
async fn poll(
    client: &Client,
    page: &Page,
    every: Duration,
    told: &mut Told,
    backoff: &mut Backoff,
) -> Result<Infallible, Error> {
    let mut version = None;
    let mut ticks = interval(every);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let snapshot = client.metrics().await?;
        if version != Some(snapshot.config_version) {
            let config = client.metric_config().await?;
            version = Some(config.version);
            page.update(|state| state.take_config(config));
        }
        told.live("by asking: it has no stream of them");
        backoff.reset();
        page.update(|state| state.take_snapshot(snapshot));
    }
}

fn lose(page: &Page, told: &mut Told, error: &Error) {
    told.lost(error);
    page.update(|state| {
        if matches!(error, Error::Unimplemented(_)) {
            state.no_metrics();
        } else {
            state.lose_metrics();
        }
        Vec::new()
    });
}

/// What the log says last, so that each change is one line.
#[derive(Debug, Default)]
struct Told {
    live: Option<&'static str>,
    lost: Option<String>,
}

impl Told {
    fn live(&mut self, how: &'static str) {
        self.lost = None;
        if self.live.replace(how) != Some(how) {
            tracing::info!("metrics come from the Runtime {how}");
        }
    }

    fn lost(&mut self, error: &Error) {
        // A Runtime that is away says it in several ways in turn: that is one state.
        let state = match error {
            Error::Unimplemented(call) => (*call).to_owned(),
            _ => "away".to_owned(),
        };
        if self.lost.as_ref() != Some(&state) {
            tracing::warn!(%error, "no metrics from the Runtime");
            self.lost = Some(state);
        }
        self.live = None;
    }
}

#[cfg(test)]
#[path = "collect_tests.rs"]
mod tests;

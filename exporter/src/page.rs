//! The one answer that all scrapes share: rendered at the first scrape after a change, kept until
//! the next change.

use std::sync::{Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use tokio::sync::watch;

use crate::{metrics::OwnMetrics, render, state::State};

/// What is known, and the text of it.
#[derive(Debug)]
pub struct Page {
    inner: Mutex<Inner>,
    settled: watch::Sender<bool>,
    metrics: OwnMetrics,
}

#[derive(Debug)]
struct Inner {
    state: State,
    body: Bytes,
    /// The version of the state that `body` shows; none while there is no body.
    shows: Option<u64>,
}

impl Page {
    /// A page of `state`.
    pub fn new(state: State, metrics: OwnMetrics) -> Self {
        Self {
            settled: watch::Sender::new(state.is_settled()),
            inner: Mutex::new(Inner {
                state,
                body: Bytes::new(),
                shows: None,
            }),
            metrics,
        }
    }

    /// Changes what is known. Lines that `change` returns go to the log.
    pub fn update(&self, change: impl FnOnce(&mut State) -> Vec<String>) {
        let (lines, settled) = {
            let mut inner = self.lock();
            (change(&mut inner.state), inner.state.is_settled())
        };
        for line in lines {
            tracing::warn!("left out, counted in accel_exporter_malformed_total: {line}");
        }
        if settled {
            self.settled
                .send_if_modified(|known| !std::mem::replace(known, true));
        }
    }

    /// Looks at what is known.
    pub fn look<T>(&self, look: impl FnOnce(&State) -> T) -> T {
        look(&self.lock().state)
    }

    /// Resolves once the first answers are there, or are known not to come now.
    pub async fn settled(&self) {
        // The sender lives as long as this, so that waiting can't fail.
        let _ = self.settled.subscribe().wait_for(|settled| *settled).await;
    }

    /// The text. Scrapes that come together wait for one rendering; handing it out copies
    /// nothing.
    pub fn body(&self) -> Bytes {
        self.metrics.scrapes.inc();
        let mut inner = self.lock();
        let version = inner.state.version();
        if inner.shows != Some(version) {
            let old = std::mem::take(&mut inner.body);
            inner.body = Bytes::from(render::render(&inner.state, buffer(old)));
            inner.shows = Some(version);
            self.metrics.renderings.inc();
        }
        inner.body.clone()
    }

    /// Texts rendered so far.
    pub fn renderings(&self) -> u64 {
        self.metrics.renderings.get()
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The old text's memory where no client is still being sent it, else as much and a little.
fn buffer(old: Bytes) -> Vec<u8> {
    if old.is_unique() {
        old.into()
    } else {
        Vec::with_capacity(old.len() + old.len() / 16)
    }
}

#[cfg(test)]
#[path = "page_tests.rs"]
mod tests;

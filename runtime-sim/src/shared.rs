//! The one state behind both sockets and the control server, with who waits for its changes.

use std::{
    path::PathBuf,
    sync::{Mutex, PoisonError},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use tokio::{
    sync::{Notify, watch},
    time::{Instant, sleep_until},
};

use crate::{
    edits::Edits,
    fault::Fault,
    state::State,
    store::{self, Remembered},
};

/// See the module.
#[derive(Debug)]
pub(crate) struct Shared {
    inner: Mutex<Inner>,
    started: Instant,
    /// Where the state outlasts the process, if it does.
    store: Option<PathBuf>,
    pub(crate) edits: Edits,
    pub(crate) collection_interval: Duration,
    /// The generation that card streams have to show.
    pub(crate) cards: watch::Sender<u64>,
    /// Counts the orders to end all streams.
    pub(crate) ends: watch::Sender<u64>,
    /// How long the sockets are to be away, once ordered.
    pub(crate) restart: watch::Sender<Option<Duration>>,
    /// A switch has started: its end has to be waited for.
    switched: Notify,
}

#[derive(Debug)]
struct Inner {
    state: State,
    collections: u64,
    last_collection: u64,
    /// What the state file has.
    saved: u64,
}

/// How the collecting of metrics is doing.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Collections {
    pub(crate) count: u64,
    pub(crate) last_milliseconds: u64,
}

impl Shared {
    pub(crate) fn new(
        state: State,
        store: Option<PathBuf>,
        edits: Edits,
        collection_interval: Duration,
    ) -> Self {
        Self {
            cards: watch::Sender::new(state.generation()),
            inner: Mutex::new(Inner {
                saved: state.revision(),
                state,
                collections: 0,
                last_collection: 0,
            }),
            started: Instant::now(),
            store,
            edits,
            collection_interval,
            ends: watch::Sender::new(0),
            restart: watch::Sender::new(None),
            switched: Notify::new(),
        }
    }

    /// Looks at or changes the state as it is now; what follows from a change follows at once.
    pub(crate) fn with<R>(&self, act: impl FnOnce(&mut State) -> R) -> R {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        let before = inner.state.switch_ends();
        inner.state.step(self.started.elapsed());
        let result = act(&mut inner.state);
        let generation = inner.state.generation();
        self.cards
            .send_if_modified(|shown| std::mem::replace(shown, generation) != generation);
        if inner.state.switch_ends() != before {
            self.switched.notify_one();
        }
        self.save(&mut inner);
        result
    }

    /// Within the lock, so that a later state never stands behind an earlier one in the file.
    fn save(&self, inner: &mut Inner) {
        let revision = inner.state.revision();
        let Some(file) = self.store.as_deref().filter(|_| inner.saved != revision) else {
            return;
        };
        let feature = inner.state.feature();
        let remembered = Remembered::new(
            feature.is_on(),
            feature.failure().map(ToOwned::to_owned),
            inner.state.replaced().cloned(),
            inner.state.book().allocations(),
        );
        match store::write(file, &remembered) {
            Ok(()) => inner.saved = revision,
            Err(error) => tracing::error!(%error, "the book is not kept"),
        }
    }

    /// One collection of metrics, counted.
    pub(crate) fn collect<R>(&self, act: impl FnOnce(&State, u64) -> R) -> R {
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH);
        let milliseconds = since_epoch.unwrap_or_default().as_millis();
        let milliseconds = u64::try_from(milliseconds).unwrap_or_default();
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        inner.state.step(self.started.elapsed());
        inner.collections = inner.collections.saturating_add(1);
        inner.last_collection = milliseconds;
        act(&inner.state, milliseconds)
    }

    pub(crate) fn collections(&self) -> Collections {
        let inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        Collections {
            count: inner.collections,
            last_milliseconds: inner.last_collection,
        }
    }

    /// Makes something go wrong, or right again.
    pub(crate) fn fault(&self, fault: &Fault) -> Result<(), String> {
        self.with(|state| state.fault(fault))?;
        match fault {
            Fault::Eof => self.ends.send_modify(|count| *count += 1),
            Fault::Restart(down) => {
                self.restart.send_replace(Some(*down));
            }
            _ => {}
        }
        tracing::info!(?fault, "told to misbehave");
        Ok(())
    }

    /// The Runtime starts again: without a state file it has forgotten its book.
    pub(crate) fn restarted(&self) {
        let keeps_book = self.store.is_some();
        self.with(|state| state.restart(keeps_book));
    }

    /// Sees to it that a switch of the feature ends when its time has come. Never returns.
    pub(crate) async fn end_switches(&self) {
        loop {
            match self.with(|state| state.switch_ends()) {
                None => self.switched.notified().await,
                Some(end) => {
                    let end = self.started.checked_add(end).unwrap_or_else(Instant::now);
                    tokio::select! {
                        () = sleep_until(end) => {}
                        () = self.switched.notified() => {}
                    }
                }
            }
        }
    }
}

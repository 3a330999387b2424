//! Supervised tasks: one dies, the process says why and ends.

use std::{
    collections::BTreeMap,
    future::Future,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::Failure;

/// The tasks of one program. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Tasks {
    shutdown: CancellationToken,
    book: Arc<Book>,
}

/// Which tasks run, and the first failure.
#[derive(Debug)]
struct Book {
    inner: Mutex<Inner>,
    /// Counts the changes of `inner`, so that the supervisor looks again.
    changes: watch::Sender<u64>,
}

#[derive(Debug, Default)]
struct Inner {
    next: u64,
    running: BTreeMap<u64, Running>,
    failure: Option<Failure>,
}

#[derive(Debug, Clone, Copy)]
struct Running {
    name: &'static str,
    kind: Kind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// The program is to run as long as it does, and can't without it.
    Critical,
    /// The program can't run without it.
    Background,
    /// Its end is no matter.
    Detached,
}

tokio::task_local! {
    /// Which task runs, for the panic hook: where panics abort, nobody else can tell.
    static NAME: &'static str;
}

/// The name of the supervised task that this is called in.
pub(crate) fn current() -> Option<&'static str> {
    NAME.try_with(|name| *name).ok()
}

impl Default for Tasks {
    fn default() -> Self {
        Self {
            shutdown: CancellationToken::new(),
            book: Arc::new(Book {
                inner: Mutex::default(),
                changes: watch::Sender::new(0),
            }),
        }
    }
}

impl Tasks {
    /// Runs `task` until it ends. A critical task that ends with an error, panics, or ends
    /// before shutdown ends the program with that reason.
    pub fn critical<F>(&self, name: &'static str, task: F)
    where
        F: Future<Output = Result<(), Failure>> + Send + 'static,
    {
        self.supervise(name, Kind::Critical, task);
    }

    /// Runs `task` until it ends; its end is no matter, but shutdown waits for it.
    pub fn detached<F>(&self, name: &'static str, task: F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        self.supervise(name, Kind::Detached, async {
            task.await;
            Ok(())
        });
    }

    /// Like critical, yet does not keep the program alive by itself: for what serves alongside.
    pub(crate) fn background<F>(&self, name: &'static str, task: F)
    where
        F: Future<Output = Result<(), Failure>> + Send + 'static,
    {
        self.supervise(name, Kind::Background, task);
    }

    /// Resolves when the program is to end. Every long-running task selects on it.
    pub async fn shutdown(&self) {
        self.shutdown.cancelled().await;
    }

    /// The token behind [`Tasks::shutdown`].
    pub fn shutdown_token(&self) -> CancellationToken {
        self.shutdown.clone()
    }

    /// Tells all tasks to end.
    pub(crate) fn start_shutdown(&self) {
        self.shutdown.cancel();
    }

    /// Resolves to the first failure of a critical task; never without one.
    pub(crate) async fn failure(&self) -> Failure {
        let mut found = None;
        self.until(|inner| {
            found = inner.failure.take();
            found.is_some()
        })
        .await;
        match found {
            Some(failure) => failure,
            None => std::future::pending().await,
        }
    }

    /// The first failure, where there was one already.
    pub(crate) fn take_failure(&self) -> Option<Failure> {
        self.book.lock().failure.take()
    }

    /// Resolves once no critical task runs.
    pub(crate) async fn no_critical(&self) {
        self.until(|inner| {
            inner
                .running
                .values()
                .all(|task| task.kind != Kind::Critical)
        })
        .await;
    }

    /// Resolves once no task runs at all.
    pub(crate) async fn all_ended(&self) {
        self.until(|inner| inner.running.is_empty()).await;
    }

    /// The names of the tasks that run.
    pub(crate) fn running(&self) -> Vec<&'static str> {
        let inner = self.book.lock();
        inner.running.values().map(|task| task.name).collect()
    }

    async fn until(&self, mut holds: impl FnMut(&mut Inner) -> bool) {
        let mut changes = self.book.changes.subscribe();
        while !holds(&mut self.book.lock()) {
            // The sender lives in `self`, so this cannot fail.
            if changes.changed().await.is_err() {
                return;
            }
        }
    }

    fn supervise<F>(&self, name: &'static str, kind: Kind, task: F)
    where
        F: Future<Output = Result<(), Failure>> + Send + 'static,
    {
        let critical = kind != Kind::Detached;
        let number = self.book.change(|inner| {
            let number = inner.next;
            inner.next += 1;
            inner.running.insert(number, Running { name, kind });
            number
        });
        let handle = tokio::spawn(NAME.scope(name, task));
        let tasks = self.clone();
        tokio::spawn(async move {
            let failure = match handle.await {
                Ok(Ok(())) if critical && !tasks.shutdown.is_cancelled() => {
                    Some(Failure::fatal("ended before the program did"))
                }
                Ok(Ok(())) => None,
                Ok(Err(failure)) => Some(failure),
                Err(error) => Some(Failure::fatal(match panic_text(error) {
                    Some(text) => format!("panicked: {text}"),
                    None => "was aborted".to_owned(),
                })),
            };
            let failure = failure.map(|failure| failure.within(name));
            if let Some(failure) = failure.as_ref().filter(|_| !critical) {
                tracing::error!(task = name, error = %failure, "a task died; the program goes on");
            }
            tasks.book.change(|inner| {
                inner.running.remove(&number);
                // The first wins: later ones are mostly what came of it.
                if critical && inner.failure.is_none() {
                    inner.failure = failure;
                } else if let Some(failure) = failure.filter(|_| critical) {
                    tracing::warn!(task = name, error = %failure, "another task failed");
                }
            });
        });
    }
}

impl Book {
    /// Nothing that holds the lock can panic half-way, so a poisoned one is as good as any.
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change<T>(&self, change: impl FnOnce(&mut Inner) -> T) -> T {
        let result = change(&mut self.lock());
        self.changes
            .send_modify(|count| *count = count.wrapping_add(1));
        result
    }
}

/// What a task said when it panicked; nothing for one that was aborted.
fn panic_text(error: tokio::task::JoinError) -> Option<String> {
    let payload = error.try_into_panic().ok()?;
    let text = payload
        .downcast_ref::<&str>()
        .map(|text| (*text).to_owned())
        .or_else(|| payload.downcast_ref::<String>().cloned());
    Some(text.unwrap_or_else(|| "no message".to_owned()))
}

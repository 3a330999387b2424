//! What the watches, the server and the binds share.

use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use crate::{catch_up::Changes, index::Index, metrics::Metrics};

/// The index under its lock, the metrics, and word of changes. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Shared {
    index: Arc<RwLock<Index>>,
    /// What is counted.
    pub(crate) metrics: Metrics,
    /// Told by the watches.
    pub(crate) changes: Changes,
}

impl Shared {
    /// Around this index.
    pub(crate) fn new(index: Index, metrics: Metrics) -> Self {
        Self {
            index: Arc::new(RwLock::new(index)),
            metrics,
            changes: Changes::default(),
        }
    }

    /// To read: any number at once. Never held over an await.
    pub(crate) fn read(&self) -> RwLockReadGuard<'_, Index> {
        self.index.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// To change: each change is short. Never held over an await.
    pub(crate) fn write(&self) -> RwLockWriteGuard<'_, Index> {
        self.index.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Brings the gauges up to date.
    pub(crate) fn count(&self) {
        let (nodes, pods, assumed) = {
            let index = self.read();
            (
                index.nodes().len(),
                index.pod_count(),
                index.all_assumed().count(),
            )
        };
        let number = |n: usize| i64::try_from(n).unwrap_or(i64::MAX);
        self.metrics.nodes.set(number(nodes));
        self.metrics.pods.set(number(pods));
        self.metrics.assumed.set(number(assumed));
    }
}

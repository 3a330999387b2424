//! What the watches, the server and the binds share.

use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use crate::{index::Index, metrics::Metrics};

/// The index under its lock, and the metrics. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Shared {
    index: Arc<RwLock<Index>>,
    /// What is counted.
    pub metrics: Metrics,
}

impl Shared {
    /// Around this index.
    pub fn new(index: Index, metrics: Metrics) -> Self {
        Self {
            index: Arc::new(RwLock::new(index)),
            metrics,
        }
    }

    /// To read: any number at once. Never held over an await.
    pub fn read(&self) -> RwLockReadGuard<'_, Index> {
        self.index.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// To change: each change is short. Never held over an await.
    pub fn write(&self) -> RwLockWriteGuard<'_, Index> {
        self.index.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Brings the gauges up to date.
    pub fn count(&self) {
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

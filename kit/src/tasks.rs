//! Supervised tasks: one dies, the process says why and ends.

use std::future::Future;

use tokio_util::sync::CancellationToken;

use crate::Failure;

/// The tasks of one program. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Tasks {
    shutdown: CancellationToken,
}

impl Tasks {
    /// Runs `task` until it ends. A critical task that ends with an error, panics, or ends
    /// before shutdown ends the program with that reason.
    pub fn critical<F>(&self, name: &'static str, task: F)
    where
        F: Future<Output = Result<(), Failure>> + Send + 'static,
    {
        let _ = (name, task);
        todo!("helper")
    }

    /// Runs `task` until it ends; its end is no matter, but shutdown waits for it.
    pub fn detached<F>(&self, name: &'static str, task: F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let _ = (name, task);
        todo!("helper")
    }

    /// Resolves when the program is to end. Every long-running task selects on it.
    pub async fn shutdown(&self) {
        self.shutdown.cancelled().await;
    }

    /// The token behind [`Tasks::shutdown`].
    pub fn shutdown_token(&self) -> CancellationToken {
        self.shutdown.clone()
    }
}

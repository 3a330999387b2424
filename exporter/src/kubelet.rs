//! Asks kubelet which containers have cards, and which pods have ended: when a scrape wants it,
//! and at most once in a while however many scrape.

use std::{sync::Arc, time::Duration};

use kubernetes::{node_pods::NodePods, pod_resources};
use runtime_proto::Client;
use tokio::{
    sync::Mutex,
    time::{Instant, timeout},
};

use crate::{convert, page::Page};

/// A scrape does not wait longer than this for kubelet, nor for the pod list, which are asked at
/// the same time.
const PATIENCE: Duration = Duration::from_secs(2);

/// Kubelet as the exporter sees it.
pub struct Kubelet {
    page: Arc<Page>,
    pod_resources: pod_resources::PodResources,
    pods: Option<NodePods>,
    /// Its book stands in where PodResources can't be had.
    runtime: Client,
    every: Duration,
    turn: Mutex<Turn>,
}

/// What the last turn left.
#[derive(Debug, Default)]
struct Turn {
    ended: Option<Instant>,
    no_pod_resources: bool,
    no_pods: bool,
}

impl Kubelet {
    /// Asks nothing yet. Answers serve for `every`.
    pub fn new(
        page: Arc<Page>,
        pod_resources: pod_resources::PodResources,
        pods: Option<NodePods>,
        runtime: Client,
        every: Duration,
    ) -> Self {
        Self {
            page,
            pod_resources,
            pods,
            runtime,
            every,
            turn: Mutex::default(),
        }
    }

    /// Asks again where the last answers are too old. Calls at the same time share one turn.
    pub async fn refresh(&self) {
        let mut turn = self.turn.lock().await;
        if turn.ended.is_some_and(|ended| ended.elapsed() < self.every) {
            return;
        }
        let (no_pod_resources, no_pods) = (turn.no_pod_resources, turn.no_pods);
        let (devices, pods) = tokio::join!(
            self.refresh_devices(no_pod_resources),
            self.refresh_pods(no_pods)
        );
        *turn = Turn {
            ended: Some(Instant::now()),
            no_pod_resources: devices,
            no_pods: pods,
        };
    }

    /// Whether PodResources failed; it had `failed` before.
    async fn refresh_devices(&self, failed: bool) -> bool {
        match self.pod_resources.list(PATIENCE).await {
            Ok(pods) => {
                if failed {
                    tracing::info!("PodResources answers again");
                }
                self.page.update(|state| state.take_pod_devices(&pods));
                false
            }
            // Kubelet is there, others are asking too much of it: what it said last stands.
            Err(error @ pod_resources::Error::RateLimited(_)) if !failed => {
                tracing::debug!(%error, "kept what PodResources said last");
                false
            }
            Err(error) => {
                if !failed {
                    tracing::warn!(
                        %error,
                        "PodResources does not answer, the Runtime's book says which containers have cards"
                    );
                }
                let book = timeout(PATIENCE, self.runtime.book()).await;
                let book = book.ok().and_then(Result::ok).map(|(_, book)| book);
                self.page.update(|state| {
                    state.lose_pod_devices(book.as_deref());
                    Vec::new()
                });
                true
            }
        }
    }

    /// Whether the pod list failed; it had `failed` before.
    async fn refresh_pods(&self, failed: bool) -> bool {
        let Some(source) = &self.pods else {
            return true;
        };
        let error = match timeout(PATIENCE, source.list()).await {
            Ok(Ok(pods)) => {
                if failed {
                    tracing::info!("the node's pods are known again");
                }
                let (lives, faults) = convert::pod_lives(&pods);
                self.page.update(|state| state.take_pods(lives, faults));
                return false;
            }
            Ok(Err(error)) => error.to_string(),
            Err(_) => format!("no answer within {PATIENCE:?}"),
        };
        if !failed {
            tracing::warn!(error, "the node's pods are not known, ended ones may show");
        }
        self.page.update(|state| {
            state.lose_pods();
            Vec::new()
        });
        true
    }
}

impl std::fmt::Debug for Kubelet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Kubelet").finish_non_exhaustive()
    }
}

#[cfg(test)]
#[path = "kubelet_tests.rs"]
pub(crate) mod tests;

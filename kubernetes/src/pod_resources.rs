//! Kubelet's PodResources over its unix socket.

use std::{
    hash::{BuildHasher, RandomState},
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use hyper_util::rt::TokioIo;
use tokio::{net::UnixStream, time::Instant};
use tonic::{
    Code, Status,
    transport::{Channel, Endpoint},
};

use crate::{
    convert::{PodDevices, pod_devices},
    pod_resources_wire::{
        ListPodResourcesRequest, ListPodResourcesResponse,
        pod_resources_lister_client::PodResourcesListerClient,
    },
};

/// Why PodResources gave no answer.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    /// Nothing listens there.
    #[error("no PodResources at {socket}: {why}")]
    Unavailable {
        /// Path of the socket.
        socket: String,
        /// From the transport.
        why: String,
    },
    /// Kubelet's own limit of 100 calls a second, burst 10, stayed exhausted all the while.
    #[error("kubelet limited PodResources calls for {0:?}")]
    RateLimited(Duration),
    /// Anything else.
    #[error("PodResources {call}: {message}")]
    Failed {
        /// Which call.
        call: &'static str,
        /// Kubelet's words.
        message: String,
    },
}

/// A client of one kubelet's PodResources. Cheap to clone.
#[derive(Debug, Clone)]
pub struct PodResources {
    socket: Arc<str>,
    client: PodResourcesListerClient<Channel>,
    /// A pod that cannot be read has been logged; until an answer without one.
    complained: Arc<AtomicBool>,
}

impl PodResources {
    /// Takes answers of up to this size; kubelet's can be far larger than gRPC's usual 4 MiB.
    pub const MAX_ANSWER_BYTES: usize = 16 << 20;

    /// Kubelet answers within milliseconds; one that takes this long hangs.
    const ONE_CALL: Duration = Duration::from_secs(5);

    /// Connects when first used, and again after kubelet has restarted. Must be called on a
    /// tokio runtime.
    pub fn new(socket: PathBuf) -> Self {
        let name: Arc<str> = socket.to_string_lossy().into();
        let connector = tower::service_fn(move |_| {
            let socket = socket.clone();
            async move { UnixStream::connect(socket).await.map(TokioIo::new) }
        });
        // The host becomes the `:authority`; no name is looked up.
        let channel = Endpoint::from_static("http://localhost")
            .connect_timeout(Self::ONE_CALL)
            .connect_with_connector_lazy(connector);
        Self {
            socket: name,
            client: PodResourcesListerClient::new(channel)
                .max_decoding_message_size(Self::MAX_ANSWER_BYTES),
            complained: Arc::default(),
        }
    }

    /// All pods that kubelet has admitted or is admitting, in its order as given. Tries again
    /// when kubelet limits the rate, for at most `within`.
    ///
    /// Kubelet lists the app containers and the sidecars, never the other init containers,
    /// whatever these hold.
    pub async fn list(&self, within: Duration) -> Result<Vec<PodDevices>, Error> {
        let deadline = Instant::now() + within;
        let mut wait = Duration::from_millis(10);
        let mut reconnected = false;
        loop {
            let status = match self.ask().await {
                Ok(answer) => return Ok(self.read(answer)),
                Err(status) => status,
            };
            match status.code() {
                Code::ResourceExhausted => {
                    let pause = shortened(wait);
                    if Instant::now() + pause >= deadline {
                        return Err(Error::RateLimited(within));
                    }
                    tokio::time::sleep(pause).await;
                    wait = (wait * 2).min(Duration::from_millis(160));
                }
                // The connection is one to a kubelet that has restarted since: a new one is
                // made at the next call.
                Code::Unavailable | Code::Unknown | Code::Cancelled if !reconnected => {
                    reconnected = true;
                }
                _ => return Err(self.failed(&status)),
            }
        }
    }

    async fn ask(&self) -> Result<ListPodResourcesResponse, Status> {
        let mut client = self.client.clone();
        tokio::time::timeout(Self::ONE_CALL, client.list(ListPodResourcesRequest {}))
            .await
            .map_err(|_| Status::deadline_exceeded("no answer within 5 s"))?
            .map(tonic::Response::into_inner)
    }

    fn read(&self, answer: ListPodResourcesResponse) -> Vec<PodDevices> {
        let mut bad = None;
        let pods = answer
            .pod_resources
            .into_iter()
            .filter_map(|pod| pod_devices(pod).map_err(|why| bad = Some(why)).ok())
            .collect();
        let before = self.complained.swap(bad.is_some(), Ordering::Relaxed);
        if let (Some(why), false) = (bad, before) {
            tracing::warn!(socket = %self.socket, %why, "a pod of PodResources is passed over");
        }
        pods
    }

    fn failed(&self, status: &Status) -> Error {
        match status.code() {
            Code::Unavailable | Code::DeadlineExceeded => Error::Unavailable {
                socket: self.socket.to_string(),
                why: with_causes(status),
            },
            _ => Error::Failed {
                call: "List",
                message: with_causes(status),
            },
        }
    }
}

fn with_causes(status: &Status) -> String {
    let mut text = status.message().to_owned();
    let mut cause = std::error::Error::source(status);
    while let Some(error) = cause {
        let more = error.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        cause = error.source();
    }
    text
}

/// Shorter by up to a half, so that the clients of one kubelet don't come back together.
fn shortened(wait: Duration) -> Duration {
    let random = u32::try_from(RandomState::new().hash_one(0) % 500).unwrap_or(0);
    wait * (1000 - random) / 1000
}

#[cfg(test)]
#[path = "pod_resources_tests.rs"]
mod tests;

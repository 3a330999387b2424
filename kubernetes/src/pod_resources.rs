//! Kubelet's PodResources over its unix socket.

use std::{path::PathBuf, time::Duration};

use crate::convert::PodDevices;

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
pub struct PodResources {}

impl PodResources {
    /// Takes answers of up to this size; kubelet's can be far larger than gRPC's usual 4 MiB.
    pub const MAX_ANSWER_BYTES: usize = 16 << 20;

    /// Connects when first used.
    pub fn new(socket: PathBuf) -> Self {
        let _ = socket;
        todo!("helper")
    }

    /// All pods that kubelet has admitted or is admitting, in its order as given. Tries again
    /// when kubelet limits the rate, for at most `within`.
    pub async fn list(&self, within: Duration) -> Result<Vec<PodDevices>, Error> {
        let _ = within;
        todo!("helper")
    }
}

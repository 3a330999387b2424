//! Why a call failed.

use std::time::Duration;

/// Why a call failed.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    /// No Runtime listens there, or it went away.
    #[error("no Runtime at {socket}: {why}")]
    Unavailable {
        /// Path of the socket.
        socket: String,
        /// From the transport.
        why: String,
    },
    /// It does not have this call: an older interface version.
    #[error("the Runtime has no {0}: it is older than this program")]
    Unimplemented(&'static str),
    /// It took longer than the caller allowed.
    #[error("the Runtime did not answer {call} within {within:?}")]
    Deadline {
        /// Which call.
        call: &'static str,
        /// How long was waited.
        within: Duration,
    },
    /// It said no.
    #[error("the Runtime refused {call}: {message}")]
    Refused {
        /// Which call.
        call: &'static str,
        /// Its words, cut to 300 characters.
        message: String,
    },
    /// What it said makes no sense.
    #[error("the Runtime's answer to {call} can't be used: {why}")]
    BadAnswer {
        /// Which call.
        call: &'static str,
        /// Which field of which object, and why.
        why: String,
    },
}

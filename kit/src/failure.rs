//! How a program ends when it can't go on.

use std::error::Error;

/// Why a program ends with a code other than 0. The text is one line.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// A wrong argument, environment variable or configuration key: exit code 64.
    #[error("{0}")]
    Usage(String),
    /// Anything else: exit code 1.
    #[error("{0}")]
    Fatal(#[source] Box<dyn Error + Send + Sync>),
}

impl Failure {
    /// A failure from any error.
    pub fn fatal(error: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self::Fatal(error.into())
    }
}

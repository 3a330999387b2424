//! Reaching the API server.

use std::path::PathBuf;

/// Flattened into the arguments of each program that talks to the API server.
#[derive(Debug, Clone, clap::Args)]
pub struct ApiArgs {
    /// Kubeconfig file; without it and without --api-server, the pod's own service account
    #[arg(long, value_name = "FILE", env = "KUBECONFIG")]
    pub kubeconfig: Option<PathBuf>,

    /// Plain URL of an API server that asks for no credentials, such as http://127.0.0.1:8001
    #[arg(long, value_name = "URL", conflicts_with = "kubeconfig")]
    pub api_server: Option<String>,
}

/// Why no client can be made.
#[derive(Debug, thiserror::Error)]
pub enum ApiError {
    /// The kubeconfig file is not usable.
    #[error("kubeconfig {file}: {why}")]
    Kubeconfig {
        /// Which file.
        file: String,
        /// What is wrong with it.
        why: String,
    },
    /// The URL is not one.
    #[error("--api-server {url:?}: {why}")]
    Url {
        /// What was given.
        url: String,
        /// What is wrong with it.
        why: String,
    },
    /// Not in a pod, and nothing was given.
    #[error(
        "no API server: give --kubeconfig or --api-server, or run in a pod with a service account ({0})"
    )]
    NotInCluster(String),
}

impl ApiArgs {
    /// A client. Does not connect yet.
    pub fn client(&self) -> Result<kube::Client, ApiError> {
        todo!("helper")
    }
}

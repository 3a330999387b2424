//! Reaching the API server.

use std::{path::PathBuf, time::Duration};

use futures_util::FutureExt;
use kube::{
    Client, Config,
    config::{KubeConfigOptions, Kubeconfig},
};

/// Nothing that answers needs longer to take a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// The longest silence of a connection. Above the 290 s that a watch is asked to last, so that a
/// quiet watch is not cut, and finite, so that a peer that vanished without a word is noticed.
const READ_TIMEOUT: Duration = Duration::from_secs(330);

/// Flattened into the arguments of each program that talks to the API server.
#[derive(Debug, Clone, clap::Args)]
pub struct ApiArgs {
    /// Kubeconfig file, or several joined by ':'; without it and without --api-server, the pod's
    /// own service account
    #[arg(long, value_name = "FILE", env = "KUBECONFIG")]
    pub kubeconfig: Option<PathBuf>,

    /// Plain URL of an API server that asks for no credentials, such as `http://127.0.0.1:8001`;
    /// used in place of any kubeconfig
    #[arg(long, value_name = "URL")]
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
    /// A client. Does not connect yet. Must be called on a tokio runtime, which the client keeps
    /// using.
    pub fn client(&self) -> Result<Client, ApiError> {
        let mut config = self.read()?;
        config.connect_timeout = Some(CONNECT_TIMEOUT);
        config.read_timeout = Some(READ_TIMEOUT);
        config.reset_reader_on_write = true;
        Client::try_from(config).map_err(|error| self.blame(one_line(&error)))
    }

    fn read(&self) -> Result<Config, ApiError> {
        if let Some(url) = &self.api_server {
            return plain(url);
        }
        let Some(list) = self.kubeconfig_list() else {
            return Config::incluster().map_err(|error| ApiError::NotInCluster(one_line(&error)));
        };
        let mut merged = Kubeconfig::default();
        for file in std::env::split_paths(list).filter(|file| !file.as_os_str().is_empty()) {
            merged = Kubeconfig::read_from(&file)
                .and_then(|read| merged.merge(read))
                .map_err(|error| ApiError::Kubeconfig {
                    file: file.display().to_string(),
                    why: one_line(&error),
                })?;
        }
        // Nothing in it waits: it is asynchronous in name only.
        let config = Config::from_custom_kubeconfig(merged, &KubeConfigOptions::default())
            .now_or_never()
            .ok_or_else(|| self.blame("it takes too long to read".to_owned()))?;
        config.map_err(|error| self.blame(one_line(&error)))
    }

    /// An empty variable means that none is set.
    fn kubeconfig_list(&self) -> Option<&PathBuf> {
        self.kubeconfig
            .as_ref()
            .filter(|list| !list.as_os_str().is_empty())
    }

    fn blame(&self, why: String) -> ApiError {
        match (&self.api_server, self.kubeconfig_list()) {
            (Some(url), _) => ApiError::Url {
                url: url.clone(),
                why,
            },
            (None, Some(file)) => ApiError::Kubeconfig {
                file: file.display().to_string(),
                why,
            },
            (None, None) => ApiError::NotInCluster(why),
        }
    }
}

fn plain(url: &str) -> Result<Config, ApiError> {
    let bad = |why: String| ApiError::Url {
        url: url.to_owned(),
        why,
    };
    let uri: http::Uri = url
        .parse()
        .map_err(|error: http::uri::InvalidUri| bad(error.to_string()))?;
    if !matches!(uri.scheme_str(), Some("http" | "https")) {
        return Err(bad("must start with http:// or https://".to_owned()));
    }
    if uri.host().is_none_or(str::is_empty) {
        return Err(bad("has no host".to_owned()));
    }
    Ok(Config::new(uri))
}

/// The error with its causes, as one line.
pub fn one_line(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let more = error.to_string();
        if !text.contains(&more) {
            text.push_str(": ");
            text.push_str(&more);
        }
        cause = error.source();
    }
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_file(text: &str) -> (tempfile::TempDir, ApiArgs) {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("config");
        std::fs::write(&file, text).unwrap();
        let args = ApiArgs {
            kubeconfig: Some(file),
            api_server: None,
        };
        (folder, args)
    }

    const GOOD: &str = r"
apiVersion: v1
kind: Config
current-context: here
clusters: [{name: c, cluster: {server: 'https://127.0.0.1:6443'}}]
contexts: [{name: here, context: {cluster: c, user: u}}]
users: [{name: u, user: {token: t}}]
";

    #[tokio::test]
    async fn a_plain_url_makes_a_client() {
        let args = ApiArgs {
            kubeconfig: None,
            api_server: Some("http://127.0.0.1:8001".to_owned()),
        };
        assert!(args.client().is_ok());
    }

    #[tokio::test]
    async fn a_kubeconfig_makes_a_client_with_bounded_waits() {
        let (_folder, args) = with_file(GOOD);
        assert_eq!(
            args.read().unwrap().cluster_url.to_string(),
            "https://127.0.0.1:6443/"
        );
        assert!(args.client().is_ok());
    }

    #[tokio::test]
    async fn a_plain_url_wins_over_a_kubeconfig_of_the_environment() {
        let args = ApiArgs {
            kubeconfig: Some("/nowhere/config".into()),
            api_server: Some("http://127.0.0.1:8001".to_owned()),
        };
        assert!(args.client().is_ok());
    }

    #[tokio::test]
    async fn what_cannot_be_used_is_named_in_one_line() {
        let message = |url: Option<&str>, file: Option<&str>| {
            let args = ApiArgs {
                kubeconfig: file.map(PathBuf::from),
                api_server: url.map(str::to_owned),
            };
            args.client().err().unwrap().to_string()
        };
        assert!(message(Some("127.0.0.1:8001"), None).contains("must start with http"));
        assert!(message(Some("ftp://a"), None).contains("ftp://a"));
        assert!(message(None, Some("/nowhere/config")).starts_with("kubeconfig /nowhere/config: "));
        let (_folder, args) = with_file("clusters: [\n");
        let text = args.client().err().unwrap().to_string();
        assert!(
            text.starts_with("kubeconfig ") && !text.contains('\n'),
            "{text}"
        );
        let (_folder, args) = with_file("apiVersion: v1\nkind: Config\n");
        assert!(args.client().is_err());
    }
}

//! Command line and environment.

use std::{convert::Infallible, net::SocketAddr, path::PathBuf, str::FromStr, time::Duration};

use model::name::NodeName;
use runtime_proto::Sockets;

/// Serves metrics of this node's accelerator cards, per card and per container.
#[derive(Debug, clap::Parser)]
#[command(version)]
pub struct Args {
    /// What every program has.
    #[command(flatten)]
    pub common: kit::CommonArgs,

    /// Reaching the API server, for the node's pods where kubelet's read-only port is closed.
    #[command(flatten)]
    pub api: kubernetes::api::ApiArgs,

    /// Where /metrics is served; [::] takes IPv4 and IPv6
    #[arg(long, value_name = "ADDR", default_value = "[::]:9501")]
    pub listen: SocketAddr,

    /// This node's name in Kubernetes
    #[arg(long, value_name = "NAME", env = "NODE_NAME")]
    pub node_name: NodeName,

    /// Folder of the Runtime's sockets
    #[arg(long, value_name = "DIR", default_value = Sockets::DEFAULT_FOLDER)]
    pub runtime_dir: PathBuf,

    /// Where kubelet's PodResources is.
    #[command(flatten)]
    pub kubelet: kubernetes::kubelet_args::KubeletArgs,

    /// Kubelet's read-only port; "none" asks the API server instead
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:10255")]
    pub kubelet_read_only_url: ReadOnlyUrl,

    /// How often the Runtime is to collect
    #[arg(long, value_name = "SECONDS", default_value = "5", value_parser = seconds)]
    pub collection_interval: Duration,

    /// How long kubelet's answers serve before a scrape asks again
    #[arg(long, value_name = "SECONDS", default_value = "5", value_parser = seconds)]
    pub kubelet_interval: Duration,
}

impl AsRef<kit::CommonArgs> for Args {
    fn as_ref(&self) -> &kit::CommonArgs {
        &self.common
    }
}

/// The read-only port, or that it is not to be asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReadOnlyUrl {
    /// Don't ask.
    Nowhere,
    /// Ask this, plus `/pods`.
    At(String),
}

impl FromStr for ReadOnlyUrl {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Self, Infallible> {
        Ok(match text {
            "none" => Self::Nowhere,
            url => Self::At(url.to_owned()),
        })
    }
}

/// Whole seconds, from 1 to 3600.
fn seconds(text: &str) -> Result<Duration, String> {
    match text.parse() {
        Ok(seconds @ 1..=3600) => Ok(Duration::from_secs(seconds)),
        _ => Err("must be whole seconds from 1 to 3600".to_owned()),
    }
}

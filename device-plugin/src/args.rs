//! Arguments.

use std::{path::PathBuf, time::Duration};

use kubernetes::api::ApiArgs;
use model::name::NodeName;
use runtime_proto::Sockets;

/// Registers this node's accelerator cards and shares of them with kubelet
#[derive(Debug, clap::Parser)]
#[command(version)]
pub struct Args {
    /// Arguments that every program has.
    #[command(flatten)]
    pub common: kit::CommonArgs,

    /// Name of this node
    #[arg(long, value_name = "NAME", env = "NODE_NAME")]
    pub node_name: NodeName,

    /// Folder of the Runtime's sockets
    #[arg(long, value_name = "DIR", default_value = Sockets::DEFAULT_FOLDER, env = "LJ_RUNTIMEKIT_RUNTIME_DIR")]
    pub runtime_dir: PathBuf,

    /// Kubelet's device-plugins folder
    #[arg(
        long,
        value_name = "DIR",
        default_value = "/var/lib/kubelet/device-plugins"
    )]
    pub device_plugin_dir: PathBuf,

    /// Kubelet's PodResources socket
    #[arg(
        long,
        value_name = "FILE",
        default_value = "/var/lib/kubelet/pod-resources/kubelet.sock"
    )]
    pub pod_resources_socket: PathBuf,

    /// Kubelet's read-only port; "none" asks the API server for the node's pods instead
    #[arg(
        long,
        value_name = "URL|none",
        default_value = "http://127.0.0.1:10255"
    )]
    pub kubelet_read_only_url: ReadOnlyUrl,

    /// How long the Runtime may be away before its cards are reported unhealthy
    #[arg(long, value_name = "SECONDS", default_value = "60", value_parser = seconds)]
    pub runtime_grace: Duration,

    /// How often the node's pods are looked at while any of them holds a card
    #[arg(long, value_name = "SECONDS", default_value = "5", value_parser = positive_seconds)]
    pub reconcile_interval: Duration,

    /// How the API server is reached.
    #[command(flatten)]
    pub api: ApiArgs,
}

impl AsRef<kit::CommonArgs> for Args {
    fn as_ref(&self) -> &kit::CommonArgs {
        &self.common
    }
}

/// Kubelet's read-only port, or none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReadOnlyUrl {
    /// It is not to be asked.
    None,
    /// Its URL.
    Url(String),
}

impl std::str::FromStr for ReadOnlyUrl {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "none" => Ok(Self::None),
            url if url.starts_with("http://") => Ok(Self::Url(url.to_owned())),
            other => Err(format!("{other:?} is neither \"none\" nor an http:// URL")),
        }
    }
}

/// Up to a day, fractions too.
fn seconds(text: &str) -> Result<Duration, String> {
    text.parse()
        .ok()
        .filter(|s| (0.0..=86_400.0).contains(s))
        .and_then(|s| Duration::try_from_secs_f64(s).ok())
        .ok_or_else(|| format!("{text:?} is not a number of seconds from 0 to 86400"))
}

fn positive_seconds(text: &str) -> Result<Duration, String> {
    let duration = seconds(text)?;
    if duration < Duration::from_millis(100) {
        return Err(format!("{text:?} is less than 0.1 seconds"));
    }
    Ok(duration)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_are_checked() {
        assert_eq!(seconds("1.5"), Ok(Duration::from_millis(1500)));
        assert_eq!(seconds("0"), Ok(Duration::ZERO));
        for bad in ["-1", "x", "", "NaN", "inf", "86401"] {
            assert!(seconds(bad).is_err(), "{bad}");
        }
        assert!(positive_seconds("0").is_err());
    }

    #[test]
    fn the_read_only_port_is_a_url_or_none() {
        assert_eq!("none".parse(), Ok(ReadOnlyUrl::None));
        assert!("127.0.0.1:10255".parse::<ReadOnlyUrl>().is_err());
    }
}

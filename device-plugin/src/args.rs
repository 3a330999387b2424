//! Arguments.

use std::{path::PathBuf, time::Duration};

use kubernetes::{api::ApiArgs, kubelet_args::KubeletArgs};
use model::name::NodeName;
use runtime_proto::Sockets;

use crate::registrar::Folders;

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

    /// Where kubelet's folders are.
    #[command(flatten)]
    pub kubelet: KubeletArgs,

    /// Kubelet's device-plugins folder, where it is not of that name in its folder
    #[arg(long, value_name = "DIR")]
    pub device_plugin_dir: Option<PathBuf>,

    /// The folder of kubelet's in which the resources' sockets are: in device-plugins they are
    /// registered by a call, in `plugins_registry` kubelet's plugin watcher finds them
    #[arg(long, value_enum, default_value_t = Registration::DevicePlugins)]
    pub registration: Registration,

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

impl Args {
    /// Where kubelet is met.
    pub fn folders(&self) -> Folders {
        let given = self.device_plugin_dir.as_deref();
        let registry = || self.kubelet.folder(None, "plugins_registry");
        Folders {
            device_plugins: self.kubelet.folder(given, "device-plugins"),
            plugins_registry: (self.registration == Registration::PluginsRegistry).then(registry),
        }
    }
}

/// How kubelet gets to know the resources.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Registration {
    /// By a call to it.
    DevicePlugins,
    /// By its plugin watcher.
    PluginsRegistry,
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
    use clap::Parser as _;

    use super::*;

    fn args(more: &[&str]) -> Args {
        let all = ["x", "--node-name", "n"].iter().chain(more);
        Args::try_parse_from(all).expect("arguments")
    }

    #[test]
    fn all_of_kubelet_s_paths_are_in_its_folder() {
        let paths = |more: &[&str]| {
            let args = args(more);
            let folders = args.folders();
            (
                folders.device_plugins,
                folders.plugins_registry,
                args.kubelet.pod_resources(),
            )
        };
        assert_eq!(
            paths(&[]),
            (
                "/var/lib/kubelet/device-plugins".into(),
                None,
                "/var/lib/kubelet/pod-resources/kubelet.sock".into()
            )
        );
        let elsewhere = [
            "--kubelet-dir",
            "/data/kubelet",
            "--registration",
            "plugins-registry",
        ];
        let (device_plugins, registry, pod_resources) = paths(&elsewhere);
        let registry = registry.expect("a folder");
        for path in [&device_plugins, &registry, &pod_resources] {
            assert!(path.starts_with("/data/kubelet"), "{}", path.display());
        }
        assert!(registry.ends_with("plugins_registry"));
        let given = ["--device-plugin-dir", "/a", "--pod-resources-socket", "/b"];
        let (device_plugins, _, pod_resources) = paths(&[&elsewhere[..], &given].concat());
        assert_eq!(device_plugins, PathBuf::from("/a"));
        assert_eq!(pod_resources, PathBuf::from("/b"));
    }

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

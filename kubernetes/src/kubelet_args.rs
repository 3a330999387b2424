//! Where kubelet's folders are.

use std::path::{Path, PathBuf};

/// Flattened into the arguments of each program that talks to kubelet.
#[derive(Debug, Clone, clap::Args)]
pub struct KubeletArgs {
    /// Kubelet's own folder, its --root-dir
    #[arg(long, value_name = "DIR", default_value = "/var/lib/kubelet")]
    pub kubelet_dir: PathBuf,

    /// Kubelet's PodResources socket, where it is not pod-resources/kubelet.sock in its folder
    #[arg(long, value_name = "FILE")]
    pub pod_resources_socket: Option<PathBuf>,
}

impl KubeletArgs {
    /// A folder in kubelet's, unless it is given.
    pub fn folder(&self, given: Option<&Path>, name: &str) -> PathBuf {
        given.map_or_else(|| self.kubelet_dir.join(name), Path::to_owned)
    }

    /// The PodResources socket.
    pub fn pod_resources(&self) -> PathBuf {
        self.folder(
            self.pod_resources_socket.as_deref(),
            "pod-resources/kubelet.sock",
        )
    }
}

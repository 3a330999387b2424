//! Where the parts of a stage are: folders, sockets and addresses.

use std::{
    net::{Ipv4Addr, SocketAddr},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

use anyhow::Context;

/// What a stage is made of.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// The card profile of each node; one entry a node. A name, a file, or a profile's own text
    /// (several lines).
    pub profiles: Vec<String>,
    /// Where the programs are; beside this executable where left out.
    pub programs: Option<PathBuf>,
    /// The folder to use and keep; a temporary one where left out.
    pub folder: Option<PathBuf>,
    /// Where node 0's exporter listens; on the node's own address where left out.
    pub exporter_listen: Option<String>,
    /// The administrator's configuration file; its defaults where left out.
    pub settings: Option<String>,
    /// Seconds for which kubelet keeps the capacity of a resource without a plugin; its 5 minutes
    /// where left out. The controller is told 2 more.
    pub capacity_grace: Option<u64>,
    /// How many extenders there are, behind one address; 0 is 1.
    pub extenders: usize,
    /// Whether Runtimes forget their book at a restart, as one without a store does.
    pub forgetful_runtime: bool,
}

/// Where everything of one stage is. The same for all its life.
#[derive(Debug, Clone)]
pub struct Layout {
    /// Holds all files of the stage.
    pub folder: PathBuf,
    /// Holds the programs.
    pub programs: PathBuf,
    /// As given.
    pub options: Options,
    base: [u8; 3],
    number: Arc<Number>,
}

/// Stages that one process can have at once, each with 16 addresses.
const MOST_STAGES: u8 = 15;

/// Which numbers are taken, and which one was taken last.
static NUMBERS: Mutex<(u16, u8)> = Mutex::new((0, MOST_STAGES - 1));

/// The number of a stage among those of its process. Free again once the stage is gone: a slow one
/// must not share its addresses and its folder with one that starts much later.
#[derive(Debug)]
struct Number(u8);

impl Number {
    /// A free one; of several the one that was given back longest ago, or nearly so.
    fn take() -> Option<Self> {
        let mut numbers = NUMBERS.lock().unwrap_or_else(PoisonError::into_inner);
        let (taken, last) = &mut *numbers;
        let mut after = (1..=MOST_STAGES).map(|more| (*last + more) % MOST_STAGES);
        let number = after.find(|number| *taken & 1 << number == 0)?;
        *taken |= 1 << number;
        *last = number;
        Some(Self(number))
    }
}

impl Drop for Number {
    fn drop(&mut self) {
        NUMBERS.lock().unwrap_or_else(PoisonError::into_inner).0 &= !(1 << self.0);
    }
}

impl Layout {
    /// Makes the folders and picks the addresses: 127.x.y.z, from the process id, so that stages
    /// of processes that run side by side do not meet.
    pub(super) fn new(options: Options) -> anyhow::Result<Self> {
        let number = Number::take();
        let number = number.with_context(|| format!("{MOST_STAGES} stages are up already"))?;
        let [.., high, low] = std::process::id().to_be_bytes();
        let folder = match &options.folder {
            Some(folder) => folder.clone(),
            // Short: a unix socket's path has at most 107 characters.
            None => std::env::temp_dir().join(format!("lj-{}-{}", std::process::id(), number.0)),
        };
        for part in ["logs", "config"] {
            let path = folder.join(part);
            std::fs::create_dir_all(&path)
                .with_context(|| format!("can't make {}", path.display()))?;
        }
        let mut options = options;
        for (node, profile) in options.profiles.iter_mut().enumerate() {
            if profile.contains('\n') {
                let file = folder.join("config").join(format!("profile-{node}.yaml"));
                std::fs::write(&file, &*profile)?;
                *profile = file.display().to_string();
            }
        }
        let layout = Self {
            programs: options
                .programs
                .clone()
                .map_or_else(beside_this_executable, Ok)?,
            folder,
            base: [127, 64 + high % 128, low],
            number: Arc::new(number),
            options,
        };
        if let Some(text) = &layout.options.settings {
            std::fs::write(layout.settings_file(), text)?;
        }
        Ok(layout)
    }

    /// How many nodes the stage has; at most 14.
    pub fn nodes(&self) -> usize {
        self.options.profiles.len().min(14)
    }

    /// The name of a node.
    pub fn node_name(&self, node: usize) -> String {
        format!("node-{node}")
    }

    /// The folder of a node.
    pub fn node_folder(&self, node: usize) -> PathBuf {
        self.folder.join(format!("n{node}"))
    }

    /// The kubelet's root folder of a node.
    pub fn kubelet_root(&self, node: usize) -> PathBuf {
        self.node_folder(node).join("kubelet")
    }

    /// The Runtime's sockets of a node.
    pub fn runtime_folder(&self, node: usize) -> PathBuf {
        self.node_folder(node).join("xdm")
    }

    /// The address of the control plane.
    pub fn control_address(&self) -> Ipv4Addr {
        self.address(1)
    }

    /// The address of a node.
    pub fn node_address(&self, node: usize) -> Ipv4Addr {
        self.address(2 + u8::try_from(node).unwrap_or(13))
    }

    /// The stand-in API server.
    pub fn api_url(&self) -> String {
        format!("http://{}:6443", self.control_address())
    }

    /// How many replicas of the scheduler extender there are; at most 4.
    pub fn extenders(&self) -> usize {
        self.options.extenders.clamp(1, 4)
    }

    /// Where one replica of the scheduler extender serves.
    pub fn extender_address(&self, replica: usize) -> SocketAddr {
        let port = 9503 + self.replica_offset(replica);
        SocketAddr::from((self.control_address(), port))
    }

    pub(super) fn replica_offset(&self, replica: usize) -> u16 {
        100 * u16::try_from(replica.min(self.extenders())).unwrap_or(0)
    }

    /// What stands for all of them, where there are several.
    pub(super) fn extender_service(&self) -> Option<SocketAddr> {
        (self.extenders() > 1).then(|| SocketAddr::from((self.control_address(), 9500)))
    }

    /// The scheduler extender, as kube-scheduler calls it.
    pub fn extender_url(&self) -> String {
        let address = self.extender_service();
        format!(
            "http://{}",
            address.unwrap_or_else(|| self.extender_address(0))
        )
    }

    /// The Runtime simulator's switches of a node.
    pub fn runtime_control_url(&self, node: usize) -> String {
        format!("http://{}:9600", self.node_address(node))
    }

    /// Where a node's exporter listens, as it is told.
    pub fn exporter_listen(&self, node: usize) -> String {
        match &self.options.exporter_listen {
            Some(listen) if node == 0 => listen.clone(),
            _ => format!("{}:9501", self.node_address(node)),
        }
    }

    /// A node's metrics.
    pub fn metrics_url(&self, node: usize) -> String {
        format!("http://{}/metrics", self.exporter_listen(node))
    }

    /// A node's kubelet's read-only port.
    pub fn read_only_url(&self, node: usize) -> String {
        format!("http://{}:10255", self.node_address(node))
    }

    /// The administrator's file, where there is one.
    pub fn settings(&self) -> Option<PathBuf> {
        self.options.settings.as_ref().map(|_| self.settings_file())
    }

    fn settings_file(&self) -> PathBuf {
        self.folder.join("config").join("config.yaml")
    }

    fn address(&self, last: u8) -> Ipv4Addr {
        let [a, b, c] = self.base;
        Ipv4Addr::new(a, b, c, (self.number.0 * 16).saturating_add(last))
    }
}

/// Cargo puts programs in one folder, and tests in `deps` below it.
fn beside_this_executable() -> anyhow::Result<PathBuf> {
    let this = std::env::current_exe().context("can't tell where this program is")?;
    let folder = this.parent().unwrap_or(Path::new("."));
    let folder = if folder.ends_with("deps") {
        folder.parent().unwrap_or(folder)
    } else {
        folder
    };
    Ok(folder.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stages_at_once_have_different_numbers_and_one_given_back_is_not_taken_next() {
        let numbers: Vec<Number> = (0..5).filter_map(|_| Number::take()).collect();
        let mut different: Vec<u8> = numbers.iter().map(|n| n.0).collect();
        different.sort_unstable();
        different.dedup();
        assert_eq!(different.len(), 5);
        assert!(different.iter().all(|number| *number < MOST_STAGES));
        drop(numbers);
        let next = Number::take().unwrap().0;
        assert!(!different.contains(&next), "{next} of {different:?}");
    }
}

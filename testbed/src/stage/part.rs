//! The parts of a stage and the command line of each.

use std::{fmt, process::Command};

use super::layout::Layout;

/// The scheduler profile that pods of the stage name.
pub const SCHEDULER_NAME: &str = "lj-runtimekit-scheduler";

/// The Lease of several extenders, as `NAMESPACE/NAME`.
pub const EXTENDER_LEASE: &str = "kube-system/lj-runtimekit-scheduler";

/// The image whose container is the real job agent.
pub const AGENT_IMAGE: &str = "lj-runtimekit-controller-job-agent:stage";

/// One process of a stage. Numbers are nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Part {
    /// Stand-in.
    ApiServer,
    /// A replica of the real scheduler extender.
    Extender(usize),
    /// Stand-in kube-scheduler with the extender.
    KubeScheduler,
    /// Stand-in kube-scheduler without one.
    DefaultScheduler,
    /// The real controller.
    Controller,
    /// The Runtime simulator.
    Runtime(usize),
    /// Stand-in.
    Kubelet(usize),
    /// The real device plugin.
    DevicePlugin(usize),
    /// The real exporter.
    Exporter(usize),
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ApiServer => f.write_str("the stand-in API server"),
            Self::Extender(replica) => write!(f, "the scheduler extender {replica}"),
            Self::KubeScheduler => f.write_str("the stand-in kube-scheduler"),
            Self::DefaultScheduler => f.write_str("the stand-in default scheduler"),
            Self::Controller => f.write_str("the controller"),
            Self::Runtime(node) => write!(f, "the Runtime simulator of node-{node}"),
            Self::Kubelet(node) => write!(f, "the stand-in kubelet of node-{node}"),
            Self::DevicePlugin(node) => write!(f, "the device plugin of node-{node}"),
            Self::Exporter(node) => write!(f, "the exporter of node-{node}"),
        }
    }
}

impl Part {
    pub(super) fn file_name(self) -> String {
        match self {
            Self::ApiServer => "api-server".into(),
            Self::Extender(0) => "scheduler".into(),
            Self::Extender(replica) => format!("scheduler-{replica}"),
            Self::KubeScheduler => "kube-scheduler".into(),
            Self::DefaultScheduler => "default-scheduler".into(),
            Self::Controller => "controller".into(),
            Self::Runtime(node) => format!("n{node}-runtime-sim"),
            Self::Kubelet(node) => format!("n{node}-kubelet"),
            Self::DevicePlugin(node) => format!("n{node}-device-plugin"),
            Self::Exporter(node) => format!("n{node}-exporter"),
        }
    }

    fn program(self) -> &'static str {
        match self {
            Self::ApiServer | Self::KubeScheduler | Self::DefaultScheduler | Self::Kubelet(_) => {
                "testbed"
            }
            Self::Extender(_) => "lj-runtimekit-scheduler",
            Self::Controller => "lj-runtimekit-controller",
            Self::Runtime(_) => "runtime-sim",
            Self::DevicePlugin(_) => "lj-runtimekit-device-plugin",
            Self::Exporter(_) => "lj-runtimekit-exporter",
        }
    }

    /// The whole command line.
    pub(super) fn command(self, layout: &Layout) -> Command {
        let mut command = Command::new(layout.programs.join(self.program()));
        match self {
            Self::ApiServer => {
                command.args([
                    "api-server",
                    "--listen",
                    &format!("{}:6443", layout.control_address()),
                ]);
                command
                    .arg("--state")
                    .arg(layout.folder.join("api-state.json"));
                command
                    .arg("--audit")
                    .arg(layout.folder.join("audit.jsonl"));
            }
            Self::Extender(replica) => {
                let listen = layout.extender_address(replica);
                command.args(["--listen", &listen.to_string()]);
                command.args(["--api-server", &layout.api_url()]);
                if layout.extenders() > 1 {
                    command.args(["--lease", EXTENDER_LEASE]);
                    command.args(["--advertise", &listen.ip().to_string()]);
                }
            }
            Self::KubeScheduler => {
                command.args(["scheduler", "--api-server", &layout.api_url()]);
                command.args([
                    "--extender",
                    &layout.extender_url(),
                    "--scheduler-name",
                    SCHEDULER_NAME,
                ]);
            }
            Self::DefaultScheduler => {
                command.args(["scheduler", "--api-server", &layout.api_url()]);
                command.args(["--scheduler-name", "default-scheduler"]);
            }
            Self::Controller => {
                command.args([
                    "--api-server",
                    &layout.api_url(),
                    "--job-image",
                    AGENT_IMAGE,
                ]);
                // One node's socket folder differs from the next one's on this one machine; the
                // stand-in kubelet gives each agent its own node's through --agent-image.
                command.arg("--runtime-dir").arg(layout.runtime_folder(0));
            }
            Self::Runtime(_) | Self::Kubelet(_) | Self::DevicePlugin(_) | Self::Exporter(_) => {
                self.of_a_node(&mut command, layout);
            }
        }
        self.common(&mut command, layout);
        command
    }

    fn of_a_node(self, command: &mut Command, layout: &Layout) {
        match self {
            Self::ApiServer
            | Self::Extender(_)
            | Self::KubeScheduler
            | Self::DefaultScheduler
            | Self::Controller => {}
            Self::Runtime(node) => {
                let profile = layout
                    .options
                    .profiles
                    .get(node)
                    .map_or("ppu-8x144", String::as_str);
                command
                    .arg("--dir")
                    .arg(layout.runtime_folder(node))
                    .args(["--profile", profile]);
                command.args([
                    "--control-listen",
                    &format!("{}:9600", layout.node_address(node)),
                ]);
                if layout.options.forgetful_runtime {
                    // It forgets the switch too, and nobody would throw it again.
                    command.args(["--feature", "on"]);
                } else {
                    command
                        .arg("--state")
                        .arg(layout.node_folder(node).join("runtime-state.json"));
                }
            }
            Self::Kubelet(node) => {
                let agent = layout.programs.join("lj-runtimekit-controller-job-agent");
                command.args([
                    "kubelet",
                    "--node",
                    &layout.node_name(node),
                    "--api-server",
                    &layout.api_url(),
                ]);
                command.arg("--root").arg(layout.kubelet_root(node));
                command.args([
                    "--read-only-listen",
                    &format!("{}:10255", layout.node_address(node)),
                ]);
                command.args([
                    "--agent-image",
                    &format!("{AGENT_IMAGE}={}", agent.display()),
                ]);
                command.arg("--host-path").arg(format!(
                    "{}={}",
                    layout.runtime_folder(0).display(),
                    layout.runtime_folder(node).display()
                ));
            }
            Self::DevicePlugin(node) => {
                on_node(command, layout, node);
                command
                    .arg("--device-plugin-dir")
                    .arg(layout.kubelet_root(node).join("device-plugins"));
            }
            Self::Exporter(node) => {
                on_node(command, layout, node);
                command.args(["--listen", &layout.exporter_listen(node)]);
            }
        }
    }

    fn common(self, command: &mut Command, layout: &Layout) {
        if let Some(url) = self.admin_url(layout) {
            command.args(["--admin-listen", url.trim_start_matches("http://")]);
        }
        if let Some(file) = layout.settings() {
            command.arg("--config").arg(file);
        }
        if let Some(seconds) = self.capacity_grace(layout) {
            command.args(["--capacity-grace", &seconds.to_string()]);
        }
    }

    fn capacity_grace(self, layout: &Layout) -> Option<u64> {
        let kubelets = layout.options.capacity_grace?;
        match self {
            Self::Kubelet(_) => Some(kubelets),
            Self::Controller => Some(kubelets + 2),
            _ => None,
        }
    }

    /// Where the program answers `/healthz`, `/readyz` and `/metrics`; stand-ins do not.
    pub fn admin_url(self, layout: &Layout) -> Option<String> {
        match self {
            Self::Extender(replica) => {
                let port = 9511 + layout.replica_offset(replica);
                Some(format!("http://{}:{port}", layout.control_address()))
            }
            Self::Controller => Some(format!("http://{}:9512", layout.control_address())),
            Self::DevicePlugin(node) => Some(format!("http://{}:9513", layout.node_address(node))),
            Self::Exporter(node) => Some(format!("http://{}:9514", layout.node_address(node))),
            _ => None,
        }
    }
}

/// What every program on a node is told.
fn on_node(command: &mut Command, layout: &Layout, node: usize) {
    command.args([
        "--node-name",
        &layout.node_name(node),
        "--api-server",
        &layout.api_url(),
    ]);
    command
        .arg("--runtime-dir")
        .arg(layout.runtime_folder(node));
    command
        .arg("--pod-resources-socket")
        .arg(layout.kubelet_root(node).join("pod-resources/kubelet.sock"));
    command.args(["--kubelet-read-only-url", &layout.read_only_url(node)]);
}

//! A real cluster of `e2e/cluster.sh`, with the kit deployed on it.

use std::{
    path::{Path, PathBuf},
    process::Stdio,
};

use anyhow::{Context, ensure};
use kube::{
    Client,
    api::{DeleteParams, ListParams},
};
use kubernetes::api::ApiArgs;
use model::settings::Settings;
use serde_json::Value;
use testbed::{
    books::{self, Books, Sources},
    cluster::Cluster,
    stage::{Deadline, Signal, get, post, until},
};

use crate::ground::{Ground, Victim, WHOLE_NODE};

mod deployment;
mod guide;
mod leader;
mod nodes;
mod pods;
mod rights;
mod workloads;

pub use deployment::{rename, upgrade_and_rollback};
pub use guide::guide;
pub use leader::either_extender_may_go;
pub use nodes::{
    case_16_long_node_names, label_and_unlabel, node_made_again,
    nothing_is_left_of_an_unlabelled_node,
};
pub use pods::{annotations, policy, whole_cards_everywhere};
pub use rights::rights;

const NAMESPACE: &str = "kube-system";
const SOON: u64 = 90;
/// Its Deployment, its label and its lease.
const EXTENDER: &str = "lj-runtimekit-scheduler";

/// The manifests and the script of this checkout.
fn deploy_folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy")
}

/// The cluster. Its first node is `node-1`.
pub struct Lab {
    folder: PathBuf,
    client: Client,
    cluster: Cluster,
}

impl Lab {
    /// The cluster that the environment names: `LAB` is the working folder of `e2e/cluster.sh`.
    pub fn from_environment() -> anyhow::Result<Self> {
        let folder = std::env::var_os("LAB").context("LAB is not set: run this by `make e2e`")?;
        let folder = PathBuf::from(folder);
        let api = ApiArgs {
            kubeconfig: Some(folder.join("pki/admin.kubeconfig")),
            api_server: None,
        };
        let client = api.client()?;
        Ok(Self {
            cluster: Cluster::new(client.clone(), Settings::default()),
            client,
            folder,
        })
    }

    /// Ends what an earlier scenario left, and waits until the first node is switched on and empty.
    pub async fn clear(&self) -> anyhow::Result<()> {
        let now = DeleteParams::default().grace_period(0);
        self.cluster
            .pods()
            .delete_collection(&now, &ListParams::default())
            .await?;
        until("no pods in default", Deadline::seconds(SOON), || async {
            let left = self.cluster.pods().list(&ListParams::default()).await;
            match left.map_err(|e| e.to_string())?.items.len() {
                0 => Ok(()),
                n => Err(format!("{n} pods")),
            }
        })
        .await?;
        // What an earlier one asked for and did not get to.
        self.refuse_allocations(0).await?;
        self.switch_on(1).await?;
        self.books_are_empty().await
    }

    /// A client with every right.
    pub fn client(&self) -> Client {
        self.client.clone()
    }

    /// The working folder of the cluster.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Labels a node (from 1) and waits for its resources. A name that was given up may still be
    /// there: kubelet takes 5 minutes for it.
    pub async fn switch_on(&self, number: usize) -> anyhow::Result<()> {
        let node = format!("node-{number}");
        self.cluster.label_node(&node, true).await?;
        self.offers(&node, &WHOLE_NODE).await
    }

    /// Waits until the node offers these, allocatable equal to capacity.
    pub async fn offers(&self, node: &str, wanted: &[(&str, u64)]) -> anyhow::Result<()> {
        until(
            &format!("{node} to offer {wanted:?}"),
            Deadline::seconds(SOON),
            || async {
                let now = self.cluster.node_resources(node).await;
                let now = now.map_err(|e| format!("{e:#}"))?;
                let there = |(name, count): &(&str, u64)| {
                    now.get(*name) == Some(&(count.to_string(), count.to_string()))
                };
                if wanted.iter().all(there) {
                    Ok(())
                } else {
                    Err(format!("it offers {now:?}"))
                }
            },
        )
        .await
    }

    /// Runs `deploy-all.sh` of a folder.
    pub async fn deploy(&self, folder: &Path, arguments: &[&str]) -> anyhow::Result<String> {
        let script = folder.join("deploy-all.sh");
        let script = script.to_str().context("a path that is no text")?;
        let log = self.folder.join("logs/deploy.log");
        let log = format!("LJ_RUNTIMEKIT_DEPLOY_LOG={}", log.display());
        let mut all = vec!["run", "env", log.as_str(), script, "deploy", "--wait=120s"];
        all.extend(arguments);
        self.script(&all).await
    }

    /// Runs kubectl.
    pub async fn kubectl(&self, arguments: &[&str]) -> anyhow::Result<String> {
        let mut all = vec!["run", "kubectl"];
        all.extend(arguments);
        self.script(&all).await
    }

    /// Runs `e2e/cluster.sh` and answers what it wrote.
    pub async fn script(&self, arguments: &[&str]) -> anyhow::Result<String> {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../e2e/cluster.sh");
        let output = tokio::process::Command::new(script)
            .args(arguments)
            .env("LAB", &self.folder)
            .stdin(Stdio::null())
            .output()
            .await?;
        ensure!(
            output.status.success(),
            "cluster.sh {}: {} {}{}",
            arguments.join(" "),
            output.status,
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        );
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// Runs a shell line inside a node.
    pub async fn on_node(&self, number: usize, line: &str) -> anyhow::Result<String> {
        self.script(&["node", &number.to_string(), "sh", "-c", line])
            .await
    }

    /// Where the books of a node (from 1) are read.
    pub fn sources(&self, number: usize) -> Sources {
        let node = self.folder.join(format!("node-{number}"));
        Sources {
            client: self.client.clone(),
            node: format!("node-{number}"),
            pod_resources: node.join("kubelet/pod-resources/kubelet.sock"),
            runtime: node.join("sockets"),
        }
    }

    /// Ends a process of the first node that its starter keeps up, and holds it down.
    async fn hold(&self, part: &str, signal: Signal) -> anyhow::Result<()> {
        let signal = signal_name(signal);
        self.on_node(
            1,
            &format!(
                "touch /run/lab/{part}.hold; pid=$(cat /run/lab/{part}.pid); kill -{signal} $pid; \
                 while kill -0 $pid 2>/dev/null; do sleep 0.1; done"
            ),
        )
        .await
        .map(drop)
    }

    async fn kill_programs(&self, app: &str) -> anyhow::Result<()> {
        let program = match app {
            "lj-runtimekit-kube-scheduler" => "kube-scheduler",
            app => app,
        };
        for node in 1..=self.nodes()? {
            // No such process is no fault: it runs on another node.
            self.on_node(node, &format!("pkill -KILL -f '^/?{program} ' || :"))
                .await?;
        }
        Ok(())
    }

    /// How many nodes there are.
    pub fn nodes(&self) -> anyhow::Result<usize> {
        let text = std::fs::read_to_string(self.folder.join("nodes"))?;
        Ok(text.trim().parse()?)
    }
}

const fn signal_name(signal: Signal) -> &'static str {
    match signal {
        Signal::Kill => "KILL",
        Signal::Term => "TERM",
    }
}

fn on_every_node(app: &str) -> bool {
    app.ends_with("device-plugin") || app.ends_with("exporter")
}

/// Who runs that part.
enum Runs {
    /// A workload of the kit.
    Workload(&'static str),
    /// The extender that leads, of several.
    Leader,
    /// A process of the first node.
    OnNode(&'static str),
    /// A process of the control plane.
    ControlPlane(&'static str),
}

const fn runs(victim: Victim) -> Runs {
    match victim {
        Victim::ApiServer => Runs::ControlPlane("apiserver"),
        Victim::Etcd => Runs::ControlPlane("etcd"),
        Victim::Kubelet => Runs::OnNode("kubelet"),
        Victim::Containerd => Runs::OnNode("containerd"),
        Victim::Runtime => Runs::OnNode("runtime"),
        Victim::DevicePlugin => Runs::Workload("lj-runtimekit-device-plugin"),
        Victim::Exporter => Runs::Workload("lj-runtimekit-exporter"),
        Victim::Extender => Runs::Leader,
        Victim::KubeScheduler => Runs::Workload("lj-runtimekit-kube-scheduler"),
        Victim::Controller => Runs::Workload("lj-runtimekit-controller"),
    }
}

impl Ground for Lab {
    fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    fn node(&self, number: usize) -> String {
        format!("node-{}", number + 1)
    }

    async fn metrics(&self) -> anyhow::Result<String> {
        get("http://10.77.0.11:9501/metrics").await
    }

    async fn books(&self) -> anyhow::Result<Books> {
        books::agree(
            &self.sources(1),
            self.cluster.settings(),
            Deadline::seconds(SOON),
        )
        .await
    }

    async fn books_now(&self, number: usize) -> anyhow::Result<Books> {
        Books::read(&self.sources(number + 1), self.cluster.settings()).await
    }

    fn node_count(&self) -> usize {
        // Whoever brought it up wrote it down.
        self.nodes().unwrap_or(1)
    }

    async fn books_are_empty(&self) -> anyhow::Result<()> {
        books::are_empty(
            &self.sources(1),
            self.cluster.settings(),
            Deadline::seconds(SOON),
        )
        .await
    }

    /// Through the API server's proxy: the extender is known by a Service only.
    async fn extender(&self, verb: &str, body: &Value) -> anyhow::Result<Value> {
        let path =
            format!("/api/v1/namespaces/{NAMESPACE}/services/https:{EXTENDER}:9503/proxy/{verb}");
        let request = http::Request::post(path)
            .header(http::header::CONTENT_TYPE, "application/json")
            .body(serde_json::to_vec(body)?)?;
        Ok(self.client.request(request).await?)
    }

    async fn runtime_fault(&self, number: usize, fault: &str) -> anyhow::Result<()> {
        let url = format!("http://10.77.0.1{}:9599/faults/{fault}", number + 1);
        post(&url).await.map(drop)
    }

    async fn stop(&self, victim: Victim, signal: Signal) -> anyhow::Result<()> {
        match runs(victim) {
            Runs::ControlPlane(part) => self
                .script(&["kill", part, signal_name(signal)])
                .await
                .map(drop),
            Runs::OnNode(part) => self.hold(part, signal).await,
            Runs::Leader => self.end_leader(signal).await,
            Runs::Workload(app) => {
                if signal == Signal::Kill {
                    self.kill_programs(app).await?;
                }
                if on_every_node(app) {
                    self.delete_on_first_node(app).await
                } else {
                    self.scale(app, 0).await
                }
            }
        }
    }

    async fn start(&self, victim: Victim) -> anyhow::Result<()> {
        match runs(victim) {
            Runs::ControlPlane(part) => {
                self.script(&["start", part]).await?;
                until(
                    "the API server to answer",
                    Deadline::seconds(60),
                    || async {
                        let ready = http::Request::get("/readyz").body(Vec::new());
                        let ready = ready.map_err(|e| e.to_string())?;
                        match self.client.request_text(ready).await {
                            Ok(_) => Ok(()),
                            Err(error) => Err(error.to_string()),
                        }
                    },
                )
                .await
            }
            Runs::OnNode(part) => self
                .on_node(1, &format!("rm -f /run/lab/{part}.hold"))
                .await
                .map(drop),
            // What is to be there is made by itself.
            Runs::Leader => {
                self.rolled_out(EXTENDER).await?;
                self.leader().await.map(drop)
            }
            Runs::Workload(app) => {
                if !on_every_node(app) {
                    self.scale(app, 1).await?;
                }
                self.rolled_out(app).await
            }
        }
    }
}

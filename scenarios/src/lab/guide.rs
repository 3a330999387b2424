//! The commands of the administrator's guide, as they are typed.

use anyhow::ensure;
use testbed::stage::{Deadline, post, until};

use super::{Lab, SOON};
use crate::ground::Ground;

/// A command, and what its answer must and must not contain.
struct Command {
    /// On the first node, or where an administrator sits.
    on_node: bool,
    line: &'static str,
    has: &'static [&'static str],
    lacks: &'static [&'static str],
}

const COMMANDS: [Command; 12] = [
    Command {
        on_node: true,
        line: "ls /run/amp/eKitC/xdm/sockets/",
        has: &["config-daemon.sock", "dp2mgr.sock"],
        lacks: &[],
    },
    Command {
        on_node: true,
        line: "curl -s http://localhost:10255/pods | head -c 100",
        has: &["\"kind\":\"PodList\""],
        lacks: &[],
    },
    Command {
        on_node: false,
        line: "kubectl get nodes -l lj_runtimekit_enable=true",
        has: &["node-1"],
        lacks: &["node-2"],
    },
    Command {
        on_node: true,
        line: "containerd config dump | grep -A 5 lj-runtime",
        has: &["xdm.amp.com*", "xpu-container-runtime"],
        lacks: &[],
    },
    Command {
        on_node: true,
        line: "containerd config dump | grep -A 20 'runtimes.lj-runtime.options'",
        has: &[
            "/usr/local/harp/kitC/xpu-container-runtime",
            "SystemdCgroup",
        ],
        lacks: &[],
    },
    Command {
        on_node: false,
        line: "kubectl get pods -n kube-system | grep -E 'lj-runtimekit-device-plugin|lj-runtimekit-scheduler|lj-runtimekit-exporter|lj-runtimekit-controller'",
        has: &[
            "device-plugin-",
            "scheduler-",
            "exporter-",
            "controller-",
            "1/1",
            "Running",
        ],
        lacks: &["0/1", "Error", "CrashLoopBackOff", "Pending"],
    },
    Command {
        on_node: true,
        line: "curl -s localhost:9501/metrics | head -20",
        has: &["# HELP ", "# TYPE "],
        lacks: &[],
    },
    Command {
        on_node: false,
        line: "kubectl get runtimeclass lj-runtime",
        has: &["lj-runtime"],
        lacks: &[],
    },
    Command {
        on_node: false,
        line: "kubectl rollout status daemonset/lj-runtimekit-device-plugin -n kube-system --timeout=60s",
        has: &["successfully rolled out"],
        lacks: &[],
    },
    Command {
        on_node: false,
        line: "kubectl rollout status daemonset/lj-runtimekit-exporter -n kube-system --timeout=60s",
        has: &["successfully rolled out"],
        lacks: &[],
    },
    Command {
        on_node: false,
        line: "kubectl rollout status deployment/lj-runtimekit-scheduler -n kube-system --timeout=60s",
        has: &["successfully rolled out"],
        lacks: &[],
    },
    Command {
        on_node: false,
        line: "kubectl get pods -n kube-system -l app=lj-runtimekit-device-plugin -o wide",
        has: &["node-1", "1/1"],
        lacks: &["node-2"],
    },
];

/// Runs each.
pub async fn guide(lab: &Lab) -> anyhow::Result<()> {
    lab.cluster().label_node("node-2", false).await?;
    for app in [
        "lj-runtimekit-device-plugin",
        "lj-runtimekit-exporter",
        "lj-runtimekit-scheduler",
    ] {
        lab.rolled_out(app).await?;
    }
    for command in COMMANDS {
        let said = if command.on_node {
            lab.on_node(1, command.line).await?
        } else {
            lab.script(&["run", "sh", "-c", command.line]).await?
        };
        for part in command.has {
            ensure!(
                said.contains(part),
                "{}: no {part:?} in\n{said}",
                command.line
            );
        }
        for part in command.lacks {
            ensure!(
                !said.contains(part),
                "{}: {part:?} in\n{said}",
                command.line
            );
        }
    }
    describe(lab).await?;
    a_switch_that_fails(lab).await
}

/// Capacity and Allocatable, the same.
async fn describe(lab: &Lab) -> anyhow::Result<()> {
    let line = "kubectl describe node node-1 | grep -E 'aliyun.com|alibabacloud.com'";
    let said = lab.script(&["run", "sh", "-c", line]).await?;
    let wanted = [
        "alibabacloud.com/ppu: 8",
        "aliyun.com/gpu: 8",
        "aliyun.com/gpu-core: 800",
        "aliyun.com/gpu-memory: 1152",
    ];
    for wanted in wanted {
        let squeezed = said
            .lines()
            .map(|l| l.split_whitespace().collect::<Vec<_>>().join(" "));
        let times = squeezed.filter(|l| l == wanted).count();
        ensure!(
            times == 2,
            "{wanted:?} is there {times} times, not 2:\n{said}"
        );
    }
    Ok(())
}

/// A switch that the Runtime fails: the Job stays, and its log says why. Once the Runtime is
/// mended, the label set again does it.
async fn a_switch_that_fails(lab: &Lab) -> anyhow::Result<()> {
    post("http://10.77.0.12:9599/faults/feature-fails").await?;
    lab.cluster().label_node("node-2", true).await?;
    let logs = ["logs", "-n", "kube-system", "job/lj-agent-node-2-enable"];
    until(
        "the log of a switch that failed",
        Deadline::seconds(SOON),
        || async {
            let said = lab.kubectl(&logs).await.map_err(|e| format!("{e:#}"))?;
            if said.contains("fail") {
                Ok(())
            } else {
                Err(said)
            }
        },
    )
    .await?;
    let key = &lab.cluster().settings().annotations.last_action_status;
    until(
        "the failure to be told",
        Deadline::seconds(SOON),
        || async {
            let told = lab.cluster().node_annotation("node-2", key).await;
            let told = told.map_err(|e| format!("{e:#}"))?.unwrap_or_default();
            if told.contains("Failed") {
                Ok(())
            } else {
                Err(told)
            }
        },
    )
    .await?;
    lab.kubectl(&["get", "job", "-n", "kube-system", "lj-agent-node-2-enable"])
        .await?;
    lab.cluster().label_node("node-2", false).await
}

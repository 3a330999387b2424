//! From admission to the end: pretend containers, and real processes for agent images.

use std::{process::Stdio, sync::Arc, time::Duration};

use kube::{
    Api, Client,
    api::{DeleteParams, DynamicObject, Patch, PatchParams, Preconditions},
    discovery::ApiResource,
};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::{
    KubeletArgs,
    pod::{Container, Kind, Local, Stage},
    state::State,
};

/// What every pod's task needs.
#[derive(Clone)]
pub(super) struct Runner {
    /// The API server.
    pub(super) client: Client,
    /// The command line.
    pub(super) args: Arc<KubeletArgs>,
    /// The pods and their devices.
    pub(super) state: Arc<State>,
}

/// The API of pods as they are, unknown fields included.
pub(super) fn pods(client: &Client, namespace: Option<&str>) -> Api<DynamicObject> {
    let resource = ApiResource::erase::<k8s_openapi::api::core::v1::Pod>(&());
    match namespace {
        Some(namespace) => Api::namespaced_with(client.clone(), namespace, &resource),
        None => Api::all_with(client.clone(), &resource),
    }
}

impl Runner {
    /// Runs an admitted pod to its end.
    pub(super) async fn run(self, pod: Local) {
        let uid = pod.uid().to_owned();
        let containers = pod.containers();
        let was_running = pod.phase() == "Running";
        let mut codes = Vec::new();
        if !was_running {
            for container in &containers {
                self.state.write_container(&uid, &container.name);
            }
            self.report(&pod, &running(&pod, &containers, "Pending", &self.args))
                .await;
            for container in &containers {
                if container.kind != Kind::Init {
                    continue;
                }
                let seconds = pod.seconds("testbed/init-seconds").unwrap_or(0);
                let code = self.one(&pod, container, Some(seconds), &pod.end).await;
                if code != 0 || pod.end.is_cancelled() {
                    return self
                        .finish(
                            &pod,
                            if pod.end.is_cancelled() {
                                None
                            } else {
                                Some(code)
                            },
                        )
                        .await;
                }
            }
            self.report(&pod, &running(&pod, &containers, "Running", &self.args))
                .await;
        }
        for container in &containers {
            if container.kind != Kind::App {
                continue;
            }
            let seconds = pod.seconds("testbed/run-seconds");
            codes.push(self.one(&pod, container, seconds, &pod.end).await);
        }
        let code = codes.into_iter().find(|c| *c != 0).unwrap_or(0);
        self.finish(
            &pod,
            if pod.end.is_cancelled() {
                None
            } else {
                Some(code)
            },
        )
        .await;
    }

    /// The exit code of one container.
    async fn one(
        &self,
        pod: &Local,
        container: &Container,
        seconds: Option<u64>,
        end: &CancellationToken,
    ) -> i32 {
        if let Some(program) = self.args.agent(&container.image) {
            return self.process(pod, container, program, end).await;
        }
        let wait = async {
            match seconds {
                Some(seconds) => tokio::time::sleep(Duration::from_secs(seconds)).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! { () = wait => 0, () = end.cancelled() => 0 }
    }

    async fn process(
        &self,
        pod: &Local,
        container: &Container,
        program: &str,
        end: &CancellationToken,
    ) -> i32 {
        let log = self.state.path("logs").join(format!(
            "{}_{}_{}.log",
            pod.namespace(),
            pod.name(),
            container.name
        ));
        let spawned = std::fs::File::create(&log).and_then(|out| {
            tokio::process::Command::new(program)
                .args(container.args.iter().map(|a| self.args.host_path(a)))
                .envs(container.env.iter().map(|(k, v)| (k.as_str(), v.as_str())))
                .stdin(Stdio::null())
                .stdout(out.try_clone()?)
                .stderr(out)
                .kill_on_drop(true)
                .spawn()
        });
        let mut child = match spawned {
            Ok(child) => child,
            Err(error) => {
                tracing::error!(%error, program, "can't be started");
                return 128;
            }
        };
        tokio::select! {
            status = child.wait() => status.ok().and_then(|s| s.code()).unwrap_or(137),
            () = end.cancelled() => 137,
        }
    }

    /// All containers have ended: by themselves with that code, or because the pod is deleted.
    async fn finish(&self, pod: &Local, code: Option<i32>) {
        if let Some(code) = code {
            let phase = if code == 0 { "Succeeded" } else { "Failed" };
            self.state.ended(pod.uid(), Stage::Ended);
            self.report(
                pod,
                &json!({"phase": phase, "containerStatuses": ended(&pod.containers(), code)}),
            )
            .await;
            pod.end.cancelled().await;
        } else {
            self.state.ended(pod.uid(), Stage::Ended);
        }
        self.delete(pod).await;
    }

    /// The pod was refused: Failed, with kubelet's reason and message.
    pub(super) async fn reject(self, pod: Local, message: String) {
        tracing::info!(pod = pod.name(), message, "rejected");
        self.report(
            &pod,
            &json!({"phase": "Failed", "reason": "UnexpectedAdmissionError", "message": message}),
        )
        .await;
        pod.end.cancelled().await;
        self.delete(&pod).await;
    }

    /// Takes the object away for good.
    pub(super) async fn delete(&self, pod: &Local) {
        let params = DeleteParams {
            grace_period_seconds: Some(0),
            preconditions: Some(Preconditions {
                uid: Some(pod.uid().to_owned()),
                resource_version: None,
            }),
            ..DeleteParams::default()
        };
        let api = pods(&self.client, Some(pod.namespace()));
        self.until_done(pod, "delete", || async {
            api.delete(pod.name(), &params).await.map(drop)
        })
        .await;
    }

    async fn report(&self, pod: &Local, status: &Value) {
        let patch = Patch::Merge(json!({"metadata": {"uid": pod.uid()}, "status": status}));
        let api = pods(&self.client, Some(pod.namespace()));
        let params = PatchParams::default();
        self.until_done(pod, "status", || async {
            api.patch_status(pod.name(), &params, &patch)
                .await
                .map(drop)
        })
        .await;
    }

    /// Kubelet tries until the API server takes it; one that is gone needs nothing more.
    async fn until_done<F, T>(&self, pod: &Local, what: &str, call: F)
    where
        F: Fn() -> T,
        T: Future<Output = Result<(), kube::Error>>,
    {
        loop {
            match call().await {
                Ok(()) => return,
                Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => return,
                Err(error) => tracing::debug!(%error, pod = pod.name(), what, "trying again"),
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    }
}

fn running(pod: &Local, containers: &[Container], phase: &str, args: &KubeletArgs) -> Value {
    let now = k8s_openapi::jiff::Timestamp::now().to_string();
    let runs = phase == "Running";
    let status = |c: &Container, state: Value, ready: bool| {
        json!({"name": c.name, "image": c.image, "imageID": "", "ready": ready, "started": ready, "restartCount": 0,
            "state": state})
    };
    let of = |wanted: fn(Kind) -> bool, done: bool| -> Vec<Value> {
        let all = containers.iter().filter(|c| wanted(c.kind));
        all.map(|c| {
            if !runs {
                status(c, json!({"waiting": {"reason": "PodInitializing"}}), false)
            } else if done && c.kind == Kind::Init {
                status(
                    c,
                    json!({"terminated": {"exitCode": 0, "reason": "Completed"}}),
                    true,
                )
            } else {
                status(c, json!({"running": {"startedAt": now}}), true)
            }
        })
        .collect()
    };
    json!({
        "phase": phase,
        "startTime": now,
        "hostIP": args.read_only_listen.ip().to_string(),
        "podIP": "10.244.0.2",
        "conditions": [
            {"type": "PodScheduled", "status": "True"},
            {"type": "Initialized", "status": if runs { "True" } else { "False" }},
            {"type": "Ready", "status": if runs { "True" } else { "False" }},
            {"type": "ContainersReady", "status": if runs { "True" } else { "False" }},
        ],
        "initContainerStatuses": of(|k| k != Kind::App, true),
        "containerStatuses": of(|k| k == Kind::App, false),
        "qosClass": pod.object.pointer("/status/qosClass").cloned().unwrap_or(json!("BestEffort")),
    })
}

fn ended(containers: &[Container], code: i32) -> Vec<Value> {
    let reason = if code == 0 { "Completed" } else { "Error" };
    let all = containers.iter().filter(|c| c.kind == Kind::App);
    all.map(|c| {
        json!({"name": c.name, "image": c.image, "imageID": "", "ready": false, "restartCount": 0,
            "state": {"terminated": {"exitCode": code, "reason": reason}}})
    })
    .collect()
}

//! The sync loop: pods bound to this node arrive, are admitted one at a time, run and go.

use std::{sync::Arc, time::Duration};

use futures_util::StreamExt as _;
use kube::{
    api::DynamicObject,
    runtime::{
        WatchStreamExt as _,
        watcher::{self, Event, watcher},
    },
};
use serde_json::Value;
use tokio::sync::mpsc;

use super::{
    admission::admit,
    lifecycle::{Runner, pods},
    pod::{Local, Stage, text},
};

/// What the watch says.
enum Change {
    Seen(Value),
    Gone(String),
    /// After a new list: every other pod is gone.
    Only(Vec<String>),
}

/// Changes waiting while one pod is admitted. A node has at most a few hundred pods.
const WAITING: usize = 1024;

/// Runs until shutdown.
pub(super) async fn sync(runner: Runner, tasks: kit::Tasks) {
    let (send, mut changes) = mpsc::channel(WAITING);
    let watch_runner = runner.clone();
    let stop = tasks.shutdown_token();
    tasks.detached("watch pods", async move {
        tokio::select! { () = watch(watch_runner, send) => {}, () = stop.cancelled() => {} }
    });
    // Kubelet's own parts start first; plugins that saw its new socket register meanwhile.
    tokio::time::sleep(Duration::from_millis(runner.args.start_delay)).await;
    let mut batch = Vec::new();
    while changes.recv_many(&mut batch, WAITING).await > 0 {
        // As kubelet sorts the additions of one update: oldest first.
        let mut arrived = Vec::new();
        for change in batch.drain(..) {
            match change {
                Change::Seen(object) => arrived.extend(take_up(&runner, object)),
                Change::Gone(uid) => {
                    // It may have come and gone within this batch.
                    arrived.retain(|p: &Local| p.uid() != uid);
                    gone(&runner, &uid);
                }
                Change::Only(uids) => {
                    arrived.retain(|p: &Local| uids.iter().any(|u| u == p.uid()));
                    let here: Vec<String> = runner
                        .state
                        .lock()
                        .pods
                        .iter()
                        .map(|p| p.uid().to_owned())
                        .collect();
                    here.iter()
                        .filter(|u| !uids.contains(u))
                        .for_each(|u| gone(&runner, u));
                }
            }
        }
        arrived.sort_by_key(|p| text(&p.object, "/metadata/creationTimestamp").to_owned());
        for pod in arrived {
            start(&runner, &tasks, pod).await;
        }
        runner.state.lock().sources_ready = true;
    }
}

async fn watch(runner: Runner, send: mpsc::Sender<Change>) {
    let config = watcher::Config::default().fields(&format!("spec.nodeName={}", runner.args.node));
    let mut events = watcher(pods(&runner.client, None), config)
        .default_backoff()
        .boxed();
    let mut listed = Vec::new();
    while let Some(event) = events.next().await {
        let value = |object: DynamicObject| serde_json::to_value(object).unwrap_or_default();
        let uid = |object: &DynamicObject| object.metadata.uid.clone().unwrap_or_default();
        let change = match event {
            Ok(Event::Init) => {
                listed.clear();
                continue;
            }
            Ok(Event::InitApply(object)) => {
                listed.push(uid(&object));
                Change::Seen(value(object))
            }
            Ok(Event::InitDone) => Change::Only(std::mem::take(&mut listed)),
            Ok(Event::Apply(object)) => Change::Seen(value(object)),
            Ok(Event::Delete(object)) => Change::Gone(uid(&object)),
            Err(error) => {
                tracing::debug!(%error, "watching pods");
                continue;
            }
        };
        if send.send(change).await.is_err() {
            return;
        }
    }
}

/// A pod that is new here comes back; one that is known is brought up to date.
fn take_up(runner: &Runner, object: Value) -> Option<Local> {
    let pod = Local::new(object);
    let known = runner.state.with_pod(pod.uid(), |known| {
        known.object = pod.object.clone();
        if known.is_deleted() {
            known.end.cancel();
        }
    });
    known.is_none().then_some(pod)
}

fn gone(runner: &Runner, uid: &str) {
    let pod = runner.state.pod(uid);
    if let Some(pod) = pod {
        pod.end.cancel();
        runner.state.ended(uid, Stage::Ended);
        runner.state.lock().pods.retain(|p| p.uid() != uid);
    }
}

/// Adds the pod to the list, admits it and starts it.
async fn start(runner: &Runner, tasks: &kit::Tasks, mut pod: Local) {
    let stop = tasks.shutdown_token();
    let ended = matches!(pod.phase(), "Succeeded" | "Failed");
    if ended {
        pod.stage = Stage::Ended;
    }
    if pod.is_deleted() {
        pod.end.cancel();
    }
    runner.state.lock().pods.push(pod.clone());
    let (runner, uid) = (runner.clone(), pod.uid().to_owned());
    if ended || (pod.is_deleted() && runner.state.lock().devices.of(&uid).is_none()) {
        runner.state.ended(&uid, Stage::Ended);
        tasks.detached("ended pod", async move {
            let end = async {
                pod.end.cancelled().await;
                runner.delete(&pod).await;
            };
            tokio::select! { () = end => {}, () = stop.cancelled() => {} }
        });
        return;
    }
    let outcome = admit(&runner.state, &pod).await;
    runner.state.with_pod(&uid, |p| {
        p.stage = if outcome.is_ok() {
            Stage::Admitted
        } else {
            Stage::Rejected
        };
    });
    tasks.detached("pod", async move {
        let life = async {
            match outcome {
                Ok(()) => runner.run(pod).await,
                Err(message) => runner.reject(pod, message).await,
            }
        };
        tokio::select! { () = life => {}, () = stop.cancelled() => {} }
    });
}

/// The loop's parts.
pub(super) fn runner(
    client: kube::Client,
    args: Arc<super::KubeletArgs>,
    state: Arc<super::state::State>,
) -> Runner {
    Runner {
        client,
        args,
        state,
    }
}

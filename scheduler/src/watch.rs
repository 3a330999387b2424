//! Two watches feed the index: nodes, and pods that have not ended.

use std::{
    future::Future,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use futures_util::{StreamExt as _, TryStreamExt as _};
use kit::{Failure, Ready};
use kube::{
    Api, Client,
    runtime::{
        WatchStreamExt as _,
        watcher::{Config, Event, watcher},
    },
};
use kubernetes::object::{Node, Pod};
use model::name::{NodeName, PodUid};

use crate::{convert, index::Notice, inventories::Inventories, lease::Leadership, shared::Shared};

/// A pod that has ended leaves such a watch as if it were deleted.
const NOT_ENDED: &str = "status.phase!=Succeeded,status.phase!=Failed";

/// Follows the nodes until shutdown.
pub(crate) async fn nodes(client: Client, shared: Shared, ready: Ready) -> Result<(), Failure> {
    let stream = watcher(Api::<Node>::all(client), Config::default()).default_backoff();
    let mut stream = stream
        .inspect_err(|error| tracing::debug!(%error, "watching nodes"))
        .boxed();
    let mut inventories = Inventories::default();
    let settings = shared.read().settings().clone();
    while let Some(event) = stream.next().await {
        let Ok(event) = event else { continue };
        heard(&shared, "nodes");
        match event {
            Event::Init => shared.write().nodes_reset(),
            Event::InitDone => {
                shared.write().nodes_complete();
                ready.met();
            }
            Event::Apply(node) | Event::InitApply(node) => {
                match convert::node(&node, &settings, &mut inventories) {
                    Ok(seen) => {
                        let notice = shared.write().apply_node(seen);
                        say(&shared, "node", notice);
                    }
                    Err(error) => malformed(&shared, "node", node.metadata.name.as_deref(), &error),
                }
            }
            Event::Delete(node) => {
                if let Ok(name) = NodeName::new(node.metadata.name.as_deref().unwrap_or_default()) {
                    shared.write().delete_node(&name);
                }
            }
        }
        shared.changes.tell();
    }
    Ok(())
}

/// Follows the pods until shutdown. With each reign they are listed anew, from the API server's
/// latest version: what the watch has shown so far may lack another leader's last binds.
pub(crate) async fn pods(
    client: Client,
    shared: Shared,
    ready: Ready,
    leadership: Leadership,
) -> Result<(), Failure> {
    let mut reigns = leadership.reigns();
    loop {
        let reign = *reigns.borrow_and_update();
        let complete = || {
            leadership.has_listed(reign);
            ready.met();
        };
        tokio::select! {
            ended = pods_from_now(&client, &shared, complete) => return ended,
            // The sender lives in `leadership`.
            _ = reigns.changed() => {}
        }
    }
}

async fn pods_from_now(
    client: &Client,
    shared: &Shared,
    complete: impl Fn(),
) -> Result<(), Failure> {
    let api = Api::<Pod>::all(client.clone());
    // Lists what is the latest, not what the API server has in its cache.
    let stream = watcher(api, Config::default().fields(NOT_ENDED)).default_backoff();
    let mut stream = stream
        .inspect_err(|error| tracing::debug!(%error, "watching pods"))
        .boxed();
    let settings = shared.read().settings().clone();
    while let Some(event) = stream.next().await {
        let Ok(event) = event else { continue };
        heard(shared, "pods");
        match event {
            Event::Init => shared.write().pods_reset(),
            Event::InitDone => {
                shared.write().pods_complete();
                complete();
            }
            Event::Apply(pod) | Event::InitApply(pod) => match convert::pod(&pod, &settings) {
                Ok(seen) => {
                    let notice = shared.write().apply_pod(seen);
                    say(shared, "pod", notice);
                }
                Err(error) => malformed(shared, "pod", pod.metadata.name.as_deref(), &error),
            },
            Event::Delete(pod) => {
                if let Ok(uid) = PodUid::new(pod.metadata.uid.as_deref().unwrap_or_default()) {
                    shared.write().delete_pod(&uid);
                }
            }
        }
        shared.changes.tell();
    }
    Ok(())
}

/// Runs `watch` until shutdown, which ends it without a fault.
pub(crate) async fn until_shutdown(
    tasks: kit::Tasks,
    watch: impl Future<Output = Result<(), Failure>>,
) -> Result<(), Failure> {
    tokio::select! {
        ended = watch => ended,
        () = tasks.shutdown() => Ok(()),
    }
}

/// Keeps the gauges up to date.
pub(crate) async fn count(shared: Shared, tasks: kit::Tasks) -> Result<(), Failure> {
    let mut tick = tokio::time::interval(Duration::from_secs(5));
    loop {
        tokio::select! {
            _ = tick.tick() => shared.count(),
            () = tasks.shutdown() => return Ok(()),
        }
    }
}

fn heard(shared: &Shared, watch: &str) {
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |d| d.as_secs());
    shared
        .metrics
        .last_event
        .with_label_values(&[watch])
        .set(i64::try_from(now).unwrap_or(i64::MAX));
}

fn say(shared: &Shared, kind: &str, notice: Option<Notice>) {
    let Some(notice) = notice else { return };
    if !matches!(notice, Notice::Conflict { .. }) {
        shared.metrics.malformed.with_label_values(&[kind]).inc();
    }
    tracing::warn!("{notice}");
}

fn malformed(shared: &Shared, kind: &str, name: Option<&str>, error: &dyn std::error::Error) {
    shared.metrics.malformed.with_label_values(&[kind]).inc();
    tracing::warn!(name, %error, "a {kind} can't be read and is passed over");
}

//! The loop: one pod at a time, bindings beside it.

use std::collections::BTreeSet;

use futures_util::{Stream, StreamExt};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::{
    Api, Client,
    core::{ApiResource, DynamicObject},
    runtime::{
        WatchStreamExt,
        watcher::{self, Event, watcher},
    },
};
use serde_json::Value;
use tokio::{task::JoinSet, time::Instant};

use super::{
    cluster::{Cluster, PodKey, key},
    decide, demand,
    extender::Extender,
    queue::Queue,
    report::{self, Reporter, Setback},
};
use crate::api_server::field;

/// Bindings at once. More pods wait in the queue, so that a slow binder does not fill memory.
const MOST_BINDINGS: usize = 128;

/// A binding that has ended: the pod, the node, and why not.
type Bound = (Value, String, Result<(), String>);

/// The whole scheduler.
pub(super) struct Scheduler {
    client: Client,
    name: String,
    /// With the managed resources, and those of them that only it counts.
    extender: Option<(Extender, Vec<String>, Vec<String>)>,
    cluster: Cluster,
    queue: Queue,
    reporter: Reporter,
    bindings: JoinSet<Bound>,
    pods: Relist<PodKey>,
    nodes: Relist<String>,
}

/// The state of one watch.
#[derive(Debug, Default)]
struct Relist<K> {
    /// Listed so far, while a list is coming in.
    seen: BTreeSet<K>,
    synced: bool,
    failing: bool,
}

impl Scheduler {
    pub(super) fn new(
        client: Client,
        name: String,
        extender: Option<(Extender, Vec<String>, Vec<String>)>,
    ) -> Self {
        Self {
            reporter: Reporter::new(client.clone(), name.clone()),
            client,
            name,
            extender,
            cluster: Cluster::default(),
            queue: Queue::default(),
            bindings: JoinSet::new(),
            pods: Relist::default(),
            nodes: Relist::default(),
        }
    }

    /// Runs for ever.
    pub(super) async fn run(mut self) {
        let mut pods = watch(&self.client, &ApiResource::erase::<Pod>(&()));
        let mut nodes = watch(&self.client, &ApiResource::erase::<Node>(&()));
        loop {
            let ready = self.pods.synced && self.nodes.synced;
            let free = ready && self.bindings.len() < MOST_BINDINGS;
            let due = self.queue.next_due().filter(|_| free);
            let wait = async {
                match due {
                    Some(at) => tokio::time::sleep_until(at).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                event = pods.next() => if let Some(event) = event { self.pod_event(event) },
                event = nodes.next() => if let Some(event) = event { self.node_event(event) },
                Some(bound) = self.bindings.join_next() => {
                    // A panic in a binding is no end of the scheduler; the pod stays assumed.
                    if let Ok(bound) = bound { self.bound(bound).await }
                }
                () = wait => if let Some(pod) = self.queue.take(Instant::now()) {
                    self.schedule(pod).await;
                },
            }
        }
    }

    fn pod_event(&mut self, event: Result<Event<Value>, watcher::Error>) {
        match self.pods.next(event, "pods", key) {
            Told::Changed(pod) => self.apply_pod(pod),
            Told::Gone(pod) => {
                self.queue.remove(&key(&pod));
                if self.cluster.delete_pod(&pod) {
                    self.queue.wake();
                }
            }
            Told::Only(keys) => {
                self.cluster.keep_pods(&keys);
                self.queue.keep(&keys);
                self.queue.wake();
            }
            Told::Nothing => {}
        }
    }

    fn apply_pod(&mut self, pod: Value) {
        if self.cluster.apply_pod(&pod) {
            self.queue.wake();
        }
        let waits = field::text(&pod, "/spec/schedulerName") == self.name
            && field::text(&pod, "/spec/nodeName").is_empty()
            && !matches!(field::text(&pod, "/status/phase"), "Succeeded" | "Failed")
            && pod.pointer("/metadata/deletionTimestamp").is_none()
            && field::list(&pod, "/spec/schedulingGates").is_empty();
        if waits {
            self.queue.apply(pod, Instant::now());
        } else {
            self.queue.remove(&key(&pod));
        }
    }

    fn node_event(&mut self, event: Result<Event<Value>, watcher::Error>) {
        let name = |node: &Value| field::text(node, "/metadata/name").to_owned();
        match self.nodes.next(event, "nodes", name) {
            Told::Changed(node) => {
                if self.cluster.apply_node(node) {
                    self.queue.wake();
                }
            }
            Told::Gone(node) => self.cluster.delete_node(&name(&node)),
            Told::Only(names) => {
                self.cluster.keep_nodes(&names);
                self.queue.wake();
            }
            Told::Nothing => {}
        }
    }

    async fn schedule(&mut self, pod: Value) {
        let key = key(&pod);
        let (managed, ignored) = match &self.extender {
            Some((_, managed, ignored)) => (demand::names_any(&pod, managed), ignored.as_slice()),
            None => (false, &[][..]),
        };
        let extender = self
            .extender
            .as_ref()
            .map(|(e, ..)| e.clone())
            .filter(|_| managed);
        let mut verdict = decide::filter(&pod, &self.cluster, ignored);
        if let Some(extender) = extender.as_ref().filter(|_| !verdict.fits.is_empty())
            && let Err(error) = extender.filter(&pod, &self.cluster, &mut verdict).await
        {
            self.reporter
                .setback(&pod, Setback::Error(error.to_string()))
                .await;
            self.queue.retry(&key, Instant::now());
            return;
        }
        let scores = match &extender {
            // As the real one: there is nothing to choose among fewer than two.
            Some(extender) if verdict.fits.len() > 1 => {
                extender
                    .prioritize(&pod, &self.cluster, &verdict.fits)
                    .await
            }
            _ => std::collections::BTreeMap::new(),
        };
        let Some(node) = decide::choose(&verdict.fits, &scores, &self.cluster) else {
            let nodes: BTreeSet<String> = self.cluster.nodes().keys().cloned().collect();
            let message = decide::message(&pod, &nodes, &verdict);
            tracing::debug!(pod = %format!("{}/{}", key.0, key.1), message, "fits nowhere");
            self.reporter
                .setback(&pod, Setback::Unschedulable(message))
                .await;
            self.queue.put_back(&key, Instant::now());
            return;
        };
        self.cluster.assume(&pod, node);
        let (client, node) = (self.client.clone(), node.to_owned());
        self.bindings.spawn(async move {
            let uid = field::text(&pod, "/metadata/uid");
            let result = match extender {
                Some(extender) => extender
                    .bind(&key, uid, &node)
                    .await
                    .map_err(|e| e.to_string()),
                None => report::bind(&client, &key, uid, &node).await,
            };
            (pod, node, result)
        });
    }

    async fn bound(&mut self, (pod, node, result): Bound) {
        let key = key(&pod);
        match result {
            Ok(()) => {
                tracing::info!(pod = %format!("{}/{}", key.0, key.1), node, "bound");
                self.reporter.scheduled(&pod, &node).await;
            }
            Err(error) => {
                self.cluster.forget(&key);
                self.queue.retry(&key, Instant::now());
                self.queue.wake();
                let message = format!("binding rejected: {error}");
                self.reporter.setback(&pod, Setback::Error(message)).await;
            }
        }
    }
}

/// What an event of a watch means.
enum Told<K> {
    Changed(Value),
    Gone(Value),
    /// A list is complete: nothing else is there.
    Only(BTreeSet<K>),
    Nothing,
}

impl<K: Ord> Relist<K> {
    fn next(
        &mut self,
        event: Result<Event<Value>, watcher::Error>,
        what: &str,
        key: impl Fn(&Value) -> K,
    ) -> Told<K> {
        if self.failing && event.is_ok() {
            self.failing = false;
            tracing::info!(what, "the API server answers again");
        }
        match event {
            Err(error) => {
                if !self.failing {
                    self.failing = true;
                    tracing::warn!(what, %error, "a watch fails");
                }
                Told::Nothing
            }
            Ok(Event::Init) => {
                self.seen.clear();
                Told::Nothing
            }
            Ok(Event::InitApply(object)) => {
                self.seen.insert(key(&object));
                Told::Changed(object)
            }
            Ok(Event::InitDone) => {
                self.synced = true;
                Told::Only(std::mem::take(&mut self.seen))
            }
            Ok(Event::Apply(object)) => Told::Changed(object),
            Ok(Event::Delete(object)) => Told::Gone(object),
        }
    }
}

/// All objects of a kind, as plain JSON.
fn watch(
    client: &Client,
    kind: &ApiResource,
) -> impl Stream<Item = Result<Event<Value>, watcher::Error>> + Unpin + use<> {
    let api: Api<DynamicObject> = Api::all_with(client.clone(), kind);
    let events = watcher(api, watcher::Config::default()).default_backoff();
    let plain = |object: DynamicObject| serde_json::to_value(object).unwrap_or_default();
    Box::pin(events.map(move |event| {
        event.map(|event| match event {
            Event::Init => Event::Init,
            Event::InitDone => Event::InitDone,
            Event::InitApply(object) => Event::InitApply(plain(object)),
            Event::Apply(object) => Event::Apply(plain(object)),
            Event::Delete(object) => Event::Delete(plain(object)),
        })
    }))
}

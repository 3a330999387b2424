//! What this program writes on its node: the inventory, the names it owns, and, once a resource
//! is withdrawn, its name out of the node's status.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use kit::{Failure, Tasks};
use kube::api::{Api, Patch, PatchParams};
use kubernetes::object::Node;
use model::{
    annotation::{Published, write_inventory},
    backoff::Backoff,
    card::Inventory,
    name::{NodeName, ResourceName},
    settings::Settings,
};
use serde_json::{Map, Value, json};
use tokio::{
    sync::watch,
    time::{Instant, sleep, timeout},
};

use crate::{
    metrics::Metrics,
    pods::words,
    registrar::random,
    withdrawal::{Withdrawals, patch},
};

const WITHIN: Duration = Duration::from_secs(10);

/// How long the end of the program waits for the API server.
const CLOSED_WITHIN: Duration = Duration::from_secs(3);

/// How often the node is looked at though nothing is known to have changed: it may have been
/// made anew, or somebody may have changed what stands on it. One GET.
const LOOK_AGAIN: Duration = Duration::from_secs(30);

/// What the node should say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wish {
    /// The node's cards.
    pub cards: Inventory,
    /// The names that are offered.
    pub offered: BTreeSet<ResourceName>,
}

impl Wish {
    fn inventory(&self, paused: bool) -> String {
        write_inventory(&Published {
            cards: self.cards.clone(),
            paused: paused && !self.cards.cards().is_empty(),
        })
    }
}

/// The node's writer.
pub struct NodeWriter {
    /// The API server.
    pub client: kube::Client,
    /// Which node.
    pub node: NodeName,
    /// Annotation keys and resource names.
    pub settings: Arc<Settings>,
    /// The program's metrics.
    pub metrics: Metrics,
    /// What to write; nothing before the cards are known.
    pub wish: watch::Receiver<Option<Wish>>,
    /// Kubelet's restarts: it may have made its node anew.
    pub restarted: watch::Receiver<u64>,
    /// Whether kubelet takes pods with cards: until then nothing is to be bound here.
    pub open: watch::Receiver<bool>,
    /// Told when nothing is bound here any more, at the end.
    pub closed: watch::Sender<bool>,
    /// Names that were taken out since they were last offered: kubelet writes them back for a
    /// while, which is not worth a line each time.
    pub taken: BTreeSet<ResourceName>,
}

impl NodeWriter {
    /// Runs until shutdown.
    pub async fn run(mut self, tasks: Tasks) -> Result<(), Failure> {
        tokio::select! {
            () = tasks.shutdown() => {}
            never = self.turns() => match never {},
        }
        self.close().await;
        Ok(())
    }

    /// Tells the scheduler to bind nothing here: kubelet will reject every pod with cards from
    /// the end of this program until the next has registered.
    async fn close(&mut self) {
        let wish = self.wish.borrow().clone();
        if let Some(wish) = wish.filter(|w| !w.cards.cards().is_empty()) {
            let key = &self.settings.annotations.inventory;
            let patch = json!({"metadata": {"annotations": {key: wish.inventory(true)}}});
            let nodes: Api<Node> = Api::all(self.client.clone());
            let node = &self.node;
            let written = within(
                CLOSED_WITHIN,
                nodes.patch(node.as_str(), &PatchParams::default(), &Patch::Merge(patch)),
            )
            .await;
            match written {
                Ok(_) => tracing::info!(%node, "nothing is bound here until the next start"),
                Err(why) => tracing::warn!(%node, why, "the scheduler is not told of the end"),
            }
        }
        self.closed.send_replace(true);
    }

    async fn turns(&mut self) -> std::convert::Infallible {
        let started = Instant::now();
        let mut withdrawals = Withdrawals::default();
        let mut backoff = Backoff::standard();
        let mut failing: Option<String> = None;
        let mut found = false;
        loop {
            let wish = self.wish.borrow_and_update().clone();
            if let Some(wish) = &wish {
                self.taken.retain(|n| !wish.offered.contains(n));
                withdrawals.offer(wish.offered.clone(), started.elapsed());
            }
            let turn = self
                .turn(wish.as_ref(), &mut withdrawals, &mut found, started)
                .await;
            let outcome = if turn.is_ok() { "ok" } else { "failed" };
            let wait = match turn {
                Ok(wrote) => {
                    if wrote {
                        self.count(outcome);
                    }
                    backoff.reset();
                    failing = None;
                    let next = withdrawals.next_look();
                    next.map(|at| at.saturating_sub(started.elapsed()))
                        .map_or(LOOK_AGAIN, |wait| wait.min(LOOK_AGAIN))
                }
                Err(why) => {
                    self.count(outcome);
                    if failing.as_ref() != Some(&why) {
                        tracing::warn!(node = %self.node, why, "node not written, trying again");
                        failing = Some(why);
                    }
                    backoff.next(random())
                }
            };
            tokio::select! {
                () = sleep(wait) => {}
                _ = self.wish.changed() => {}
                _ = self.restarted.changed() => {}
                _ = self.open.changed() => {}
            }
        }
    }

    fn count(&self, outcome: &str) {
        self.metrics
            .writes
            .with_label_values(&["node", outcome])
            .inc();
    }

    /// One look at the node and what follows from it. Whether anything was written.
    async fn turn(
        &mut self,
        wish: Option<&Wish>,
        withdrawals: &mut Withdrawals,
        found: &mut bool,
        started: Instant,
    ) -> Result<bool, String> {
        let nodes: Api<Node> = Api::all(self.client.clone());
        let node = within(WITHIN, nodes.get(self.node.as_str())).await?;
        let keys = &self.settings.annotations;
        let there = |key: &str| {
            let annotations = node.metadata.annotations.as_ref()?;
            annotations.get(key).map(String::as_str)
        };
        if !*found {
            *found = true;
            if let Some(owned) = there(&keys.owned_resources) {
                let configured = |n: &ResourceName| self.settings.resource(n.as_str()).is_some();
                if let Err(error) = withdrawals.found(owned, configured, started.elapsed()) {
                    tracing::warn!(node = %self.node, key = keys.owned_resources, %error, "annotation passed over");
                    self.metrics.malformed.with_label_values(&["node"]).inc();
                }
            }
        }

        let in_capacity = |name: &str| node.status.capacity.contains_key(name);
        let in_allocatable = |name: &str| node.status.allocatable.contains_key(name);
        let remove = withdrawals.look(
            |name| in_capacity(name) || in_allocatable(name),
            started.elapsed(),
            random(),
        );

        let open = *self.open.borrow_and_update();
        let mut annotations = Map::new();
        let owned = withdrawals.owned();
        let mut want = |key: &str, value: &str| {
            if there(key) != Some(value) {
                annotations.insert(key.to_owned(), Value::from(value));
            }
        };
        if let Some(wish) = wish {
            want(&keys.inventory, &wish.inventory(!open));
            want(&keys.owned_resources, &owned);
        }
        let mut wrote = false;
        if !annotations.is_empty() {
            let keys: Vec<&String> = annotations.keys().collect();
            let changed = format!("{keys:?}");
            let patch = json!({"metadata": {"annotations": annotations}});
            within(
                WITHIN,
                nodes.patch(
                    self.node.as_str(),
                    &PatchParams::default(),
                    &Patch::Merge(patch),
                ),
            )
            .await?;
            tracing::info!(node = %self.node, annotations = changed, "node written");
            wrote = true;
        }
        if !remove.is_empty() {
            self.remove(patch(&remove, in_capacity, in_allocatable))
                .await?;
            let again = remove.iter().all(|n| self.taken.contains(n));
            let names: Vec<&str> = remove.iter().map(ResourceName::as_str).collect();
            let names = names.join(", ");
            if again {
                tracing::debug!(node = %self.node, resources = names, "taken out again");
            } else {
                tracing::info!(node = %self.node, resources = names, "taken out of the node's status");
            }
            self.taken.extend(remove);
            wrote = true;
        }
        Ok(wrote)
    }

    async fn remove(&self, patch: Value) -> Result<(), String> {
        let request = http::Request::patch(format!("/api/v1/nodes/{}/status", self.node))
            .header(http::header::CONTENT_TYPE, "application/json-patch+json")
            .body(patch.to_string().into_bytes())
            .map_err(|e| e.to_string())?;
        within(WITHIN, self.client.request::<Node>(request))
            .await
            .map(|_| ())
    }
}

/// A call to the API server, which may hang.
async fn within<T>(
    limit: Duration,
    call: impl Future<Output = Result<T, kube::Error>>,
) -> Result<T, String> {
    match timeout(limit, call).await {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(error)) => Err(words(&error)),
        Err(_) => Err(format!("no answer within {limit:?}")),
    }
}

//! A stand-in for the Kubernetes API server: plain HTTP, no credentials, one store of JSON
//! objects under one revision.
//!
//! What a client cannot tell from the real server: revisions and conflicts, watches with
//! bookmarks, streaming lists and 410, all patch types, status as a subresource, bindings, grace
//! periods, finalizers and owners, defaults and the common validation, `Status` answers.
//!
//! Known differences
//! - Server-side apply merges and creates, but owns no fields: there are no `managedFields`, a
//!   field left out of the next apply stays, and no conflict is reported.
//! - Strategic merge patch knows lists by field name (see [`merge`]) and keeps the stored order.
//! - Bodies are JSON or YAML; protobuf is answered with 415. kubectl speaks it for `create` of
//!   some kinds; `apply`, `label`, `annotate`, `patch`, `delete` and all reading work.
//! - Objects are not checked against a schema: unknown fields are kept, wrong types pass, except
//!   for names, labels, annotations and container resources. `/openapi` is empty, so kubectl needs
//!   `--validate=false`.
//! - Lists are always of the latest revision; a page goes on from now. `Exact` works for the
//!   latest revision only. A revision that was never given out is answered with 410 (the real
//!   server lets a list wait and then time out), so that clients from before a loss of data
//!   start anew.
//! - The window of changes is a number, not a time, and is shared by all kinds. Of Events the
//!   latest 5000 are kept, not those of the last hour.
//! - A Job's pods carry no tracking finalizer; Indexed Jobs, suspension and pod failure policies
//!   are not carried out. `DaemonSet`s, Deployments, RBAC, disruption budgets and the rest are
//!   stored only: nothing acts on them, and evictions are always granted.
//! - Pods of a deleted node are removed at once, not after 40 s. There is no node life cycle: no
//!   taints, no eviction from a node that falls silent.
//! - No admission beyond priority classes, default tolerations and namespaces; no quota, no
//!   service account tokens, no authentication.

pub mod answer;
pub mod audit;
mod binding;
mod body;
pub(crate) mod clock;
mod defaults;
mod discovery;
mod event_shape;
pub mod field;
mod journal;
mod list;
mod merge;
pub mod query;
pub mod refusal;
pub mod removal;
mod render;
pub mod resource;
pub mod selector;
mod serve;
pub mod store;
mod strategy;
mod table;
mod validate;
mod watching;
pub mod write;

use std::{
    net::SocketAddr,
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use k8s_openapi::jiff::Timestamp;
use kit::Failure;
use serde_json::json;

use audit::Audit;
use journal::Journal;
use store::{Key, Store};
use write::Context;

/// Arguments of `testbed api-server`.
#[derive(Debug, Clone, clap::Args)]
pub struct ApiServerArgs {
    /// Where to serve; port 0 takes any free one and logs it
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:6443")]
    pub listen: SocketAddr,

    /// File that keeps objects and revision over restarts
    #[arg(long, value_name = "FILE")]
    pub state: Option<PathBuf>,

    /// File that a JSON line is added to for every request
    #[arg(long, value_name = "FILE")]
    pub audit: Option<PathBuf>,

    /// Changes that a watch can go on from
    #[arg(long, value_name = "COUNT", default_value_t = 4096)]
    pub event_window: usize,

    /// Leave Jobs, owners, namespaces and the pods of deleted nodes alone
    #[arg(long)]
    pub no_controllers: bool,
}

impl Default for ApiServerArgs {
    /// On any free port of 127.0.0.1, with nothing kept.
    fn default() -> Self {
        Self {
            listen: SocketAddr::from(([127, 0, 0, 1], 0)),
            state: None,
            audit: None,
            event_window: 4096,
            no_controllers: false,
        }
    }
}

/// A server's objects. Cheap to clone; all clones are one.
#[derive(Debug, Clone)]
pub struct Api {
    store: Arc<Mutex<Store>>,
}

impl Api {
    /// Opens the store, with the namespaces that every cluster has.
    pub fn open(args: &ApiServerArgs) -> Result<Self, Failure> {
        let mut store = Store::new(args.event_window);
        if let Some(path) = &args.state {
            let (revision, objects, journal) = Journal::open(path).map_err(Failure::fatal)?;
            store.restore(revision, objects, journal);
        }
        if let Some(resource) = resource::of_storage("namespaces") {
            let context = Context {
                resource,
                now: Timestamp::now(),
                dry_run: false,
            };
            for name in ["default", "kube-system", "kube-public", "kube-node-lease"] {
                if store.get(&Key::new("namespaces", "", name)).is_none() {
                    let namespace = json!({"metadata": {"name": name}});
                    write::create(&mut store, &context, "", namespace).map_err(Failure::fatal)?;
                }
            }
        }
        Ok(Self {
            store: Arc::new(Mutex::new(store)),
        })
    }

    /// The store. No change is left half-done by a panic, so a poisoned lock is as good as any.
    pub fn store(&self) -> MutexGuard<'_, Store> {
        self.store.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Starts `testbed api-server` as critical tasks, its controllers included; the address that it
/// listens on. Must be called on a tokio runtime.
pub fn start(args: &ApiServerArgs, tasks: &kit::Tasks) -> Result<SocketAddr, Failure> {
    let api = Api::open(args)?;
    let audit = args.audit.as_deref().map(Audit::open).transpose()?;
    let listener = kit::listen(args.listen)?;
    let address = listener.local_addr().map_err(Failure::fatal)?;
    tracing::info!(%address, "serving the Kubernetes API");
    let router = serve::router(api.clone(), audit, tasks.shutdown_token());
    // As many watches as a large test has; each is two small buffers.
    let limits = kit::Limits {
        max_connections: 4096,
        ..kit::Limits::default()
    };
    let server = kit::serve(listener, router, tasks.clone(), limits);
    tasks.critical("api-server", server);
    if !args.no_controllers {
        crate::job_controller::start(&api, tasks);
    }
    Ok(address)
}

#[cfg(test)]
mod client_tests;
#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod write_tests;

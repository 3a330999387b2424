//! The calls to the API server, one a method, each with what its answers mean.

use futures_util::{Stream, StreamExt};
use k8s_openapi::api::{batch::v1::Job, core::v1::Event};
use kube::{
    Api, Client, Resource,
    api::{
        DeleteParams, ListParams, Patch, PatchParams, PostParams, Preconditions, PropagationPolicy,
    },
    core::DeserializeGuard,
    runtime::{WatchStreamExt, watcher},
};
use kubernetes::object::{Node, Pod};
use serde_json::json;

use crate::{
    action::{Action, Record, Status, short},
    book::{Change, JobSeen, NodeSeen},
    convert::{self, JobTemplate, MANAGED_BY, MANAGER, Reader},
    decide::{JobState, NodeState},
    leftovers::{self, Shown},
};

/// What a watch yields.
#[derive(Debug)]
pub enum Seen {
    /// A node changed.
    Node(Change<NodeSeen>),
    /// A Job changed.
    Job(Change<JobSeen>),
    /// An object could not be read; one line.
    Malformed {
        /// `node` or `job`.
        kind: &'static str,
        /// Its name.
        name: String,
        /// Why.
        why: String,
    },
    /// The watch failed and is tried again.
    Trouble {
        /// `node` or `job`.
        kind: &'static str,
        /// Why.
        why: String,
    },
}

/// What came of a write that others may have overtaken.
#[derive(Debug)]
pub enum Write<T> {
    /// Done; the object as it is now, where the server said.
    Done(Option<T>),
    /// The object is another than was thought: as it is now.
    Stale(T),
    /// There is no such object (any more).
    Gone,
}

/// The API server as the controller uses it.
#[derive(Debug, Clone)]
pub struct Kubernetes {
    nodes: Api<Node>,
    jobs: Api<Job>,
    pods: Api<Pod>,
    events: Api<Event>,
    watched_nodes: Api<DeserializeGuard<Node>>,
    watched_jobs: Api<DeserializeGuard<Job>>,
    namespace: String,
    template: JobTemplate,
    reader: Reader,
}

/// Why a call failed.
#[derive(Debug, thiserror::Error)]
pub enum CallError {
    /// The API server, or the way to it.
    #[error("{what}: {why}")]
    Call {
        /// What was tried.
        what: String,
        /// From the client, with its causes.
        why: String,
    },
    /// An object that can't be made.
    #[error("{what}: {source}")]
    Form {
        /// What was to be made.
        what: &'static str,
        /// Why not.
        source: serde_json::Error,
    },
    /// An answer that can't be read.
    #[error("{what}: {why}")]
    Answer {
        /// What was asked.
        what: String,
        /// What is wrong with the answer.
        why: String,
    },
}

fn failed(what: String) -> impl FnOnce(kube::Error) -> CallError {
    move |error| CallError::Call {
        what,
        why: with_causes(&error),
    }
}

fn unreadable(what: String) -> impl FnOnce(String) -> CallError {
    move |why| CallError::Answer { what, why }
}

/// An error with those of its causes that say more, on one short line: the client's own text stops
/// before the part that matters, such as `connection refused`.
fn with_causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let more = error.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        cause = error.source();
    }
    short(&text)
}

impl Kubernetes {
    /// Jobs go into `namespace`.
    pub fn new(client: &Client, namespace: &str, template: JobTemplate, reader: Reader) -> Self {
        Self {
            nodes: Api::all(client.clone()),
            jobs: Api::namespaced(client.clone(), namespace),
            pods: Api::namespaced(client.clone(), namespace),
            events: Api::namespaced(client.clone(), convert::EVENTS),
            watched_nodes: Api::all(client.clone()),
            watched_jobs: Api::namespaced(client.clone(), namespace),
            namespace: namespace.to_owned(),
            template,
            reader,
        }
    }

    /// All nodes: those without the label may need switching off. Never ends.
    pub fn watch_nodes(&self) -> impl Stream<Item = Seen> + Send + use<> {
        let reader = self.reader.clone();
        watch(
            self.watched_nodes.clone(),
            watcher::Config::default(),
            "node",
            Seen::Node,
            move |node| reader.node(node),
        )
    }

    /// The controller's Jobs. Never ends.
    pub fn watch_jobs(&self) -> impl Stream<Item = Seen> + Send + use<> {
        let ours = watcher::Config::default().labels(&format!("{MANAGED_BY}={MANAGER}"));
        watch(
            self.watched_jobs.clone(),
            ours,
            "job",
            Seen::Job,
            convert::job,
        )
    }

    /// Writes the record of an action that is about to start, unless the node has changed since
    /// it was seen.
    pub async fn record_start(
        &self,
        seen: &NodeSeen,
        action: Action,
        job: &str,
    ) -> Result<Write<NodeSeen>, CallError> {
        let record = Record {
            v: crate::action::VERSION,
            action,
            status: Status::Running,
            time: convert::now(),
            job: job.to_owned(),
            job_uid: String::new(),
            node_uid: seen.state.uid.clone(),
            message: String::new(),
        };
        self.write_record(&seen.state, &record, Some(&seen.version))
            .await
    }

    /// Tells the outcome of an ended Job: the event, then the record.
    pub async fn tell(
        &self,
        node: &NodeState,
        job: &JobState,
        message: &str,
    ) -> Result<Write<NodeSeen>, CallError> {
        let text = match job.status {
            Status::Failed => format!("{} failed: {message}", job.action),
            Status::Succeeded | Status::Running => format!("{} succeeded", job.action),
        };
        let event = convert::event(node, job, &self.namespace, &text).map_err(|source| {
            CallError::Form {
                what: "event",
                source,
            }
        })?;
        match self.events.create(&post(), &event).await {
            Err(kube::Error::Api(status)) if status.code == 409 => {}
            created => drop(created.map_err(failed(format!("event about {}", node.name)))?),
        }
        let record = Record {
            v: crate::action::VERSION,
            action: job.action,
            status: job.status,
            time: job.time.clone(),
            job: job.name.clone(),
            job_uid: job.uid.clone(),
            node_uid: node.uid.clone(),
            message: message.to_owned(),
        };
        self.write_record(node, &record, None).await
    }

    async fn write_record(
        &self,
        node: &NodeState,
        record: &Record,
        version: Option<&str>,
    ) -> Result<Write<NodeSeen>, CallError> {
        let name = node.name.as_str();
        let what = || format!("record on node {name}");
        let key = &self.reader.record_key;
        let mut metadata = json!({ "uid": node.uid, "annotations": { key: record.write() } });
        if let (Some(version), Some(fields)) = (version, metadata.as_object_mut()) {
            fields.insert("resourceVersion".to_owned(), version.into());
        }
        let patch = Patch::Merge(json!({ "metadata": metadata }));
        let answer = self.nodes.patch(name, &field_manager(), &patch).await;
        self.written(name, what, answer).await
    }

    /// Removes the inventory, unless the node has changed since it was seen.
    pub async fn remove_inventory(&self, seen: &NodeSeen) -> Result<Write<NodeSeen>, CallError> {
        self.remove_annotation(seen, &self.reader.inventory_key)
            .await
    }

    /// Removes the list of names, unless the node has changed since it was seen.
    pub async fn remove_owned(&self, seen: &NodeSeen) -> Result<Write<NodeSeen>, CallError> {
        self.remove_annotation(seen, &self.reader.owned_key).await
    }

    async fn remove_annotation(
        &self,
        seen: &NodeSeen,
        key: &str,
    ) -> Result<Write<NodeSeen>, CallError> {
        let name = seen.state.name.as_str();
        let patch = Patch::Merge(json!({ "metadata": {
            "uid": seen.state.uid,
            "resourceVersion": seen.version,
            "annotations": { key: null },
        }}));
        let answer = self.nodes.patch(name, &field_manager(), &patch).await;
        self.written(name, || format!("removing {key} of node {name}"), answer)
            .await
    }

    /// Takes names out of the node's status, unless they have changed since the node was seen.
    pub async fn remove_names(
        &self,
        seen: &NodeSeen,
        names: &[Shown],
    ) -> Result<Write<NodeSeen>, CallError> {
        let name = seen.state.name.as_str();
        let what = || format!("removing resources of node {name}");
        let patch = serde_json::from_value(leftovers::patch(&seen.state.uid, names));
        let patch = Patch::Json::<()>(patch.map_err(|source| CallError::Form {
            what: "patch of a node's status",
            source,
        })?);
        let answer = self
            .nodes
            .patch_status(name, &field_manager(), &patch)
            .await;
        match answer {
            // A test in the patch failed, or the server can't do it at all: then nothing changed.
            Err(kube::Error::Api(status)) if status.code == 422 => {
                match self.present_node(name, what).await? {
                    Write::Stale(now) if now.state == seen.state => {
                        Err(failed(what())(kube::Error::Api(status)))
                    }
                    present => Ok(present),
                }
            }
            answer => self.written(name, what, answer).await,
        }
    }

    /// What a write on a node came to.
    async fn written(
        &self,
        name: &str,
        what: impl Fn() -> String,
        answer: kube::Result<Node>,
    ) -> Result<Write<NodeSeen>, CallError> {
        match answer {
            Ok(node) => self
                .reader
                .node(&node)
                .map(|node| Write::Done(Some(node)))
                .map_err(unreadable(what())),
            Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => {
                self.present_node(name, what).await
            }
            Err(error) => Err(failed(what())(error)),
        }
    }

    async fn present_node(
        &self,
        name: &str,
        what: impl Fn() -> String,
    ) -> Result<Write<NodeSeen>, CallError> {
        match self.nodes.get_opt(name).await.map_err(failed(what()))? {
            Some(node) => self
                .reader
                .node(&node)
                .map(Write::Stale)
                .map_err(unreadable(what())),
            None => Ok(Write::Gone),
        }
    }

    /// Makes the Job. One that is there already under that name is the answer's `Stale`.
    pub async fn create_job(
        &self,
        name: &str,
        node: &NodeState,
        action: Action,
    ) -> Result<Write<JobSeen>, CallError> {
        let what = || format!("making job {name}");
        let job = convert::new_job(&self.template, name, node, action).map_err(|source| {
            CallError::Form {
                what: "job",
                source,
            }
        })?;
        match self.jobs.create(&post(), &job).await {
            Ok(job) => convert::job(&job)
                .map(|job| Write::Done(Some(job)))
                .map_err(unreadable(what())),
            Err(kube::Error::Api(status)) if status.code == 409 => self.present_job(name).await,
            Err(error) => Err(failed(what())(error)),
        }
    }

    /// Deletes exactly this Job. One that still runs goes only after its pods, so that no other
    /// starts beside them.
    pub async fn delete_job(&self, job: &JobState) -> Result<Write<JobSeen>, CallError> {
        let what = || format!("deleting job {}", job.name);
        let policy = match job.status {
            Status::Running => PropagationPolicy::Foreground,
            Status::Succeeded | Status::Failed => PropagationPolicy::Background,
        };
        let params = DeleteParams {
            propagation_policy: Some(policy),
            preconditions: Some(Preconditions {
                uid: Some(job.uid.clone()),
                resource_version: None,
            }),
            ..DeleteParams::default()
        };
        match self.jobs.delete(&job.name, &params).await {
            Ok(answer) => match answer.left() {
                Some(left) => convert::job(&left)
                    .map(|job| Write::Done(Some(job)))
                    .map_err(unreadable(what())),
                None => Ok(Write::Gone),
            },
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(Write::Gone),
            Err(kube::Error::Api(status)) if status.code == 409 => {
                self.present_job(&job.name).await
            }
            Err(error) => Err(failed(what())(error)),
        }
    }

    async fn present_job(&self, name: &str) -> Result<Write<JobSeen>, CallError> {
        let what = || format!("job {name}");
        match self.jobs.get_opt(name).await.map_err(failed(what()))? {
            Some(job) => convert::job(&job)
                .map(Write::Stale)
                .map_err(|why| format!("it is there and not this controller's: {why}"))
                .map_err(unreadable(what())),
            None => Ok(Write::Gone),
        }
    }

    /// What the agent of a failed Job said; nothing where its pods are gone or can't be listed.
    pub async fn agents_words(&self, job: &JobState) -> Option<String> {
        let of_job = ListParams::default()
            .labels(&format!("job-name={}", job.name))
            .limit(20);
        match self.pods.list(&of_job).await {
            Ok(pods) => convert::agents_words(&pods.items),
            Err(error) => {
                tracing::debug!(job = job.name, %error, "no pods of a failed job");
                None
            }
        }
    }
}

fn post() -> PostParams {
    PostParams {
        field_manager: Some(MANAGER.to_owned()),
        ..PostParams::default()
    }
}

fn field_manager() -> PatchParams {
    PatchParams {
        field_manager: Some(MANAGER.to_owned()),
        ..PatchParams::default()
    }
}

/// Turns a watch into what is seen. Without the default backoff it would spin while the server
/// is away.
fn watch<K, T>(
    api: Api<DeserializeGuard<K>>,
    config: watcher::Config,
    kind: &'static str,
    seen: impl Fn(Change<T>) -> Seen + Send,
    read: impl Fn(&K) -> Result<T, String> + Send,
) -> impl Stream<Item = Seen> + Send
where
    K: Resource<DynamicType = ()> + Clone + std::fmt::Debug + Send + Sync + 'static,
    DeserializeGuard<K>: serde::de::DeserializeOwned + Resource<DynamicType = ()>,
{
    watcher(api, config).default_backoff().map(move |event| {
        let (object, change): (_, fn(T) -> Change<T>) = match event {
            Err(error) => {
                return Seen::Trouble {
                    kind,
                    why: with_causes(&error),
                };
            }
            Ok(watcher::Event::Init) => return seen(Change::Begin),
            Ok(watcher::Event::InitDone) => return seen(Change::End),
            Ok(watcher::Event::InitApply(object)) => (object, Change::Listed),
            Ok(watcher::Event::Apply(object)) => (object, Change::Applied),
            Ok(watcher::Event::Delete(object)) => (object, Change::Deleted),
        };
        let name = object.meta().name.clone().unwrap_or_default();
        let result = match &object.0 {
            Ok(object) => read(object),
            Err(invalid) => Err(invalid.to_string()),
        };
        match result {
            Ok(object) => seen(change(object)),
            Err(why) => Seen::Malformed { kind, name, why },
        }
    })
}

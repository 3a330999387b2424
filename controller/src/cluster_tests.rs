//! The loop against an API server in small: a map of objects behind kube's client.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use http::{Method, Request, Response, StatusCode};
use http_body_util::BodyExt;
use kube::{Client, client::Body};
use serde_json::{Value, json};
use tokio::{task::JoinHandle, time::timeout};

use super::*;
use crate::{action::Record, book::Change};

const NODES: &str = "/api/v1/nodes";
const JOBS: &str = "/apis/batch/v1/namespaces/kube-system/jobs";
const EVENTS: &str = "/api/v1/namespaces/default/events";
const KEY: &str = "lj-runtimekit-controller/last-action-status";

#[derive(Debug, Default)]
struct Objects {
    by_path: BTreeMap<String, Value>,
    versions: u64,
    /// Requests that changed something, or tried to.
    writes: Vec<String>,
    /// Answers to the next writes, before they take effect.
    refusals: Vec<StatusCode>,
}

#[derive(Debug, Clone, Default)]
struct Server(Arc<Mutex<Objects>>);

fn status(code: StatusCode, reason: &str) -> (StatusCode, Value) {
    let body = json!({
        "kind": "Status", "apiVersion": "v1", "status": "Failure",
        "code": code.as_u16(), "reason": reason, "message": reason,
    });
    (code, body)
}

impl Objects {
    fn put(&mut self, path: String, mut object: Value) -> Value {
        self.versions += 1;
        let metadata = &mut object["metadata"];
        metadata["resourceVersion"] = self.versions.to_string().into();
        if metadata["uid"].is_null() {
            metadata["uid"] = format!("uid-{}", self.versions).into();
        }
        self.by_path.insert(path, object.clone());
        object
    }

    fn answer(&mut self, method: &Method, path: &str, body: Value) -> (StatusCode, Value) {
        if *method != Method::GET {
            self.writes.push(format!("{method} {path}"));
            if let Some(code) = self.refusals.pop() {
                return status(code, "on purpose");
            }
        }
        let present = self.by_path.get(path).cloned();
        match (method.as_str(), present) {
            ("GET", _) if path.ends_with("/pods") => (
                StatusCode::OK,
                json!({ "kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": [] }),
            ),
            ("GET", Some(object)) => (StatusCode::OK, object),
            ("POST", _) => {
                let name = body["metadata"]["name"].as_str().unwrap();
                let path = format!("{path}/{name}");
                if self.by_path.contains_key(&path) {
                    return status(StatusCode::CONFLICT, "AlreadyExists");
                }
                (StatusCode::CREATED, self.put(path, body))
            }
            ("PATCH", Some(mut object)) => {
                let wanted = &body["metadata"];
                for field in ["uid", "resourceVersion"] {
                    let same = wanted[field] == object["metadata"][field];
                    if !wanted[field].is_null() && !same {
                        return status(StatusCode::CONFLICT, "Conflict");
                    }
                }
                for (key, value) in wanted["annotations"].as_object().unwrap() {
                    object["metadata"]["annotations"][key] = value.clone();
                }
                (StatusCode::OK, self.put(path.to_owned(), object))
            }
            ("DELETE", Some(object)) => {
                let wanted = &body["preconditions"]["uid"];
                if *wanted != object["metadata"]["uid"] {
                    return status(StatusCode::CONFLICT, "Conflict");
                }
                self.by_path.remove(path);
                (
                    StatusCode::OK,
                    json!({ "kind": "Status", "apiVersion": "v1", "status": "Success" }),
                )
            }
            _ => status(StatusCode::NOT_FOUND, "NotFound"),
        }
    }
}

impl Server {
    fn with<T>(&self, change: impl FnOnce(&mut Objects) -> T) -> T {
        change(&mut self.0.lock().unwrap())
    }

    fn client(&self) -> Client {
        let server = self.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let server = server.clone();
            async move {
                let (parts, body) = request.into_parts();
                let bytes = body.collect().await?.to_bytes();
                let body = serde_json::from_slice(&bytes).unwrap_or_default();
                let (code, answer) =
                    server.with(|objects| objects.answer(&parts.method, parts.uri.path(), body));
                let answer = Body::from(serde_json::to_vec(&answer).unwrap());
                let response = Response::builder().status(code).body(answer).unwrap();
                Ok::<_, tower::BoxError>(response)
            }
        });
        Client::new(service, "default")
    }

    fn put_node(&self, labelled: bool) -> Value {
        let path = format!("{NODES}/n1");
        let mut node = self.get(&path).unwrap_or_else(
            || json!({ "metadata": { "name": "n1", "uid": "node-1", "annotations": {} } }),
        );
        node["metadata"]["labels"]["lj_runtimekit_enable"] = labelled.to_string().into();
        self.with(|objects| objects.put(path, node))
    }

    fn end_job(&self, action: &str, condition: &str) -> Value {
        let path = job_path(action);
        let mut job = self.get(&path).unwrap();
        job["status"]["conditions"] = json!([{
            "type": condition, "status": "True", "reason": "R", "message": "why",
            "lastTransitionTime": "2026-12-01T10:00:00Z",
        }]);
        self.with(|objects| objects.put(path, job))
    }

    fn get(&self, path: &str) -> Option<Value> {
        self.with(|objects| objects.by_path.get(path).cloned())
    }

    fn record(&self) -> (String, String) {
        let node = self.get(&format!("{NODES}/n1")).unwrap();
        let text = node["metadata"]["annotations"][KEY].as_str().unwrap();
        let record = Record::read(text).unwrap();
        (
            record.action.word().to_owned(),
            record.status.word().to_owned(),
        )
    }

    fn writes(&self) -> Vec<String> {
        self.with(|objects| std::mem::take(&mut objects.writes))
    }

    fn count(&self, under: &str) -> usize {
        self.with(|objects| {
            let under = format!("{under}/");
            objects
                .by_path
                .keys()
                .filter(|p| p.starts_with(&under))
                .count()
        })
    }
}

fn job_path(action: &str) -> String {
    format!("{JOBS}/lj-agent-n1-{action}")
}

/// A controller whose watches are the test's.
struct Controller {
    sender: mpsc::Sender<Seen>,
    readiness: kit::Readiness,
    worker: JoinHandle<()>,
    reader: Reader,
}

impl Controller {
    fn start_without_lists(server: &Server) -> Self {
        let reader = Reader::new(&model::settings::Settings::default());
        let template = JobTemplate {
            image: "agent:1".into(),
            runtime_dir: "/run/amp".into(),
        };
        let kubernetes = Kubernetes::new(&server.client(), "kube-system", template, reader.clone());
        let readiness = kit::Readiness::default();
        let ready = readiness.condition("api-server", "waiting");
        let metrics = Metrics::new(&prometheus::Registry::new()).unwrap();
        let (sender, receiver) = mpsc::channel(AHEAD);
        let worker = tokio::spawn(Worker::new(kubernetes, metrics, ready).run(receiver));
        Self {
            sender,
            readiness,
            worker,
            reader,
        }
    }

    /// Starts and lists what the server has; as there, without Jobs that lack the label.
    async fn start(server: &Server) -> Self {
        let controller = Self::start_without_lists(server);
        controller.see(Seen::Node(Change::Begin)).await;
        for node in server.listed(NODES) {
            let node = controller.node(&node);
            controller.see(Seen::Node(Change::Listed(node))).await;
        }
        controller.see(Seen::Node(Change::End)).await;
        controller.see(Seen::Job(Change::Begin)).await;
        for job in server.listed(JOBS) {
            let labels = &job["metadata"]["labels"];
            if labels[convert::MANAGED_BY] == convert::MANAGER {
                let job = Self::job(&job);
                controller.see(Seen::Job(Change::Listed(job))).await;
            }
        }
        controller.see(Seen::Job(Change::End)).await;
        controller
    }

    fn node(&self, object: &Value) -> book::NodeSeen {
        let node = serde_json::from_value(object.clone()).unwrap();
        self.reader.node(&node).unwrap()
    }

    fn job(object: &Value) -> book::JobSeen {
        convert::job(&serde_json::from_value(object.clone()).unwrap()).unwrap()
    }

    async fn see(&self, seen: Seen) {
        self.sender.send(seen).await.unwrap();
    }

    async fn see_node(&self, object: &Value) {
        let node = self.node(object);
        self.see(Seen::Node(Change::Applied(node))).await;
    }

    async fn see_job(&self, object: &Value) {
        self.see(Seen::Job(Change::Applied(Self::job(object))))
            .await;
    }

    /// Lets it do what it has to do, and ends it: everything is in the objects anyway.
    async fn end(self) {
        drop(self.sender);
        timeout(Duration::from_secs(60), self.worker)
            .await
            .expect("an end in time")
            .unwrap();
    }
}

impl Server {
    fn listed(&self, under: &str) -> Vec<Value> {
        self.with(|objects| {
            let under = format!("{under}/");
            let ours = objects
                .by_path
                .iter()
                .filter(|(path, _)| path.starts_with(&under));
            ours.map(|(_, object)| object.clone()).collect()
        })
    }
}

#[tokio::test]
async fn a_label_becomes_a_job_then_a_record_an_event_and_no_job() {
    let server = Server::default();
    server.put_node(true);
    Controller::start(&server).await.end().await;
    assert_eq!(
        server.writes(),
        [format!("PATCH {NODES}/n1"), format!("POST {JOBS}")]
    );
    assert_eq!(server.record(), ("enable".into(), "Running".into()));

    server.end_job("enable", "Complete");
    Controller::start(&server).await.end().await;
    assert_eq!(
        server.writes(),
        [
            format!("POST {EVENTS}"),
            format!("PATCH {NODES}/n1"),
            format!("DELETE {}", job_path("enable")),
        ]
    );
    assert_eq!(server.record(), ("enable".into(), "Succeeded".into()));
    assert_eq!((server.count(JOBS), server.count(EVENTS)), (0, 1));

    Controller::start(&server).await.end().await;
    assert!(server.writes().is_empty(), "a restart found work");
}

#[tokio::test]
async fn a_failed_job_stays_and_is_told_once() {
    let server = Server::default();
    server.put_node(true);
    Controller::start(&server).await.end().await;
    server.end_job("enable", "Failed");
    Controller::start(&server).await.end().await;
    assert_eq!(server.record(), ("enable".into(), "Failed".into()));
    assert_eq!((server.count(JOBS), server.count(EVENTS)), (1, 1));
    server.writes();
    Controller::start(&server).await.end().await;
    assert!(server.writes().is_empty());

    server.put_node(false);
    Controller::start(&server).await.end().await;
    assert_eq!(server.record(), ("disable".into(), "Running".into()));
    assert!(server.get(&job_path("enable")).is_none());
    assert!(server.get(&job_path("disable")).is_some());
}

#[tokio::test]
async fn one_run_follows_label_and_jobs_through_on_and_off() {
    let server = Server::default();
    let controller = Controller::start(&server).await;
    controller.see_node(&server.put_node(true)).await;
    until(|| server.get(&job_path("enable")).is_some()).await;
    controller
        .see_job(&server.end_job("enable", "Complete"))
        .await;
    until(|| server.count(JOBS) == 0).await;
    controller.see_node(&server.put_node(false)).await;
    until(|| server.get(&job_path("disable")).is_some()).await;
    controller
        .see_job(&server.end_job("disable", "Complete"))
        .await;
    until(|| server.count(JOBS) == 0).await;
    controller.end().await;
    assert_eq!(server.record(), ("disable".into(), "Succeeded".into()));
    assert_eq!(server.count(EVENTS), 2);
}

#[tokio::test]
async fn a_stale_view_of_the_node_starts_nothing() {
    let server = Server::default();
    let stale = server.put_node(true);
    let controller = Controller::start(&server).await;
    until(|| server.count(JOBS) == 1).await;
    controller
        .see_job(&server.end_job("enable", "Complete"))
        .await;
    until(|| server.count(JOBS) == 0).await;
    server.writes();
    // The list is read again from a server that is behind.
    let stale = controller.node(&stale);
    controller.see(Seen::Node(Change::Listed(stale))).await;
    controller.end().await;
    assert_eq!(server.count(JOBS), 0);
    assert_eq!(server.record(), ("enable".into(), "Succeeded".into()));
}

#[tokio::test]
async fn an_interrupted_telling_is_told_once() {
    let server = Server::default();
    server.put_node(true);
    Controller::start(&server).await.end().await;
    server.end_job("enable", "Complete");
    Controller::start(&server).await.end().await;
    // As if it had ended between the event and the record.
    let mut node = server.get(&format!("{NODES}/n1")).unwrap();
    let before = node["metadata"]["annotations"][KEY].clone();
    node["metadata"]["annotations"][KEY] =
        Value::from(before.as_str().unwrap().replace("Succeeded", "Running"));
    server.with(|objects| objects.put(format!("{NODES}/n1"), node));
    server.with(|objects| {
        let made = json!({ "metadata": {
            "name": "lj-agent-n1-enable",
            "uid": Record::read(before.as_str().unwrap()).unwrap().job_uid,
            "labels": { "app.kubernetes.io/managed-by": "lj-runtimekit-controller" },
            "annotations": {
                "lj-runtimekit-controller/node": "n1",
                "lj-runtimekit-controller/node-uid": "node-1",
                "lj-runtimekit-controller/action": "enable",
            },
        }});
        objects.put(job_path("enable"), made);
    });
    server.end_job("enable", "Complete");
    Controller::start(&server).await.end().await;
    assert_eq!(server.record(), ("enable".into(), "Succeeded".into()));
    assert_eq!((server.count(JOBS), server.count(EVENTS)), (0, 1));
}

#[tokio::test]
async fn a_node_that_came_back_as_another_gets_a_job_of_its_own() {
    let server = Server::default();
    server.put_node(true);
    Controller::start(&server).await.end().await;
    let first = server.get(&job_path("enable")).unwrap();
    server.end_job("enable", "Complete");
    server.with(|objects| {
        let node = json!({ "metadata": {
            "name": "n1", "uid": "node-2", "annotations": {},
            "labels": { "lj_runtimekit_enable": "true" },
        }});
        objects.put(format!("{NODES}/n1"), node);
    });
    Controller::start(&server).await.end().await;
    let second = server.get(&job_path("enable")).unwrap();
    assert_ne!(first["metadata"]["uid"], second["metadata"]["uid"]);
    assert_eq!(
        second["metadata"]["annotations"]["lj-runtimekit-controller/node-uid"],
        "node-2"
    );
    assert_eq!(server.count(EVENTS), 0);
}

#[tokio::test]
async fn the_jobs_of_a_deleted_node_go() {
    let server = Server::default();
    server.put_node(true);
    Controller::start(&server).await.end().await;
    server.with(|objects| objects.by_path.remove(&format!("{NODES}/n1")));
    Controller::start(&server).await.end().await;
    assert_eq!(server.count(JOBS), 0);
}

#[tokio::test(start_paused = true)]
async fn a_step_that_fails_is_tried_again_after_a_wait() {
    let server = Server::default();
    server.with(|objects| objects.refusals = vec![StatusCode::INTERNAL_SERVER_ERROR; 3]);
    server.put_node(true);
    let controller = Controller::start(&server).await;
    let started = tokio::time::Instant::now();
    until(|| server.count(JOBS) == 1).await;
    assert!(started.elapsed() >= Duration::from_secs(5));
    assert_eq!(server.writes().len(), 5);
    controller.end().await;
}

#[tokio::test]
async fn somebody_elses_job_of_that_name_is_left_alone() {
    let server = Server::default();
    server.put_node(true);
    server.with(|objects| {
        let other = json!({ "metadata": { "name": "lj-agent-n1-enable", "annotations": {} } });
        objects.put(job_path("enable"), other);
    });
    let controller = Controller::start(&server).await;
    controller.end().await;
    assert!(server.get(&job_path("enable")).is_some());
    assert!(server.writes().iter().all(|w| !w.starts_with("DELETE")));
}

#[tokio::test]
async fn it_is_ready_once_both_lists_are_read_and_says_what_it_waits_for() {
    let server = Server::default();
    let controller = Controller::start_without_lists(&server);
    let why = "connection refused".to_owned();
    controller.see(Seen::Trouble { kind: "node", why }).await;
    until(|| {
        controller.readiness.unmet()
            == [("api-server", "node watch: connection refused".to_owned())]
    })
    .await;
    for change in [Change::Begin, Change::End] {
        controller.see(Seen::Node(change)).await;
    }
    for change in [Change::Begin, Change::End] {
        controller.see(Seen::Job(change)).await;
    }
    until(|| controller.readiness.unmet().is_empty()).await;
    controller.end().await;
}

/// Waits until it holds: lets others work meanwhile, and the paused clock go on.
async fn until(holds: impl Fn() -> bool) {
    let wait = async {
        while !holds() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(Duration::from_secs(60), wait)
        .await
        .expect("it to hold in time");
}

#[test]
fn the_runtime_folder_has_to_be_absolute() {
    assert!(runtime_dir("/run/amp".as_ref()).is_ok());
    for wrong in ["run/amp", "/run/../amp", ""] {
        assert!(matches!(
            runtime_dir(wrong.as_ref()),
            Err(kit::Failure::Usage(_))
        ));
    }
}

//! The loop against an API server in small.

use std::time::Duration;

use http::StatusCode;
use serde_json::{Value, json};
use tokio::{task::JoinHandle, time::timeout};

use super::*;
use crate::{action::Record, book::Change};

#[path = "small_server_tests.rs"]
mod small_server;

use small_server::{EVENTS, INVENTORY, JOBS, KEY, NODES, OWNED, Server, job_path};

/// A controller whose watches are the test's.
struct Controller {
    sender: mpsc::Sender<Seen>,
    readiness: kit::Readiness,
    worker: JoinHandle<()>,
    metrics: Metrics,
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
        let leftovers = Leftovers::new(leftovers::KUBELET_GRACE);
        let worker = Worker::new(kubernetes, leftovers, metrics.clone(), ready);
        let worker = tokio::spawn(worker.run(receiver));
        Self {
            sender,
            readiness,
            worker,
            metrics,
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
        timeout(Duration::from_mins(1), self.worker)
            .await
            .expect("an end in time")
            .unwrap();
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

#[tokio::test(start_paused = true)]
async fn what_a_node_has_left_of_the_kit_goes_after_the_label() {
    let server = Server::default();
    server.put_node(false);
    let controller = Controller::start(&server).await;
    let of_ours = || (server.annotation(INVENTORY), server.annotation(OWNED));
    controller.see_node(&server.put_leftovers()).await;
    until(|| server.capacity() == json!({ "cpu": "8", "x.y/theirs": "4" })).await;
    let owned = Some(r#"["x.y/ours"]"#.to_owned());
    assert_eq!(of_ours(), (None, owned.clone()));
    assert_eq!(
        server.writes(),
        [
            format!("PATCH {NODES}/n1"),
            format!("PATCH {NODES}/n1/status")
        ]
    );
    // Kubelet writes it back; then a plugin is there again, which the controller has not seen yet.
    let back = server.put_leftovers();
    server.serve("x.y/ours");
    controller.see_node(&back).await;
    until(|| server.annotation(INVENTORY).is_none()).await;
    tokio::time::sleep(Duration::from_mins(20)).await;
    assert_eq!(server.capacity()["x.y/ours"], "8");
    assert_eq!(of_ours(), (None, owned));
    controller.see_node(&server.put_leftovers()).await;
    until(|| server.capacity() == json!({ "cpu": "8", "x.y/theirs": "4" })).await;
    tokio::time::sleep(leftovers::KUBELET_GRACE.mul_f32(0.9)).await;
    assert!(of_ours().1.is_some());
    until(|| of_ours() == (None, None)).await;
    controller.end().await;
}

#[tokio::test]
async fn a_list_of_names_that_cannot_be_read_is_counted_once_and_left_alone() {
    let server = Server::default();
    let controller = Controller::start(&server).await;
    let mut node = server.put_leftovers();
    node["metadata"]["annotations"][OWNED] = "x.y/ours".into();
    let node = server.with(|objects| objects.put(format!("{NODES}/n1"), node));
    controller.see_node(&node).await;
    until(|| server.annotation(INVENTORY).is_none()).await;
    let node = server.get(&format!("{NODES}/n1")).unwrap();
    controller.see_node(&node).await;
    let metrics = controller.metrics.clone();
    controller.end().await;
    let malformed = metrics.malformed.with_label_values(&["owned-resources"]);
    assert_eq!(malformed.get(), 1);
    assert_eq!(server.annotation(OWNED).as_deref(), Some("x.y/ours"));
    assert_eq!(server.capacity()["x.y/ours"], "8");
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
    timeout(Duration::from_mins(1), wait)
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

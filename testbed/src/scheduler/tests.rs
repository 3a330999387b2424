//! The scheduler against the stand-in API server and a small extender.

use std::sync::{Arc, Mutex};

use axum::{Json, Router, extract::State, routing::post};
use k8s_openapi::api::core::v1::{Event, Node, Pod};
use kube::{
    Api, Client,
    api::{ListParams, Patch, PatchParams},
};
use serde_json::{Value, json};
use tokio_util::sync::DropGuard;

use super::{SchedulerArgs, start};
use crate::api_server::{
    ApiServerArgs,
    testing::{Server, create, until, within},
};

const GPU: &str = "aliyun.com/gpu";

/// What the extender was asked, and what it is to answer.
#[derive(Default)]
struct Script {
    calls: Vec<(String, Value)>,
    /// Nodes it rejects, with reasons.
    rejects: Vec<(&'static str, &'static str)>,
    refuses_binding: Option<&'static str>,
}

#[derive(Clone)]
struct Extender {
    script: Arc<Mutex<Script>>,
    client: Client,
}

async fn filter(State(extender): State<Extender>, Json(args): Json<Value>) -> Json<Value> {
    let mut script = extender.script.lock().unwrap();
    script.calls.push(("filter".into(), args.clone()));
    let rejects = script.rejects.clone();
    let names = args["NodeNames"].as_array().unwrap().clone();
    let kept: Vec<_> = names
        .into_iter()
        .filter(|n| !rejects.iter().any(|(r, _)| n == r))
        .collect();
    let failed: serde_json::Map<String, Value> = rejects
        .iter()
        .map(|(n, why)| ((*n).to_owned(), json!(why)))
        .collect();
    Json(json!({"Nodes": null, "NodeNames": kept, "FailedNodes": failed, "Error": ""}))
}

async fn prioritize(State(extender): State<Extender>, Json(args): Json<Value>) -> Json<Value> {
    extender
        .script
        .lock()
        .unwrap()
        .calls
        .push(("prioritize".into(), args.clone()));
    let names = args["NodeNames"].as_array().unwrap();
    // The last one is the best.
    let scores = names.iter().enumerate();
    Json(
        scores
            .map(|(n, name)| json!({"Host": name, "Score": n}))
            .collect(),
    )
}

async fn bind(State(extender): State<Extender>, Json(args): Json<Value>) -> Json<Value> {
    let refusal = {
        let mut script = extender.script.lock().unwrap();
        script.calls.push(("bind".into(), args.clone()));
        script.refuses_binding.take()
    };
    if let Some(refusal) = refusal {
        return Json(json!({"Error": refusal}));
    }
    let name = args["PodName"].as_str().unwrap();
    let binding = json!({"metadata": {"name": name, "annotations": {"plan": "made"}},
        "target": {"kind": "Node", "name": args["Node"]}});
    let path = format!("/api/v1/namespaces/default/pods/{name}/binding");
    let request = http::Request::post(path)
        .header("content-type", "application/json")
        .body(binding.to_string().into_bytes())
        .unwrap();
    let bound: Result<Value, _> = extender.client.request(request).await;
    Json(json!({"Error": bound.err().map(|e| e.to_string()).unwrap_or_default()}))
}

/// A cluster of nodes `a` and `b` with 4 cards each, a scheduler and an extender.
struct Ground {
    server: Server,
    script: Arc<Mutex<Script>>,
    _end: DropGuard,
}

impl Ground {
    async fn new() -> Self {
        let server = Server::start(&ApiServerArgs::default());
        let nodes: Api<Node> = server.cluster_api();
        for name in ["a", "b"] {
            let node = json!({"metadata": {"name": name}, "status": {"allocatable": {GPU: "4"}}});
            create(&nodes, node).await.unwrap();
        }
        let tasks = kit::Tasks::default();
        let script = Arc::new(Mutex::new(Script::default()));
        let extender = Extender {
            script: Arc::clone(&script),
            client: server.client.clone(),
        };
        let router = Router::new()
            .route("/filter", post(filter))
            .route("/prioritize", post(prioritize))
            .route("/bind", post(bind))
            .with_state(extender);
        let listener = kit::listen(([127, 0, 0, 1], 0).into()).unwrap();
        let address = listener.local_addr().unwrap();
        let limits = kit::Limits::default();
        tasks.critical(
            "extender",
            kit::serve(listener, router, tasks.clone(), limits),
        );
        let args = SchedulerArgs {
            api: kubernetes::api::ApiArgs {
                kubeconfig: None,
                api_server: Some(server.url.clone()),
            },
            extender: Some(format!("http://{address}")),
            scheduler_name: "default-scheduler".into(),
            managed_resource: vec![GPU.into()],
            ignored_resource: Vec::new(),
            no_node_cache: false,
        };
        start(args, &tasks).unwrap();
        Self {
            server,
            script,
            _end: tasks.shutdown_token().drop_guard(),
        }
    }

    fn pods(&self) -> Api<Pod> {
        self.server.api()
    }

    fn calls(&self, verb: &str) -> Vec<Value> {
        let script = self.script.lock().unwrap();
        script
            .calls
            .iter()
            .filter(|(v, _)| v == verb)
            .map(|(_, args)| args.clone())
            .collect()
    }

    async fn bound(&self, name: &str, node: &str) {
        let at = |pod: Option<&Pod>| {
            pod.and_then(|p| p.spec.as_ref()?.node_name.as_deref()) == Some(node)
        };
        until(&self.pods(), name, at).await;
    }
}

fn pod(name: &str, resource: &str, amount: u32) -> Value {
    json!({"metadata": {"name": name}, "spec": {"containers": [
        {"name": "m", "image": "i", "resources": {"limits": {resource: amount.to_string()}}}]}})
}

#[tokio::test]
async fn a_pod_that_asks_for_a_card_is_placed_and_bound_by_the_extender() {
    let ground = Ground::new().await;
    let made = create(&ground.pods(), pod("p", GPU, 2)).await.unwrap();
    ground.bound("p", "b").await;
    let annotations = ground
        .pods()
        .get("p")
        .await
        .unwrap()
        .metadata
        .annotations
        .unwrap();
    assert_eq!(annotations["plan"], "made");
    let asked = &ground.calls("filter")[0];
    assert_eq!(asked["NodeNames"], json!(["a", "b"]));
    assert_eq!(asked["Nodes"], Value::Null);
    assert_eq!(asked["Pod"]["metadata"]["name"], "p");
    let uid = made.metadata.uid.unwrap();
    let wanted = json!({"PodName": "p", "PodNamespace": "default", "PodUID": uid, "Node": "b"});
    assert_eq!(ground.calls("bind"), [wanted]);
    assert_eq!(ground.calls("prioritize").len(), 1);
}

#[tokio::test]
async fn a_pod_without_cards_never_reaches_the_extender() {
    let ground = Ground::new().await;
    create(&ground.pods(), pod("p", "cpu", 0)).await.unwrap();
    ground.bound("p", "a").await;
    assert!(ground.script.lock().unwrap().calls.is_empty());
}

#[tokio::test]
async fn one_node_that_fits_is_not_scored() {
    let ground = Ground::new().await;
    ground.script.lock().unwrap().rejects = vec![("b", "no card is free")];
    create(&ground.pods(), pod("p", GPU, 1)).await.unwrap();
    ground.bound("p", "a").await;
    assert!(ground.calls("prioritize").is_empty());
}

#[tokio::test]
async fn a_pod_that_fits_nowhere_says_why_and_is_placed_when_there_is_room() {
    let ground = Ground::new().await;
    ground.script.lock().unwrap().rejects = vec![("b", "no card has 50 core free")];
    create(&ground.pods(), pod("large", GPU, 4)).await.unwrap();
    ground.bound("large", "a").await;
    create(&ground.pods(), pod("p", GPU, 1)).await.unwrap();
    let message = "0/2 nodes are available: 1 Insufficient aliyun.com/gpu, 1 no card has 50 core free. preemption: 0/2 nodes are available: 2 No preemption victims found for incoming pod.";
    let told = |pod: Option<&Pod>| {
        let conditions = pod.and_then(|p| p.status.as_ref()?.conditions.as_ref());
        conditions.is_some_and(|list| {
            list.iter().any(|c| {
                c.type_ == "PodScheduled"
                    && c.status == "False"
                    && c.message.as_deref() == Some(message)
            })
        })
    };
    until(&ground.pods(), "p", told).await;
    let events: Api<Event> = ground.server.api();
    let about = ListParams::default().fields("involvedObject.name=p,reason=FailedScheduling");
    let events = events.list(&about).await.unwrap().items;
    assert_eq!(events[0].message.as_deref(), Some(message));
    assert_eq!(events[0].type_.as_deref(), Some("Warning"));
    let ended = Patch::Merge(json!({"status": {"phase": "Succeeded"}}));
    ground
        .pods()
        .patch_status("large", &PatchParams::default(), &ended)
        .await
        .unwrap();
    ground.bound("p", "a").await;
}

#[tokio::test]
async fn a_refused_binding_is_told_and_tried_again() {
    let ground = Ground::new().await;
    ground.script.lock().unwrap().refuses_binding = Some("card just taken");
    create(&ground.pods(), pod("p", GPU, 4)).await.unwrap();
    ground.bound("p", "b").await;
    assert_eq!(ground.calls("bind").len(), 2);
    let events: Api<Event> = ground.server.api();
    let about = ListParams::default().fields("reason=FailedScheduling");
    let told = within(events.list(&about)).await.unwrap().items;
    assert!(
        told[0]
            .message
            .as_deref()
            .unwrap()
            .contains("card just taken")
    );
}

//! An API server in small: a map of objects behind kube's client.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
};

use http::{Method, Request, Response, StatusCode};
use http_body_util::BodyExt;
use kube::{Client, client::Body};
use serde_json::{Value, json};

use crate::action::Record;

pub(super) const NODES: &str = "/api/v1/nodes";
pub(super) const JOBS: &str = "/apis/batch/v1/namespaces/kube-system/jobs";
pub(super) const EVENTS: &str = "/api/v1/namespaces/default/events";
pub(super) const KEY: &str = "lj-runtimekit-controller/last-action-status";
pub(super) const INVENTORY: &str = "lj-runtimekit/inventory";
pub(super) const OWNED: &str = "lj-runtimekit/owned-resources";

#[derive(Debug, Default)]
pub(super) struct Objects {
    pub(super) by_path: BTreeMap<String, Value>,
    versions: u64,
    /// Requests that changed something, or tried to.
    writes: Vec<String>,
    /// Answers to the next writes, before they take effect.
    pub(super) refusals: Vec<StatusCode>,
}

#[derive(Debug, Clone, Default)]
pub(super) struct Server(Arc<Mutex<Objects>>);

fn status(code: StatusCode, reason: &str) -> (StatusCode, Value) {
    let body = json!({
        "kind": "Status", "apiVersion": "v1", "status": "Failure",
        "code": code.as_u16(), "reason": reason, "message": reason,
    });
    (code, body)
}

impl Objects {
    pub(super) fn put(&mut self, path: String, mut object: Value) -> Value {
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
        let path = path.trim_end_matches("/status");
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
            ("PATCH", Some(mut object)) if body.is_array() => {
                let operations: json_patch::Patch = serde_json::from_value(body).unwrap();
                match json_patch::patch(&mut object, &operations) {
                    Ok(()) => (StatusCode::OK, self.put(path.to_owned(), object)),
                    Err(_) => status(StatusCode::UNPROCESSABLE_ENTITY, "Invalid"),
                }
            }
            ("PATCH", Some(mut object)) => {
                let wanted = &body["metadata"];
                for field in ["uid", "resourceVersion"] {
                    let same = wanted[field] == object["metadata"][field];
                    if !wanted[field].is_null() && !same {
                        return status(StatusCode::CONFLICT, "Conflict");
                    }
                }
                json_patch::merge(&mut object, &body);
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
    pub(super) fn with<T>(&self, change: impl FnOnce(&mut Objects) -> T) -> T {
        change(&mut self.0.lock().unwrap())
    }

    pub(super) fn client(&self) -> Client {
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

    pub(super) fn put_node(&self, labelled: bool) -> Value {
        let path = format!("{NODES}/n1");
        let mut node = self.get(&path).unwrap_or_else(
            || json!({ "metadata": { "name": "n1", "uid": "node-1", "annotations": {} } }),
        );
        node["metadata"]["labels"]["lj_runtimekit_enable"] = labelled.to_string().into();
        self.with(|objects| objects.put(path, node))
    }

    /// A node whose plugin is no more, as kubelet writes it.
    pub(super) fn put_leftovers(&self) -> Value {
        let mut node = self.put_node(false);
        node["metadata"]["annotations"] = json!({ INVENTORY: "{}", OWNED: r#"["x.y/ours"]"# });
        node["status"] = json!({
            "capacity": { "cpu": "8", "x.y/ours": "8", "x.y/theirs": "4" },
            "allocatable": { "cpu": "8", "x.y/ours": "0", "x.y/theirs": "0" },
        });
        self.with(|objects| objects.put(format!("{NODES}/n1"), node))
    }

    /// A plugin is behind the resource again.
    pub(super) fn serve(&self, resource: &str) {
        let mut node = self.get(&format!("{NODES}/n1")).unwrap();
        node["status"]["allocatable"][resource] = node["status"]["capacity"][resource].clone();
        self.with(|objects| objects.put(format!("{NODES}/n1"), node));
    }

    pub(super) fn annotation(&self, key: &str) -> Option<String> {
        let node = self.get(&format!("{NODES}/n1")).unwrap();
        node["metadata"]["annotations"][key]
            .as_str()
            .map(str::to_owned)
    }

    pub(super) fn capacity(&self) -> Value {
        self.get(&format!("{NODES}/n1")).unwrap()["status"]["capacity"].clone()
    }

    pub(super) fn end_job(&self, action: &str, condition: &str) -> Value {
        let path = job_path(action);
        let mut job = self.get(&path).unwrap();
        job["status"]["conditions"] = json!([{
            "type": condition, "status": "True", "reason": "R", "message": "why",
            "lastTransitionTime": "2026-12-01T10:00:00Z",
        }]);
        self.with(|objects| objects.put(path, job))
    }

    pub(super) fn get(&self, path: &str) -> Option<Value> {
        self.with(|objects| objects.by_path.get(path).cloned())
    }

    pub(super) fn record(&self) -> (String, String) {
        let node = self.get(&format!("{NODES}/n1")).unwrap();
        let text = node["metadata"]["annotations"][KEY].as_str().unwrap();
        let record = Record::read(text).unwrap();
        (
            record.action.word().to_owned(),
            record.status.word().to_owned(),
        )
    }

    pub(super) fn writes(&self) -> Vec<String> {
        self.with(|objects| std::mem::take(&mut objects.writes))
    }

    pub(super) fn count(&self, under: &str) -> usize {
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

pub(super) fn job_path(action: &str) -> String {
    format!("{JOBS}/lj-agent-n1-{action}")
}

impl Server {
    pub(super) fn listed(&self, under: &str) -> Vec<Value> {
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

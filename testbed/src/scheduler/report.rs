//! Telling the API server what became of a pod: its condition and an event.

use std::{collections::BTreeMap, time::Duration};

use http::{Method, Request, header};
use k8s_openapi::jiff::Timestamp;
use kube::Client;
use serde_json::{Value, json};

use super::cluster::{PodKey, key};
use crate::api_server::{clock, field};

/// An API server that takes longer is as good as away; the pod is tried again anyway.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Events remembered, to count repeats in place; the rest are told anew.
const REMEMBERED: usize = 1000;

/// Writes conditions and events.
pub(super) struct Reporter {
    client: Client,
    scheduler: String,
    /// Pod UID and message to the event's namespace, name and count.
    told: BTreeMap<(String, String), (String, String, i64)>,
}

/// Why a pod is not scheduled.
pub(super) enum Setback {
    /// No node fits.
    Unschedulable(String),
    /// Something failed.
    Error(String),
}

impl Reporter {
    pub(super) fn new(client: Client, scheduler: String) -> Self {
        Self {
            client,
            scheduler,
            told: BTreeMap::new(),
        }
    }

    /// Writes the pod's condition, where it differs, and an event.
    pub(super) async fn setback(&mut self, pod: &Value, setback: Setback) {
        let (reason, message) = match setback {
            Setback::Unschedulable(message) => ("Unschedulable", message),
            Setback::Error(message) => ("SchedulerError", message),
        };
        self.event(pod, "Warning", "FailedScheduling", "Scheduling", &message)
            .await;
        let conditions = field::list(pod, "/status/conditions");
        let told = conditions.iter().any(|c| {
            field::text(c, "/type") == "PodScheduled"
                && field::text(c, "/status") == "False"
                && field::text(c, "/reason") == reason
                && field::text(c, "/message") == message
        });
        if told {
            return;
        }
        let condition = json!({"type": "PodScheduled", "status": "False", "reason": reason,
            "message": message, "lastTransitionTime": clock::seconds(Timestamp::now())});
        let change = json!({
            "metadata": {"uid": field::text(pod, "/metadata/uid")},
            "status": {"conditions": [condition]},
        });
        let (namespace, name) = key(pod);
        let path = format!("/api/v1/namespaces/{namespace}/pods/{name}/status");
        let patched = self.send(
            Method::PATCH,
            &path,
            "application/strategic-merge-patch+json",
            &change,
        );
        if let Err(error) = patched.await {
            tracing::warn!(pod = %format!("{namespace}/{name}"), error, "a condition is not written");
        }
    }

    /// Tells that a pod was bound.
    pub(super) async fn scheduled(&mut self, pod: &Value, node: &str) {
        let (namespace, name) = key(pod);
        let message = format!("Successfully assigned {namespace}/{name} to {node}");
        self.event(pod, "Normal", "Scheduled", "Binding", &message)
            .await;
    }

    async fn event(&mut self, pod: &Value, kind: &str, reason: &str, action: &str, note: &str) {
        let (namespace, name) = key(pod);
        let uid = field::text(pod, "/metadata/uid");
        let now = Timestamp::now()
            .strftime("%Y-%m-%dT%H:%M:%S.%6fZ")
            .to_string();
        let about = (uid.to_owned(), note.to_owned());
        if let Some((namespace, event, count)) = self.told.get_mut(&about) {
            *count += 1;
            let series = json!({"series": {"count": count, "lastObservedTime": now}});
            let path = format!("/apis/events.k8s.io/v1/namespaces/{namespace}/events/{event}");
            let kind = "application/merge-patch+json";
            if self.send(Method::PATCH, &path, kind, &series).await.is_ok() {
                return;
            }
        }
        // Long names are cut: the event's own name has the same bound.
        let prefix: String = name.chars().take(200).collect();
        let event = format!("{prefix}.{}", clock::suffix() + &clock::suffix());
        let object = json!({
            "apiVersion": "events.k8s.io/v1", "kind": "Event",
            "metadata": {"name": event, "namespace": namespace},
            "eventTime": now, "type": kind, "reason": reason, "action": action, "note": note,
            "reportingController": self.scheduler,
            "reportingInstance": format!("{}-stand-in", self.scheduler),
            "regarding": {"apiVersion": "v1", "kind": "Pod", "namespace": namespace,
                "name": name, "uid": uid},
        });
        let path = format!("/apis/events.k8s.io/v1/namespaces/{namespace}/events");
        match self
            .send(Method::POST, &path, "application/json", &object)
            .await
        {
            Ok(()) => {
                if self.told.len() >= REMEMBERED {
                    self.told.clear();
                }
                self.told.insert(about, (namespace, event, 1));
            }
            Err(error) => tracing::warn!(event = note, error, "an event is not written"),
        }
    }

    async fn send(
        &self,
        method: Method,
        path: &str,
        kind: &str,
        body: &Value,
    ) -> Result<(), String> {
        send(&self.client, method, path, kind, body).await
    }
}

/// Binds a pod through the API server.
pub(super) async fn bind(
    client: &Client,
    (namespace, name): &PodKey,
    uid: &str,
    node: &str,
) -> Result<(), String> {
    let binding = json!({
        "apiVersion": "v1", "kind": "Binding",
        "metadata": {"name": name, "namespace": namespace, "uid": uid},
        "target": {"apiVersion": "v1", "kind": "Node", "name": node},
    });
    let path = format!("/api/v1/namespaces/{namespace}/pods/{name}/binding");
    send(client, Method::POST, &path, "application/json", &binding).await
}

async fn send(
    client: &Client,
    method: Method,
    path: &str,
    kind: &str,
    body: &Value,
) -> Result<(), String> {
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header(header::CONTENT_TYPE, kind)
        .body(body.to_string().into_bytes())
        .map_err(|e| e.to_string())?;
    match tokio::time::timeout(TIMEOUT, client.request::<Value>(request)).await {
        Ok(answer) => answer.map(drop).map_err(|e| e.to_string()),
        Err(_) => Err(format!("no answer within {} s", TIMEOUT.as_secs())),
    }
}

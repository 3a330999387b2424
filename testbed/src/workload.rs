//! Pods to run, as a user would write them.

use k8s_openapi::api::core::v1::Pod;
use serde_json::{Map, Value, json};

use crate::stage::SCHEDULER_NAME;

/// What the containers run on a real cluster.
const IMAGE: &str = "docker.io/lj-e2e/busybox:1";
/// Longer than any test.
const FOR_EVER: u32 = 1_000_000_000;

/// A pod under construction.
#[derive(Debug, Clone)]
pub struct Workload {
    name: String,
    scheduler: String,
    annotations: Map<String, Value>,
    init: Vec<Value>,
    containers: Vec<Value>,
    node: Option<String>,
    seconds: Option<u32>,
}

/// Resource name and count.
pub type Asks<'a> = &'a [(&'a str, u64)];

impl Workload {
    /// A pod without containers, for the kit's scheduler.
    pub fn new(name: &str) -> Self {
        Self {
            name: name.into(),
            scheduler: SCHEDULER_NAME.into(),
            annotations: Map::new(),
            init: Vec::new(),
            containers: Vec::new(),
            node: None,
            seconds: None,
        }
    }

    /// A pod of one container `main`.
    pub fn one(name: &str, asks: Asks<'_>) -> Self {
        Self::new(name).container("main", asks)
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// One more app container.
    #[must_use]
    pub fn container(mut self, name: &str, asks: Asks<'_>) -> Self {
        self.containers.push(container(name, asks));
        self
    }

    /// One more init container.
    #[must_use]
    pub fn init(mut self, name: &str, asks: Asks<'_>) -> Self {
        self.init.push(container(name, asks));
        self
    }

    /// One more sidecar: an init container that stays.
    #[must_use]
    pub fn sidecar(mut self, name: &str, asks: Asks<'_>) -> Self {
        let mut sidecar = container(name, asks);
        if let Some(fields) = sidecar.as_object_mut() {
            fields.insert("restartPolicy".into(), "Always".into());
        }
        self.init.push(sidecar);
        self
    }

    /// One more app container, with quantities as they stand.
    #[must_use]
    pub fn container_text(mut self, name: &str, limits: &[(&str, &str)]) -> Self {
        self.containers.push(container_of(
            name,
            limits.iter().map(|(n, q)| (*n, (*q).to_owned())),
        ));
        self
    }

    /// Left to that scheduler.
    #[must_use]
    pub fn scheduler(mut self, name: &str) -> Self {
        self.scheduler = name.into();
        self
    }

    /// Left to the cluster's own scheduler.
    #[must_use]
    pub fn default_scheduler(self) -> Self {
        self.scheduler("default-scheduler")
    }

    /// Bound from the start, past every scheduler.
    #[must_use]
    pub fn on_node(mut self, node: &str) -> Self {
        self.node = Some(node.into());
        self
    }

    /// Ends by itself after so many seconds.
    #[must_use]
    pub fn runs_for(mut self, seconds: u32) -> Self {
        self.seconds = Some(seconds);
        self
    }

    /// With an annotation.
    #[must_use]
    pub fn annotation(mut self, key: &str, value: &str) -> Self {
        self.annotations.insert(key.into(), value.into());
        self
    }

    /// The object to create.
    pub fn pod(&self) -> anyhow::Result<Pod> {
        let mut annotations = self.annotations.clone();
        if let Some(seconds) = self.seconds {
            // The stand-in kubelet runs no images; it reads this.
            annotations.insert("testbed/run-seconds".into(), seconds.to_string().into());
        }
        let last = |of: &[Value], seconds: Option<u32>| -> Vec<Value> {
            of.iter().map(|c| with_command(c, seconds)).collect()
        };
        let mut spec = json!({
            "schedulerName": self.scheduler,
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 5,
            "containers": last(&self.containers, Some(self.seconds.unwrap_or(FOR_EVER))),
            "initContainers": last(&self.init, None),
        });
        if let (Some(node), Some(fields)) = (&self.node, spec.as_object_mut()) {
            fields.insert("nodeName".into(), node.as_str().into());
        }
        Ok(serde_json::from_value(json!({
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": self.name, "annotations": annotations},
            "spec": spec,
        }))?)
    }
}

fn container(name: &str, asks: Asks<'_>) -> Value {
    container_of(name, asks.iter().map(|(name, n)| (*name, n.to_string())))
}

fn container_of<'a>(name: &str, limits: impl Iterator<Item = (&'a str, String)>) -> Value {
    let limits: Map<String, Value> = limits
        .map(|(name, n)| (name.to_owned(), n.into()))
        .collect();
    json!({"name": name, "image": IMAGE, "resources": {"limits": limits}})
}

/// Sleeps for so long, and ends at once when it is told to; an init container that is no sidecar
/// ends by itself.
fn with_command(container: &Value, seconds: Option<u32>) -> Value {
    let mut container = container.clone();
    let stays = container.get("restartPolicy").is_some();
    let command = match (seconds, stays) {
        (None, false) => json!(["/busybox", "true"]),
        (seconds, _) => {
            let seconds = seconds.unwrap_or(FOR_EVER);
            let script = format!("trap 'exit 0' TERM; /busybox sleep {seconds} & wait $!");
            json!(["/busybox", "sh", "-c", script])
        }
    };
    if let Some(fields) = container.as_object_mut() {
        fields.insert("command".into(), command);
    }
    container
}

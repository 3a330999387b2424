//! A pod as kubelet has it: the API server's object and how far it has come here.

use model::quantity::parse_count;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

/// How far a pod has come on this node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    /// In admission: the one pod whose devices may be incomplete.
    Admitting,
    /// Its containers start, run or end.
    Admitted,
    /// Refused: it has left PodResources, and stays in the pod list.
    Rejected,
    /// All its containers have ended.
    Ended,
}

/// One pod bound to this node.
#[derive(Debug, Clone)]
pub(super) struct Local {
    /// As last seen at the API server.
    pub(super) object: Value,
    /// How far it has come.
    pub(super) stage: Stage,
    /// Cancelled when the pod is to end.
    pub(super) end: CancellationToken,
}

/// Which of a pod's containers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Runs to its end before the next one.
    Init,
    /// An init container that stays.
    Sidecar,
    /// An app container.
    App,
}

/// One container of a pod.
#[derive(Debug, Clone)]
pub(super) struct Container {
    /// Its name.
    pub(super) name: String,
    /// Which.
    pub(super) kind: Kind,
    /// Its image.
    pub(super) image: String,
    /// Its arguments.
    pub(super) args: Vec<String>,
    /// Its environment, where given as plain values.
    pub(super) env: Vec<(String, String)>,
    /// Extended resources and how many.
    pub(super) wants: Vec<(String, usize)>,
}

impl Local {
    /// A pod that has just arrived.
    pub(super) fn new(object: Value) -> Self {
        Self {
            object,
            stage: Stage::Admitting,
            end: CancellationToken::new(),
        }
    }

    /// Its uid.
    pub(super) fn uid(&self) -> &str {
        text(&self.object, "/metadata/uid")
    }

    /// Its name.
    pub(super) fn name(&self) -> &str {
        text(&self.object, "/metadata/name")
    }

    /// Its namespace.
    pub(super) fn namespace(&self) -> &str {
        text(&self.object, "/metadata/namespace")
    }

    /// Its phase at the API server.
    pub(super) fn phase(&self) -> &str {
        text(&self.object, "/status/phase")
    }

    /// Whether it is being deleted.
    pub(super) fn is_deleted(&self) -> bool {
        self.object
            .pointer("/metadata/deletionTimestamp")
            .is_some_and(|t| !t.is_null())
    }

    /// Seconds from an annotation.
    pub(super) fn seconds(&self, annotation: &str) -> Option<u64> {
        self.object
            .pointer("/metadata/annotations")?
            .get(annotation)?
            .as_str()?
            .parse()
            .ok()
    }

    /// All containers in the order of admission.
    pub(super) fn containers(&self) -> Vec<Container> {
        let list = |field: &str| {
            self.object
                .pointer(field)
                .and_then(Value::as_array)
                .into_iter()
                .flatten()
        };
        let init = list("/spec/initContainers").map(|c| {
            let kind = if text(c, "/restartPolicy") == "Always" {
                Kind::Sidecar
            } else {
                Kind::Init
            };
            container(c, kind)
        });
        init.chain(list("/spec/containers").map(|c| container(c, Kind::App)))
            .collect()
    }
}

/// The text at that place, or an empty one.
pub(super) fn text<'v>(value: &'v Value, pointer: &str) -> &'v str {
    value
        .pointer(pointer)
        .and_then(Value::as_str)
        .unwrap_or_default()
}

fn container(value: &Value, kind: Kind) -> Container {
    let strings = |field: &str| {
        value
            .get(field)
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
    };
    let limits = value
        .pointer("/resources/limits")
        .and_then(Value::as_object)
        .into_iter()
        .flatten();
    let wants = limits
        .filter(|(name, _)| name.contains('/'))
        .filter_map(|(name, quantity)| {
            let quantity = quantity
                .as_str()
                .map_or_else(|| quantity.to_string(), str::to_owned);
            let count = usize::try_from(parse_count(&quantity).ok()?).ok()?;
            (count > 0).then(|| (name.clone(), count))
        });
    Container {
        name: text(value, "/name").to_owned(),
        kind,
        image: text(value, "/image").to_owned(),
        args: strings("args")
            .filter_map(Value::as_str)
            .map(str::to_owned)
            .collect(),
        env: strings("env")
            .filter_map(|e| {
                Some((
                    e.get("name")?.as_str()?.to_owned(),
                    e.get("value")?.as_str()?.to_owned(),
                ))
            })
            .collect(),
        wants: wants.collect(),
    }
}

//! Between Kubernetes objects and what the controller decides on.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::{
    api::{
        batch::v1::{Job, JobCondition},
        core::v1::Event,
    },
    jiff::Timestamp,
};
use kubernetes::object::{Node, Pod, Quantity};
use model::{
    name::{NodeName, ResourceName},
    settings::Settings,
};
use serde_json::json;

use crate::{
    action::{Action, Record, Status, short},
    book::{JobSeen, NodeSeen},
    decide::{JobState, Last, NodeState},
    job_name::hash,
    leftovers::{Left, Owned, Shown},
};

/// Who this program is in `app.kubernetes.io/managed-by` and as field manager.
pub const MANAGER: &str = "lj-runtimekit-controller";
/// The label that all Jobs of the controller have.
pub const MANAGED_BY: &str = "app.kubernetes.io/managed-by";

// On a Job: a node's name may be longer than a label value, so all of it is in annotations.
const NODE: &str = "lj-runtimekit-controller/node";
const NODE_UID: &str = "lj-runtimekit-controller/node-uid";
const ACTION: &str = "lj-runtimekit-controller/action";

/// Seconds that one run of the agent may wait for the Runtime.
const AGENT_SECONDS: u32 = 300;
/// Runs after the first.
const RETRIES: u32 = 2;
/// All runs, with time to pull the image.
const JOB_SECONDS: u32 = (RETRIES + 1) * AGENT_SECONDS + 300;

/// Reads nodes by the names that the configuration gives.
#[derive(Debug, Clone)]
pub struct Reader {
    label_key: String,
    label_value: String,
    /// The annotation of the last action.
    pub record_key: String,
    /// The annotation of the cards.
    pub inventory_key: String,
    /// The annotation of the names that the device plugin gave the node.
    pub owned_key: String,
}

impl Reader {
    /// By these settings.
    pub fn new(settings: &Settings) -> Self {
        Self {
            label_key: settings.node_label.key.clone(),
            label_value: settings.node_label.value.clone(),
            record_key: settings.annotations.last_action_status.clone(),
            inventory_key: settings.annotations.inventory.clone(),
            owned_key: settings.annotations.owned_resources.clone(),
        }
    }

    /// Reads a node.
    pub fn node(&self, object: &Node) -> Result<NodeSeen, String> {
        let metadata = &object.metadata;
        let name = NodeName::new(metadata.name.as_deref().unwrap_or_default())
            .map_err(|error| error.to_string())?;
        let annotations = metadata.annotations.as_ref();
        let record = annotations.and_then(|map| map.get(&self.record_key));
        let labels = metadata.labels.as_ref();
        let label = labels.and_then(|map| map.get(&self.label_key));
        let labelled = label == Some(&self.label_value);
        Ok(NodeSeen {
            state: NodeState {
                name,
                uid: metadata.uid.clone().ok_or("no uid")?,
                labelled,
                deleting: metadata.deletion_timestamp.is_some(),
                last: match record.map(|text| Record::read(text)) {
                    None => Last::Nothing,
                    Some(Ok(record)) => Last::Recorded(record),
                    Some(Err(error)) => Last::Unreadable(error.to_string()),
                },
                left: if labelled {
                    Left::default()
                } else {
                    self.left(object)
                },
            },
            version: metadata.resource_version.clone().unwrap_or_default(),
        })
    }

    fn left(&self, object: &Node) -> Left {
        let annotations = object.metadata.annotations.as_ref();
        let annotation = |key: &str| annotations.and_then(|map| map.get(key));
        let quantity = |of: &BTreeMap<String, Quantity>, name: &ResourceName| {
            of.get(name.as_str()).map(|quantity| quantity.0.clone())
        };
        let shown = |name: ResourceName| {
            let capacity = quantity(&object.status.capacity, &name);
            let allocatable = quantity(&object.status.allocatable, &name);
            (capacity.is_some() || allocatable.is_some()).then_some(Shown {
                name,
                capacity,
                allocatable,
            })
        };
        let owned = annotation(&self.owned_key)
            .map(|text| serde_json::from_str::<BTreeSet<ResourceName>>(text));
        Left {
            inventory: annotation(&self.inventory_key).is_some(),
            owned: match owned {
                None => Owned::Nothing,
                Some(Ok(names)) => Owned::Names(names.into_iter().filter_map(shown).collect()),
                Some(Err(error)) => Owned::Unreadable(short(&error.to_string())),
            },
        }
    }
}

/// Reads a Job of the controller.
pub fn job(object: &Job) -> Result<JobSeen, String> {
    let metadata = &object.metadata;
    let annotation = |key: &str| {
        let value = metadata.annotations.as_ref().and_then(|map| map.get(key));
        value.cloned().ok_or(format!("no annotation {key}"))
    };
    let action = annotation(ACTION)?;
    let (status, time, message) = outcome(object);
    Ok(JobSeen {
        node: NodeName::new(&annotation(NODE)?).map_err(|error| error.to_string())?,
        state: JobState {
            name: metadata.name.clone().ok_or("no name")?,
            uid: metadata.uid.clone().ok_or("no uid")?,
            node_uid: annotation(NODE_UID)?,
            action: Action::from_word(&action)
                .ok_or(format!("annotation {ACTION}: {action:?} is no action"))?,
            status,
            time,
            message,
            deleting: metadata.deletion_timestamp.is_some(),
        },
        version: metadata.resource_version.clone().unwrap_or_default(),
    })
}

fn outcome(job: &Job) -> (Status, String, String) {
    let conditions = job.status.as_ref().and_then(|s| s.conditions.as_deref());
    let is_true = |kind: &str| {
        let holds = |c: &&JobCondition| c.type_ == kind && c.status == "True";
        conditions.and_then(|all| all.iter().find(holds))
    };
    let (status, condition) = match (is_true("Complete"), is_true("Failed")) {
        (Some(condition), _) => (Status::Succeeded, condition),
        (None, Some(condition)) => (Status::Failed, condition),
        (None, None) => return (Status::Running, String::new(), String::new()),
    };
    let changed = condition.last_transition_time.as_ref();
    let created = job.metadata.creation_timestamp.as_ref();
    let time = changed.or(created).map(|time| seconds(time.0));
    let parts = [&condition.reason, &condition.message];
    let message = parts.map(|part| part.clone().unwrap_or_default());
    let message = match status {
        Status::Failed => short(&message.join(": ")),
        Status::Succeeded | Status::Running => String::new(),
    };
    (status, time.unwrap_or_default(), message)
}

/// RFC 3339 in whole seconds, as Kubernetes writes it.
fn seconds(time: Timestamp) -> String {
    Timestamp::from_second(time.as_second())
        .unwrap_or(time)
        .to_string()
}

/// The present moment as it stands in records.
pub fn now() -> String {
    seconds(Timestamp::now())
}

/// What all Jobs have in common.
#[derive(Debug, Clone)]
pub struct JobTemplate {
    /// The job agent's image.
    pub image: String,
    /// Folder of the Runtime's sockets on the node.
    pub runtime_dir: String,
}

/// A Job for this node. It runs as root, without capabilities: the Runtime's sockets are root's.
pub fn new_job(
    template: &JobTemplate,
    name: &str,
    node: &NodeState,
    action: Action,
) -> Result<Job, serde_json::Error> {
    let labels = json!({
        "app": "lj-runtimekit-controller-job-agent",
        MANAGED_BY: MANAGER,
        "lj-runtimekit-controller/action": action.word(),
    });
    let annotations = json!({
        NODE: node.name.as_str(),
        NODE_UID: node.uid,
        ACTION: action.word(),
    });
    serde_json::from_value(json!({
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": { "name": name, "labels": labels, "annotations": annotations },
        "spec": {
            "backoffLimit": RETRIES,
            "activeDeadlineSeconds": JOB_SECONDS,
            "template": {
                "metadata": { "labels": labels, "annotations": annotations },
                "spec": {
                    "nodeName": node.name.as_str(),
                    "restartPolicy": "Never",
                    "tolerations": [{ "operator": "Exists" }],
                    "priorityClassName": "system-node-critical",
                    "automountServiceAccountToken": false,
                    "enableServiceLinks": false,
                    "terminationGracePeriodSeconds": 5,
                    "containers": [{
                        "name": "agent",
                        "image": template.image,
                        "args": [
                            action.word(),
                            "--runtime-dir", template.runtime_dir,
                            "--timeout", AGENT_SECONDS.to_string(),
                        ],
                        "terminationMessagePolicy": "FallbackToLogsOnError",
                        "securityContext": {
                            "runAsUser": 0,
                            "allowPrivilegeEscalation": false,
                            "readOnlyRootFilesystem": true,
                            "capabilities": { "drop": ["ALL"] },
                        },
                        "volumeMounts": [{ "name": "runtime", "mountPath": template.runtime_dir }],
                    }],
                    "volumes": [{
                        "name": "runtime",
                        "hostPath": { "path": template.runtime_dir, "type": "DirectoryOrCreate" },
                    }],
                },
            },
        },
    }))
}

/// The event that tells a Job's outcome, in the namespace where those of nodes are. Its name is
/// the same each time, so that it is told once.
pub fn event(
    node: &NodeState,
    job: &JobState,
    namespace: &str,
    message: &str,
) -> Result<Event, serde_json::Error> {
    let (kind, reason) = match job.status {
        Status::Failed => ("Warning", "ActionFailed"),
        Status::Succeeded | Status::Running => ("Normal", "ActionSucceeded"),
    };
    let start: String = node.name.as_str().chars().take(200).collect();
    let start = start.trim_end_matches(['-', '.']);
    let time = if job.time.is_empty() {
        now()
    } else {
        job.time.clone()
    };
    serde_json::from_value(json!({
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": { "name": format!("{start}.{}", hash(&job.uid)), "namespace": EVENTS },
        "involvedObject": {
            "apiVersion": "v1", "kind": "Node", "name": node.name.as_str(), "uid": node.uid,
        },
        "related": {
            "apiVersion": "batch/v1", "kind": "Job",
            "namespace": namespace, "name": job.name, "uid": job.uid,
        },
        "type": kind,
        "reason": reason,
        "action": job.action.word(),
        "message": message,
        "count": 1,
        "firstTimestamp": time,
        "lastTimestamp": time,
        "source": { "component": MANAGER },
        "reportingComponent": MANAGER,
        "reportingInstance": MANAGER,
    }))
}

/// Where Kubernetes keeps the events of nodes.
pub const EVENTS: &str = "default";

/// What the agent of a failed Job said last, where one of its pods still tells.
pub fn agents_words(pods: &[Pod]) -> Option<String> {
    let last = pods
        .iter()
        .max_by_key(|pod| pod.metadata.creation_timestamp.clone())?;
    let ended = last
        .status
        .container_statuses
        .iter()
        .find_map(|status| status.state.get("terminated"))?;
    let message = ended.get("message")?.as_str()?;
    let line = message.lines().rfind(|line| !line.trim().is_empty())?;
    Some(short(line))
}

#[cfg(test)]
#[path = "convert_tests.rs"]
mod tests;

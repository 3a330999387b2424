//! Carrying out what a Job needs.

use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};

use super::{
    decide::{self, Decision, TRACKING},
    uid,
};
use crate::api_server::{
    clock, field,
    refusal::Refusal,
    removal,
    resource::{self, Resource},
    selector,
    store::{Key, Store},
    write::{self, Context, Part},
};

/// How soon a refused creation is tried again.
const AFTER_REFUSAL: i64 = 5;

/// The name of the Job that controls a pod.
pub(super) fn owner(pod: &Value) -> Option<&str> {
    let owners = field::list(pod, "/metadata/ownerReferences");
    let job = owners
        .iter()
        .find(|o| field::text(o, "/kind") == "Job" && o.get("controller") == Some(&json!(true)))?;
    job.get("name").and_then(Value::as_str)
}

/// Looks at a Job and does what it needs; when to look again.
pub(super) fn look(store: &mut Store, key: &Key, now: Timestamp) -> Option<Timestamp> {
    let job = store.get(key)?.clone();
    let owned: Vec<_> = store
        .range("pods", Some(&key.namespace), None)
        .map(|(_, pod)| pod)
        .filter(|pod| {
            let owners = field::list(pod, "/metadata/ownerReferences");
            owners.iter().any(|o| field::text(o, "/uid") == uid(&job))
        })
        .cloned()
        .collect();
    let pods: Vec<&Value> = owned.iter().map(AsRef::as_ref).collect();
    let mut decision = decide::decide(&job, &pods, now);
    if let Err(refusal) = carry_out(store, key, &job, &mut decision, now) {
        tracing::warn!(job = %selector::display(&job), error = %refusal, "a Job's step is refused");
        event(
            store,
            &job,
            (
                "Warning",
                "FailedCreate",
                &format!("Error creating: {refusal}"),
            ),
            now,
        );
        return Some(clock::later(now, AFTER_REFUSAL));
    }
    decision.again
}

fn carry_out(
    store: &mut Store,
    key: &Key,
    job: &Value,
    decision: &mut Decision,
    now: Timestamp,
) -> Result<(), Refusal> {
    let (Some(pods), Some(jobs)) = (context("pods", now), context("jobs", now)) else {
        return Ok(());
    };
    for _ in 0..decision.create {
        let pod = write::create(store, &pods, &key.namespace, pod(job))?;
        let name = field::text(&pod, "/metadata/name");
        event(
            store,
            job,
            (
                "Normal",
                "SuccessfulCreate",
                &format!("Created pod: {name}"),
            ),
            now,
        );
    }
    for name in &decision.delete {
        let pod = Key::new("pods", &key.namespace, name);
        drop(removal::delete(
            store,
            &pods,
            &pod,
            &removal::Options::default(),
        )?);
        event(
            store,
            job,
            (
                "Normal",
                "SuccessfulDelete",
                &format!("Deleted pod: {name}"),
            ),
            now,
        );
    }
    for name in &decision.release {
        release(
            store,
            &Key::new("pods", &key.namespace, name),
            TRACKING,
            now,
        )?;
    }
    if job.get("status") != Some(&decision.status) {
        let mut new = job.clone();
        field::as_map(&mut new).insert("status".into(), decision.status.clone());
        write::update(store, &jobs, key, Part::Status, new)?;
        tell_end(store, job, &decision.status, now);
    }
    if decision.remove {
        let options = removal::Options {
            propagation: Some("Background".into()),
            ..removal::Options::default()
        };
        drop(removal::delete(store, &jobs, key, &options)?);
    }
    Ok(())
}

/// The context of the controllers' own writes.
pub(super) fn context(storage: &str, now: Timestamp) -> Option<Context> {
    let resource: &'static Resource = resource::of_storage(storage)?;
    Some(Context {
        resource,
        now,
        dry_run: false,
    })
}

/// Takes a finalizer off; an object in deletion goes with its last one.
pub(super) fn release(
    store: &mut Store,
    key: &Key,
    finalizer: &str,
    now: Timestamp,
) -> Result<(), Refusal> {
    let (Some(object), Some(context)) = (store.get(key), context(key.storage, now)) else {
        return Ok(());
    };
    let mut new = (**object).clone();
    let mut list = field::list(&new, "/metadata/finalizers").to_vec();
    list.retain(|f| f != finalizer);
    let metadata = field::map(&mut new, "metadata");
    if list.is_empty() {
        metadata.remove("finalizers");
    } else {
        metadata.insert("finalizers".into(), list.into());
    }
    write::update(store, &context, key, Part::Main, new).map(drop)
}

fn pod(job: &Value) -> Value {
    let name = field::text(job, "/metadata/name");
    let template = job.pointer("/spec/template").cloned().unwrap_or_default();
    json!({
        "metadata": {
            "generateName": format!("{name}-"),
            "labels": template.pointer("/metadata/labels"),
            "annotations": template.pointer("/metadata/annotations"),
            "finalizers": [TRACKING],
            "ownerReferences": [{
                "apiVersion": "batch/v1", "kind": "Job", "name": name, "uid": uid(job),
                "controller": true, "blockOwnerDeletion": true,
            }],
        },
        "spec": template.get("spec"),
    })
}

fn tell_end(store: &mut Store, job: &Value, status: &Value, now: Timestamp) {
    let had = |kind: &str| {
        let conditions = field::list(job, "/status/conditions");
        conditions.iter().any(|c| field::text(c, "/type") == kind)
    };
    for condition in field::list(status, "/conditions") {
        let kind = field::text(condition, "/type");
        match kind {
            "Complete" if !had(kind) => {
                event(store, job, ("Normal", "Completed", "Job completed"), now);
            }
            "Failed" if !had(kind) => {
                let (reason, message) = (
                    field::text(condition, "/reason"),
                    field::text(condition, "/message"),
                );
                event(store, job, ("Warning", reason, message), now);
            }
            _ => {}
        }
    }
}

/// Tells an event about a Job: type, reason, message. A refused one is no matter.
fn event(
    store: &mut Store,
    job: &Value,
    (kind, reason, message): (&str, &str, &str),
    now: Timestamp,
) {
    let Some(context) = context("events", now) else {
        return;
    };
    let namespace = field::text(job, "/metadata/namespace");
    let name = field::text(job, "/metadata/name");
    let at = clock::seconds(now);
    let event = json!({
        "metadata": {"name": format!("{name}.{}", clock::uid())},
        "involvedObject": {"apiVersion": "batch/v1", "kind": "Job", "namespace": namespace,
            "name": name, "uid": uid(job)},
        "type": kind, "reason": reason, "message": message, "count": 1,
        "source": {"component": "job-controller"}, "reportingComponent": "job-controller",
        "firstTimestamp": at, "lastTimestamp": at,
    });
    drop(write::create(store, &context, namespace, event));
}

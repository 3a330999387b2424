//! What a Job needs now: pure.

use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};

use crate::api_server::{clock, field};

/// Kept on a Job's pods until they are counted.
pub(super) const TRACKING: &str = "batch.kubernetes.io/job-tracking";

/// What to do about a Job.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Decision {
    /// The whole new status.
    pub(super) status: Value,
    /// How many pods to create.
    pub(super) create: usize,
    /// Names of pods to delete.
    pub(super) delete: Vec<String>,
    /// Names of pods that are counted now and need not be kept for it.
    pub(super) release: Vec<String>,
    /// Whether the Job's time after its end is over.
    pub(super) remove: bool,
    /// When to look again without a change.
    pub(super) again: Option<Timestamp>,
}

/// How a Job ends or is about to.
struct End {
    /// `Complete` or `Failed`.
    condition: &'static str,
    /// Set as soon as it is known, while pods still run.
    target: &'static str,
    reason: &'static str,
    message: &'static str,
}

const COMPLETE: End = End {
    condition: "Complete",
    target: "SuccessCriteriaMet",
    reason: "CompletionsReached",
    message: "Reached expected number of succeeded pods",
};
const BACKOFF: End = End {
    condition: "Failed",
    target: "FailureTarget",
    reason: "BackoffLimitExceeded",
    message: "Job has reached the specified backoff limit",
};
const DEADLINE: End = End {
    condition: "Failed",
    target: "FailureTarget",
    reason: "DeadlineExceeded",
    message: "Job was active longer than specified deadline",
};

/// Decides from the Job, the pods that it owns, and the time.
pub(super) fn decide(job: &Value, pods: &[&Value], now: Timestamp) -> Decision {
    let mut decision = Decision {
        status: job.get("status").cloned().unwrap_or_else(|| json!({})),
        create: 0,
        delete: Vec::new(),
        release: Vec::new(),
        remove: false,
        again: None,
    };
    let count =
        |status: &Value, name: &str| field::number(status, &format!("/{name}")).unwrap_or(0);
    let mut succeeded = count(&decision.status, "succeeded");
    let mut failed = count(&decision.status, "failed");
    let (mut active, mut terminating, mut ready) = (Vec::new(), 0, 0);
    for pod in pods {
        let phase = field::text(pod, "/status/phase");
        let going = pod.pointer("/metadata/deletionTimestamp").is_some();
        let tracked = field::list(pod, "/metadata/finalizers")
            .iter()
            .any(|f| f == TRACKING);
        let ended = matches!(phase, "Succeeded" | "Failed");
        if tracked && (ended || going) {
            if phase == "Succeeded" {
                succeeded += 1;
            } else {
                // One that is deleted while it runs counts as failed.
                failed += 1;
            }
            decision.release.push(name(pod));
        }
        if !ended && going {
            terminating += 1;
        } else if !ended {
            active.push(*pod);
            ready += i64::from(is_ready(pod));
        }
    }
    let deleted = job.pointer("/metadata/deletionTimestamp").is_some();
    let finished = finished_at(&decision.status);
    if finished.is_none() && !deleted {
        let started = start(&mut decision.status, now);
        let end = ending(
            job,
            &decision.status,
            (succeeded, failed),
            &active,
            now,
            started,
        );
        if let Some(end) = end {
            condition(&mut decision.status, end.target, &end, now);
            decision.delete = active.iter().map(|p| name(p)).collect();
            if active.is_empty() && terminating == 0 {
                condition(&mut decision.status, end.condition, &end, now);
                if end.condition == "Complete" {
                    let at = clock::seconds(now);
                    field::as_map(&mut decision.status).insert("completionTime".into(), at.into());
                }
            }
        } else {
            let missing = missing(job, succeeded, active.len());
            match next_try(failed, pods).filter(|at| *at > now && missing > 0) {
                Some(at) => decision.again = Some(at),
                None => decision.create = missing,
            }
            let ends = deadline(job, started);
            decision.again = [decision.again, ends].into_iter().flatten().min();
        }
    }
    let created = i64::try_from(decision.create).unwrap_or(0);
    let running = i64::try_from(active.len() - decision.delete.len()).unwrap_or(0);
    let status = field::as_map(&mut decision.status);
    for (name, value) in [
        ("active", running + created),
        ("succeeded", succeeded),
        ("failed", failed),
        ("ready", ready),
        ("terminating", terminating),
    ] {
        if value == 0 && !matches!(name, "ready" | "terminating") {
            status.remove(name);
        } else {
            status.insert(name.into(), value.into());
        }
    }
    after_end(job, &mut decision, now);
    decision
}

fn name(pod: &Value) -> String {
    field::text(pod, "/metadata/name").to_owned()
}

fn is_ready(pod: &Value) -> bool {
    field::list(pod, "/status/conditions")
        .iter()
        .any(|c| field::text(c, "/type") == "Ready" && field::text(c, "/status") == "True")
}

fn start(status: &mut Value, now: Timestamp) -> Timestamp {
    let fields = field::as_map(status);
    field::default(fields, "startTime", clock::seconds(now));
    clock::parse(field::text(status, "/startTime")).unwrap_or(now)
}

/// When the Job got its last condition.
fn finished_at(status: &Value) -> Option<Timestamp> {
    field::list(status, "/conditions")
        .iter()
        .filter(|c| matches!(field::text(c, "/type"), "Complete" | "Failed"))
        .find(|c| field::text(c, "/status") == "True")
        .and_then(|c| clock::parse(field::text(c, "/lastTransitionTime")))
}

fn ending(
    job: &Value,
    status: &Value,
    (succeeded, failed): (i64, i64),
    active: &[&Value],
    now: Timestamp,
    started: Timestamp,
) -> Option<End> {
    // Once decided, it stays.
    for condition in field::list(status, "/conditions") {
        match (
            field::text(condition, "/type"),
            field::text(condition, "/reason"),
        ) {
            ("SuccessCriteriaMet", _) => return Some(COMPLETE),
            ("FailureTarget", "DeadlineExceeded") => return Some(DEADLINE),
            ("FailureTarget", _) => return Some(BACKOFF),
            _ => {}
        }
    }
    let limit = field::number(job, "/spec/backoffLimit").unwrap_or(6);
    let restarts: i64 = active
        .iter()
        .flat_map(|pod| field::list(pod, "/status/containerStatuses"))
        .filter_map(|s| field::number(s, "/restartCount"))
        .sum();
    let in_place = field::text(job, "/spec/template/spec/restartPolicy") == "OnFailure";
    if failed > limit || in_place && restarts > 0 && restarts >= limit {
        return Some(BACKOFF);
    }
    if deadline(job, started).is_some_and(|at| at <= now) {
        return Some(DEADLINE);
    }
    let complete = match field::number(job, "/spec/completions") {
        Some(wanted) => succeeded >= wanted,
        None => succeeded > 0 && active.is_empty(),
    };
    complete.then_some(COMPLETE)
}

fn deadline(job: &Value, started: Timestamp) -> Option<Timestamp> {
    let seconds = field::number(job, "/spec/activeDeadlineSeconds")?;
    Some(clock::later(started, seconds))
}

fn missing(job: &Value, succeeded: i64, active: usize) -> usize {
    let parallelism = field::number(job, "/spec/parallelism").unwrap_or(1);
    let wanted = match field::number(job, "/spec/completions") {
        Some(completions) => parallelism.min(completions - succeeded),
        // A work queue: no new pods once one has succeeded.
        None if succeeded > 0 => 0,
        None => parallelism,
    };
    usize::try_from(wanted).unwrap_or(0).saturating_sub(active)
}

/// When the pod after a failed one may start.
fn next_try(failed: i64, pods: &[&Value]) -> Option<Timestamp> {
    let last = pods
        .iter()
        .filter(|p| field::text(p, "/status/phase") == "Failed")
        .filter_map(|p| ended_at(p))
        .max()?;
    let doublings = u32::try_from(failed.saturating_sub(1)).unwrap_or(0);
    let wait = 1_i64.checked_shl(doublings.min(6)).unwrap_or(60).min(60);
    Some(clock::later(last, wait))
}

fn ended_at(pod: &Value) -> Option<Timestamp> {
    let ends = field::list(pod, "/status/containerStatuses")
        .iter()
        .filter_map(|s| clock::parse(field::text(s, "/state/terminated/finishedAt")));
    ends.max()
        .or_else(|| clock::parse(field::text(pod, "/metadata/creationTimestamp")))
}

fn condition(status: &mut Value, kind: &str, end: &End, now: Timestamp) {
    let conditions = field::as_map(status)
        .entry("conditions")
        .or_insert_with(|| json!([]));
    let Some(conditions) = conditions.as_array_mut() else {
        return;
    };
    if conditions.iter().any(|c| field::text(c, "/type") == kind) {
        return;
    }
    let at = clock::seconds(now);
    conditions.push(json!({"type": kind, "status": "True", "reason": end.reason,
        "message": end.message, "lastProbeTime": at, "lastTransitionTime": at}));
}

fn after_end(job: &Value, decision: &mut Decision, now: Timestamp) {
    let keep = field::number(job, "/spec/ttlSecondsAfterFinished");
    let (Some(at), Some(keep)) = (finished_at(&decision.status), keep) else {
        return;
    };
    let goes = clock::later(at, keep);
    if goes <= now {
        decision.remove = true;
    } else {
        decision.again = Some(goes);
    }
}

#[cfg(test)]
#[path = "decide_tests.rs"]
mod tests;

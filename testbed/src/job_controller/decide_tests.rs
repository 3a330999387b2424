use super::*;

fn now() -> Timestamp {
    "2026-12-01T05:00:00Z".parse().unwrap()
}

fn job(spec: &Value) -> Value {
    let mut job = json!({"metadata": {"name": "j", "uid": "u"},
        "spec": {"completions": 1, "parallelism": 1, "backoffLimit": 1}});
    for (name, value) in spec.as_object().unwrap() {
        job["spec"][name] = value.clone();
    }
    job
}

fn pod(name: &str, phase: &str) -> Value {
    json!({"metadata": {"name": name, "finalizers": [TRACKING]}, "status": {"phase": phase,
        "containerStatuses": [{"state": {"terminated": {"finishedAt": "2026-12-01T04:59:00Z"}}}]}})
}

fn look(job: &Value, pods: &[Value]) -> Decision {
    decide(job, &pods.iter().collect::<Vec<_>>(), now())
}

/// The job with the status that was decided.
fn after(job: &Value, decision: &Decision) -> Value {
    let mut job = job.clone();
    job["status"] = decision.status.clone();
    job
}

fn conditions(decision: &Decision) -> Vec<&str> {
    let conditions = field::list(&decision.status, "/conditions");
    conditions.iter().map(|c| field::text(c, "/type")).collect()
}

#[test]
fn as_many_pods_run_as_may_and_are_needed() {
    let wide = job(&json!({"completions": 5, "parallelism": 3}));
    let first = look(&wide, &[]);
    assert_eq!(first.create, 3);
    assert_eq!(first.status["active"], 3);
    assert_eq!(first.status["startTime"], "2026-12-01T05:00:00Z");
    let pods = [
        pod("a", "Succeeded"),
        pod("b", "Succeeded"),
        pod("c", "Running"),
    ];
    let next = look(&after(&wide, &first), &pods);
    assert_eq!(next.create, 2);
    assert_eq!(next.release, ["a", "b"]);
    assert_eq!(next.status["succeeded"], 2);
}

#[test]
fn a_pod_is_counted_once() {
    let wide = job(&json!({"completions": 2}));
    let first = look(&wide, &[pod("a", "Succeeded")]);
    assert_eq!(first.status["succeeded"], 1);
    let mut counted = pod("a", "Succeeded");
    counted["metadata"]["finalizers"] = json!([]);
    let again = look(&after(&wide, &first), &[counted]);
    assert_eq!(again.status["succeeded"], 1);
    assert!(again.release.is_empty());
    // Gone altogether: still counted.
    assert_eq!(look(&after(&wide, &first), &[]).status["succeeded"], 1);
}

#[test]
fn enough_successes_complete_the_job() {
    let done = look(&job(&json!({})), &[pod("a", "Succeeded")]);
    assert_eq!(conditions(&done), ["SuccessCriteriaMet", "Complete"]);
    assert_eq!(done.status["completionTime"], "2026-12-01T05:00:00Z");
    assert_eq!(done.create, 0);
}

#[test]
fn a_failure_is_tried_again_after_a_while_up_to_the_limit() {
    let once = look(&job(&json!({})), &[pod("a", "Failed")]);
    assert_eq!((once.create, &once.status["failed"]), (1, &json!(1)));
    let mut fresh = pod("a", "Failed");
    fresh["status"]["containerStatuses"][0]["state"]["terminated"]["finishedAt"] =
        json!("2026-12-01T05:00:00Z");
    let waits = look(&job(&json!({})), &[fresh]);
    assert_eq!(waits.create, 0);
    assert_eq!(waits.again, Some(clock::later(now(), 1)));
    let twice = look(&job(&json!({})), &[pod("a", "Failed"), pod("b", "Failed")]);
    assert_eq!(conditions(&twice), ["FailureTarget", "Failed"]);
    assert_eq!(
        twice.status["conditions"][1]["reason"],
        "BackoffLimitExceeded"
    );
}

#[test]
fn a_job_past_its_deadline_ends_its_pods_first() {
    let timed = job(&json!({"activeDeadlineSeconds": 10}));
    let started = look(&timed, &[]);
    assert_eq!(started.again, Some(clock::later(now(), 10)));
    let mut late = after(&timed, &started);
    late["status"]["startTime"] = json!("2026-12-01T04:59:50Z");
    let ending = look(&late, &[pod("a", "Running")]);
    assert_eq!(ending.delete, ["a"]);
    assert_eq!(conditions(&ending), ["FailureTarget"]);
    let mut going = pod("a", "Running");
    going["metadata"]["deletionTimestamp"] = json!("2026-12-01T05:00:30Z");
    let waiting = look(&after(&late, &ending), &[going]);
    assert_eq!(conditions(&waiting), ["FailureTarget"]);
    assert_eq!(waiting.create, 0);
    let ended = look(&after(&late, &waiting), &[]);
    assert_eq!(conditions(&ended), ["FailureTarget", "Failed"]);
    assert_eq!(ended.status["conditions"][1]["reason"], "DeadlineExceeded");
}

#[test]
fn a_pod_that_is_deleted_counts_as_failed_and_is_replaced() {
    let mut going = pod("a", "Running");
    going["metadata"]["deletionTimestamp"] = json!("2026-12-01T05:00:30Z");
    let decision = look(&job(&json!({})), &[going]);
    assert_eq!(decision.create, 1);
    assert_eq!(decision.status["failed"], 1);
}

#[test]
fn a_finished_job_goes_when_its_time_is_over() {
    let kept = job(&json!({"ttlSecondsAfterFinished": 60}));
    let done = look(&kept, &[pod("a", "Succeeded")]);
    assert_eq!(
        (done.remove, done.again),
        (false, Some(clock::later(now(), 60)))
    );
    let at_once = job(&json!({"ttlSecondsAfterFinished": 0}));
    assert!(look(&at_once, &[pod("a", "Succeeded")]).remove);
}

#[test]
fn a_job_in_deletion_makes_no_pods() {
    let mut going = job(&json!({}));
    going["metadata"]["deletionTimestamp"] = json!("2026-12-01T05:00:00Z");
    assert_eq!(look(&going, &[]).create, 0);
}

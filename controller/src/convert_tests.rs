use serde_json::Value;

use super::*;

fn reader() -> Reader {
    Reader::new(&Settings::default())
}

fn node_object(labels: Value, annotations: Value) -> Node {
    let mut object = json!({
        "metadata": { "name": "n1", "uid": "u1", "resourceVersion": "7" },
    });
    object["metadata"]["labels"] = labels;
    object["metadata"]["annotations"] = annotations;
    serde_json::from_value(object).unwrap()
}

fn job_object(conditions: Value) -> Job {
    let mut object = json!({
        "metadata": {
            "name": "lj-agent-n1-enable", "uid": "j1", "resourceVersion": "9",
            "creationTimestamp": "2026-12-01T09:00:00Z",
            "annotations": { NODE: "n1", NODE_UID: "u1", ACTION: "enable" },
        },
    });
    object["status"]["conditions"] = conditions;
    serde_json::from_value(object).unwrap()
}

fn labelled(value: &str) -> bool {
    let object = node_object(json!({ "lj_runtimekit_enable": value }), json!({}));
    reader().node(&object).unwrap().state.labelled
}

#[test]
fn the_labels_value_has_to_match() {
    assert!(labelled("true"));
    assert!(!labelled("false"));
    assert!(!labelled("True"));
    assert!(!labelled(""));
}

#[test]
fn what_is_left_is_read_of_nodes_without_the_label_only() {
    let left = |label: &str, owned: &str| {
        let mut object = node_object(
            json!({ "lj_runtimekit_enable": label }),
            json!({ "lj-runtimekit/inventory": "{}", "lj-runtimekit/owned-resources": owned }),
        );
        object.status = serde_json::from_value(json!({
            "capacity": { "cpu": "8", "x.y/ours": "8", "x.y/theirs": "4" },
            "allocatable": { "cpu": "8", "x.y/ours": 0, "x.y/theirs": "0", "x.y/half": "0" },
        }))
        .unwrap();
        reader().node(&object).unwrap().state.left
    };
    let shown = |name: &str, capacity: Option<&str>| Shown {
        name: ResourceName::new(name).unwrap(),
        capacity: capacity.map(str::to_owned),
        allocatable: Some("0".into()),
    };
    let names = r#"["x.y/ours","x.y/half","x.y/gone"]"#;
    assert_eq!(left("true", names), Left::default());
    assert_eq!(
        left("false", names),
        Left {
            inventory: true,
            owned: Owned::Names(vec![shown("x.y/half", None), shown("x.y/ours", Some("8"))]),
        }
    );
    assert_eq!(left("", "[]").owned, Owned::Names(Vec::new()));
    // One bad name spoils the list: nobody knows what was meant.
    for broken in ["", "x.y/ours", r#"{"x.y/ours":1}"#, r#"["x.y/ours","cpu"]"#] {
        assert!(
            matches!(left("", broken).owned, Owned::Unreadable(_)),
            "{broken}"
        );
    }
    let bare = reader().node(&node_object(json!({}), json!({}))).unwrap();
    assert_eq!(bare.state.left, Left::default());
}

#[test]
fn a_renamed_label_and_annotation_are_read() {
    let mut settings = Settings::default();
    settings.node_label.key = "example.com/accelerated".into();
    settings.node_label.value = "yes".into();
    settings.annotations.last_action_status = "example.com/last".into();
    let object = node_object(
        json!({ "example.com/accelerated": "yes" }),
        json!({ "example.com/last": "?" }),
    );
    let state = Reader::new(&settings).node(&object).unwrap().state;
    assert!(state.labelled);
    assert!(matches!(state.last, Last::Unreadable(_)));
    let state = reader().node(&object).unwrap().state;
    assert!(!state.labelled);
    assert_eq!(state.last, Last::Nothing);
}

#[test]
fn the_record_is_read_and_a_broken_one_is_told_apart_from_none() {
    let key = "lj-runtimekit-controller/last-action-status";
    let with = |text: &str| {
        let object = node_object(json!({}), json!({ key: text }));
        reader().node(&object).unwrap().state.last
    };
    let good = r#"{"v":1,"action":"disable","status":"Failed","time":"t","job":"j"}"#;
    assert!(matches!(
        with(good),
        Last::Recorded(Record {
            action: Action::Disable,
            status: Status::Failed,
            ..
        })
    ));
    assert!(matches!(with(""), Last::Unreadable(_)));
    assert!(matches!(with(r#"{"v":2}"#), Last::Unreadable(_)));
}

#[test]
fn a_node_without_a_uid_or_a_name_is_refused() {
    let mut object = node_object(json!({}), json!({}));
    object.metadata.uid = None;
    assert_eq!(reader().node(&object).unwrap_err(), "no uid");
    object.metadata.name = None;
    assert!(reader().node(&object).is_err());
}

#[test]
fn a_jobs_conditions_say_how_it_stands() {
    let running = job(&job_object(json!([]))).unwrap().state;
    assert_eq!(running.status, Status::Running);
    let interim = json!([{ "type": "FailureTarget", "status": "True" }]);
    let interim = job(&job_object(interim)).unwrap().state;
    assert_eq!(interim.status, Status::Running);
    let complete = json!([{
        "type": "Complete", "status": "True", "lastTransitionTime": "2026-12-01T10:00:00Z",
    }]);
    let complete = job(&job_object(complete)).unwrap().state;
    assert_eq!(complete.status, Status::Succeeded);
    assert_eq!(complete.time, "2026-12-01T10:00:00Z");
    let failed = json!([{
        "type": "Failed", "status": "True",
        "reason": "BackoffLimitExceeded", "message": "Job has reached the\nspecified backoff limit",
    }]);
    let failed = job(&job_object(failed)).unwrap().state;
    assert_eq!(failed.status, Status::Failed);
    assert_eq!(
        failed.message,
        "BackoffLimitExceeded: Job has reached the specified backoff limit"
    );
    assert_eq!(failed.time, "2026-12-01T09:00:00Z");
}

#[test]
fn a_job_without_our_annotations_is_refused() {
    for key in [NODE, NODE_UID, ACTION] {
        let mut object = job_object(json!([]));
        object.metadata.annotations.as_mut().unwrap().remove(key);
        assert_eq!(job(&object).unwrap_err(), format!("no annotation {key}"));
    }
    let mut object = job_object(json!([]));
    let annotations = object.metadata.annotations.as_mut().unwrap();
    annotations.insert(ACTION.into(), "reboot".into());
    assert!(job(&object).unwrap_err().contains("\"reboot\""));
}

#[test]
fn the_job_is_as_agreed() {
    let template = JobTemplate {
        image: "example.com/agent:v1".into(),
        runtime_dir: "/run/amp".into(),
    };
    let object = node_object(json!({}), json!({}));
    let node = reader().node(&object).unwrap().state;
    let made = new_job(&template, "lj-agent-n1-enable", &node, Action::Enable).unwrap();
    let labels = json!({
        "app": "lj-runtimekit-controller-job-agent",
        "app.kubernetes.io/managed-by": "lj-runtimekit-controller",
        "lj-runtimekit-controller/action": "enable",
    });
    let annotations = json!({
        "lj-runtimekit-controller/node": "n1",
        "lj-runtimekit-controller/node-uid": "u1",
        "lj-runtimekit-controller/action": "enable",
    });
    assert_eq!(
        serde_json::to_value(&made).unwrap(),
        json!({
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {
                "name": "lj-agent-n1-enable", "labels": labels, "annotations": annotations,
            },
            "spec": {
                "backoffLimit": 2,
                "activeDeadlineSeconds": 1200,
                "template": {
                    "metadata": { "labels": labels, "annotations": annotations },
                    "spec": {
                        "nodeName": "n1",
                        "restartPolicy": "Never",
                        "tolerations": [{ "operator": "Exists" }],
                        "priorityClassName": "system-node-critical",
                        "automountServiceAccountToken": false,
                        "enableServiceLinks": false,
                        "terminationGracePeriodSeconds": 5,
                        "containers": [{
                            "name": "agent",
                            "image": "example.com/agent:v1",
                            "args": ["enable", "--runtime-dir", "/run/amp", "--timeout", "300"],
                            "terminationMessagePolicy": "FallbackToLogsOnError",
                            "securityContext": {
                                "runAsUser": 0,
                                "allowPrivilegeEscalation": false,
                                "readOnlyRootFilesystem": true,
                                "capabilities": { "drop": ["ALL"] },
                            },
                            "volumeMounts": [{ "name": "runtime", "mountPath": "/run/amp" }],
                        }],
                        "volumes": [{
                            "name": "runtime",
                            "hostPath": { "path": "/run/amp", "type": "DirectoryOrCreate" },
                        }],
                    },
                },
            },
        })
    );
}

#[test]
fn a_job_reads_back_as_it_was_made() {
    let template = JobTemplate {
        image: "i".into(),
        runtime_dir: "/run".into(),
    };
    let object = node_object(json!({}), json!({}));
    let node = reader().node(&object).unwrap().state;
    let mut made = new_job(&template, "j", &node, Action::Disable).unwrap();
    made.metadata.uid = Some("j1".into());
    let seen = job(&made).unwrap();
    assert_eq!(seen.node, node.name);
    assert_eq!(seen.state.node_uid, node.uid);
    assert_eq!(seen.state.action, Action::Disable);
    assert_eq!(seen.state.status, Status::Running);
}

#[test]
fn an_event_is_about_the_node_and_has_the_same_name_each_time() {
    let long = format!("{}.example", vec!["rack"; 48].join("."));
    let mut node = reader()
        .node(&node_object(json!({}), json!({})))
        .unwrap()
        .state;
    node.name = NodeName::new(&long).unwrap();
    let conditions = json!([{ "type": "Failed", "status": "True" }]);
    let state = job(&job_object(conditions)).unwrap().state;
    let first = event(&node, &state, "kube-system", "why").unwrap();
    let second = event(&node, &state, "kube-system", "why").unwrap();
    assert_eq!(first.metadata.name, second.metadata.name);
    let name = first.metadata.name.unwrap();
    assert!(name.len() <= 253 && !name.contains(".."), "{name}");
    assert_eq!(first.involved_object.kind.as_deref(), Some("Node"));
    assert_eq!(first.involved_object.uid.as_deref(), Some("u1"));
    assert_eq!(first.metadata.namespace.as_deref(), Some("default"));
    assert_eq!(first.type_.as_deref(), Some("Warning"));
    assert_eq!(first.reason.as_deref(), Some("ActionFailed"));
}

#[test]
fn the_last_pods_last_line_is_what_the_agent_said() {
    let pod = |created: &str, state: Value| -> Pod {
        serde_json::from_value(json!({
            "metadata": { "name": "p", "creationTimestamp": created },
            "status": { "containerStatuses": [{ "name": "agent", "state": state }] },
        }))
        .unwrap()
    };
    let ended = |text: &str| json!({ "terminated": { "exitCode": 1, "message": text } });
    let pods = [
        pod("2026-12-01T11:00:00Z", ended("starting\nno driver\n\n")),
        pod("2026-12-01T10:00:00Z", ended("older")),
    ];
    assert_eq!(agents_words(&pods).as_deref(), Some("no driver"));
    assert_eq!(agents_words(&[]), None);
    let running = pod("2026-12-01T10:00:00Z", json!({ "running": {} }));
    assert_eq!(agents_words(&[running]), None);
}

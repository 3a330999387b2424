//! The controllers through the API, with a kubelet that only writes what it is told.

use k8s_openapi::api::{
    batch::v1::Job,
    core::v1::{ConfigMap, Namespace, Node, Pod},
};
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, ListParams, Patch, PatchParams, PropagationPolicy},
};
use serde_json::{Value, json};

use crate::api_server::{
    ApiServerArgs,
    testing::{Server, code, create, until, within},
};

fn server() -> Server {
    Server::start(&ApiServerArgs::default())
}

fn job(name: &str, spec: &Value) -> Value {
    let mut job = json!({"metadata": {"name": name}, "spec": {"template": {"spec": {
        "nodeName": "n", "restartPolicy": "Never", "containers": [{"name": "a", "image": "i:1"}]}}}});
    for (name, value) in spec.as_object().unwrap() {
        job["spec"][name] = value.clone();
    }
    job
}

/// Waits for a pod of the job in this phase and gives it the next one.
async fn move_on(pods: &Api<Pod>, job: &str, from: &str, to: &str) {
    let of_job = ListParams::default().labels(&format!("job-name={job}"));
    let of_job = of_job.fields(&format!("status.phase={from}"));
    let name = within(async {
        loop {
            let list = pods.list(&of_job).await.unwrap().items;
            if let Some(pod) = list
                .iter()
                .find(|p| p.metadata.deletion_timestamp.is_none())
            {
                break pod.name_any();
            }
            tokio::task::yield_now().await;
        }
    })
    .await;
    let status = Patch::Merge(json!({"status": {"phase": to}}));
    pods.patch_status(&name, &PatchParams::default(), &status)
        .await
        .unwrap();
}

fn has_condition(job: Option<&Job>, kind: &str, reason: &str) -> bool {
    let conditions = job.and_then(|j| j.status.as_ref()?.conditions.as_ref());
    conditions.is_some_and(|list| {
        list.iter()
            .any(|c| c.type_ == kind && c.reason.as_deref() == Some(reason))
    })
}

#[tokio::test]
async fn a_job_runs_to_its_completion() {
    let server = server();
    let (jobs, pods): (Api<Job>, Api<Pod>) = (server.api(), server.api());
    create(
        &jobs,
        job("j", &json!({"completions": 2, "parallelism": 2})),
    )
    .await
    .unwrap();
    for _ in 0..2 {
        move_on(&pods, "j", "Pending", "Running").await;
    }
    until(&jobs, "j", |j| {
        j.is_some_and(|j| j.status.as_ref().is_some_and(|s| s.active == Some(2)))
    })
    .await;
    for _ in 0..2 {
        move_on(&pods, "j", "Running", "Succeeded").await;
    }
    until(&jobs, "j", |j| {
        has_condition(j, "Complete", "CompletionsReached")
    })
    .await;
    let done = jobs.get("j").await.unwrap().status.unwrap();
    assert_eq!(
        (done.succeeded, done.active, done.failed),
        (Some(2), None, None)
    );
    let left = pods
        .list(&ListParams::default().labels("batch.kubernetes.io/job-name=j"))
        .await
        .unwrap();
    assert_eq!(left.items.len(), 2);
    for pod in left {
        assert!(pod.finalizers().is_empty());
        assert_eq!(pod.owner_references()[0].controller, Some(true));
    }
    let background = DeleteParams {
        propagation_policy: Some(PropagationPolicy::Background),
        ..DeleteParams::default()
    };
    jobs.delete("j", &background).await.unwrap();
    let gone = async {
        while !pods
            .list(&ListParams::default())
            .await
            .unwrap()
            .items
            .is_empty()
        {
            tokio::task::yield_now().await;
        }
    };
    within(gone).await;
}

#[tokio::test]
async fn a_job_that_keeps_failing_ends_with_the_reason() {
    let server = server();
    let (jobs, pods): (Api<Job>, Api<Pod>) = (server.api(), server.api());
    create(&jobs, job("j", &json!({"backoffLimit": 0})))
        .await
        .unwrap();
    move_on(&pods, "j", "Pending", "Failed").await;
    until(&jobs, "j", |j| {
        has_condition(j, "Failed", "BackoffLimitExceeded")
    })
    .await;
}

#[tokio::test]
async fn a_job_with_a_name_too_long_for_a_label_is_refused() {
    let server = server();
    let jobs: Api<Job> = server.api();
    assert_eq!(
        code(create(&jobs, job(&"a".repeat(64), &json!({}))).await),
        422
    );
    create(&jobs, job(&"a".repeat(63), &json!({})))
        .await
        .unwrap();
}

#[tokio::test]
async fn owners_wait_for_or_let_go_of_what_is_theirs() {
    let server = server();
    let maps: Api<ConfigMap> = server.api();
    for (policy, kept) in [
        (PropagationPolicy::Foreground, false),
        (PropagationPolicy::Background, false),
        (PropagationPolicy::Orphan, true),
    ] {
        let owner = create(&maps, json!({"metadata": {"name": "owner"}}))
            .await
            .unwrap();
        let mine = json!({"metadata": {"name": "mine", "ownerReferences": [{
            "apiVersion": "v1", "kind": "ConfigMap", "name": "owner",
            "uid": owner.uid().unwrap(), "blockOwnerDeletion": true}]}});
        create(&maps, mine).await.unwrap();
        let how = DeleteParams {
            propagation_policy: Some(policy.clone()),
            ..DeleteParams::default()
        };
        maps.delete("owner", &how).await.unwrap();
        until(&maps, "owner", |m| m.is_none()).await;
        if kept {
            until(&maps, "mine", |m| {
                m.is_some_and(|m| m.owner_references().is_empty())
            })
            .await;
        } else {
            until(&maps, "mine", |m| m.is_none()).await;
        }
    }
}

#[tokio::test]
async fn an_object_whose_owner_never_was_is_removed() {
    let server = server();
    let maps: Api<ConfigMap> = server.api();
    let stray = |kind: &str| {
        json!({"metadata": {"name": kind.to_lowercase(), "ownerReferences": [{
        "apiVersion": "v1", "kind": kind, "name": "x", "uid": "none"}]}})
    };
    // A kind that is not served may well be there.
    create(&maps, stray("Widget")).await.unwrap();
    create(&maps, stray("Secret")).await.unwrap();
    until(&maps, "secret", |m| m.is_none()).await;
    assert!(maps.get_opt("widget").await.unwrap().is_some());
}

#[tokio::test]
async fn the_pods_of_a_deleted_node_go_with_it() {
    let server = server();
    let (nodes, pods): (Api<Node>, Api<Pod>) = (server.cluster_api(), server.api());
    create(&nodes, json!({"metadata": {"name": "n"}}))
        .await
        .unwrap();
    let pod = |name: &str, node: &str| {
        json!({"metadata": {"name": name}, "spec": {
        "nodeName": node, "containers": [{"name": "a", "image": "i"}]}})
    };
    create(&pods, pod("p", "n")).await.unwrap();
    create(&pods, pod("other", "m")).await.unwrap();
    nodes.delete("n", &DeleteParams::default()).await.unwrap();
    until(&pods, "p", |p| p.is_none()).await;
    assert!(pods.get_opt("other").await.unwrap().is_some());
}

#[tokio::test]
async fn a_namespace_goes_when_it_is_empty() {
    let server = server();
    let namespaces: Api<Namespace> = server.cluster_api();
    create(&namespaces, json!({"metadata": {"name": "team"}}))
        .await
        .unwrap();
    let maps: Api<ConfigMap> = Api::namespaced(server.client.clone(), "team");
    create(
        &maps,
        json!({"metadata": {"name": "m", "finalizers": ["x/held"]}}),
    )
    .await
    .unwrap();
    namespaces
        .delete("team", &DeleteParams::default())
        .await
        .unwrap();
    until(&maps, "m", |m| {
        m.is_some_and(|m| m.metadata.deletion_timestamp.is_some())
    })
    .await;
    let phase = namespaces.get("team").await.unwrap().status.unwrap().phase;
    assert_eq!(phase.as_deref(), Some("Terminating"));
    let late = create(&maps, json!({"metadata": {"name": "late"}})).await;
    assert_eq!(code(late), 403);
    let release = Patch::Merge(json!({"metadata": {"finalizers": null}}));
    maps.patch("m", &PatchParams::default(), &release)
        .await
        .unwrap();
    until(&namespaces, "team", |n| n.is_none()).await;
}

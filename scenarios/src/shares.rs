//! Sharing and allocation.

use anyhow::{Context, ensure};
use model::{
    plan::{Grant, GrantMode, Plan},
    quantity::MemoryBytes,
};
use serde_json::{Value, json};
use testbed::{
    stage::{Deadline, until},
    workload::Workload,
};

use crate::ground::{
    Ground,
    names::{CORE, GPU, MEMORY, PPU},
};

const SOON: u64 = 40;

async fn run(ground: &impl Ground, pods: &[Workload]) -> anyhow::Result<()> {
    for pod in pods {
        ground.cluster().create(pod).await?;
    }
    for pod in pods {
        ground
            .cluster()
            .pod_is(pod.name(), "Running", Deadline::seconds(SOON))
            .await?;
    }
    Ok(())
}

async fn given(ground: &impl Ground, pod: &str) -> anyhow::Result<Plan> {
    ground
        .cluster()
        .allocated(pod, Deadline::seconds(SOON))
        .await
}

fn only<'p>(plan: &'p Plan, container: &str) -> anyhow::Result<&'p Grant> {
    match plan.of(container) {
        Some([grant]) => Ok(grant),
        other => anyhow::bail!("{container} was given {other:?}, not one grant"),
    }
}

fn memory(grant: &Grant) -> Option<MemoryBytes> {
    match grant.mode {
        GrantMode::Share { memory, .. } => Some(memory),
        _ => None,
    }
}

async fn planned(ground: &impl Ground, pod: &str) -> anyhow::Result<Plan> {
    let key = &ground.cluster().settings().annotations.assigned;
    let pod = ground
        .cluster()
        .pod(pod)
        .await?
        .context("the pod is gone")?;
    let text = pod
        .metadata
        .annotations
        .unwrap_or_default()
        .remove(key)
        .context("no plan on the pod")?;
    Ok(model::annotation::read_plan(&text)?)
}

async fn clear(ground: &impl Ground, pods: &[&str]) -> anyhow::Result<()> {
    for pod in pods {
        ground.cluster().delete(pod).await?;
    }
    ground.books_are_empty().await
}

/// Two pods made at the same moment, one share each, of 24576 and 600 units of 1 MiB. The ground
/// counts memory in MiB.
pub async fn case_1_two_pods_at_once(ground: &impl Ground) -> anyhow::Result<()> {
    for round in 0..4 {
        let (large, small) = (format!("large-{round}"), format!("small-{round}"));
        let pods = [
            Workload::one(&large, &[(MEMORY, 24576)]),
            Workload::one(&small, &[(MEMORY, 600)]),
        ];
        let (one, other) = tokio::join!(
            ground.cluster().create(&pods[0]),
            ground.cluster().create(&pods[1])
        );
        one?;
        other?;
        for (pod, mib) in [(&large, 24576), (&small, 600)] {
            ground
                .cluster()
                .pod_is(pod, "Running", Deadline::seconds(SOON))
                .await?;
            let plan = given(ground, pod).await?;
            let grant = only(&plan, "main")?;
            ensure!(
                memory(grant) == Some(MemoryBytes::new(mib << 20)),
                "{pod} has {grant:?}"
            );
            ensure!(
                plan == planned(ground, pod).await?,
                "{pod} is not where its plan says"
            );
        }
        ground.books().await?;
        clear(ground, &[&large, &small]).await?;
    }
    Ok(())
}

/// One pod of two containers, 1 and 2 GiB, and again 5 and 5: each gets its own, whatever order
/// kubelet calls in.
pub async fn case_2_two_containers(ground: &impl Ground) -> anyhow::Result<()> {
    for (round, (first, second)) in [(1, 2), (5, 5), (1, 2), (5, 5)].into_iter().enumerate() {
        let name = format!("two-{round}");
        let pod = Workload::new(&name)
            .container("first", &[(MEMORY, first), (CORE, 10)])
            .container("second", &[(MEMORY, second), (CORE, 20)]);
        run(ground, &[pod]).await?;
        let plan = given(ground, &name).await?;
        for (container, gib) in [("first", first), ("second", second)] {
            let grant = only(&plan, container)?;
            ensure!(
                memory(grant) == Some(MemoryBytes::from_gib(gib)),
                "{container} has {grant:?}"
            );
        }
        ground.books().await?;
        clear(ground, &[&name]).await?;
    }
    Ok(())
}

/// Room for one pod, two Filter calls in parallel: both may pass, exactly one wins at Bind, the
/// other is told why.
pub async fn case_7_one_of_two_wins(ground: &impl Ground) -> anyhow::Result<()> {
    // A pod that no scheduler serves, so that this scenario alone binds it.
    let mut pods = Vec::new();
    for name in ["race-a", "race-b"] {
        let pod = Workload::one(name, &[(GPU, 8)]).scheduler("nobody");
        ground.cluster().create(&pod).await?;
        let pod = ground
            .cluster()
            .pod(name)
            .await?
            .context("the pod is gone")?;
        pods.push(serde_json::to_value(pod)?);
    }
    let node = ground.node(0);
    let filter = |pod: &Value| json!({"Pod": pod, "Nodes": null, "NodeNames": [node]});
    let bodies = [filter(&pods[0]), filter(&pods[1])];
    let (one, other) = tokio::join!(
        ground.extender("filter", &bodies[0]),
        ground.extender("filter", &bodies[1])
    );
    for answer in [one?, other?] {
        ensure!(
            answer["NodeNames"] == json!([node]),
            "a filter did not pass: {answer}"
        );
    }
    let bind = |pod: &Value| {
        json!({
            "PodName": pod["metadata"]["name"], "PodNamespace": pod["metadata"]["namespace"],
            "PodUID": pod["metadata"]["uid"], "Node": node,
        })
    };
    let bodies = [bind(&pods[0]), bind(&pods[1])];
    let (one, other) = tokio::join!(
        ground.extender("bind", &bodies[0]),
        ground.extender("bind", &bodies[1])
    );
    let errors: Vec<String> = [one?, other?]
        .iter()
        .map(|a| a["Error"].as_str().unwrap_or_default().to_owned())
        .collect();
    let lost: Vec<_> = errors.iter().filter(|e| !e.is_empty()).collect();
    ensure!(lost.len() == 1, "not exactly one won: {errors:?}");
    ensure!(
        lost[0].contains("whole cards free"),
        "the other is not told why: {}",
        lost[0]
    );
    clear(ground, &["race-a", "race-b"]).await
}

/// Init container 4 GiB, sidecar 2 GiB, app 2 GiB: peak 6 where the sidecar starts first, else 4.
pub async fn case_8_init_and_sidecar(ground: &impl Ground) -> anyhow::Result<()> {
    let sidecar_first = Workload::new("sidecar-first")
        .sidecar("proxy", &[(MEMORY, 2)])
        .init("load", &[(MEMORY, 4)])
        .container("main", &[(MEMORY, 2)]);
    let init_first = Workload::new("init-first")
        .init("load", &[(MEMORY, 4)])
        .sidecar("proxy", &[(MEMORY, 2)])
        .container("main", &[(MEMORY, 2)]);
    for (pod, peak) in [(sidecar_first, 6), (init_first, 4)] {
        let name = pod.name().to_owned();
        run(ground, &[pod]).await?;
        let plan = given(ground, &name).await?;
        for (container, gib) in [("load", 4), ("proxy", 2), ("main", 2)] {
            let grant = only(&plan, container)?;
            ensure!(
                memory(grant) == Some(MemoryBytes::from_gib(gib)),
                "{name}/{container}: {grant:?}"
            );
        }
        let books = ground.books().await?;
        let held = books.memory_held();
        ensure!(
            held == MemoryBytes::from_gib(peak),
            "{name} holds {held}, not {peak}GiB"
        );
        clear(ground, &[&name]).await?;
    }
    Ok(())
}

/// Requests that have no meaning are refused with the field's name; nothing wraps.
pub async fn case_9_requests_without_meaning(ground: &impl Ground) -> anyhow::Result<()> {
    for (number, (resource, value)) in [
        (CORE, "101"),
        (CORE, "150"),
        (GPU, "9223372036854775807"),
        (MEMORY, "16Gi"),
        (MEMORY, "10G"),
    ]
    .into_iter()
    .enumerate()
    {
        let name = format!("odd-{number}");
        ground
            .cluster()
            .create(&Workload::new(&name).container_text("main", &[(resource, value)]))
            .await?;
        let why = until(
            &format!("{name} ({resource}: {value}) to be refused"),
            Deadline::seconds(SOON),
            || async {
                let events = ground.cluster().events(&name, "FailedScheduling").await;
                events
                    .map_err(|e| format!("{e:#}"))?
                    .pop()
                    .ok_or_else(|| "no event".to_owned())
            },
        )
        .await?;
        let pod = ground
            .cluster()
            .pod(&name)
            .await?
            .context("the pod is gone")?;
        ensure!(
            pod.spec.and_then(|s| s.node_name).is_none(),
            "{name} was bound: {why}"
        );
        ensure!(!why.is_empty(), "{name} waits without a reason");
    }
    clear(ground, &["odd-0", "odd-1", "odd-2", "odd-3", "odd-4"]).await
}

/// Whole cards under both names, shares, and pods of the default scheduler: no card is in two modes.
pub async fn whole_and_shared_cards_never_meet(ground: &impl Ground) -> anyhow::Result<()> {
    let pods = [
        Workload::one("share-a", &[(CORE, 50)]),
        Workload::one("whole-b", &[(PPU, 3)]),
        Workload::one("whole-c", &[(GPU, 2)]),
        Workload::one("cards-d", &[(CORE, 200)]),
        Workload::one("share-e", &[(MEMORY, 50)]).default_scheduler(),
    ];
    run(ground, &pods).await?;
    let books = ground.books().await?;
    ensure!(
        books.given().len() == pods.len(),
        "not every pod is in the books: {books:?}"
    );
    clear(
        ground,
        &["share-a", "whole-b", "whole-c", "cards-d", "share-e"],
    )
    .await
}

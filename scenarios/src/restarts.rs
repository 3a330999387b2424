//! Restarts in any order: no pod changes cards, nothing leaks.

use std::time::Duration;

use anyhow::{Context, ensure};
use testbed::{
    stage::{Deadline, Signal, until},
    workload::Workload,
};

use crate::ground::{
    Ground, Victim,
    names::{CORE, GPU, MEMORY, PPU},
};

const SOON: u64 = 60;

/// Plugin, kubelet and scheduler each restarted while a pod runs, another starts, a third ends.
pub async fn case_10_restarts_lose_nothing(ground: &impl Ground) -> anyhow::Result<()> {
    for (round, victim) in [Victim::DevicePlugin, Victim::Kubelet, Victim::Extender]
        .into_iter()
        .enumerate()
    {
        while_pods_come_and_go(ground, victim, Signal::Kill, &format!("r{round}")).await?;
    }
    ground.books_are_empty().await
}

/// Each part killed, then each ended politely, one after the other.
pub async fn each_part_in_turn(ground: &impl Ground, signal: Signal) -> anyhow::Result<()> {
    let keeper = Workload::one("keeper", &[(CORE, 20), (MEMORY, 10)]);
    ground.cluster().create(&keeper).await?;
    ground
        .cluster()
        .pod_is("keeper", "Running", Deadline::seconds(SOON))
        .await?;
    let before = ground
        .cluster()
        .allocated("keeper", Deadline::seconds(SOON))
        .await?;
    for (round, victim) in Victim::ALL.into_iter().enumerate() {
        while_pods_come_and_go(ground, victim, signal, &format!("t{round}")).await?;
        let now = ground
            .cluster()
            .allocated("keeper", Deadline::seconds(SOON))
            .await?;
        ensure!(
            now == before,
            "{victim:?}: keeper changed from {before:?} to {now:?}"
        );
    }
    ground.cluster().delete("keeper").await?;
    ground.books_are_empty().await
}

/// A pod that kubelet admits while the Runtime restarts waits for it; where the Runtime stays
/// away the pod is refused in words that name the socket, and nothing of it is kept.
pub async fn pods_meet_a_runtime_that_is_away(ground: &impl Ground) -> anyhow::Result<()> {
    let cluster = ground.cluster();
    let deadline = || Deadline::seconds(SOON);
    let share = |name: &str| Workload::one(name, &[(CORE, 30), (MEMORY, 40)]);

    ground.stop(Victim::Runtime, Signal::Kill).await?;
    cluster.create(&share("patient")).await?;
    tokio::time::sleep(Duration::from_secs(3)).await;
    ground.start(Victim::Runtime).await?;
    cluster.pod_is("patient", "Running", deadline()).await?;

    ground.stop(Victim::Runtime, Signal::Kill).await?;
    cluster.create(&share("refused")).await?;
    cluster.pod_is("refused", "Failed", deadline()).await?;
    let refused = cluster.pod("refused").await?.context("it is gone")?;
    let message = refused
        .status
        .unwrap_or_default()
        .message
        .unwrap_or_default();
    ensure!(
        message.contains("no Runtime at ") && message.contains("dp2mgr.sock"),
        "{message}"
    );
    ground.start(Victim::Runtime).await?;
    for pod in ["patient", "refused"] {
        cluster.delete(pod).await?;
        cluster.pod_is_gone(pod, deadline()).await?;
    }
    ground.books_are_empty().await
}

/// One pod runs, one ends and one starts while `victim` is away.
async fn while_pods_come_and_go(
    ground: &impl Ground,
    victim: Victim,
    signal: Signal,
    tag: &str,
) -> anyhow::Result<()> {
    let cluster = ground.cluster();
    let (runs, ends, starts) = (
        format!("runs-{tag}"),
        format!("ends-{tag}"),
        format!("starts-{tag}"),
    );
    let deadline = || Deadline::seconds(SOON);
    cluster
        .create(&Workload::one(&runs, &[(CORE, 30), (MEMORY, 40)]))
        .await?;
    cluster.create(&Workload::one(&ends, &[(PPU, 2)])).await?;
    for pod in [&runs, &ends] {
        cluster.pod_is(pod, "Running", deadline()).await?;
    }
    let before = ground.books().await?.given();

    ground.stop(victim, signal).await?;
    if victim == Victim::ApiServer {
        ground.start(victim).await?;
        cluster.delete(&ends).await?;
        cluster.create(&Workload::one(&starts, &[(GPU, 1)])).await?;
    } else {
        cluster.delete(&ends).await?;
        cluster.create(&Workload::one(&starts, &[(GPU, 1)])).await?;
        ground.start(victim).await?;
    }

    comes_to_run(ground, victim, &starts)
        .await
        .map_err(|e| e.context(format!("{victim:?} restarted")))?;
    cluster.pod_is_gone(&ends, deadline()).await?;
    let after = ground
        .books()
        .await
        .map_err(|e| e.context(format!("{victim:?} restarted")))?
        .given();
    for (pod, plan) in before.iter().filter(|(pod, _)| pod.name.as_str() != ends) {
        ensure!(
            after.get(pod) == Some(plan),
            "{victim:?}: {pod} had {plan:?}, now {:?}",
            after.get(pod)
        );
    }
    for pod in [&runs, &starts] {
        cluster.delete(pod).await?;
        cluster.pod_is_gone(pod, deadline()).await?;
    }
    Ok(())
}

/// Waits until the pod runs. What kubelet admits while no plugin is registered it rejects for good,
/// in its own words and before it calls anybody: whoever owns such a pod makes it again, and so
/// does this. A rejection for any other reason, or beside a plugin that was there, is a fault.
async fn comes_to_run(ground: &impl Ground, victim: Victim, pod: &str) -> anyhow::Result<()> {
    let cluster = ground.cluster();
    let away = matches!(victim, Victim::DevicePlugin | Victim::Kubelet);
    until(
        &format!("{pod} to run"),
        Deadline::seconds(SOON),
        || async {
            let text = |e: anyhow::Error| format!("{e:#}");
            let found = cluster.pod(pod).await.map_err(text)?.ok_or("it is gone")?;
            let status = found.status.unwrap_or_default();
            let message = match status.phase.as_deref() {
                Some("Running") => return Ok(Ok(())),
                Some("Failed") => status.message.unwrap_or_default(),
                other => return Err(format!("it is {other:?}")),
            };
            let words = ["no healthy devices present", "unregistered device"];
            if !away || !words.iter().any(|w| message.contains(w)) {
                return Ok(Err(anyhow::anyhow!("{pod} failed: {message}")));
            }
            cluster.delete(pod).await.map_err(text)?;
            cluster
                .pod_is_gone(pod, Deadline::seconds(10))
                .await
                .map_err(text)?;
            cluster
                .create(&Workload::one(pod, &[(GPU, 1)]))
                .await
                .map_err(text)?;
            Err(format!("kubelet rejected it: {message}"))
        },
    )
    .await?
}

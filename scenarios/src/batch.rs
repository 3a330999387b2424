//! Pods that arrive in one batch, as after a kubelet restart.

use anyhow::{Context, ensure};
use model::{
    annotation::read_plan,
    plan::{GrantMode, Plan},
    quantity::{CorePercent, MemoryBytes},
};
use testbed::{
    stage::{Deadline, Signal, until},
    workload::Workload,
};

use crate::ground::{
    Ground, Victim,
    names::{CORE, MEMORY},
};

/// Six pods of two resources bound while kubelet is away, the Runtime refusing one of them: that
/// one fails and says why; every other call's consumer is known, so each of the five has just
/// what it asked, in every book. Before that a pod has left a card: kubelet takes the six in with
/// that one's devices still counted as taken, so they must get another card, or all would fail.
pub async fn batch_of_six_with_a_refusal(ground: &impl Ground) -> anyhow::Result<()> {
    let cluster = ground.cluster();
    let soon = || Deadline::seconds(60);
    cluster
        .create(&Workload::one("left", &[(CORE, 90), (MEMORY, 100)]))
        .await?;
    cluster.pod_is("left", "Running", soon()).await?;
    cluster.delete("left").await?;
    cluster.pod_is_gone("left", soon()).await?;
    ground.books_are_empty().await?;
    ground.stop(Victim::Kubelet, Signal::Kill).await?;
    let names: Vec<String> = ('a'..='f').map(|c| format!("p{c}")).collect();
    for (number, name) in (1_u32..).zip(&names) {
        // All different, so that a swap could not hide.
        cluster
            .create(&Workload::one(
                name,
                &[(CORE, (10 + number).into()), (MEMORY, (2 * number).into())],
            ))
            .await?;
    }
    for name in &names {
        cluster.pod_is_bound(name, soon()).await?;
    }
    ground.refuse_allocations(1).await?;
    ground.start(Victim::Kubelet).await?;

    let mut failed = Vec::new();
    for name in &names {
        let phase = until(&format!("{name} to start or fail"), soon(), || async {
            let pod = cluster
                .pod(name)
                .await
                .map_err(|e| format!("{e:#}"))?
                .ok_or("it is gone")?;
            let status = pod.status.unwrap_or_default();
            match status.phase.as_deref() {
                Some("Running") => Ok(None),
                Some("Failed") => Ok(Some(status.reason.unwrap_or_default())),
                other => Err(format!("it is {other:?}")),
            }
        })
        .await?;
        if let Some(reason) = phase {
            ensure!(
                reason == "UnexpectedAdmissionError",
                "{name} failed for {reason:?}"
            );
            failed.push(name.clone());
        }
    }
    ensure!(failed.len() == 1, "not exactly one was refused: {failed:?}");
    ground.books().await?;
    for (number, name) in (1_u32..).zip(&names) {
        if failed.contains(name) {
            continue;
        }
        let given = cluster.allocated(name, soon()).await?;
        let pod = cluster.pod(name).await?.context("it is gone")?;
        let key = &cluster.settings().annotations.assigned;
        let plan = pod
            .metadata
            .annotations
            .unwrap_or_default()
            .remove(key)
            .context("no plan")?;
        let shares = |plan: &Plan| -> Vec<_> {
            let grants = plan.containers.iter().flat_map(|c| &c.grants);
            grants.map(|g| g.mode.clone()).collect()
        };
        let asked = GrantMode::Share {
            core: CorePercent::new(10 + number),
            memory: MemoryBytes::from_gib(2 * u64::from(number)),
        };
        ensure!(
            shares(&given) == [asked] && shares(&read_plan(&plan)?) == shares(&given),
            "{name}: planned {plan}, given {given:?}"
        );
    }
    for name in &names {
        cluster.delete(name).await?;
    }
    ground.books_are_empty().await
}

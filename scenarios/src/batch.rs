//! Pods that arrive in one batch, as after a kubelet restart.

use anyhow::{Context, ensure};
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
/// what its own plan says, in every book.
pub async fn batch_of_six_with_a_refusal(ground: &impl Ground) -> anyhow::Result<()> {
    let cluster = ground.cluster();
    let soon = || Deadline::seconds(60);
    ground.stop(Victim::Kubelet, Signal::Kill).await?;
    let names: Vec<String> = ('a'..='f').map(|c| format!("p{c}")).collect();
    for (number, name) in (1..).zip(&names) {
        // All different, so that a swap could not hide.
        cluster
            .create(&Workload::one(
                name,
                &[(CORE, 10 + number), (MEMORY, 2 * number)],
            ))
            .await?;
    }
    for name in &names {
        until(&format!("{name} to be bound"), soon(), || async {
            let pod = cluster
                .pod(name)
                .await
                .map_err(|e| format!("{e:#}"))?
                .ok_or("it is gone")?;
            pod.spec
                .and_then(|s| s.node_name)
                .map(drop)
                .ok_or_else(|| "it is not".to_owned())
        })
        .await?;
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
    for name in names.iter().filter(|n| !failed.contains(n)) {
        let given = cluster.allocated(name, soon()).await?;
        let pod = cluster.pod(name).await?.context("it is gone")?;
        let key = &cluster.settings().annotations.assigned;
        let plan = pod
            .metadata
            .annotations
            .unwrap_or_default()
            .remove(key)
            .context("no plan")?;
        ensure!(
            given == model::annotation::read_plan(&plan)?,
            "{name}: planned {plan}, given {given:?}"
        );
    }
    for name in &names {
        cluster.delete(name).await?;
    }
    ground.books_are_empty().await
}

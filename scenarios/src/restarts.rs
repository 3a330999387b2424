//! Restarts in any order: no pod changes cards, nothing leaks.

use std::time::Duration;

use anyhow::{Context, ensure};
use testbed::{
    cluster::Cluster,
    stage::{Deadline, Signal, until},
    workload::Workload,
};
use tokio::sync::watch;

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

/// Each of these parts killed, or ended politely, one after the other.
pub async fn each_part_in_turn(
    ground: &impl Ground,
    victims: &[Victim],
    signal: Signal,
) -> anyhow::Result<()> {
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
    for (round, victim) in victims.iter().enumerate() {
        let victim = *victim;
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
    cluster.pod_is_bound("patient", deadline()).await?;
    // Nothing shows that kubelet asks; it does so within moments, and is to be kept waiting.
    tokio::time::sleep(Duration::from_secs(2)).await;
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

/// Pods that come and go all the time while a part is ended politely and started again, as at an
/// upgrade: none fails for it.
pub async fn short_pods_survive_restarts(
    ground: &impl Ground,
    victims: &[Victim],
) -> anyhow::Result<()> {
    let (stop, stopped) = watch::channel(false);
    let (made, mut seen) = watch::channel(0);
    let stream = short_pods(ground.cluster(), stopped, &made);
    let restarts = async {
        for victim in victims {
            five_more(&mut seen).await?;
            ground.stop(*victim, Signal::Term).await?;
            ground.start(*victim).await?;
        }
        five_more(&mut seen).await?;
        stop.send_replace(true);
        anyhow::Ok(())
    };
    let (pods, ()) = tokio::try_join!(stream, restarts)?;
    let enough = 5 * victims.len();
    ensure!(pods >= enough, "only {pods} pods ran, not {enough}");
    ground.books_are_empty().await
}

async fn five_more(made: &mut watch::Receiver<usize>) -> anyhow::Result<()> {
    let goal = *made.borrow() + 5;
    made.wait_for(|n| *n >= goal).await?;
    Ok(())
}

/// One short pod after the other until told to stop; each must succeed. How many did; `seen` is
/// told how many have been made.
pub async fn short_pods(
    cluster: &Cluster,
    mut stopped: watch::Receiver<bool>,
    seen: &watch::Sender<usize>,
) -> anyhow::Result<usize> {
    let mut made = 0;
    let ended = async |number: usize| {
        let name = format!("short-{number}");
        until(
            &format!("{name} to end"),
            Deadline::seconds(SOON),
            || async {
                let text = |e: anyhow::Error| format!("{e:#}");
                let pod = cluster
                    .pod(&name)
                    .await
                    .map_err(text)?
                    .ok_or("it is gone")?;
                let status = pod.status.unwrap_or_default();
                match status.phase.as_deref() {
                    Some("Succeeded") => Ok(Ok(())),
                    Some("Failed") => Ok(Err(anyhow::anyhow!(
                        "{name} failed: {:?} {:?}",
                        status.reason,
                        status.message
                    ))),
                    other => Err(format!("it is {other:?}")),
                }
            },
        )
        .await??;
        cluster.delete(&name).await
    };
    while !*stopped.borrow_and_update() {
        let share = [(CORE, 5), (MEMORY, 5)];
        let pod = Workload::one(&format!("short-{made}"), &share).runs_for(1);
        cluster.create(&pod).await?;
        made += 1;
        seen.send_replace(made);
        // Several are under way at any moment.
        if made > 8 {
            ended(made - 9).await?;
        }
        // The pace of the stream.
        let pause = tokio::time::sleep(Duration::from_millis(300));
        tokio::select! {
            () = pause => {}
            _ = stopped.changed() => {}
        }
    }
    for number in made.saturating_sub(8)..made {
        ended(number).await?;
    }
    Ok(made)
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
    if matches!(victim, Victim::ApiServer | Victim::Etcd) {
        ground.start(victim).await?;
        cluster.delete(&ends).await?;
        cluster.create(&Workload::one(&starts, &[(GPU, 1)])).await?;
    } else {
        cluster.delete(&ends).await?;
        cluster.create(&Workload::one(&starts, &[(GPU, 1)])).await?;
        ground.start(victim).await?;
    }

    comes_to_run(ground, (victim, signal), &starts)
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
    }
    for pod in [&runs, &starts] {
        cluster.pod_is_gone(pod, deadline()).await?;
    }
    Ok(())
}

/// Waits until the pod runs. What kubelet admits while no plugin is registered it rejects for good,
/// in its own words and before it calls anybody: whoever owns such a pod makes it again, and so
/// does this. A rejection for any other reason, or beside a plugin that was there, or one that ended
/// politely and so had the node closed first, is a fault.
async fn comes_to_run(
    ground: &impl Ground,
    ended: (Victim, Signal),
    pod: &str,
) -> anyhow::Result<()> {
    let cluster = ground.cluster();
    let away = matches!(
        ended,
        (Victim::Kubelet, _) | (Victim::DevicePlugin, Signal::Kill)
    );
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

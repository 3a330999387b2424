//! Metrics.

use anyhow::ensure;
use testbed::{
    stage::{Deadline, until},
    workload::Workload,
};

use crate::ground::{
    Ground,
    names::{CORE, MEMORY},
};

/// Four pods share one card: one series per container, all four named; none for a pod that has
/// Succeeded.
pub async fn case_11_four_pods_on_one_card(ground: &impl Ground) -> anyhow::Result<()> {
    let names = ["four-a", "four-b", "four-c", "four-d"];
    for name in names {
        ground
            .cluster()
            .create(&Workload::one(name, &[(CORE, 20), (MEMORY, 20)]))
            .await?;
        ground
            .cluster()
            .pod_is(name, "Running", Deadline::seconds(40))
            .await?;
    }
    ground.books().await?;
    let series = |text: &str, name: &str| {
        let label = format!("pod=\"{name}\"");
        let lines = text
            .lines()
            .filter(|l| l.starts_with("accel_container_memory_limit_bytes{"));
        lines.filter(|l| l.contains(&label)).count()
    };
    let text = until("one series a container", Deadline::seconds(30), || async {
        let text = ground.metrics().await.map_err(|e| format!("{e:#}"))?;
        let counts = names.map(|n| series(&text, n));
        if counts == [1; 4] {
            Ok(text)
        } else {
            Err(format!("{counts:?}"))
        }
    })
    .await?;
    let card = |line: &str| {
        line.split("card=\"")
            .nth(1)
            .and_then(|l| l.split('"').next())
            .map(str::to_owned)
    };
    let mut cards: Vec<_> = text
        .lines()
        .filter(|l| l.starts_with("accel_container_memory_limit_bytes{"))
        .map(card)
        .collect();
    cards.dedup();
    ensure!(cards.len() == 1, "they are on {cards:?}, not on one card");

    let ended = Workload::one("four-e", &[(CORE, 20), (MEMORY, 20)]).runs_for(1);
    ground.cluster().create(&ended).await?;
    ground
        .cluster()
        .pod_is("four-e", "Succeeded", Deadline::seconds(40))
        .await?;
    until(
        "no series of a pod that has Succeeded",
        Deadline::seconds(30),
        || async {
            let text = ground.metrics().await.map_err(|e| format!("{e:#}"))?;
            match series(&text, "four-e") {
                0 => Ok(()),
                n => Err(format!("{n} series")),
            }
        },
    )
    .await?;
    for name in names.into_iter().chain(["four-e"]) {
        ground.cluster().delete(name).await?;
    }
    ground.books_are_empty().await
}

/// No pods: all cards are still reported.
pub async fn case_13_idle_node(ground: &impl Ground) -> anyhow::Result<()> {
    until("all eight cards", Deadline::seconds(30), || async {
        let text = ground.metrics().await.map_err(|e| format!("{e:#}"))?;
        let count = |name: &str| text.lines().filter(|l| l.starts_with(name)).count();
        let cards = (
            count("accel_card_info{"),
            count("accel_card_utilization_ratio{"),
        );
        if cards == (8, 8) {
            Ok(())
        } else {
            Err(format!("{cards:?} cards"))
        }
    })
    .await?;
    let text = ground.metrics().await?;
    ensure!(
        !text.contains("pod=\""),
        "a container series on an idle node"
    );
    Ok(())
}

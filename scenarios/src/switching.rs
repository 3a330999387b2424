//! A node's label switches the feature on and off.

use testbed::stage::{Deadline, until};

use crate::ground::{Ground, names};

/// Labelled: the resources appear, allocatable equal to capacity, and the controller says so.
pub async fn label_switches_the_node(ground: &impl Ground) -> anyhow::Result<()> {
    let (cluster, node) = (ground.cluster(), ground.node(0));
    // Right after a switch off kubelet may still show a name with 0 until its grace is over.
    cluster
        .resources_are(&node, &[], Deadline::seconds(40))
        .await?;
    cluster.label_node(&node, true).await?;
    let wanted = [
        (names::PPU, 8),
        (names::GPU, 8),
        (names::CORE, 800),
        (names::MEMORY, 1152),
    ];
    cluster
        .resources_are(&node, &wanted, Deadline::seconds(40))
        .await?;
    outcome(ground, "enable").await
}

/// Unlabelled: the names go from the node's capacity, nothing of old values stays.
pub async fn removed_label_takes_everything_away(ground: &impl Ground) -> anyhow::Result<()> {
    let (cluster, node) = (ground.cluster(), ground.node(0));
    cluster.label_node(&node, false).await?;
    cluster
        .resources_are(&node, &[], Deadline::seconds(40))
        .await?;
    outcome(ground, "disable").await
}

async fn outcome(ground: &impl Ground, action: &str) -> anyhow::Result<()> {
    let (cluster, node) = (ground.cluster(), ground.node(0));
    let key = cluster.settings().annotations.last_action_status.clone();
    until(
        &format!("the outcome of {action}"),
        Deadline::seconds(40),
        || async {
            let text = cluster
                .node_annotation(&node, &key)
                .await
                .map_err(|e| format!("{e:#}"))?;
            let text = text.ok_or_else(|| format!("no {key}"))?;
            if text.contains(action) && text.contains("Succeeded") {
                Ok(())
            } else {
                Err(text)
            }
        },
    )
    .await
}

//! A node's label switches the feature on and off.

use testbed::stage::{Deadline, Signal, until};

use crate::ground::{Ground, Victim, WHOLE_NODE};

/// Labelled: the resources appear, allocatable equal to capacity, and the controller says so.
pub async fn label_switches_the_node(ground: &impl Ground) -> anyhow::Result<()> {
    let (cluster, node) = (ground.cluster(), ground.node(0));
    // Right after a switch off kubelet may still show a name with 0 until its grace is over.
    cluster
        .resources_are(&node, &[], Deadline::seconds(40))
        .await?;
    cluster.label_node(&node, true).await?;
    cluster
        .resources_are(&node, &WHOLE_NODE, Deadline::seconds(40))
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

/// The device plugin goes with the label, as its pod does: the controller clears up behind it, for
/// as long as kubelet writes the names back. Both come again, and all is there again.
pub async fn a_removed_label_leaves_no_names_even_without_the_plugin(
    ground: &impl Ground,
) -> anyhow::Result<()> {
    let (cluster, node) = (ground.cluster(), ground.node(0));
    let keys = cluster.settings().annotations.clone();
    ground.stop(Victim::DevicePlugin, Signal::Term).await?;
    cluster.label_node(&node, false).await?;
    annotation_is_there(ground, &keys.inventory, false).await?;
    // The list is the last to go: nobody would know the names after that.
    annotation_is_there(ground, &keys.owned_resources, false).await?;
    cluster
        .resources_are(&node, &[], Deadline::seconds(0))
        .await?;
    outcome(ground, "disable").await?;

    ground.start(Victim::DevicePlugin).await?;
    cluster.label_node(&node, true).await?;
    cluster
        .resources_are(&node, &WHOLE_NODE, Deadline::seconds(40))
        .await?;
    for key in [&keys.inventory, &keys.owned_resources] {
        annotation_is_there(ground, key, true).await?;
    }
    outcome(ground, "enable").await
}

async fn annotation_is_there(ground: &impl Ground, key: &str, wanted: bool) -> anyhow::Result<()> {
    let (cluster, node) = (ground.cluster(), ground.node(0));
    let what = format!("annotation {key}: {wanted}");
    until(&what, Deadline::seconds(60), || async {
        let text = cluster.node_annotation(&node, key).await;
        let text = text.map_err(|e| format!("{e:#}"))?;
        if text.is_some() == wanted {
            Ok(())
        } else {
            Err(format!("{text:?}"))
        }
    })
    .await
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

//! Cards that are cut.

use anyhow::ensure;
use model::{
    name::ProfileName,
    plan::{Grant, GrantMode, Plan},
};
use testbed::{
    stage::{Deadline, until},
    workload::Workload,
};

use crate::ground::{
    Ground, WHOLE_NODE,
    names::{CORE, GPU, SLICE},
};

const TWO_SLICES: &str = "alibabacloud.com/ppu-2u.2g36gb";

/// What a node of 8 PPU cards of 144 GiB offers besides, when its cards can be cut.
const CUT: [(&str, u64); 5] = [
    (SLICE, 64),
    ("alibabacloud.com/ppu-1u.1g18gb", 64),
    (TWO_SLICES, 32),
    ("alibabacloud.com/ppu-4u.4g72gb", 16),
    ("alibabacloud.com/ppu-8u.8g144gb", 8),
];

/// The node's cards can be cut: pods by slices and by profile fill one card, shares and whole cards
/// keep off it, and what no card has room for says so. All back, every card is whole again.
pub async fn partitions(ground: &impl Ground) -> anyhow::Result<()> {
    let (cluster, node) = (ground.cluster(), ground.node(0));
    let soon = || Deadline::seconds(60);
    ground
        .runtime_fault(0, "replace-cards?profile=ppu-8-cut")
        .await?;
    let all: Vec<_> = WHOLE_NODE.into_iter().chain(CUT).collect();
    cluster.resources_are(&node, &all, soon()).await?;
    let pods = [
        Workload::one("by-slices", &[(SLICE, 4)]),
        Workload::one("by-profile", &[(TWO_SLICES, 2)]),
        Workload::one("shares", &[(CORE, 30)]),
        Workload::one("whole", &[(GPU, 6)]),
    ];
    // One after the other: each finds what the one before it left.
    for pod in &pods {
        cluster.create(pod).await?;
        cluster.pod_is(pod.name(), "Running", soon()).await?;
    }
    let first = only(&cluster.allocated("by-slices", soon()).await?)?;
    let second = only(&cluster.allocated("by-profile", soon()).await?)?;
    ensure!(first.mode == partition("4u.4g72gb", 1)?, "{first:?}");
    ensure!(second.mode == partition("2u.2g36gb", 2)?, "{second:?}");
    ensure!(first.card == second.card, "{first:?} and {second:?}");
    ground.books().await?;
    for (pod, why) in [
        (
            Workload::one("none-has-3", &[(SLICE, 3)]),
            "no card here has a partition of 3 slices",
        ),
        (
            Workload::one("full", &[(SLICE, 1)]),
            "no card has a partition of 1 slice free",
        ),
    ] {
        cluster.create(&pod).await?;
        until(&format!("the event of {}", pod.name()), soon(), || async {
            let events = cluster.events(pod.name(), "FailedScheduling").await;
            let events = events.map_err(|e| format!("{e:#}"))?;
            match events.iter().find(|text| text.contains(why)) {
                Some(_) => Ok(()),
                None => Err(format!("{events:?}")),
            }
        })
        .await?;
        cluster.delete(pod.name()).await?;
    }
    for pod in &pods {
        cluster.delete(pod.name()).await?;
    }
    ground.books_are_empty().await?;
    cluster.create(&Workload::one("all", &[(GPU, 8)])).await?;
    cluster.pod_is("all", "Running", soon()).await?;
    cluster.delete("all").await?;
    ground.books_are_empty().await
}

/// Whole cards, then such that can only be cut by one slice, then only whole cuts: at each moment
/// the node's capacity has the names of its present cards and no others.
pub async fn case_5_names_come_and_go_with_the_cards(ground: &impl Ground) -> anyhow::Result<()> {
    let (cluster, node) = (ground.cluster(), ground.node(0));
    for (fault, names) in [
        (
            "profile=ppu-8-cut&partitions=1u.1g18gb",
            &[(SLICE, 64), ("alibabacloud.com/ppu-1u.1g18gb", 64)][..],
        ),
        (
            "profile=ppu-8-cut&partitions=8u.8g144gb",
            &[(SLICE, 64), ("alibabacloud.com/ppu-8u.8g144gb", 8)][..],
        ),
        ("profile=ppu-8x144", &[][..]),
    ] {
        ground
            .runtime_fault(0, &format!("replace-cards?{fault}"))
            .await?;
        let wanted: Vec<_> = WHOLE_NODE
            .into_iter()
            .chain(names.iter().copied())
            .collect();
        cluster
            .resources_are(&node, &wanted, Deadline::seconds(GONE_WITHIN))
            .await?;
    }
    Ok(())
}

/// kubelet takes 5 minutes to give up a name; what writes it back meanwhile is taken out again.
const GONE_WITHIN: u64 = 60;

fn only(plan: &Plan) -> anyhow::Result<Grant> {
    let grants: Vec<&Grant> = plan.containers.iter().flat_map(|c| &c.grants).collect();
    match grants.as_slice() {
        [grant] => Ok((*grant).clone()),
        other => anyhow::bail!("given {other:?}, not one grant"),
    }
}

fn partition(profile: &str, count: u32) -> anyhow::Result<GrantMode> {
    Ok(GrantMode::Partition {
        profile: ProfileName::new(profile)?,
        count,
    })
}

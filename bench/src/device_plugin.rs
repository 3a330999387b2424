//! The device plugin beside a floor that knows no pods and prefers what it is offered first.

mod stage;

use std::{
    collections::BTreeSet,
    time::{Duration, Instant},
};

use anyhow::{Context as _, ensure};
use kubernetes::device_plugin::{
    AllocateRequest, ContainerAllocateRequest, ContainerPreferredAllocationRequest,
    PreferredAllocationRequest,
};
use tokio::time::sleep;

use crate::{
    Ground,
    kubelet::Pod,
    table::{Figure, Table, Target},
    timing::Calls,
};
use stage::{Kind, Plugin, Stage};

const GPU: &str = "aliyun.com/gpu";
const CORE: &str = "aliyun.com/gpu-core";
const MEMORY: &str = "aliyun.com/gpu-memory";

/// Cards of the node where allocations are measured.
const CARDS: u32 = 8;

/// Cards of the node where preferences are measured.
const MANY_CARDS: u32 = 16;

/// How long nothing happens.
const IDLE: Duration = Duration::from_mins(1);

/// Rounds of allocations, one pod a card each.
const ROUNDS: usize = 40;

/// Allocations after which memory must be what it was.
const MANY: usize = 10_000;

/// Pods at once then.
const PODS: usize = 64;

/// Preferences of each size.
const PREFERENCES: usize = 60;

/// After a call the program may still log and count: that belongs to the call.
const AFTERWARDS: Duration = Duration::from_millis(1);

const MIB: f64 = 1_048_576.0;

/// All of it.
pub(crate) async fn measure(ground: &Ground, table: &mut Table) -> anyhow::Result<()> {
    if ground.wants("device plugin") {
        let mut ours = Stage::start(ground, Kind::Ours, CARDS).await?;
        let mut floor = Stage::start(ground, Kind::Floor, CARDS).await?;
        let mut alone = Stage::start(ground, Kind::FloorAlone, CARDS).await?;
        start(&ours, &floor, table)?;
        let before = idle(&ours, &floor, table).await;
        allocations(&mut ours, &mut floor, &mut alone, table).await?;
        many(&mut ours, before, table).await?;
    }
    if ground.wants("device plugin preference") {
        let mut ours = Stage::start(ground, Kind::Ours, MANY_CARDS).await?;
        let mut floor = Stage::start(ground, Kind::Floor, MANY_CARDS).await?;
        preferences(&mut ours, &mut floor, table).await?;
    }
    Ok(())
}

fn start(ours: &Stage, floor: &Stage, table: &mut Table) -> anyhow::Result<()> {
    let within = Target::Most(Figure::Time(0.05));
    for (what, ours, floor) in [
        ("first", ours.first, floor.first),
        ("last", ours.last, floor.last),
    ] {
        let title = format!("device plugin start to {what} Register");
        table.row(title, ours, Some(floor.into()), within);
    }
    let size = |stage: &Stage| -> anyhow::Result<Figure> {
        let bytes = std::fs::metadata(&stage.program)?.len();
        Ok(Figure::Memory(f64::from(u32::try_from(bytes)?)))
    };
    let most = Target::Most(Figure::Memory(10e6));
    table.row(
        "device plugin binary",
        size(ours)?,
        Some(size(floor)?),
        most,
    );
    Ok(())
}

/// Memory when nothing happens.
async fn idle(ours: &Stage, floor: &Stage, table: &mut Table) -> Figure {
    sleep(Duration::from_secs(3)).await;
    let before = [ours.process.cpu(), floor.process.cpu()];
    sleep(IDLE).await;
    let [ours_used, floor_used] = [ours, floor].map(|stage| stage.process.cpu());
    let [ours_before, floor_before] = before;
    table.row(
        format!("device plugin CPU in {} s idle", IDLE.as_secs()),
        ours_used.saturating_sub(ours_before),
        Some(floor_used.saturating_sub(floor_before).into()),
        Target::Most(Figure::Time(0.002)),
    );
    let memory = ours.process.memory();
    table.row(
        "device plugin memory idle",
        memory,
        Some(floor.process.memory()),
        Target::Most(Figure::Memory(10.0 * MIB)),
    );
    memory
}

/// Ids that kubelet would give to the newest pod: what the plugin prefers.
async fn prefer(
    plugin: &mut Plugin,
    available: &[String],
    size: usize,
) -> anyhow::Result<(Duration, Vec<String>)> {
    let request = PreferredAllocationRequest {
        container_requests: vec![ContainerPreferredAllocationRequest {
            available_device_i_ds: available.to_vec(),
            must_include_device_i_ds: Vec::new(),
            allocation_size: i32::try_from(size)?,
        }],
    };
    let start = Instant::now();
    let answer = plugin.client.get_preferred_allocation(request).await?;
    let took = start.elapsed();
    let ids = answer.into_inner().container_responses.pop();
    let ids = ids.context("no preference")?.device_i_ds;
    let different: BTreeSet<_> = ids.iter().collect();
    ensure!(different.len() == size, "{} ids of {size}", ids.len());
    ensure!(ids.iter().all(|id| available.contains(id)), "other ids");
    Ok((took, ids))
}

async fn allocate(plugin: &mut Plugin, ids: &[String]) -> anyhow::Result<Duration> {
    let request = AllocateRequest {
        container_requests: vec![ContainerAllocateRequest {
            devices_ids: ids.to_vec(),
        }],
    };
    let start = Instant::now();
    let answer = plugin.client.allocate(request).await?;
    let took = start.elapsed();
    let answer = answer.into_inner().container_responses.pop();
    answer.context("an allocation has no answer")?;
    Ok(took)
}

/// An Allocate with its CPU.
async fn costed(stage: &mut Stage, ids: &[String], calls: &mut Calls) -> anyhow::Result<()> {
    let before = stage.process.cpu();
    calls.took(allocate(stage.plugin(GPU)?, ids).await?);
    sleep(AFTERWARDS).await;
    calls.cost(stage.process.cpu().saturating_sub(before));
    Ok(())
}

/// Pods with one whole card each, in rounds that fill the node and empty it again.
async fn allocations(
    ours: &mut Stage,
    floor: &mut Stage,
    alone: &mut Stage,
    table: &mut Table,
) -> anyhow::Result<()> {
    let mut known = Calls::default();
    let mut unknown = Calls::default();
    let mut of_floor = Calls::default();
    let mut of_alone = Calls::default();
    for round in 0..=ROUNDS {
        // The first round only warms all up.
        if round == 1 {
            for calls in [&mut known, &mut unknown, &mut of_floor, &mut of_alone] {
                *calls = Calls::default();
            }
        }
        let all = ours.plugin(GPU)?.ids.clone();
        let mut free = all.clone();
        for card in 0..all.len() {
            ours.pods.lock().push(Pod::asking(card, &[(GPU, 1)]));
            // Every fourth round kubelet asks for no preference first.
            let ids = if round % 4 == 3 {
                let ids = free.first().cloned().into_iter().collect::<Vec<_>>();
                costed(ours, &ids, &mut unknown).await?;
                ids
            } else {
                let (_, ids) = prefer(ours.plugin(GPU)?, &free, 1).await?;
                costed(ours, &ids, &mut known).await?;
                ids
            };
            ours.pods.give(GPU, &ids);
            free.retain(|id| !ids.contains(id));
        }
        for (stage, calls) in [(&mut *floor, &mut of_floor), (&mut *alone, &mut of_alone)] {
            for id in stage.plugin(GPU)?.ids.clone() {
                costed(stage, &[id], calls).await?;
            }
        }
        ours.end_pods().await?;
    }
    let times = Target::Times(2.5);
    let title = "device plugin Allocate, consumer known,";
    let rows = [
        ("p50", known.p50(), of_floor.p50(), times),
        ("CPU", known.cpu_each(), of_floor.cpu_each(), times),
        ("p99", known.p99(), of_floor.p99(), Target::Told),
        (
            "p50, floor without Runtime",
            known.p50(),
            of_alone.p50(),
            Target::Told,
        ),
        (
            "CPU, floor without Runtime",
            known.cpu_each(),
            of_alone.cpu_each(),
            Target::Told,
        ),
    ];
    for (what, ours, floor, target) in rows {
        table.row(format!("{title} {what}"), ours, Some(floor), target);
    }
    let most = Target::Most(Figure::Time(0.015));
    let title = "device plugin Allocate, consumer to be found,";
    table.row(
        format!("{title} p50"),
        unknown.p50(),
        Some(of_floor.p50()),
        Target::Told,
    );
    table.row(
        format!("{title} p99"),
        unknown.p99(),
        Some(of_floor.p99()),
        most,
    );
    Ok(())
}

/// Many pods with a little of a card each, some at a time.
async fn many(ours: &mut Stage, before: Figure, table: &mut Table) -> anyhow::Result<()> {
    let mut done = 0;
    while done < MANY {
        for at in 0..PODS {
            ours.pods.lock().push(Pod::asking(done, &[(MEMORY, 1)]));
            let ids = [format!("ppu-{}.mem.{}", at % 8, at / 8)];
            allocate(ours.plugin(MEMORY)?, &ids).await?;
            ours.pods.give(MEMORY, &ids);
            done += 1;
        }
        ours.end_pods().await?;
    }
    let most = match before {
        Figure::Memory(bytes) => Target::Most(Figure::Memory(bytes + MIB)),
        Figure::Time(_) | Figure::Count(_) => Target::Told,
    };
    let memory = ours.process.memory();
    table.row(
        format!("device plugin memory after {done} allocations"),
        memory,
        None,
        most,
    );
    Ok(())
}

/// Preferences for a pod that waits, of all free cards and of all free shares.
async fn preferences(ours: &mut Stage, floor: &mut Stage, table: &mut Table) -> anyhow::Result<()> {
    let mut cards = [Calls::default(), Calls::default()];
    for size in 1..=usize::try_from(MANY_CARDS)? {
        let sized = [(GPU, size)];
        preference(ours, floor, &sized, PREFERENCES, &mut cards).await?;
    }
    let mut cores = [Calls::default(), Calls::default()];
    preference(ours, floor, &[(CORE, 50)], PREFERENCES * 8, &mut cores).await?;
    let most = |seconds| Target::Most(Figure::Time(seconds));
    for (what, [ours, floor], target) in [
        ("16 cards, every size", &cards, most(0.001)),
        ("50 of 1600 core ids", &cores, most(0.002)),
    ] {
        let title = format!("device plugin preference, {what},");
        table.row(
            format!("{title} p50"),
            ours.p50(),
            Some(floor.p50()),
            Target::Told,
        );
        table.row(
            format!("{title} p99"),
            ours.p99(),
            Some(floor.p99()),
            target,
        );
        table.row(
            format!("{title} CPU"),
            ours.cpu_each(),
            Some(floor.cpu_each()),
            Target::Told,
        );
    }
    Ok(())
}

async fn preference(
    ours: &mut Stage,
    floor: &mut Stage,
    asks: &[(&str, usize)],
    count: usize,
    calls: &mut [Calls; 2],
) -> anyhow::Result<()> {
    // A plan that was made for a pod is kept for a while: another size is another pod.
    let number = asks.iter().map(|(_, size)| size).sum();
    ours.pods.lock().push(Pod::asking(number, asks));
    for (resource, size) in asks {
        let available = ours.plugin(resource)?.ids.clone();
        for (stage, calls) in [&mut *ours, &mut *floor].into_iter().zip(calls.iter_mut()) {
            let before = stage.process.cpu();
            // The first of a size only warms up.
            prefer(stage.plugin(resource)?, &available, *size).await?;
            for _ in 0..count {
                let (took, _) = prefer(stage.plugin(resource)?, &available, *size).await?;
                calls.took(took);
            }
            calls.cost(stage.process.cpu().saturating_sub(before));
        }
    }
    ours.pods.lock().clear();
    Ok(())
}

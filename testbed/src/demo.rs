//! The demo: the five real programs at work on one simulated node, told step by step. It ends
//! with an error when anything it shows is not so.

mod show;

use std::{future::Future, time::Duration};

use anyhow::{Context, ensure};
use kit::Failure;
use model::{
    plan::{Grant, GrantMode, Plan},
    quantity::{CorePercent, MemoryBytes},
};

use crate::{
    cluster::Cluster,
    stage::{Deadline, Options, Part, Stage, get, until},
    workload::Workload,
};

/// Arguments of `testbed demo`.
#[derive(Debug, Clone, clap::Args)]
pub struct DemoArgs {
    /// Go on until Ctrl-C once everything has been shown
    #[arg(long, env = "KEEP", value_parser = clap::builder::FalseyValueParser::new())]
    pub keep: bool,

    /// Where the exporter serves its metrics
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:9501")]
    pub metrics_listen: String,
}

const NODE: &str = "node-0";
const GPU: &str = "aliyun.com/gpu";
const PPU: &str = "alibabacloud.com/ppu";
const CORE: &str = "aliyun.com/gpu-core";
const MEMORY: &str = "aliyun.com/gpu-memory";

/// Runs the demo. Everything it started has ended when it returns.
pub async fn run(args: DemoArgs, tasks: kit::Tasks) -> Result<(), Failure> {
    let stopped = tasks.shutdown_token();
    let whole = async {
        let stage = Stage::start(Options {
            profiles: vec!["ppu-8x144".into()],
            exporter_listen: Some(args.metrics_listen.clone()),
            ..Options::default()
        })
        .await?;
        let outcome = tell(&stage, args.keep, tasks.shutdown()).await;
        if outcome.is_err() {
            show::logs(&stage);
        }
        let end = stage.end().await;
        outcome.and(end)
    };
    tokio::select! {
        outcome = whole => outcome.map_err(|e| Failure::fatal(format!("the demo shows a fault: {e:#}"))),
        // Interrupted before the end: dropping the stage ends every process.
        () = async { stopped.cancelled().await; tokio::time::sleep(Duration::from_secs(15)).await } => {
            Err(Failure::fatal("interrupted"))
        }
    }
}

async fn tell(
    stage: &Stage,
    keep: bool,
    interrupted: impl Future<Output = ()>,
) -> anyhow::Result<()> {
    let cluster = Cluster::new(stage.client(), model::settings::Settings::default());
    tokio::pin!(interrupted);
    tokio::select! {
        told = walk(stage, &cluster, keep) => told?,
        () = &mut interrupted => return Ok(()),
    }
    if keep {
        show::addresses(stage);
        interrupted.await;
        println!();
    } else {
        switch_off(stage, &cluster).await?;
        show::line("Done: everything shown was so. The programs end now.");
    }
    Ok(())
}

async fn walk(stage: &Stage, cluster: &Cluster, keep: bool) -> anyhow::Result<()> {
    switch_on(cluster).await?;
    let pods = [
        Workload::one("train-a", &[(CORE, 50), (MEMORY, 60)]),
        Workload::one("train-b", &[(CORE, 40), (MEMORY, 70)]),
        Workload::one("serve-c", &[(CORE, 30), (MEMORY, 24)]),
        Workload::one("whole-d", &[(PPU, 2)]),
        Workload::one("whole-e", &[(GPU, 4)]),
    ];
    run_pods(cluster, &pods).await?;
    one_too_many(cluster).await?;
    read_metrics(stage, &pods).await?;
    if !keep {
        cluster.delete("late-f").await?;
        for pod in &pods {
            cluster.delete(pod.name()).await?;
        }
        for pod in &pods {
            cluster
                .pod_is_gone(pod.name(), Deadline::seconds(30))
                .await?;
        }
    }
    Ok(())
}

async fn switch_on(cluster: &Cluster) -> anyhow::Result<()> {
    show::step("A node with 8 PPU cards of 144 GiB, and the five programs of the kit");
    node_is_there(cluster).await?;
    let key = &cluster.settings().node_label.key;
    show::command(&format!("kubectl label node {NODE} {key}=true"));
    cluster.label_node(NODE, true).await?;
    show::line(
        "The controller starts a Job on the node; its agent asks the Runtime to switch on …",
    );
    let wanted = [(PPU, 8), (GPU, 8), (CORE, 800), (MEMORY, 1152)];
    cluster
        .resources_are(NODE, &wanted, Deadline::seconds(30))
        .await?;
    let status = last_action(cluster, "enable").await?;
    show::command(&format!("kubectl describe node {NODE}"));
    show::resources(&cluster.node_resources(NODE).await?);
    show::line(&format!(
        "{}: {status}",
        cluster.settings().annotations.last_action_status
    ));
    Ok(())
}

async fn run_pods(cluster: &Cluster, pods: &[Workload]) -> anyhow::Result<()> {
    show::step("Two shares on one card, one that only fits elsewhere, whole cards");
    let mut given = Vec::new();
    for pod in pods {
        cluster.create(pod).await?;
        cluster
            .pod_is(pod.name(), "Running", Deadline::seconds(30))
            .await?;
        let plan = cluster.allocated(pod.name(), Deadline::seconds(10)).await?;
        given.push((pod.name().to_owned(), plan));
    }
    show::cards(&given);
    cards_are_as_claimed(&given)
}

async fn one_too_many(cluster: &Cluster) -> anyhow::Result<()> {
    show::step("One pod more than the node can hold");
    cluster
        .create(&Workload::one("late-f", &[(GPU, 2)]))
        .await?;
    let why = until(
        "the reason why late-f is Pending",
        Deadline::seconds(20),
        || async {
            let events = cluster.events("late-f", "FailedScheduling").await;
            let events = events.map_err(|e| format!("{e:#}"))?;
            events
                .last()
                .cloned()
                .ok_or_else(|| "no FailedScheduling event".to_owned())
        },
    )
    .await?;
    show::line(&format!(
        "late-f asks 2 whole cards and stays Pending: {why}"
    ));
    ensure!(
        why.contains("whole cards free"),
        "the reason does not say what is missing: {why}"
    );
    Ok(())
}

async fn read_metrics(stage: &Stage, pods: &[Workload]) -> anyhow::Result<()> {
    show::step("Metrics, per card and per container");
    let url = stage.layout().metrics_url(0);
    show::command(&format!("curl -s {url}"));
    let metrics = until(
        "every container to have its series",
        Deadline::seconds(20),
        || async {
            let text = get(&url).await.map_err(|e| format!("{e:#}"))?;
            let missing: Vec<_> = pods
                .iter()
                .filter(|p| !has_series(&text, p.name()))
                .map(Workload::name)
                .collect();
            if missing.is_empty() && text.contains("accel_card_utilization_ratio{") {
                Ok(text)
            } else {
                Err(format!(
                    "no series of {missing:?}, or no measured values yet"
                ))
            }
        },
    )
    .await?;
    ensure!(
        metrics.contains("accel_exporter_runtime_up 1"),
        "the exporter sees no Runtime"
    );
    ensure!(
        !has_series(&metrics, "late-f"),
        "a Pending pod has a series"
    );
    show::metrics(&metrics);
    Ok(())
}

async fn switch_off(stage: &Stage, cluster: &Cluster) -> anyhow::Result<()> {
    show::step("The pods have ended; the label goes");
    let book_url = format!("{}/book", stage.layout().runtime_control_url(0));
    until(
        "the Runtime's book to be empty",
        Deadline::seconds(30),
        || async {
            let book = get(&book_url).await.map_err(|e| format!("{e:#}"))?;
            let book: serde_json::Value = serde_json::from_str(&book).map_err(|e| e.to_string())?;
            match book.get("allocations").and_then(|a| a.as_array()) {
                Some(none) if none.is_empty() => Ok(()),
                _ => Err(format!("it holds {book}")),
            }
        },
    )
    .await?;
    show::line("The Runtime's book is empty: every card was given back.");
    show::command(&format!(
        "kubectl label node {NODE} {}-",
        cluster.settings().node_label.key
    ));
    cluster.label_node(NODE, false).await?;
    cluster
        .resources_are(NODE, &[], Deadline::seconds(30))
        .await?;
    let status = last_action(cluster, "disable").await?;
    show::line(&format!(
        "{}: {status}",
        cluster.settings().annotations.last_action_status
    ));
    show::line(&format!(
        "{NODE} offers no cards any more, and no name is left in its capacity."
    ));
    let dead = stage.dead();
    ensure!(dead.is_empty(), "a program ended by itself: {dead:?}");
    Ok(())
}

async fn node_is_there(cluster: &Cluster) -> anyhow::Result<()> {
    until("the node to register", Deadline::seconds(20), || async {
        cluster
            .node_resources(NODE)
            .await
            .map(drop)
            .map_err(|e| format!("{e:#}"))
    })
    .await
}

async fn last_action(cluster: &Cluster, action: &str) -> anyhow::Result<String> {
    let key = cluster.settings().annotations.last_action_status.clone();
    until(
        &format!("the controller to report {action}"),
        Deadline::seconds(30),
        || async {
            let text = cluster
                .node_annotation(NODE, &key)
                .await
                .map_err(|e| format!("{e:#}"))?;
            let text = text.ok_or_else(|| format!("no {key} yet"))?;
            if text.contains(action) && text.contains("Succeeded") {
                Ok(text)
            } else {
                Err(text)
            }
        },
    )
    .await
}

/// A line of the container metrics names the pod.
fn has_series(metrics: &str, pod: &str) -> bool {
    let label = format!("pod=\"{pod}\"");
    metrics
        .lines()
        .any(|l| l.starts_with("accel_container_") && l.contains(&label))
}

/// What the walk-through claims: train-a and train-b on one card, serve-c on another, whole
/// cards alone, nothing given twice.
fn cards_are_as_claimed(given: &[(String, Plan)]) -> anyhow::Result<()> {
    let grants = |pod: &str| -> anyhow::Result<&[Grant]> {
        let plan = given
            .iter()
            .find(|(name, _)| name == pod)
            .map(|(_, plan)| plan);
        plan.and_then(|p| p.of("main"))
            .with_context(|| format!("{pod} was given nothing"))
    };
    let card =
        |pod: &str| grants(pod).map(|g| g.iter().map(|g| g.card.clone()).collect::<Vec<_>>());
    ensure!(
        card("train-a")? == card("train-b")?,
        "train-a and train-b are not on one card"
    );
    ensure!(
        card("serve-c")? != card("train-a")?,
        "serve-c is on a card without room"
    );
    ensure!(
        grants("train-a")?.iter().all(|g| g.mode
            == GrantMode::Share {
                core: CorePercent::new(50),
                memory: MemoryBytes::from_gib(60)
            }),
        "train-a was not given what it asked"
    );
    let mut whole = card("whole-d")?;
    whole.extend(card("whole-e")?);
    let mut all = whole.clone();
    all.extend(card("train-a")?);
    all.extend(card("serve-c")?);
    all.sort();
    all.dedup();
    ensure!(
        whole.len() == 6 && all.len() == 8,
        "a card was given twice: {given:?}"
    );
    Ok(())
}

/// The part whose own metrics a reader may want to see.
pub(crate) const ADMIN_PARTS: [Part; 4] = [
    Part::DevicePlugin(0),
    Part::Extender(0),
    Part::Exporter(0),
    Part::Controller,
];

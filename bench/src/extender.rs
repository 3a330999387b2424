//! The scheduler extender beside a floor that keeps every node without a thought.

use std::{
    net::SocketAddr,
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Context as _, ensure};
use futures_util::future::try_join_all;
use serde_json::{Value, json};

use crate::{
    Ground, api_server,
    callers::{Caller, calls, expect, once, request},
    cluster::{self, Lists, Size},
    process::{Process, free_address},
    table::{Figure, Table, Target},
    timing::Calls,
};

/// Nodes, pods a node, cards a node.
const SIZES: [(usize, usize, u32); 12] = [
    (100, 0, 8),
    (100, 2, 8),
    (100, 8, 8),
    (1_000, 0, 8),
    (1_000, 2, 8),
    (1_000, 8, 8),
    (5_000, 0, 8),
    (5_000, 2, 8),
    (5_000, 8, 8),
    (10_000, 0, 8),
    (10_000, 2, 8),
    (10_000, 8, 16),
];

/// How often ours and the floor take turns.
const TURNS: usize = 6;

/// What the pods that wait ask of a card's core.
const CORE: u32 = 30;

/// Requests that are asked in turns, each another: more than are remembered at once.
const OTHERS: u32 = 12;

/// Filter and prioritize, of the floor.
const TIMES_FLOOR: Target = Target::Times(2.0);

/// Until the first right answer, beside the API server's own time to list.
const START_WITHIN: Duration = Duration::from_millis(500);

/// Callers at once in the storm.
const STORM: usize = 1_000;

/// Pods bound one after the other.
const BINDS: usize = 400;

/// All of it.
pub(crate) async fn measure(ground: &Ground, table: &mut Table) -> anyhow::Result<()> {
    let address = free_address()?;
    let program = ground.programs.join("floor-extender");
    let floor = Process::start(&program, [address.to_string()], ground.folder.path())?;
    let floor = Server {
        process: floor,
        address,
    };
    for (nodes, pods_a_node, cards) in SIZES {
        let title = format!("extender {nodes}/{pods_a_node}");
        if ground.wants(&title) {
            let size = Size {
                nodes,
                pods_a_node,
                cards,
                waiting: BINDS,
            };
            cluster(ground, &floor, size, &title, table).await?;
        }
    }
    Ok(())
}

/// A program that serves HTTP.
struct Server {
    process: Process,
    address: SocketAddr,
}

async fn cluster(
    ground: &Ground,
    floor: &Server,
    size: Size,
    title: &str,
    table: &mut Table,
) -> anyhow::Result<()> {
    let lists = Arc::new(Lists::of(size)?);
    let (api, _served) = api_server::serve(lists.clone()).await?;
    let listed = list_all(api, &lists).await?;
    let address = free_address()?;
    let program = ground.programs.join("lj-runtimekit-scheduler");
    let args = [
        format!("--listen={address}"),
        format!("--api-server=http://{api}"),
    ];
    let mut ours = Server {
        process: Process::start(&program, args, ground.folder.path())?,
        address,
    };
    let question = cluster::question(size.nodes, CORE);
    let filter = request("POST", "/filter", &question);
    let first = first_answer(&mut ours, &filter, size.nodes).await?;
    table.row(
        format!("{title} first right answer, lists in {listed}"),
        first,
        None,
        Target::Most((listed_time(listed) + START_WITHIN).into()),
    );
    for verb in ["filter", "prioritize"] {
        let same = [request("POST", &format!("/{verb}"), &question)];
        let title = format!("{title} {verb}");
        compare(&ours, floor, &same, size, &title, table).await?;
        let others = (0..OTHERS).map(|at| cluster::question(size.nodes, CORE - at));
        let path = format!("/{verb}");
        let others: Vec<_> = others.map(|body| request("POST", &path, &body)).collect();
        let title = format!("{title}, ever another request");
        compare(&ours, floor, &others, size, &title, table).await?;
    }
    if size.nodes == 1_000 && size.pods_a_node == 2 {
        bind(&ours, api, title, table).await?;
        storm(&ours, &filter, title, table).await?;
    }
    let most = match (size.nodes, size.pods_a_node) {
        (5_000, 2) => Target::Most(Figure::Memory(f64::from(48 << 20))),
        (10_000, 8) => Target::Most(Figure::Memory(f64::from(160 << 20))),
        _ => Target::Told,
    };
    let memory = ours.process.memory();
    table.row(format!("{title} memory"), memory, None, most);
    Ok(())
}

fn listed_time(listed: Figure) -> Duration {
    match listed {
        Figure::Time(seconds) => Duration::from_secs_f64(seconds),
        Figure::Memory(_) | Figure::Count(_) => Duration::ZERO,
    }
}

/// How long the API server takes to send both lists to one who reads and forgets them.
async fn list_all(api: SocketAddr, lists: &Lists) -> anyhow::Result<Figure> {
    let read = async |kind: &str, pages: usize| {
        let mut caller = Caller::connect(api).await?;
        for page in 0..pages {
            let path = format!("/api/v1/{kind}?limit=500&continue={page}");
            let (status, _) = caller.call(&request("GET", &path, b"")).await?;
            ensure!(status == 200, "{path}: {status}");
        }
        Ok(())
    };
    let start = Instant::now();
    tokio::try_join!(
        read("nodes", lists.nodes.len()),
        read("pods", lists.pods.len())
    )?;
    Ok(start.elapsed().into())
}

/// Asks until the answer is right. Any other answer than "not yet" before is an error.
async fn first_answer(ours: &mut Server, filter: &[u8], nodes: usize) -> anyhow::Result<Figure> {
    loop {
        ours.process.is_alive()?;
        if let Ok((status, body)) = once(ours.address, filter).await
            && status != 503
        {
            let took = ours.process.started().elapsed();
            ensure!(status == 200, "the first answer is {status}");
            let answer: Value = serde_json::from_slice(&body)?;
            let kept = answer.pointer("/NodeNames").and_then(Value::as_array);
            let kept = kept.map_or(0, Vec::len);
            ensure!(
                kept == nodes,
                "the first answer keeps {kept} of {nodes} nodes"
            );
            return Ok(took.into());
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

async fn compare(
    ours: &Server,
    floor: &Server,
    requests: &[Vec<u8>],
    size: Size,
    title: &str,
    table: &mut Table,
) -> anyhow::Result<()> {
    let count = (100_000 / size.nodes).clamp(40, 400);
    let mut measured = [Calls::default(), Calls::default()];
    // The first turn only warms both up.
    for turn in 0..=TURNS {
        for (server, measured) in [ours, floor].into_iter().zip(&mut measured) {
            let exchanges = expect(server.address, requests).await?;
            let before = server.process.cpu();
            let mut turn_of = calls(server.address, &exchanges, count).await?;
            turn_of.cost(server.process.cpu().saturating_sub(before));
            if turn > 0 {
                measured.add(turn_of);
            }
        }
    }
    let [ours, floor] = measured;
    let rows = [
        ("p50", ours.p50(), floor.p50(), TIMES_FLOOR),
        ("CPU", ours.cpu_each(), floor.cpu_each(), TIMES_FLOOR),
        ("p99", ours.p99(), floor.p99(), Target::Told),
    ];
    for (what, ours, floor, target) in rows {
        table.row(format!("{title} {what}"), ours, Some(floor), target);
    }
    Ok(())
}

/// Binds beside the same write straight to the API server, in turns.
async fn bind(
    ours: &Server,
    api: SocketAddr,
    title: &str,
    table: &mut Table,
) -> anyhow::Result<()> {
    let (mut through, mut straight) = (Calls::default(), Calls::default());
    let mut extender = Caller::connect(ours.address).await?;
    let mut server = Caller::connect(api).await?;
    for at in 0..BINDS {
        let pod = cluster::waiting_name(at);
        let node = cluster::node_name(at);
        let body = json!({"PodName": pod, "PodNamespace": "default",
            "PodUID": cluster::waiting_uid(at), "Node": node});
        let call = request("POST", "/bind", body.to_string().as_bytes());
        let start = Instant::now();
        let (_, answer) = extender.call(&call).await?;
        through.took(start.elapsed());
        let answer: Value = serde_json::from_slice(answer)?;
        let error = answer.pointer("/Error").and_then(Value::as_str);
        ensure!(error == Some(""), "bind: {answer}");

        let body = json!({"apiVersion": "v1", "kind": "Binding", "metadata": {"name": pod},
            "target": {"apiVersion": "v1", "kind": "Node", "name": node}});
        let path = format!("/api/v1/namespaces/default/pods/{pod}/binding");
        let call = request("POST", &path, body.to_string().as_bytes());
        let start = Instant::now();
        let (status, _) = server.call(&call).await?;
        straight.took(start.elapsed());
        ensure!(status == 201, "{status}");
    }
    let most = |figure| match figure {
        Figure::Time(seconds) => Target::Most(Figure::Time(seconds + 0.002)),
        Figure::Memory(_) | Figure::Count(_) => Target::Told,
    };
    for (what, ours, server) in [
        ("p50", through.p50(), straight.p50()),
        ("p99", through.p99(), straight.p99()),
    ] {
        let title = format!("{title} bind {what} (floor: the API server alone)");
        table.row(title, ours, Some(server), most(server));
    }
    Ok(())
}

/// All callers at once, each with one filter.
async fn storm(ours: &Server, filter: &[u8], title: &str, table: &mut Table) -> anyhow::Result<()> {
    let (_, expected) = once(ours.address, filter).await?;
    let connects = (0..STORM).map(|_| Caller::connect(ours.address));
    let callers = try_join_all(connects).await?;
    let asked = callers.into_iter().map(async |mut caller| {
        let answer = caller.call(filter).await;
        answer.is_ok_and(|(status, body)| status == 200 && body == expected)
    });
    let start = Instant::now();
    let right = futures_util::future::join_all(asked).await;
    let took = start.elapsed();
    let wrong = right.iter().filter(|right| !**right).count();
    let wrong = f64::from(u32::try_from(wrong).context("many")?);
    let none = Target::Most(Figure::Count(0.0));
    table.row(
        format!("{title} {STORM} filters at once, errors"),
        Figure::Count(wrong),
        None,
        none,
    );
    table.row(
        format!("{title} {STORM} filters at once, all"),
        took,
        None,
        Target::Told,
    );
    let most = ours.process.most_memory();
    table.row(
        format!("{title} most memory ever"),
        most,
        None,
        Target::Told,
    );
    Ok(())
}

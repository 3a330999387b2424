//! The exporter beside floors that write, or keep, the same text.

use std::{
    fs,
    net::SocketAddr,
    path::Path,
    time::{Duration, Instant},
};

use anyhow::ensure;
use runtime_proto::wire;
use tokio::time::sleep;

use crate::{
    Ground,
    callers::{Caller, once, request},
    kubelet::{NODE, Pod, Pods},
    node_server,
    process::{Process, free_address},
    runtime::{Measured, Runtime},
    table::{Figure, Table, Target},
    timing::Calls,
};

/// A node with so much to tell.
struct Shape {
    cards: u32,
    /// Containers on each card.
    shares: usize,
    measured: Measured,
    /// The most memory.
    memory: Option<f64>,
}

const MIB: f64 = 1_048_576.0;

/// About 480, 10,500 and 31,000 series. Of each card 5 are the exporter's own, of each container 2.
const SHAPES: [Shape; 3] = [
    Shape {
        cards: 8,
        shares: 0,
        measured: Measured {
            of_card: 54,
            of_container: 0,
        },
        memory: None,
    },
    Shape {
        cards: 16,
        shares: 64,
        measured: Measured {
            of_card: 10,
            of_container: 8,
        },
        memory: Some(10.0 * MIB),
    },
    Shape {
        cards: 16,
        shares: 64,
        measured: Measured {
            of_card: 10,
            of_container: 28,
        },
        memory: Some(24.0 * MIB),
    },
];

/// How often the three take turns.
const TURNS: usize = 6;

/// Scrapes that each come after a new collection.
const FRESH: usize = 8;

/// The program collects as often.
const EVERY: Duration = Duration::from_secs(1);

/// Against the floor that writes.
const TIMES_FLOOR: Target = Target::Times(1.3);

/// All of it.
pub(crate) async fn measure(ground: &Ground, table: &mut Table) -> anyhow::Result<()> {
    for (at, shape) in SHAPES.iter().enumerate() {
        let folder = ground.folder.path().join(format!("exporter-{at}"));
        fs::create_dir_all(&folder)?;
        node(ground, &folder, shape, table).await?;
    }
    Ok(())
}

/// A program that answers scrapes.
struct Server {
    process: Process,
    address: SocketAddr,
}

impl Server {
    async fn scraped(&mut self, series_at_least: usize) -> anyhow::Result<Vec<u8>> {
        let deadline = Instant::now() + Duration::from_secs(20);
        loop {
            self.process.is_alive()?;
            if let Ok((200, text)) = once(self.address, &scrape()).await
                && series(&text) >= series_at_least
            {
                return Ok(text);
            }
            ensure!(Instant::now() < deadline, "no whole answer");
            sleep(Duration::from_millis(20)).await;
        }
    }
}

fn scrape() -> Vec<u8> {
    request("GET", "/metrics", b"")
}

fn series(text: &[u8]) -> usize {
    let mut lines = text.split(|byte| *byte == b'\n');
    let is_series = |line: &&[u8]| line.first().is_some_and(|byte| *byte != b'#');
    lines.by_ref().filter(is_series).count()
}

async fn node(
    ground: &Ground,
    folder: &Path,
    shape: &Shape,
    table: &mut Table,
) -> anyhow::Result<()> {
    let (runtime, pods) = filled(shape)?;
    let runtimes = folder.join("runtime");
    fs::create_dir_all(&runtimes)?;
    runtime.serve(&runtimes)?;
    let pod_resources = folder.join("pod-resources.sock");
    pods.serve(&pod_resources)?;
    let (kubelet, _served) = node_server::serve(pods).await?;
    let address = free_address()?;
    let args = [
        format!("--node-name={NODE}"),
        format!("--listen={address}"),
        format!("--runtime-dir={}", runtimes.display()),
        format!("--pod-resources-socket={}", pod_resources.display()),
        format!("--kubelet-read-only-url=http://{kubelet}"),
        format!("--collection-interval={}", EVERY.as_secs()),
    ];
    let program = ground.programs.join("lj-runtimekit-exporter");
    let mut ours = Server {
        process: Process::start(&program, args, folder)?,
        address,
    };
    let cards = usize::try_from(shape.cards)?;
    let measured =
        cards * shape.measured.of_card + cards * shape.shares * shape.measured.of_container;
    let text = ours.scraped(measured).await?;
    let title = format!("exporter {} series", series(&text));
    let file = folder.join("answer.txt");
    fs::write(&file, &text)?;
    let floor = async |name: &str, kept: Option<&str>| {
        let address = free_address()?;
        let folder = folder.join(name);
        fs::create_dir_all(&folder)?;
        let mut args = vec![address.to_string(), file.display().to_string()];
        args.extend(kept.map(str::to_owned));
        let program = ground.programs.join("floor-exporter");
        let process = Process::start(&program, args, &folder)?;
        let mut server = Server { process, address };
        let same = server.scraped(series(&text)).await?;
        ensure!(
            series(&same) == series(&text),
            "the floor tells something else"
        );
        anyhow::Ok(server)
    };
    let servers = [
        ours,
        floor("writing", None).await?,
        floor("keeping", Some("kept")).await?,
    ];

    compare(&servers, series(&text), &title, table).await?;
    let [ours, writing, _] = &servers;
    let most = shape
        .memory
        .map_or(Target::Told, |m| Target::Most(Figure::Memory(m)));
    let (memory, floor) = (ours.process.memory(), writing.process.memory());
    table.row(format!("{title} memory"), memory, Some(floor), most);
    Ok(())
}

/// Ours, the floor that writes and the floor that keeps, in turns.
async fn compare(
    servers: &[Server; 3],
    series: usize,
    title: &str,
    table: &mut Table,
) -> anyhow::Result<()> {
    let each = (600_000 / series).clamp(30, 300);
    let mut back_to_back = [Calls::default(), Calls::default(), Calls::default()];
    for turn in 0..=TURNS {
        for (server, calls) in servers.iter().zip(&mut back_to_back) {
            let turn_of = scrapes(server, each, Duration::ZERO).await?;
            if turn > 0 {
                calls.add(turn_of);
            }
        }
    }
    let [ours, writing, keeping] = &back_to_back;
    let rows = [
        ("p50", ours.p50(), writing.p50(), TIMES_FLOOR),
        ("CPU", ours.cpu_each(), writing.cpu_each(), TIMES_FLOOR),
        ("p99", ours.p99(), writing.p99(), Target::Told),
        (
            "p50, floor keeps the text",
            ours.p50(),
            keeping.p50(),
            Target::Told,
        ),
        (
            "CPU, floor keeps the text",
            ours.cpu_each(),
            keeping.cpu_each(),
            Target::Told,
        ),
    ];
    for (what, ours, floor, target) in rows {
        table.row(format!("{title} {what}"), ours, Some(floor), target);
    }

    // What a scrape costs when each finds a new collection, as at Prometheus's pace.
    let mut fresh = [Calls::default(), Calls::default()];
    for (server, calls) in servers.iter().zip(&mut fresh) {
        *calls = scrapes(server, FRESH, EVERY).await?;
    }
    let [ours, writing] = &fresh;
    let title_fresh = format!("{title}, a new collection at each,");
    let (p50, floor) = (ours.p50(), Some(writing.p50()));
    table.row(format!("{title_fresh} p50"), p50, floor, Target::Told);
    let (cpu, floor) = (ours.cpu_each(), Some(writing.cpu_each()));
    table.row(
        format!("{title_fresh} CPU with the collection"),
        cpu,
        floor,
        Target::Told,
    );

    Ok(())
}

/// One caller; the pause is before each scrape.
async fn scrapes(server: &Server, count: usize, pause: Duration) -> anyhow::Result<Calls> {
    let mut caller = Caller::connect(server.address).await?;
    let mut calls = Calls::default();
    let before = server.process.cpu();
    for _ in 0..count {
        sleep(pause).await;
        let start = Instant::now();
        let (status, _) = caller.call(&scrape()).await?;
        calls.took(start.elapsed());
        ensure!(status == 200, "{status}");
    }
    calls.cost(server.process.cpu().saturating_sub(before));
    Ok(calls)
}

/// Kubelet and Runtime agree on who has what: a GiB of a card for each container.
fn filled(shape: &Shape) -> anyhow::Result<(Runtime, Pods)> {
    const MEMORY: &str = "aliyun.com/gpu-memory";
    const CORE: &str = "aliyun.com/gpu-core";
    let runtime = Runtime::new(shape.cards, shape.measured);
    let pods = Pods::default();
    for card in 0..shape.cards {
        for share in 0..shape.shares {
            let number = usize::try_from(card)? * shape.shares + share;
            let mut pod = Pod::asking(number, &[(CORE, 1), (MEMORY, 1)]);
            pod.name = format!("train-job-worker-{number}-7c9f8d6b5-x2v{:02}", number % 100);
            for (resource, kind) in [(CORE, "core"), (MEMORY, "mem")] {
                let id = format!("ppu-{card}.{kind}.{share}");
                pod.given.insert(resource.to_owned(), vec![id]);
            }
            let allocation = wire::AllocateRequest {
                allocation_id: format!("{}/main", pod.uid),
                consumer: Some(wire::Consumer {
                    namespace: "default".into(),
                    pod: pod.name.clone(),
                    pod_uid: pod.uid.clone(),
                    container: "main".into(),
                }),
                grants: vec![wire::Grant {
                    card_id: format!("ppu-{card}"),
                    mode: Some(wire::grant::Mode::Share(wire::ShareGrant {
                        core_percent: 1,
                        memory_bytes: 1 << 30,
                    })),
                }],
            };
            let mut book = runtime.book();
            book.insert(allocation.allocation_id.clone(), allocation);
            pods.lock().push(pod);
        }
    }
    Ok((runtime, pods))
}

//! Many short pods of every kind while parts are killed at random.

use std::{
    cell::RefCell,
    collections::BTreeMap,
    time::{Duration, Instant},
};

use anyhow::{Context, bail, ensure};
use testbed::{
    stage::{Deadline, Signal, until},
    workload::Workload,
};
use tokio::{sync::watch, time::timeout};

use crate::ground::{
    Ground, Victim, WHOLE_NODE,
    names::{CORE, GPU, MEMORY, PPU, SLICE},
};

/// Parts that are killed.
const VICTIMS: [Victim; 4] = [
    Victim::Kubelet,
    Victim::DevicePlugin,
    Victim::Extender,
    Victim::Runtime,
];
/// Pods that are there at once.
const AT_ONCE: usize = 20;
/// From the making of a pod to its end. It waits behind others, of a scheduler that backs off; less
/// than the 5 minutes after which kube-scheduler tries one that it had forgotten.
const ENDS_WITHIN: Duration = Duration::from_secs(150);
/// Between the killing of a part and the last rejection for it: on a real cluster somebody has to
/// start it again first.
const FELT_FOR: Duration = Duration::from_mins(1);
/// What kubelet says when it rejects a pod because a part is away, and the parts that explain it.
/// Any other reason is a fault.
const REASONS: [(&str, &[Victim]); 10] = [
    ("no healthy devices present", PLUGIN_AWAY),
    ("unregistered device", PLUGIN_AWAY),
    ("has been stopped", PLUGIN_AWAY),
    ("code = Unavailable", PLUGIN_AWAY),
    // Of two spellings.
    ("code = Cancel", PLUGIN_AWAY),
    ("transport error", PLUGIN_AWAY),
    // Kubelet takes the first pods after its start in before it knows who has ended.
    ("but kubelet can give only", &[Victim::Kubelet]),
    (
        "requested number of devices unavailable",
        &[Victim::Kubelet],
    ),
    ("no Runtime at", &[Victim::Runtime]),
    ("the Runtime did not answer", &[Victim::Runtime]),
];
const PLUGIN_AWAY: &[Victim] = &[Victim::DevicePlugin, Victim::Kubelet];
/// A fault of the books counts once two looks in a row show it.
const LOOK_EVERY: Duration = Duration::from_millis(700);
/// A look that takes longer is given up, like one at a part that is away.
const LOOK_WITHIN: Duration = Duration::from_secs(10);
/// The longest that a node's books may stay closed.
const CLOSED_FOR: Duration = Duration::from_mins(1);

/// So many pods of random shares, whole cards, slices and partitions over all nodes, whose cards
/// can be cut. Meanwhile parts are killed at random, and all books are looked at again and again:
/// no card is promised beyond its size or in two modes, and no pod has other cards than it says.
/// At the end nobody holds anything. Which pods and kills come, in which order and after which
/// pauses, is a matter of `seed` alone.
pub async fn storm(ground: &impl Ground, pods: usize, seed: u64) -> anyhow::Result<()> {
    println!("storm: seed {seed}, {pods} pods");
    let began = Instant::now();
    let outcome = async {
        cards_can_be_cut(ground).await?;
        blow(ground, pods, seed).await?;
        all_is_given_back(ground).await
    };
    let outcome = outcome.await;
    let seconds = began.elapsed().as_secs_f64();
    outcome.with_context(|| format!("storm of seed {seed}, {pods} pods, after {seconds:.1} s"))
}

async fn cards_can_be_cut(ground: &impl Ground) -> anyhow::Result<()> {
    let cluster = ground.cluster();
    for node in 0..ground.node_count() {
        ground
            .runtime_fault(node, "replace-cards?profile=ppu-8-cut")
            .await?;
        cluster.label_node(&ground.node(node), true).await?;
        let names = [PPU, SLICE];
        until("the nodes' cards", Deadline::seconds(60), || async {
            let now = cluster.node_resources(&ground.node(node)).await;
            let now = now.map_err(|e| format!("{e:#}"))?;
            let all = names.iter().all(|name| now.contains_key(*name));
            if all { Ok(()) } else { Err(format!("{now:?}")) }
        })
        .await?;
    }
    Ok(())
}

/// Pods, kills and looks beside each other, until the last pod has ended.
async fn blow(ground: &impl Ground, pods: usize, seed: u64) -> anyhow::Result<()> {
    let (over, is_over) = watch::channel(false);
    let began = Instant::now();
    let killed = Killed::default();
    let waves = async {
        let outcome = pods_come_and_go(ground, pods, seed, &killed).await;
        over.send_replace(true);
        outcome
    };
    let kills = kill_at_random(ground, seed, &killed, is_over.clone());
    let looks = look_all_the_time(ground, is_over);
    let (ended, (), looked) = tokio::try_join!(waves, kills, looks)?;
    let seconds = began.elapsed().as_secs_f64();
    println!(
        "storm: over after {seconds:.1} s: {ended:?}, {} parts killed, {looked} looks at all books",
        killed.0.borrow().len()
    );
    Ok(())
}

async fn all_is_given_back(ground: &impl Ground) -> anyhow::Result<()> {
    let cluster = ground.cluster();
    for node in 0..ground.node_count() {
        let name = ground.node(node);
        until(
            &format!("the books of {name} to be empty"),
            Deadline::seconds(60),
            || async {
                let books = ground.books_now(node).await;
                let books = books.map_err(|e| format!("{e:#}"))?;
                let faults = books.disagreements();
                if books.are_empty() && faults.is_empty() {
                    Ok(())
                } else {
                    Err(format!("{faults:?} in {books:?}"))
                }
            },
        )
        .await?;
        ground
            .runtime_fault(node, "replace-cards?profile=ppu-8x144")
            .await?;
        if node > 0 {
            cluster.label_node(&name, false).await?;
        }
    }
    cluster
        .resources_are(&ground.node(0), &WHOLE_NODE, Deadline::seconds(90))
        .await
}

/// What was killed, and when it was started again.
#[derive(Default)]
struct Killed(RefCell<Vec<(Victim, Instant)>>);

impl Killed {
    /// Whether a part that was away explains these words of kubelet's.
    fn explains(&self, words: &str) -> bool {
        let killed = self.0.borrow();
        let felt = killed.iter().filter(|(_, at)| at.elapsed() < FELT_FOR);
        let mut felt = felt.map(|(victim, _)| victim);
        felt.any(|victim| {
            let mut reasons = REASONS.iter().filter(|(_, of)| of.contains(victim));
            reasons.any(|(reason, _)| words.contains(reason))
        })
    }
}

/// How the pods ended.
#[derive(Debug, Default)]
struct Ended {
    succeeded: usize,
    /// Rejected by kubelet while a part was away, by the beginning of its words.
    rejected: BTreeMap<String, usize>,
}

async fn pods_come_and_go(
    ground: &impl Ground,
    pods: usize,
    seed: u64,
    killed: &Killed,
) -> anyhow::Result<Ended> {
    let cluster = ground.cluster();
    let mut dice = Dice(seed);
    let mut ended = Ended::default();
    let mut there: Vec<(String, Instant)> = Vec::new();
    let mut made = 0;
    while made < pods || !there.is_empty() {
        while made < pods && there.len() < AT_ONCE {
            let name = format!("storm-{made}");
            // The API server is none of the parts that are killed.
            cluster.create(&any_pod(&name, &mut dice)).await?;
            there.push((name, Instant::now()));
            made += 1;
        }
        let mut left = Vec::new();
        for (name, since) in there {
            let pod = cluster.pod(&name).await?;
            let status = pod.and_then(|pod| pod.status).unwrap_or_default();
            match status.phase.as_deref() {
                Some("Succeeded") => ended.succeeded += 1,
                Some("Failed") => {
                    let reason = status.reason.unwrap_or_default();
                    let message = status.message.unwrap_or_default();
                    println!("storm: {name} failed: {message}");
                    ensure!(
                        reason == "UnexpectedAdmissionError" && killed.explains(&message),
                        "{name} failed for {reason:?}, for which nothing was killed: {message}"
                    );
                    let words = message.chars().take(120).collect();
                    *ended.rejected.entry(words).or_default() += 1;
                }
                _ if since.elapsed() < ENDS_WITHIN => {
                    left.push((name, since));
                    continue;
                }
                _ => {
                    let events = cluster.events(&name, "").await?;
                    bail!("{name} does not end within {ENDS_WITHIN:?}: {status:?}, {events:?}");
                }
            }
            cluster.delete(&name).await?;
        }
        there = left;
        // The pace of the looks at the pods.
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    let rejected: usize = ended.rejected.values().sum();
    ensure!(rejected * 5 <= pods, "too many were rejected: {ended:?}");
    Ok(ended)
}

fn any_pod(name: &str, dice: &mut Dice) -> Workload {
    let pod = match dice.below(7) {
        0 => Workload::one(name, &[(GPU, 1 + dice.below(3))]),
        1 => Workload::one(name, &[(PPU, 1)]),
        2 => Workload::one(name, &[(SLICE, [1, 2, 4][dice.at(3)])]),
        3 => {
            let profiles = [
                "alibabacloud.com/ppu-1u.1g18gb",
                "alibabacloud.com/ppu-2u.2g36gb",
            ];
            Workload::one(name, &[(profiles[dice.at(2)], 1 + dice.below(2))])
        }
        4 => Workload::new(name)
            .init("init", &[(MEMORY, 1 + dice.below(60))])
            .container("main", &[(MEMORY, 1 + dice.below(60))]),
        5 => Workload::one(name, &[(CORE, 1 + dice.below(100))]),
        _ => {
            let asks = [(CORE, 1 + dice.below(80)), (MEMORY, 1 + dice.below(100))];
            Workload::one(name, &asks)
        }
    };
    pod.runs_for(1 + u32::try_from(dice.below(3)).unwrap_or(0))
}

async fn kill_at_random(
    ground: &impl Ground,
    seed: u64,
    killed: &Killed,
    mut over: watch::Receiver<bool>,
) -> anyhow::Result<()> {
    let mut dice = Dice(seed ^ 0x9e37_79b9_7f4a_7c15);
    let began = Instant::now();
    loop {
        let pause = Duration::from_millis(2_000 + dice.below(5_000));
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            done = over.wait_for(|over| *over) => {
                done?;
                return Ok(());
            }
        }
        let victim = VICTIMS[dice.at(VICTIMS.len())];
        let at = began.elapsed().as_secs_f64();
        killed.0.borrow_mut().push((victim, Instant::now()));
        ground.stop(victim, Signal::Kill).await?;
        ground.start(victim).await?;
        let back = began.elapsed().as_secs_f64();
        println!("storm: {victim:?} killed at {at:.1} s, started again at {back:.1} s");
        if let Some((_, at)) = killed.0.borrow_mut().last_mut() {
            *at = Instant::now();
        }
    }
}

/// How many looks there were.
async fn look_all_the_time(
    ground: &impl Ground,
    mut over: watch::Receiver<bool>,
) -> anyhow::Result<usize> {
    let mut nodes: Vec<(Vec<String>, Instant)> =
        vec![(Vec::new(), Instant::now()); ground.node_count()];
    let mut looks = 0;
    loop {
        for (node, (before, open)) in nodes.iter_mut().enumerate() {
            let name = ground.node(node);
            let look = timeout(LOOK_WITHIN, ground.books_now(node)).await;
            let look = look.context("no answer").flatten();
            let books = match look {
                Ok(books) => books,
                // A part that is away tells nothing; it is looked at when it is back.
                Err(_) if open.elapsed() < CLOSED_FOR => {
                    before.clear();
                    continue;
                }
                Err(error) => {
                    let closed = format!("{name}: no look at the books for {CLOSED_FOR:?}");
                    return Err(error.context(closed));
                }
            };
            let now = books.wrong_at_any_moment();
            let both: Vec<&String> = now.iter().filter(|fault| before.contains(fault)).collect();
            ensure!(both.is_empty(), "{name}: {both:#?} in {books:?}");
            (*before, *open) = (now, Instant::now());
            looks += 1;
        }
        tokio::select! {
            () = tokio::time::sleep(LOOK_EVERY) => {}
            done = over.wait_for(|over| *over) => {
                done?;
                ensure!(looks > 0, "no book was ever to be read");
                return Ok(looks);
            }
        }
    }
}

/// Numbers that look random and come again with the same seed.
struct Dice(u64);

impl Dice {
    fn below(&mut self, most: u64) -> u64 {
        // The constants are Knuth's for MMIX.
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % most
    }

    fn at(&mut self, length: usize) -> usize {
        let most = u64::try_from(length).unwrap_or(1);
        usize::try_from(self.below(most)).unwrap_or(0)
    }
}

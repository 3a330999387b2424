//! The simulated Runtime through the client that all programs use.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

use std::{future::Future, path::Path, time::Duration};

use futures_util::{Stream, StreamExt};
use model::{
    backoff::Backoff,
    card::{CardKind, Health},
    name::{CardId, ContainerName, Namespace, PodName, PodRef, PodUid, ProfileName},
    plan::{Grant, GrantMode},
    quantity::{CorePercent, MemoryBytes},
};
use runtime_proto::{
    Client, Error,
    client::{Allocation, CardEvent, Cards, Consumer, MetricEvent, Phase, Snapshot},
};
use runtime_sim::{
    Fault, Options, Profile, Sim,
    fault::CardFault::{self, Back, Ecc, Healthy, Lost, Unhealthy},
};
use tempfile::TempDir;

const WITHIN: Duration = Duration::from_secs(5);

/// Everything here ends by itself.
async fn soon<F: Future>(future: F) -> F::Output {
    tokio::time::timeout(Duration::from_secs(20), future)
        .await
        .expect("within 20 s")
}

fn folder() -> TempDir {
    tempfile::tempdir().unwrap()
}

fn options(folder: &Path, profile: &str) -> Options {
    Options::quick(folder, Profile::load(profile).unwrap())
}

fn start(folder: &TempDir, profile: &str) -> (Sim, Client) {
    let sim = Sim::start(options(folder.path(), profile)).unwrap();
    let client = client(&sim);
    (sim, client)
}

fn client(sim: &Sim) -> Client {
    let step = Duration::from_millis(10);
    Client::with_backoff(sim.sockets(), Backoff::new(step, step * 4))
}

fn card(id: &str) -> CardId {
    CardId::new(id).unwrap()
}

fn fault(id: &str, fault: CardFault) -> Fault {
    Fault::Card(card(id), fault)
}

fn allocation(pod: &str, grants: Vec<(&str, GrantMode)>) -> Allocation {
    let grants = grants.into_iter().map(|(id, mode)| Grant {
        card: card(id),
        mode,
    });
    Allocation {
        id: format!("uid-{pod}/main"),
        consumer: Consumer {
            pod: PodRef {
                namespace: Namespace::new("default").unwrap(),
                name: PodName::new(pod).unwrap(),
            },
            uid: PodUid::new(&format!("uid-{pod}")).unwrap(),
            container: ContainerName::new("main").unwrap(),
        },
        grants: grants.collect(),
    }
}

fn share(core: u32, gib: u64) -> GrantMode {
    GrantMode::Share {
        core: CorePercent::new(core),
        memory: MemoryBytes::from_gib(gib),
    }
}

fn partition(profile: &str, count: u32) -> GrantMode {
    GrantMode::Partition {
        profile: ProfileName::new(profile).unwrap(),
        count,
    }
}

fn refusal<T: std::fmt::Debug>(answer: Result<T, Error>) -> String {
    match answer {
        Err(Error::Refused { message, .. }) => message,
        other => panic!("{other:?} is no refusal"),
    }
}

async fn next_cards(events: &mut (impl Stream<Item = CardEvent> + Unpin)) -> Cards {
    match soon(events.next()).await {
        Some(CardEvent::Cards(cards)) => cards,
        other => panic!("{other:?} is no card list"),
    }
}

/// The next list after the connection was lost at least once.
async fn cards_after_loss(events: &mut (impl Stream<Item = CardEvent> + Unpin)) -> Cards {
    let mut is_lost = false;
    loop {
        match soon(events.next()).await {
            Some(CardEvent::Cards(cards)) if is_lost => return cards,
            Some(CardEvent::Cards(_)) => {}
            Some(CardEvent::Lost { error, .. }) => {
                assert!(matches!(error, Error::Unavailable { .. }), "{error}");
                is_lost = true;
            }
            None => panic!("the watch ended"),
        }
    }
}

async fn until_on(client: &Client, phase: Phase) -> String {
    soon(async {
        loop {
            let status = client.feature_status().await.unwrap();
            if status.phase == phase {
                return status.message;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await
}

#[tokio::test]
async fn the_first_list_has_all_cards_as_the_profile_says() {
    let folder = folder();
    let (_sim, client) = start(&folder, "ppu-8x144");
    let cards = next_cards(&mut client.watch_cards()).await;
    assert_eq!(cards.malformed, Vec::<String>::new());
    assert_eq!(cards.inventory.cards().len(), 8);
    let expected = Profile::load("ppu-8x144").unwrap().inventory().unwrap();
    assert_eq!(cards.inventory, expected);
    let supported = client.supported().await.unwrap();
    assert_eq!(supported.kinds, [CardKind::Ppu]);
    assert_eq!(supported.interface_version, "1.1");
}

#[tokio::test]
async fn every_profile_passes_the_client_s_checks_unchanged() {
    for name in Profile::built_in() {
        let folder = folder();
        let (_sim, client) = start(&folder, name);
        let (cards, book) = client.book().await.unwrap();
        assert_eq!(cards.malformed, Vec::<String>::new(), "{name}");
        let expected = Profile::load(name).unwrap().inventory().unwrap();
        assert_eq!(cards.inventory, expected, "{name}");
        assert_eq!(book, []);
        let config = client.metric_config().await.unwrap();
        assert_eq!(config.malformed, Vec::<String>::new());
        assert_eq!((config.card.len(), config.container.len()), (8, 2));
    }
}

#[tokio::test]
async fn the_same_allocation_again_gives_the_same_answer() {
    let folder = folder();
    let (sim, client) = start(&folder, "ppu-8x144");
    let asked = allocation("a", vec![("ppu-3", share(30, 24))]);
    let first = client.allocate(&asked, WITHIN).await.unwrap();
    let again = client.allocate(&asked, WITHIN).await.unwrap();
    assert_eq!(first, again);
    assert_eq!(sim.book(), std::slice::from_ref(&asked));
    assert_eq!(client.book().await.unwrap().1, std::slice::from_ref(&asked));
    let environment = |name: &str| {
        let found = first.environment.iter().find(|(n, _)| n == name);
        found.map(|(_, value)| value.clone()).unwrap()
    };
    assert_eq!(environment("XDM_VISIBLE_CARDS"), "ppu-3");
    assert_eq!(environment("XDM_CORE_PERCENT"), "30");
    assert_eq!(environment("XDM_MEMORY_BYTES"), (24_u64 << 30).to_string());
    let nodes: Vec<_> = first.device_nodes.iter().map(|n| &*n.host_path).collect();
    assert_eq!(
        nodes,
        ["/dev/alixpu", "/dev/alixpu_ctl", "/dev/alixpu_ppu3"]
    );
    assert_eq!(first.cdi_names, ["t-head.com/ppu=ppu-3"]);
    assert!(first.annotations.contains(&(
        "xdm.amp.com.allocation-id".to_owned(),
        "uid-a/main".to_owned()
    )));
    let other = Allocation {
        grants: allocation("a", vec![("ppu-4", share(30, 24))]).grants,
        ..asked
    };
    assert!(refusal(client.allocate(&other, WITHIN).await).contains("uid-a/main"));
}

#[tokio::test]
async fn a_release_answers_what_existed_and_frees_it() {
    let folder = folder();
    let (sim, client) = start(&folder, "ppu-8x144");
    let asked = allocation("a", vec![("ppu-0", GrantMode::Whole)]);
    client.allocate(&asked, WITHIN).await.unwrap();
    let ids = ["uid-a/main".to_owned(), "uid-z/main".to_owned()];
    assert_eq!(client.release(&ids).await.unwrap(), ["uid-a/main"]);
    assert_eq!(client.release(&ids).await.unwrap(), Vec::<String>::new());
    assert_eq!(sim.book(), []);
    let other = allocation("b", vec![("ppu-0", share(100, 144))]);
    client.allocate(&other, WITHIN).await.unwrap();
}

#[tokio::test]
async fn what_would_be_given_twice_is_refused_with_the_card_s_name() {
    let folder = folder();
    let (sim, client) = start(&folder, "gpu-8-mig");
    let given = [
        allocation("whole", vec![("gpu-0", GrantMode::Whole)]),
        allocation("share", vec![("gpu-1", share(60, 100))]),
        allocation("cut", vec![("gpu-2", partition("3g.71gb", 2))]),
    ];
    for asked in &given {
        client.allocate(asked, WITHIN).await.unwrap();
    }
    for (card, mode) in [
        ("gpu-0", share(1, 1)),
        ("gpu-0", GrantMode::Whole),
        ("gpu-1", share(41, 1)),
        ("gpu-1", share(10, 42)),
        ("gpu-1", partition("1g.18gb", 1)),
        ("gpu-2", partition("3g.71gb", 1)),
        ("gpu-2", share(1, 1)),
        ("gpu-9", GrantMode::Whole),
    ] {
        let asked = allocation("late", vec![(card, mode.clone())]);
        let why = refusal(client.allocate(&asked, WITHIN).await);
        assert!(why.contains(card), "{mode:?}: {why}");
    }
    let rest = allocation("late", vec![("gpu-1", share(40, 41))]);
    client.allocate(&rest, WITHIN).await.unwrap();
    assert_eq!(sim.book().len(), 4);
    assert_eq!(client.book().await.unwrap().1, sim.book());
}

#[tokio::test]
async fn a_lost_card_leaves_the_list_and_comes_back() {
    let folder = folder();
    let (sim, client) = start(&folder, "ppu-8x144");
    let mut events = client.watch_cards();
    let first = next_cards(&mut events).await;
    sim.fault(&fault("ppu-5", Lost)).unwrap();
    let without = next_cards(&mut events).await;
    assert!(without.generation > first.generation);
    assert_eq!(without.inventory.cards().len(), 7);
    assert_eq!(without.inventory.get(&card("ppu-5")), None);
    let asked = allocation("a", vec![("ppu-5", GrantMode::Whole)]);
    assert!(refusal(client.allocate(&asked, WITHIN).await).contains("ppu-5"));
    sim.fault(&fault("ppu-5", Back)).unwrap();
    let whole = next_cards(&mut events).await;
    assert_eq!(whole.inventory, first.inventory);
    assert!(
        sim.fault(&fault("ppu-8", Lost))
            .unwrap_err()
            .contains("ppu-8")
    );
}

#[tokio::test]
async fn an_unhealthy_card_says_why_until_it_is_healthy() {
    let folder = folder();
    let (sim, client) = start(&folder, "amd-8");
    let mut events = client.watch_cards();
    next_cards(&mut events).await;
    sim.fault(&fault("amd-1", Unhealthy("hot".into()))).unwrap();
    let cards = next_cards(&mut events).await;
    let health = |cards: &Cards| cards.inventory.get(&card("amd-1")).unwrap().health.clone();
    assert_eq!(health(&cards), Health::Unhealthy("hot".to_owned()));
    sim.fault(&fault("amd-1", Healthy)).unwrap();
    assert_eq!(health(&next_cards(&mut events).await), Health::Healthy);
}

#[tokio::test]
async fn the_end_of_all_streams_is_a_loss_and_the_list_comes_again() {
    let folder = folder();
    let (sim, client) = start(&folder, "ppu-8x144");
    let mut events = client.watch_cards();
    let first = next_cards(&mut events).await;
    sim.fault(&Fault::Eof).unwrap();
    assert_eq!(cards_after_loss(&mut events).await, first);
}

#[tokio::test]
async fn a_restart_without_a_state_file_loses_the_book_and_the_watch_goes_on() {
    let folder = folder();
    let (sim, client) = start(&folder, "ppu-8x144");
    let mut events = client.watch_cards();
    next_cards(&mut events).await;
    let asked = allocation("a", vec![("ppu-0", GrantMode::Whole)]);
    client.allocate(&asked, WITHIN).await.unwrap();
    sim.fault(&fault("ppu-7", Lost)).unwrap();
    let before = next_cards(&mut events).await;
    sim.fault(&Fault::Restart(Duration::from_millis(60)))
        .unwrap();
    let after = cards_after_loss(&mut events).await;
    assert_eq!(after.inventory, before.inventory);
    assert_eq!(after.generation, 1);
    assert_eq!(client.book().await.unwrap().1, []);
    client.allocate(&asked, WITHIN).await.unwrap();
}

#[tokio::test]
async fn while_the_sockets_are_away_calls_fail_at_once() {
    let folder = folder();
    let (sim, client) = start(&folder, "ppu-8x144");
    client.supported().await.unwrap();
    let long = Duration::from_mins(10);
    sim.fault(&Fault::Restart(long)).unwrap();
    soon(async {
        while sim.sockets().device_manager.exists() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    })
    .await;
    let error = soon(client.supported()).await.unwrap_err();
    assert!(
        matches!(&error, Error::Unavailable { socket, why }
        if socket.ends_with("dp2mgr.sock") && why.contains("No such file")),
        "{error}"
    );
    let error = soon(client.feature_status()).await.unwrap_err();
    assert!(matches!(error, Error::Unavailable { .. }), "{error}");
}

#[tokio::test]
async fn a_runtime_with_a_state_file_keeps_its_book_and_its_feature() {
    let folder = folder();
    let with_state = Options {
        state: Some(folder.path().join("state.json")),
        feature_on: false,
        ..options(folder.path(), "ppu-8x144")
    };
    let asked = allocation("a", vec![("ppu-0", share(20, 10))]);
    {
        let sim = Sim::start(with_state.clone()).unwrap();
        let client = client(&sim);
        client.enable("first").await.unwrap();
        until_on(&client, Phase::Enabled).await;
        client.allocate(&asked, WITHIN).await.unwrap();
        sim.fault(&Fault::Restart(Duration::ZERO)).unwrap();
        let mut events = client.watch_cards();
        assert_eq!(
            next_cards_at_last(&mut events)
                .await
                .inventory
                .cards()
                .len(),
            8
        );
        assert_eq!(sim.book(), std::slice::from_ref(&asked));
    }
    let sockets = runtime_proto::Sockets::in_folder(folder.path());
    soon(async {
        while sockets.device_manager.exists() || sockets.config_daemon.exists() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    })
    .await;
    let sim = Sim::start(with_state).unwrap();
    let client = client(&sim);
    assert_eq!(
        until_on(&client, Phase::Enabled).await,
        "the cards can be used"
    );
    assert_eq!(client.book().await.unwrap().1, std::slice::from_ref(&asked));
    let clash = allocation("b", vec![("ppu-0", GrantMode::Whole)]);
    assert!(refusal(client.allocate(&clash, WITHIN).await).contains("ppu-0"));
    client.allocate(&asked, WITHIN).await.unwrap();
}

async fn next_cards_at_last(events: &mut (impl Stream<Item = CardEvent> + Unpin)) -> Cards {
    loop {
        if let Some(CardEvent::Cards(cards)) = soon(events.next()).await {
            return cards;
        }
    }
}

#[tokio::test]
async fn switching_on_fills_the_card_list_and_off_empties_it() {
    let folder = folder();
    let off = Options {
        feature_on: false,
        ..options(folder.path(), "xpu-8")
    };
    let sim = Sim::start(off).unwrap();
    let client = client(&sim);
    let mut events = client.watch_cards();
    assert_eq!(next_cards(&mut events).await.inventory.cards(), []);
    assert_eq!(
        client.feature_status().await.unwrap().phase,
        Phase::Disabled
    );
    let asked = allocation("a", vec![("xpu-0", GrantMode::Whole)]);
    assert!(refusal(client.allocate(&asked, WITHIN).await).contains("feature is off"));
    assert_eq!(client.enable("1").await.unwrap().phase, Phase::Enabling);
    assert_eq!(next_cards(&mut events).await.inventory.cards().len(), 8);
    assert_eq!(client.enable("2").await.unwrap().phase, Phase::Enabled);
    client.allocate(&asked, WITHIN).await.unwrap();
    let refused = client.disable("3").await.unwrap();
    assert_eq!(refused.phase, Phase::Failed);
    assert!(
        refused.message.contains("1 containers"),
        "{}",
        refused.message
    );
    assert_eq!(client.book().await.unwrap().0.inventory.cards().len(), 8);
    client.release(&[asked.id]).await.unwrap();
    assert_eq!(client.disable("4").await.unwrap().phase, Phase::Disabling);
    assert_eq!(next_cards(&mut events).await.inventory.cards(), []);
    until_on(&client, Phase::Disabled).await;
}

#[tokio::test]
async fn a_switch_that_is_told_to_fail_says_so() {
    let folder = folder();
    let off = Options {
        feature_on: false,
        ..options(folder.path(), "gcu-8")
    };
    let sim = Sim::start(off).unwrap();
    let client = client(&sim);
    sim.fault(&Fault::FeatureFails(true)).unwrap();
    client.enable("1").await.unwrap();
    assert!(until_on(&client, Phase::Failed).await.contains("enable"));
    sim.fault(&Fault::FeatureFails(false)).unwrap();
    client.enable("2").await.unwrap();
    until_on(&client, Phase::Enabled).await;
}

#[tokio::test]
async fn a_slow_runtime_goes_past_the_caller_s_deadline_and_has_still_granted() {
    let folder = folder();
    let (sim, client) = start(&folder, "ppu-8x144");
    sim.fault(&Fault::Slow(Duration::from_secs(5))).unwrap();
    let asked = allocation("a", vec![("ppu-0", GrantMode::Whole)]);
    let within = Duration::from_millis(50);
    let error = soon(client.allocate(&asked, within)).await.unwrap_err();
    assert!(matches!(error, Error::Deadline { call: "Allocate", within: w } if w == within));
    assert_eq!(sim.book(), std::slice::from_ref(&asked));
    sim.fault(&Fault::Slow(Duration::ZERO)).unwrap();
    client.allocate(&asked, WITHIN).await.unwrap();
}

#[tokio::test]
async fn allocations_are_refused_as_often_as_told() {
    let folder = folder();
    let (sim, client) = start(&folder, "ppu-8x144");
    sim.fault(&Fault::RefuseAllocate(2)).unwrap();
    let asked = allocation("a", vec![("ppu-0", GrantMode::Whole)]);
    for _ in 0..2 {
        assert!(refusal(client.allocate(&asked, WITHIN).await).contains("told"));
    }
    client.allocate(&asked, WITHIN).await.unwrap();
}

#[tokio::test]
async fn an_older_interface_lacks_the_newer_calls_only() {
    let folder = folder();
    let (sim, client) = start(&folder, "ppu-8x144");
    sim.fault(&Fault::OlderInterface(true)).unwrap();
    assert_eq!(client.supported().await.unwrap().interface_version, "1.0");
    let error = client.book().await.unwrap_err();
    assert!(
        matches!(error, Error::Unimplemented("ListGpuInfo")),
        "{error}"
    );
    let mut events = client.watch_metrics(Duration::from_millis(20));
    let lost = soon(events.next()).await;
    assert!(
        matches!(
            lost,
            Some(MetricEvent::Lost {
                error: Error::Unimplemented("ExporterDataStream"),
                ..
            })
        ),
        "{lost:?}"
    );
    assert_eq!(client.metrics().await.unwrap().cards.len(), 8);
    next_cards(&mut client.watch_cards()).await;
}

async fn next_snapshot(events: &mut (impl Stream<Item = MetricEvent> + Unpin)) -> Snapshot {
    loop {
        match soon(events.next()).await {
            Some(MetricEvent::Snapshot(snapshot)) => return snapshot,
            Some(MetricEvent::Config(_) | MetricEvent::Lost { .. }) => {}
            None => panic!("the watch ended"),
        }
    }
}

#[tokio::test]
async fn metrics_follow_what_is_allocated() {
    let folder = folder();
    let (sim, client) = start(&folder, "ppu-8x144");
    let mut events = client.watch_metrics(Duration::from_millis(20));
    let Some(MetricEvent::Config(config)) = soon(events.next()).await else {
        panic!("no configuration first");
    };
    let at = |name: &str| {
        let named = |m: &Option<_>| {
            m.as_ref()
                .is_some_and(|m: &runtime_proto::client::Metric| m.name == name)
        };
        config.card.iter().position(named).unwrap()
    };
    let value =
        |snapshot: &Snapshot, index: usize, name: &str| snapshot.cards[index].values[at(name)];
    let idle = next_snapshot(&mut events).await;
    assert_eq!(idle.cards.len(), 8);
    assert_eq!(idle.containers, []);
    for name in [
        "accel_card_utilization_ratio",
        "accel_card_memory_used_bytes",
    ] {
        assert!(value(&idle, 2, name).abs() < f64::EPSILON);
    }
    let asked = allocation("a", vec![("ppu-2", share(50, 72))]);
    client.allocate(&asked, WITHIN).await.unwrap();
    sim.fault(&fault("ppu-2", Ecc(3))).unwrap();
    let busy = soon(async {
        loop {
            let snapshot = next_snapshot(&mut events).await;
            if !snapshot.containers.is_empty() {
                return snapshot;
            }
        }
    })
    .await;
    assert_eq!(busy.containers.len(), 1);
    assert_eq!(busy.containers[0].card, card("ppu-2"));
    assert_eq!(busy.containers[0].consumer, asked.consumer);
    let utilization = value(&busy, 2, "accel_card_utilization_ratio");
    assert!((0.25..=0.5).contains(&utilization), "{utilization}");
    let memory = value(&busy, 2, "accel_card_memory_used_bytes");
    assert!(memory > 40e9 && memory < 78e9, "{memory}");
    assert!(value(&busy, 2, "accel_card_power_watts") > value(&busy, 3, "accel_card_power_watts"));
    assert!((value(&busy, 2, "accel_card_ecc_errors_total") - 3.0).abs() < f64::EPSILON);
    let moved = |s: &Snapshot| value(s, 2, "accel_card_pcie_receive_bytes_total");
    let later = next_snapshot(&mut events).await;
    assert!(moved(&later) > moved(&busy));
    client.release(&[asked.id]).await.unwrap();
    let after = client.metrics().await.unwrap();
    assert_eq!(after.containers, []);
    assert!(moved(&after) >= moved(&later));
}

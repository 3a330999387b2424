//! Cards, allocations and metrics of the simulated Runtime, through the client.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

mod scene;

use std::time::Duration;

use futures_util::{Stream, StreamExt};
use model::{card::CardKind, plan::GrantMode};
use runtime_proto::client::{Allocation, MetricEvent, Snapshot};
use runtime_sim::{Profile, fault::CardFault::Ecc};
use scene::{
    WITHIN, allocation, card, fault, folder, next_cards, partition, refusal, share, soon, start,
};

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

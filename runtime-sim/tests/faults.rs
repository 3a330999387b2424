//! Each fault on command, as the client sees it.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

mod scene;

use std::time::Duration;

use futures_util::StreamExt;
use model::{card::Health, plan::GrantMode};
use runtime_proto::{
    Error,
    client::{Cards, MetricEvent},
};
use runtime_sim::{
    Fault,
    fault::CardFault::{Back, Healthy, Lost, Unhealthy},
};
use scene::{
    WITHIN, allocation, card, cards_after_loss, fault, folder, next_cards, refusal, soon, start,
};

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
    // The old connection may only now be found broken; the next call makes a new one.
    let error = soon(client.supported()).await.unwrap_err();
    assert!(matches!(error, Error::Unavailable { .. }), "{error}");
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

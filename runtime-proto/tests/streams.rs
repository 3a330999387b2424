//! The two streams of the client, over breaks of every kind.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

mod fake;

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use fake::{Runtime, Script, Step, client, list, soon, timing};
use futures_util::{Stream, StreamExt};
use model::card::{CardKind, Health};
use runtime_proto::{
    Error,
    client::{CardEvent, Cards, MetricConfig, MetricEvent, Snapshot, Timing},
    wire,
};
use tonic::Status;

type Cardstream<'a> = &'a mut (dyn Stream<Item = CardEvent> + Unpin + Send);
type Metricstream<'a> = &'a mut (dyn Stream<Item = MetricEvent> + Unpin + Send);

async fn cards(events: Cardstream<'_>) -> Cards {
    match soon(events.next()).await {
        Some(CardEvent::Cards(cards)) => cards,
        other => panic!("{other:?} is no list"),
    }
}

async fn lost(events: Cardstream<'_>) -> (Error, Duration) {
    match soon(events.next()).await {
        Some(CardEvent::Lost { error, retry_in }) => (error, retry_in),
        other => panic!("{other:?} is no loss"),
    }
}

#[tokio::test]
async fn an_end_in_mid_stream_is_told_and_the_list_comes_again() {
    let folder = tempfile::tempdir().unwrap();
    let script = Arc::new(Script::default());
    script.cards.lock().unwrap().extend([
        vec![Step::Send(list(7, 2)), Step::Send(list(8, 1))],
        vec![Step::Fail(Status::internal("out of order"))],
        vec![Step::Send(list(9, 3)), Step::Stay],
    ]);
    let _runtime = Runtime::start(folder.path(), &script);
    let mut events = client(folder.path(), timing()).watch_cards();
    assert_eq!(cards(&mut events).await.generation, 7);
    assert_eq!(cards(&mut events).await.generation, 8);
    let (error, _) = lost(&mut events).await;
    assert!(matches!(error, Error::Unavailable { .. }), "{error}");
    let (error, _) = lost(&mut events).await;
    assert!(error.to_string().contains("out of order"), "{error}");
    assert_eq!(cards(&mut events).await.inventory.cards().len(), 3);
}

#[tokio::test]
async fn a_socket_that_is_removed_and_made_again_is_found_again() {
    let folder = tempfile::tempdir().unwrap();
    let script = Arc::new(Script::default());
    let mut events = client(folder.path(), timing()).watch_cards();
    let (error, _) = lost(&mut events).await;
    assert!(error.to_string().contains("No such file"), "{error}");
    for _ in 0..3 {
        let runtime = Runtime::start(folder.path(), &script);
        let mut event = soon(events.next()).await;
        while let Some(CardEvent::Lost { .. }) = event {
            event = soon(events.next()).await;
        }
        drop(runtime);
        let (error, _) = lost(&mut events).await;
        assert!(matches!(error, Error::Unavailable { .. }), "{error:?}");
    }
}

#[tokio::test]
async fn the_wait_doubles_up_to_its_ceiling_and_starts_again_after_health() {
    let folder = tempfile::tempdir().unwrap();
    let mut events = client(folder.path(), timing()).watch_cards();
    let mut waits = Vec::new();
    for _ in 0..4 {
        waits.push(lost(&mut events).await.1.as_micros());
    }
    for (wait, most) in waits.iter().zip([10_000, 20_000, 40_000, 40_000]) {
        assert!((most * 8 / 10..=most).contains(wait), "{waits:?}");
    }

    let script = Arc::new(Script::default());
    let short = vec![Step::Send(list(1, 1))];
    script.cards.lock().unwrap().extend(vec![short; 6]);
    let _runtime = Runtime::start(folder.path(), &script);
    let always_healthy = Timing {
        healthy: Duration::ZERO,
        ..timing()
    };
    let mut events = client(folder.path(), always_healthy).watch_cards();
    for _ in 0..3 {
        cards(&mut events).await;
        assert!(lost(&mut events).await.1 <= Duration::from_millis(10));
    }
    drop(events);
    let mut events = client(folder.path(), timing()).watch_cards();
    let mut last = Duration::ZERO;
    for _ in 0..3 {
        cards(&mut events).await;
        last = lost(&mut events).await.1;
    }
    assert!(last >= Duration::from_millis(32), "{last:?}");
}

#[tokio::test]
async fn a_runtime_that_freezes_is_noticed_on_its_stream() {
    let folder = tempfile::tempdir().unwrap();
    let mut runtime = Runtime::start(folder.path(), &Arc::new(Script::default()));
    let pinging = Timing {
        ping_interval: Duration::from_millis(50),
        ping_timeout: Duration::from_millis(100),
        ..timing()
    };
    let mut events = client(folder.path(), pinging).watch_cards();
    cards(&mut events).await;
    runtime.freeze();
    let (error, _) = lost(&mut events).await;
    assert!(matches!(error, Error::Unavailable { .. }), "{error}");
}

#[test]
fn a_runtime_that_freezes_is_noticed_within_20_s() {
    let standard = Timing::standard();
    assert!(standard.ping_interval + standard.ping_timeout <= Duration::from_secs(20));
}

#[tokio::test]
async fn a_stream_that_opens_and_says_nothing_is_given_up() {
    let folder = tempfile::tempdir().unwrap();
    let script = Arc::new(Script::default());
    script.cards.lock().unwrap().push_back(vec![Step::Stay]);
    let _runtime = Runtime::start(folder.path(), &script);
    let impatient = Timing {
        first_message: Duration::from_millis(60),
        ..timing()
    };
    let mut events = client(folder.path(), impatient).watch_cards();
    let (error, _) = lost(&mut events).await;
    assert!(
        matches!(
            error,
            Error::Deadline {
                call: "ListAndWatch",
                ..
            }
        ),
        "{error}"
    );
    assert_eq!(cards(&mut events).await.generation, 1);
}

#[tokio::test]
async fn values_that_this_version_does_not_know_are_taken_on_the_safe_side() {
    let folder = tempfile::tempdir().unwrap();
    let script = Arc::new(Script::default());
    let mut odd = list(1, 3);
    odd.cards[0].kind = 99;
    odd.cards[1].health = 77;
    odd.cards[2].health = 0;
    script
        .cards
        .lock()
        .unwrap()
        .push_back(vec![Step::Send(odd), Step::Stay]);
    let _runtime = Runtime::start(folder.path(), &script);
    let cards = cards(&mut client(folder.path(), timing()).watch_cards()).await;
    assert_eq!(cards.malformed, Vec::<String>::new());
    let known = cards.inventory.cards();
    assert_eq!(known[0].kind, CardKind::Other);
    assert_eq!(
        known[1].health,
        Health::Unhealthy("health 77 is not known".into())
    );
    assert_eq!(
        known[2].health,
        Health::Unhealthy("health not reported".into())
    );
}

#[tokio::test]
async fn a_message_past_16_mib_is_told_and_the_watch_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let script = Arc::new(Script::default());
    let mut giant = list(1, 1);
    giant.cards[0].health_reason = "x".repeat(17 << 20);
    script
        .cards
        .lock()
        .unwrap()
        .push_back(vec![Step::Send(giant), Step::Stay]);
    let _runtime = Runtime::start(folder.path(), &script);
    let mut events = client(folder.path(), timing()).watch_cards();
    let (error, _) = lost(&mut events).await;
    assert!(matches!(error, Error::BadAnswer { .. }), "{error}");
    cards(&mut events).await;
}

#[tokio::test]
async fn a_flood_waits_in_the_runtime_and_blocks_no_call() {
    let folder = tempfile::tempdir().unwrap();
    let script = Arc::new(Script::default());
    let mut large = list(1, 1);
    large.cards[0].health_reason = "x".repeat(16 << 10);
    script
        .cards
        .lock()
        .unwrap()
        .push_back(vec![Step::Flood(large)]);
    let _runtime = Runtime::start(folder.path(), &script);
    let client = client(folder.path(), timing());
    let mut events = client.watch_cards();
    cards(&mut events).await;
    for _ in 0..200 {
        soon(client.supported()).await.unwrap();
    }
    let sent = script.sent.load(Ordering::SeqCst);
    assert!(sent < 200, "{sent} messages of 16 KiB are under way");
    for _ in 0..300 {
        cards(&mut events).await;
    }
}

#[tokio::test]
async fn a_dropped_watch_ends_its_stream() {
    let folder = tempfile::tempdir().unwrap();
    let script = Arc::new(Script::default());
    let _runtime = Runtime::start(folder.path(), &script);
    let mut events = client(folder.path(), timing()).watch_cards();
    cards(&mut events).await;
    assert_eq!(script.open.load(Ordering::SeqCst), 1);
    drop(events);
    soon(async {
        while script.open.load(Ordering::SeqCst) > 0 {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    })
    .await;
}

fn config(version: u64) -> wire::ExporterGetConfigResponse {
    wire::ExporterGetConfigResponse {
        config_version: version,
        metrics: vec![wire::MetricDescriptor {
            name: format!("accel_card_v{version}_ratio"),
            help: "A ratio.".into(),
            r#type: wire::MetricType::Gauge.into(),
            scope: wire::MetricScope::Card.into(),
        }],
        collection_interval_milliseconds: 1000,
    }
}

fn sample(version: u64) -> Step<wire::MetricSnapshot> {
    Step::Send(wire::MetricSnapshot {
        config_version: version,
        timestamp_milliseconds: 5,
        cards: vec![wire::CardSample {
            card_id: "gpu-0".into(),
            values: vec![f64::NAN, 2.0],
        }],
        containers: Vec::new(),
    })
}

async fn next_config(events: Metricstream<'_>) -> MetricConfig {
    match soon(events.next()).await {
        Some(MetricEvent::Config(config)) => config,
        other => panic!("{other:?} is no configuration"),
    }
}

async fn next_snapshot(events: Metricstream<'_>) -> Snapshot {
    match soon(events.next()).await {
        Some(MetricEvent::Snapshot(snapshot)) => snapshot,
        other => panic!("{other:?} is no snapshot"),
    }
}

#[tokio::test]
async fn a_configuration_comes_before_the_first_snapshot_that_follows_it() {
    let folder = tempfile::tempdir().unwrap();
    let script = Arc::new(Script::default());
    script
        .configs
        .lock()
        .unwrap()
        .extend([config(1), config(2)]);
    let steps = vec![sample(1), sample(2), sample(9), sample(2), Step::Stay];
    script.snapshots.lock().unwrap().push_back(steps);
    let _runtime = Runtime::start(folder.path(), &script);
    let mut events = client(folder.path(), timing()).watch_metrics(Duration::from_secs(1));
    assert_eq!(next_config(&mut events).await.version, 1);
    let snapshot = next_snapshot(&mut events).await;
    assert_eq!((snapshot.config_version, snapshot.cards.len()), (1, 1));
    assert!(snapshot.cards[0].values[0].is_nan());
    let second = next_config(&mut events).await;
    assert_eq!(second.version, 2);
    let name = second.card[0].as_ref().map(|m| m.name.clone());
    assert_eq!(name.as_deref(), Some("accel_card_v2_ratio"));
    assert_eq!(next_snapshot(&mut events).await.config_version, 2);
    let stray = next_snapshot(&mut events).await;
    assert_eq!(stray.cards, []);
    assert!(stray.malformed[0].contains("configuration 9"), "{stray:?}");
    assert_eq!(next_snapshot(&mut events).await.cards.len(), 1);
}

#[tokio::test]
async fn after_a_break_the_configuration_comes_again() {
    let folder = tempfile::tempdir().unwrap();
    let script = Arc::new(Script::default());
    script.configs.lock().unwrap().push_back(config(1));
    let once = vec![sample(1)];
    script
        .snapshots
        .lock()
        .unwrap()
        .extend([once.clone(), once]);
    let _runtime = Runtime::start(folder.path(), &script);
    let mut events = client(folder.path(), timing()).watch_metrics(Duration::ZERO);
    for _ in 0..2 {
        next_config(&mut events).await;
        next_snapshot(&mut events).await;
        let event = soon(events.next()).await;
        assert!(matches!(event, Some(MetricEvent::Lost { .. })), "{event:?}");
    }
}

#[tokio::test]
async fn a_runtime_that_stops_collecting_is_given_up() {
    let folder = tempfile::tempdir().unwrap();
    let script = Arc::new(Script::default());
    script.configs.lock().unwrap().push_back(config(1));
    script
        .snapshots
        .lock()
        .unwrap()
        .push_back(vec![sample(1), Step::Stay]);
    let _runtime = Runtime::start(folder.path(), &script);
    let impatient = Timing {
        first_message: Duration::from_millis(30),
        ..timing()
    };
    let mut events = client(folder.path(), impatient).watch_metrics(Duration::from_millis(10));
    next_config(&mut events).await;
    next_snapshot(&mut events).await;
    let event = soon(events.next()).await;
    assert!(
        matches!(
            event,
            Some(MetricEvent::Lost {
                error: Error::Deadline {
                    call: "ExporterDataStream",
                    ..
                },
                ..
            })
        ),
        "{event:?}"
    );
}

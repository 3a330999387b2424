//! A simulated Runtime with a client, and what the tests ask of both.

#![allow(dead_code, reason = "each test binary uses a part of it")]

use std::{future::Future, path::Path, time::Duration};

use futures_util::{Stream, StreamExt};
use model::{
    backoff::Backoff,
    name::{CardId, ContainerName, Namespace, PodName, PodRef, PodUid, ProfileName},
    plan::{Grant, GrantMode},
    quantity::{CorePercent, MemoryBytes},
};
use runtime_proto::{
    Client, Error,
    client::{Allocation, CardEvent, Cards, Consumer, Phase},
};
use runtime_sim::{Fault, Options, Profile, Sim, fault::CardFault};
use tempfile::TempDir;

pub(crate) const WITHIN: Duration = Duration::from_secs(5);

/// Everything here ends by itself.
pub(crate) async fn soon<F: Future>(future: F) -> F::Output {
    tokio::time::timeout(Duration::from_secs(20), future)
        .await
        .expect("within 20 s")
}

pub(crate) fn folder() -> TempDir {
    tempfile::tempdir().unwrap()
}

pub(crate) fn options(folder: &Path, profile: &str) -> Options {
    Options::quick(folder, Profile::load(profile).unwrap())
}

pub(crate) fn start(folder: &TempDir, profile: &str) -> (Sim, Client) {
    let sim = Sim::start(options(folder.path(), profile)).unwrap();
    let client = client(&sim);
    (sim, client)
}

pub(crate) fn client(sim: &Sim) -> Client {
    let step = Duration::from_millis(10);
    Client::with_backoff(sim.sockets(), Backoff::new(step, step * 4))
}

pub(crate) fn card(id: &str) -> CardId {
    CardId::new(id).unwrap()
}

pub(crate) fn fault(id: &str, fault: CardFault) -> Fault {
    Fault::Card(card(id), fault)
}

pub(crate) fn allocation(pod: &str, grants: Vec<(&str, GrantMode)>) -> Allocation {
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

pub(crate) fn share(core: u32, gib: u64) -> GrantMode {
    GrantMode::Share {
        core: CorePercent::new(core),
        memory: MemoryBytes::from_gib(gib),
    }
}

pub(crate) fn partition(profile: &str, count: u32) -> GrantMode {
    GrantMode::Partition {
        profile: ProfileName::new(profile).unwrap(),
        count,
    }
}

pub(crate) fn refusal<T: std::fmt::Debug>(answer: Result<T, Error>) -> String {
    match answer {
        Err(Error::Refused { message, .. }) => message,
        other => panic!("{other:?} is no refusal"),
    }
}

pub(crate) async fn next_cards(events: &mut (impl Stream<Item = CardEvent> + Unpin)) -> Cards {
    match soon(events.next()).await {
        Some(CardEvent::Cards(cards)) => cards,
        other => panic!("{other:?} is no card list"),
    }
}

/// The next list after the connection was lost at least once.
pub(crate) async fn cards_after_loss(
    events: &mut (impl Stream<Item = CardEvent> + Unpin),
) -> Cards {
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

pub(crate) async fn until_on(client: &Client, phase: Phase) -> String {
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

pub(crate) async fn next_cards_at_last(
    events: &mut (impl Stream<Item = CardEvent> + Unpin),
) -> Cards {
    loop {
        if let Some(CardEvent::Cards(cards)) = soon(events.next()).await {
            return cards;
        }
    }
}

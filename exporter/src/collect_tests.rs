use std::{
    path::Path,
    sync::atomic::{AtomicU64, Ordering},
};

use model::name::CardId;
use runtime_proto::Sockets;
use runtime_sim::{Fault, Options, Profile, Sim};
use tokio::{task::JoinSet, time::timeout};

use super::*;
use crate::{
    exposition_reader::{Text, read},
    kubelet::tests::page,
};

fn sim(folder: &Path) -> Sim {
    let profile = Profile::load("ppu-8x144").unwrap();
    Sim::start(Options::quick(folder, profile)).unwrap()
}

/// Both tasks, at a pace for tests. They end when this is dropped.
fn follow(folder: &Path, page: &Arc<Page>, ready: Ready) -> JoinSet<()> {
    let backoff = Backoff::new(Duration::from_millis(20), Duration::from_millis(100));
    let client = Client::with_backoff(Sockets::in_folder(folder), backoff);
    let mut tasks = JoinSet::new();
    tasks.spawn(cards(client.clone(), Arc::clone(page), ready));
    tasks.spawn(metrics(client, Arc::clone(page), Duration::from_millis(50)));
    tasks
}

fn shown(page: &Page) -> Text {
    read(std::str::from_utf8(&page.body()).unwrap()).unwrap()
}

/// Looks at the answer until it is so.
async fn until(page: &Page, what: &str, so: impl Fn(&Text) -> bool) {
    let looked = AtomicU64::new(0);
    let look = async {
        while !so(&shown(page)) {
            looked.fetch_add(1, Ordering::Relaxed);
            tokio::task::yield_now().await;
        }
    };
    let seen = timeout(Duration::from_secs(20), look).await;
    assert!(
        seen.is_ok(),
        "not within 20 s: {what}; looked {looked:?} times"
    );
}

fn up(text: &Text) -> bool {
    text.value("accel_exporter_runtime_up", &[]) == Some(1.0)
}

#[tokio::test]
async fn a_runtime_that_goes_away_takes_its_values_along_and_brings_them_back() {
    let folder = tempfile::tempdir().unwrap();
    let page = page();
    let readiness = kit::Readiness::default();
    let ready = readiness.condition("runtime", "the Runtime");
    let _tasks = follow(folder.path(), &page, ready);
    timeout(Duration::from_secs(10), page.settled())
        .await
        .unwrap();
    assert!(!up(&shown(&page)));
    assert_eq!(readiness.unmet().len(), 1);

    let runtime = sim(folder.path());
    let values = "accel_card_utilization_ratio";
    until(&page, "values come", |text| {
        up(text) && text.of(values).count() == 8
    })
    .await;
    assert!(readiness.unmet().is_empty());

    drop(runtime);
    until(&page, "values go", |text| !up(text)).await;
    let text = shown(&page);
    assert_eq!(text.of("accel_card_info").count(), 8, "facts stay");
    until(&page, "no old values", |text| text.of(values).count() == 0).await;
    assert_eq!(readiness.unmet().len(), 1);

    let _runtime = sim(folder.path());
    until(&page, "values are back", |text| {
        up(text) && text.of(values).count() == 8
    })
    .await;
}

#[tokio::test]
async fn a_runtime_without_the_stream_is_asked_instead() {
    let folder = tempfile::tempdir().unwrap();
    let runtime = sim(folder.path());
    runtime.fault(&Fault::OlderInterface(true)).unwrap();
    let page = page();
    let ready = kit::Readiness::default().condition("runtime", "the Runtime");
    let _tasks = follow(folder.path(), &page, ready);
    let collections = |text: &Text| text.value("accel_exporter_collections_total", &[]);
    until(&page, "several collections", |text| {
        up(text) && collections(text) >= Some(3.0)
    })
    .await;
    assert_eq!(shown(&page).of("accel_card_utilization_ratio").count(), 8);
}

#[tokio::test]
async fn a_card_that_vanishes_takes_its_series_along() {
    let folder = tempfile::tempdir().unwrap();
    let runtime = sim(folder.path());
    let page = page();
    let ready = kit::Readiness::default().condition("runtime", "the Runtime");
    let _tasks = follow(folder.path(), &page, ready);
    until(&page, "eight cards", |text| {
        text.of("accel_card_info").count() == 8
    })
    .await;
    let first = shown(&page);
    let first = first
        .of("accel_card_info")
        .next()
        .unwrap()
        .label("card")
        .unwrap();
    let card = CardId::new(first).unwrap();
    runtime
        .fault(&Fault::Card(card, runtime_sim::fault::CardFault::Lost))
        .unwrap();
    until(&page, "seven cards", |text| {
        ["accel_card_info", "accel_card_utilization_ratio"]
            .iter()
            .all(|name| text.of(name).count() == 7)
    })
    .await;
}

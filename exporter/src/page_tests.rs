use super::*;
use crate::scene::{card_sample, cards, config, snapshot, state};

fn page() -> Page {
    Page::new(
        state(),
        OwnMetrics::new(&prometheus::Registry::new()).unwrap(),
    )
}

fn collect(page: &Page, value: f64) {
    page.update(|state| {
        state.take_snapshot(snapshot(vec![card_sample("ppu-0", &[value])], vec![]))
    });
}

#[test]
fn one_text_serves_all_scrapes_until_something_changes() {
    let page = page();
    page.update(|state| state.take_cards(cards(1)));
    page.update(|state| state.take_config(config()));
    collect(&page, 0.5);
    let first = page.body();
    let second = page.body();
    assert_eq!(first.as_ptr(), second.as_ptr());
    assert_eq!(page.metrics.renderings.get(), 1);
    assert_eq!(page.metrics.scrapes.get(), 2);
    collect(&page, 0.75);
    let third = page.body();
    assert_eq!(page.metrics.renderings.get(), 2);
    let has = |body: &Bytes, text: &str| String::from_utf8_lossy(body).contains(text);
    assert!(has(&third, " 0.75\n") && !has(&third, " 0.5\n"));
    assert!(has(&first, " 0.5\n"), "a text under way stays as it was");
}

#[test]
fn answers_that_change_nothing_cost_no_rendering() {
    let page = page();
    page.update(|state| state.take_pod_devices(&[]));
    page.update(|state| state.take_pods(Vec::new(), Vec::new()));
    page.body();
    page.update(|state| state.take_pod_devices(&[]));
    page.update(|state| state.take_pods(Vec::new(), Vec::new()));
    page.body();
    assert_eq!(page.metrics.renderings.get(), 1);
}

#[test]
fn the_texts_memory_is_used_again_when_no_client_holds_it() {
    let page = page();
    page.update(|state| state.take_cards(cards(16)));
    let first = page.body().as_ptr();
    page.update(|state| state.take_cards(cards(15)));
    assert_eq!(page.body().as_ptr(), first);
}

#[tokio::test]
async fn settled_means_cards_and_metrics_are_known_or_known_to_be_away() {
    let page = page();
    let settled = |page: &Page| *page.settled.borrow();
    page.update(|state| state.take_cards(cards(1)));
    assert!(!settled(&page));
    page.update(|state| {
        state.lose_metrics();
        Vec::new()
    });
    assert!(settled(&page));
    page.settled().await;
}

use model::card::{Health, Inventory};
use runtime_proto::client::MetricType;

use super::*;
use crate::scene::{
    MILLISECONDS, card_sample, cards, config, container_sample, devices, life, metric, share,
    shown, snapshot, state,
};

/// Two cards; `a` and `b` share the first.
fn scene() -> State {
    let mut state = state();
    state.take_cards(cards(2));
    state.take_config(config());
    state.take_snapshot(snapshot(
        vec![
            card_sample("ppu-0", &[0.5, 3.0]),
            card_sample("ppu-1", &[0.0, f64::NAN]),
        ],
        vec![
            container_sample("ppu-0", "a", "main", &[0.25]),
            container_sample("ppu-0", "b", "main", &[f64::NAN]),
        ],
    ));
    state.take_pod_devices(&[
        devices("a", "main", &share("ppu-0", 0, 30, 8)),
        devices("b", "main", &share("ppu-0", 30, 20, 16)),
    ]);
    state.take_pods(vec![life("a", false), life("b", false)], Vec::new());
    state
}

#[test]
fn a_whole_answer_is_as_the_golden_file_has_it() {
    let text = String::from_utf8(render(&scene(), Vec::new())).unwrap();
    assert_eq!(
        text.replace(env!("CARGO_PKG_VERSION"), "VERSION"),
        include_str!("golden/answer.prom")
    );
}

#[test]
fn case_11_four_pods_on_one_card_have_one_series_each_and_an_ended_one_none() {
    let mut state = scene();
    let pods = ["a", "b", "c", "d", "over"];
    let devices: Vec<_> = (0..)
        .zip(pods)
        .map(|(n, pod)| devices(pod, "main", &share("ppu-0", n * 20, 20, 8)))
        .collect();
    state.take_pod_devices(&devices);
    let lives = pods.map(|pod| life(pod, pod == "over"));
    state.take_pods(lives.to_vec(), Vec::new());
    let samples = pods.map(|pod| container_sample("ppu-0", pod, "main", &[0.1]));
    state.take_snapshot(snapshot(Vec::new(), samples.to_vec()));
    let text = shown(&state);
    for name in [
        "accel_container_core_limit_ratio",
        "accel_container_memory_limit_bytes",
        "accel_container_utilization_ratio",
    ] {
        let named: Vec<_> = text.of(name).map(|s| s.label("pod").unwrap()).collect();
        assert_eq!(named, ["a", "b", "c", "d"], "{name}");
        assert!(text.of(name).all(|s| s.label("card") == Some("ppu-0")));
    }
    let allocated = text.value("accel_card_core_allocated_ratio", &[("card", "ppu-0")]);
    assert_eq!(allocated, Some(0.8));
}

#[test]
fn case_13_an_idle_node_shows_all_its_cards() {
    let mut state = state();
    state.take_cards(cards(8));
    state.take_config(config());
    let samples = (0..8).map(|n| card_sample(&format!("ppu-{n}"), &[0.0, 0.0]));
    state.take_snapshot(snapshot(samples.collect(), Vec::new()));
    state.take_pod_devices(&[]);
    state.take_pods(Vec::new(), Vec::new());
    let text = shown(&state);
    for name in [
        "accel_card_info",
        "accel_card_healthy",
        "accel_card_memory_total_bytes",
        "accel_card_core_allocated_ratio",
        "accel_card_memory_allocated_bytes",
        "accel_card_utilization_ratio",
        "accel_card_ecc_errors_total",
    ] {
        assert_eq!(text.of(name).count(), 8, "{name}");
    }
    assert_eq!(text.value("accel_exporter_runtime_up", &[]), Some(1.0));
    assert_eq!(text.value("accel_exporter_kubelet_up", &[]), Some(1.0));
}

#[test]
fn a_runtime_that_is_away_leaves_facts_and_no_values() {
    let mut state = scene();
    state.lose_metrics();
    state.lose_cards();
    let text = shown(&state);
    assert_eq!(text.value("accel_exporter_runtime_up", &[]), Some(0.0));
    for gone in [
        "accel_card_healthy",
        "accel_card_utilization_ratio",
        "accel_card_ecc_errors_total",
        "accel_container_utilization_ratio",
    ] {
        assert_eq!(text.of(gone).count(), 0, "{gone}");
        assert!(!text.types.contains_key(gone), "{gone}");
    }
    for kept in [
        "accel_card_info",
        "accel_card_memory_total_bytes",
        "accel_card_core_allocated_ratio",
        "accel_container_core_limit_ratio",
    ] {
        assert_eq!(text.of(kept).count(), 2, "{kept}");
    }
}

#[test]
fn a_runtime_that_measures_nothing_is_up() {
    let mut state = state();
    state.take_cards(cards(1));
    state.no_metrics();
    assert!(state.is_settled());
    let text = shown(&state);
    assert_eq!(text.value("accel_exporter_runtime_up", &[]), Some(1.0));
    assert_eq!(text.of("accel_card_info").count(), 1);
}

#[test]
fn without_kubelet_and_book_nothing_is_said_about_what_is_given() {
    let mut state = scene();
    state.lose_pod_devices(None);
    let text = shown(&state);
    assert_eq!(text.value("accel_exporter_kubelet_up", &[]), Some(0.0));
    assert_eq!(text.of("accel_card_core_allocated_ratio").count(), 0);
    assert_eq!(text.of("accel_container_utilization_ratio").count(), 1);
}

#[test]
fn the_runtime_can_take_neither_the_exporters_names_nor_one_name_twice() {
    let mut state = state();
    let mut config = config();
    config
        .card
        .push(metric("accel_card_info", MetricType::Gauge));
    let other = metric("accel_card_utilization_ratio", MetricType::Gauge);
    config.container.insert(0, other);
    let told = state.take_config(config);
    assert_eq!(told.len(), 2, "{told:?}");
    state.take_cards(cards(1));
    state.take_snapshot(snapshot(
        vec![card_sample("ppu-0", &[0.5, 1.0, 77.0])],
        vec![container_sample("ppu-0", "a", "main", &[66.0, 0.25])],
    ));
    // Not from kubelet, so the sample alone makes the row.
    let text = shown(&state);
    assert_eq!(text.value("accel_card_info", &[]), Some(1.0));
    let card = text.value("accel_card_utilization_ratio", &[]);
    assert_eq!(card, Some(0.5));
    let container = text.value("accel_container_utilization_ratio", &[]);
    assert_eq!(container, Some(0.25), "values stay in their places");
    let malformed = text.value("accel_exporter_malformed_total", &[("source", "metrics")]);
    assert_eq!(malformed, Some(2.0));
}

#[test]
fn samples_with_too_few_or_too_many_values_show_what_they_have() {
    let mut state = state();
    state.take_config(config());
    let bad = || {
        snapshot(
            vec![
                card_sample("ppu-0", &[0.5]),
                card_sample("ppu-1", &[0.6, 1.0, 9.0, 9.0]),
                card_sample("ppu-1", &[0.7, 1.0]),
            ],
            vec![container_sample("ppu-0", "a", "main", &[])],
        )
    };
    let told = state.take_snapshot(bad());
    assert_eq!(told.len(), 4, "{told:?}");
    assert!(state.take_snapshot(bad()).is_empty(), "told once");
    let text = shown(&state);
    let of = |name, card| text.value(name, &[("card", card)]);
    assert_eq!(of("accel_card_utilization_ratio", "ppu-0"), Some(0.5));
    assert_eq!(of("accel_card_ecc_errors_total", "ppu-0"), None);
    assert_eq!(of("accel_card_utilization_ratio", "ppu-1"), Some(0.6));
    assert_eq!(text.of("accel_container_utilization_ratio").count(), 0);
    let malformed = text.value("accel_exporter_malformed_total", &[("source", "metrics")]);
    assert_eq!(malformed, Some(8.0));
}

#[test]
fn samples_of_another_configuration_wait_for_it() {
    let mut state = scene();
    let mut newer = snapshot(vec![card_sample("ppu-0", &[1234.0])], Vec::new());
    newer.config_version = 2;
    state.take_snapshot(newer.clone());
    let text = shown(&state);
    let of_card = [("card", "ppu-0")];
    let value = text.value("accel_card_utilization_ratio", &of_card);
    assert_eq!(value, Some(0.5), "what was right before is shown on");
    let mut config = config();
    config.version = 2;
    config.card = vec![metric("accel_card_fans", MetricType::Gauge)];
    state.take_config(config);
    let value = shown(&state).value("accel_card_utilization_ratio", &of_card);
    assert_eq!(value, Some(0.5), "the old values keep their old names");
    state.take_snapshot(newer);
    let text = shown(&state);
    assert_eq!(text.value("accel_card_fans", &[]), Some(1234.0));
    assert_eq!(text.of("accel_card_utilization_ratio").count(), 0);
}

#[test]
fn odd_names_and_sick_cards_are_shown_as_they_are() {
    let mut state = state();
    let mut list = cards(1);
    let mut card = list.inventory.cards()[0].clone();
    card.model = "a \"B\" \\ c\nd é".into();
    card.uuid = "x".repeat(5000);
    card.health = Health::Unhealthy("lost".into());
    list.inventory = Inventory::new(vec![card]).unwrap();
    state.take_cards(list);
    let text = shown(&state);
    let info = text.of("accel_card_info").next().unwrap();
    assert_eq!(info.label("model"), Some("a \"B\" \\ c\nd é"));
    assert_eq!(info.label("uuid").map(str::len), Some(256));
    assert_eq!(text.value("accel_card_healthy", &[]), Some(0.0));
}

#[test]
fn more_series_than_one_answer_may_have_are_counted() {
    let state = scene();
    let all = shown(&state).samples.len();
    let text = String::from_utf8(render_at_most(&state, Vec::new(), 15)).unwrap();
    let text = crate::exposition_reader::read(&text).unwrap();
    assert_eq!(text.samples.len(), 16);
    let dropped = u32::try_from(all - 16).unwrap();
    assert_eq!(
        text.value("accel_exporter_series_dropped", &[]),
        Some(dropped.into())
    );
    assert_eq!(text.value("accel_exporter_runtime_up", &[]), Some(1.0));
}

#[test]
fn the_time_of_the_collection_is_the_runtimes() {
    let text = shown(&scene());
    let time = text.value("accel_exporter_last_collection_timestamp_seconds", &[]);
    assert_eq!(time, Some(seconds(MILLISECONDS)));
    assert_eq!(
        text.value("accel_exporter_collections_total", &[]),
        Some(1.0)
    );
}

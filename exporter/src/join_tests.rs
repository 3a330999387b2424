use kubernetes::convert::{ContainerDevices, PodDevices};
use model::{
    card::Cut,
    name::{CardId, PodUid, ProfileName},
    plan::{Grant, GrantMode},
    quantity::{CorePercent, MemoryBytes},
    settings::Settings,
};
use runtime_proto::client::Allocation;

use super::*;
use crate::{
    holding::Held,
    pods::PodLife,
    scene::{cards, config, container_sample, devices, life, pod_ref, share, snapshot, state},
};

/// Card, pod, container and first value of each row.
fn short(state: &State) -> Vec<(String, String, String, Option<f64>)> {
    let rows = rows(state).into_iter().map(|row| {
        (
            row.card.to_string(),
            row.pod.name.to_string(),
            row.container.to_owned(),
            row.values.first().copied(),
        )
    });
    rows.collect()
}

fn row(
    card: &str,
    pod: &str,
    container: &str,
    value: Option<f64>,
) -> (String, String, String, Option<f64>) {
    (card.into(), pod.into(), container.into(), value)
}

/// Two cards, pods a and b with 30 core and 8 GiB of `ppu-0`, and what the Runtime measures.
fn scene(samples: Vec<runtime_proto::client::ContainerSample>) -> State {
    let mut state = state();
    state.take_cards(cards(2));
    state.take_config(config());
    state.take_pod_devices(&[
        devices("a", "main", &share("ppu-0", 0, 30, 8)),
        devices("b", "main", &share("ppu-0", 30, 30, 8)),
    ]);
    state.take_pods(vec![life("a", false), life("b", false)], Vec::new());
    state.take_snapshot(snapshot(Vec::new(), samples));
    state
}

#[test]
fn kubelets_containers_get_the_runtimes_values_in_whatever_order() {
    let state = scene(vec![
        container_sample("ppu-0", "b", "main", &[0.2]),
        container_sample("ppu-0", "a", "main", &[0.1]),
    ]);
    assert_eq!(
        short(&state),
        [
            row("ppu-0", "a", "main", Some(0.1)),
            row("ppu-0", "b", "main", Some(0.2)),
        ]
    );
    let limits = rows(&state)[0].limits;
    assert_eq!(limits.core, Some(CorePercent::new(30)));
    assert_eq!(limits.memory, Some(MemoryBytes::from_gib(8)));
}

#[test]
fn a_container_without_a_sample_is_there_without_values() {
    let state = scene(vec![container_sample("ppu-0", "b", "main", &[0.2])]);
    assert_eq!(
        short(&state),
        [
            row("ppu-0", "a", "main", None),
            row("ppu-0", "b", "main", Some(0.2)),
        ]
    );
}

#[test]
fn where_the_runtime_names_another_card_kubelet_is_right() {
    let state = scene(vec![container_sample("ppu-1", "a", "main", &[0.1])]);
    assert_eq!(
        short(&state),
        [
            row("ppu-0", "a", "main", None),
            row("ppu-0", "b", "main", None),
        ]
    );
}

#[test]
fn an_init_container_shows_until_it_has_ended() {
    let mut state = scene(vec![
        container_sample("ppu-1", "b", "prepare", &[0.9]),
        container_sample("ppu-0", "a", "load", &[0.8]),
    ]);
    let with_init = [
        row("ppu-0", "a", "load", Some(0.8)),
        row("ppu-0", "a", "main", None),
        row("ppu-0", "b", "main", None),
        row("ppu-1", "b", "prepare", Some(0.9)),
    ];
    assert_eq!(short(&state), with_init);
    let done = PodLife {
        ended_init_containers: vec!["load".into()],
        ..life("a", false)
    };
    state.take_pods(vec![done, life("b", false)], Vec::new());
    assert_eq!(short(&state), with_init[1..]);
}

#[test]
fn a_pod_that_nobody_but_the_runtime_knows_has_no_series() {
    let state = scene(vec![container_sample("ppu-0", "ghost", "main", &[0.5])]);
    assert_eq!(short(&state).len(), 2);
}

#[test]
fn an_ended_pod_has_no_series_though_kubelet_and_runtime_still_list_it() {
    let mut state = scene(vec![
        container_sample("ppu-0", "a", "main", &[0.1]),
        container_sample("ppu-0", "b", "main", &[0.2]),
    ]);
    state.take_pods(vec![life("a", true), life("b", false)], Vec::new());
    assert_eq!(short(&state), [row("ppu-0", "b", "main", Some(0.2))]);
    // And it stays ended while the pod list can't be had.
    state.lose_pods();
    assert_eq!(short(&state), [row("ppu-0", "b", "main", Some(0.2))]);
}

#[test]
fn a_pods_ended_namesake_takes_neither_its_series_nor_its_values() {
    let mut old = container_sample("ppu-0", "a", "main", &[0.7]);
    old.consumer.uid = PodUid::new("uid-before").unwrap();
    let old_life = PodLife {
        uid: old.consumer.uid.clone(),
        ..life("a", true)
    };
    for samples in [
        vec![old.clone(), container_sample("ppu-0", "a", "main", &[0.1])],
        vec![container_sample("ppu-0", "a", "main", &[0.1]), old.clone()],
    ] {
        let mut state = scene(samples);
        state.take_pods(
            vec![life("a", false), old_life.clone(), life("b", false)],
            Vec::new(),
        );
        assert_eq!(short(&state)[0], row("ppu-0", "a", "main", Some(0.1)));
        assert_eq!(short(&state).len(), 2);
    }
}

#[test]
fn without_kubelet_the_runtimes_book_and_samples_are_the_containers() {
    let mut state = scene(vec![
        container_sample("ppu-0", "a", "main", &[0.1]),
        container_sample("ppu-1", "c", "main", &[0.3]),
        container_sample("ppu-1", "over", "main", &[0.4]),
    ]);
    state.take_pods(vec![life("a", false), life("over", true)], Vec::new());
    let share = Allocation {
        id: "x".into(),
        consumer: container_sample("ppu-0", "a", "main", &[]).consumer,
        grants: vec![Grant {
            card: CardId::new("ppu-0").unwrap(),
            mode: GrantMode::Share {
                core: CorePercent::new(25),
                memory: MemoryBytes::from_gib(4),
            },
        }],
    };
    state.lose_pod_devices(Some(&[share]));
    assert_eq!(
        short(&state),
        [
            row("ppu-0", "a", "main", Some(0.1)),
            row("ppu-1", "c", "main", Some(0.3)),
        ]
    );
    assert_eq!(rows(&state)[0].limits.core, Some(CorePercent::new(25)));
    state.lose_pod_devices(None);
    assert_eq!(short(&state).len(), 2);
}

#[test]
fn limits_are_what_the_ids_mean() {
    let mut state = state();
    state.take_cards(cards(2));
    let whole = |card: &str| vec![format!("{card}.card.0")];
    state.take_pod_devices(&[
        devices("best-effort", "main", &share("ppu-0", 0, 0, 3)),
        devices("core-only", "main", &share("ppu-0", 0, 33, 0)),
        devices("gone-card", "main", &[("aliyun.com/gpu", whole("ppu-9"))]),
        devices("whole", "main", &[("alibabacloud.com/ppu", whole("ppu-1"))]),
        devices("not-ours", "main", &[("other.com/thing", vec!["x".into()])]),
    ]);
    let limits = |name: &str| {
        let pod = pod_ref(name);
        rows(&state)
            .iter()
            .find(|r| *r.pod == pod)
            .map(|r| r.limits)
    };
    let of = |core: Option<u32>, gib: Option<u64>| {
        Some(Limits {
            core: core.map(CorePercent::new),
            memory: gib.map(MemoryBytes::from_gib),
        })
    };
    assert_eq!(limits("best-effort"), of(None, Some(3)));
    // 33 percent of 144 GiB is 47.52.
    assert_eq!(limits("core-only"), of(Some(33), Some(47)));
    assert_eq!(limits("gone-card"), of(Some(100), None));
    assert_eq!(limits("whole"), of(Some(100), Some(144)));
    assert_eq!(limits("not-ours"), None);
}

#[test]
fn ids_that_make_no_sense_are_told_and_passed_over() {
    let mut state = state();
    let ids = vec!["ppu-0.card.0".to_owned(), "GPU-1234".to_owned()];
    let told = state.take_pod_devices(&[devices("a", "main", &[("aliyun.com/gpu", ids)])]);
    assert_eq!(told.len(), 1);
    assert!(
        told[0].contains("GPU-1234") && told[0].contains("ns/a"),
        "{told:?}"
    );
    assert_eq!(short(&state), [row("ppu-0", "a", "main", None)]);
}

#[test]
fn partitions_are_read_from_kubelet_s_ids_by_the_resource_they_stand_under() {
    let ids = |ids: &[&str]| ids.iter().map(|id| (*id).to_owned()).collect();
    let pod = PodDevices {
        pod: pod_ref("a"),
        containers: vec![ContainerDevices {
            name: "main".into(),
            devices: [
                (
                    "aliyun.com/gpu-slice".to_owned(),
                    ids(&["ppu-0.slice.0", "ppu-0.slice.5"]),
                ),
                (
                    "alibabacloud.com/ppu-1g.18gb".to_owned(),
                    ids(&["ppu-1.part.0", "ppu-1.part.1"]),
                ),
            ]
            .into(),
        }],
    };
    let (holdings, faults) = crate::holding::from_kubelet(&[pod], &Settings::default());
    assert!(faults.is_empty(), "{faults:?}");
    let held: Vec<_> = holdings
        .into_iter()
        .map(|h| (h.card.to_string(), h.held))
        .collect();
    let profile = ProfileName::new("1g.18gb").unwrap();
    assert_eq!(
        held,
        [
            ("ppu-0".to_owned(), Held::Partition(Cut::Slices(2), 1)),
            (
                "ppu-1".to_owned(),
                Held::Partition(Cut::Profile(profile), 2)
            ),
        ]
    );
}

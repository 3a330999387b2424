use proptest::prelude::*;

use super::*;
use crate::{card::CardKind, name::ProfileName, quantity::MemoryUnit, settings::Policy};

impl PodRequest {
    /// The same, to be placed so.
    pub(crate) fn by(&self, cards: Policy) -> Self {
        let mut request = self.clone();
        request.placement.cards = cards;
        request
    }
}

const GPU: &str = "aliyun.com/gpu";
const PPU: &str = "alibabacloud.com/ppu";
const CORE: &str = "aliyun.com/gpu-core";
const MEMORY: &str = "aliyun.com/gpu-memory";
const SLICE: &str = "aliyun.com/gpu-slice";

fn name(text: &str) -> ResourceName {
    ResourceName::new(text).unwrap()
}

fn read_with(
    limits: &[(&str, &str)],
    settings: &Settings,
) -> Result<ContainerRequest, RequestFault> {
    let spec = ContainerSpec {
        name: "main",
        role: Role::App,
        limits: limits.to_vec(),
    };
    PodRequest::read([spec], settings)
        .map(|mut pod| pod.containers.remove(0))
        .map_err(|error| {
            assert_eq!(error.container, "main");
            error.why
        })
}

fn ask(limits: &[(&str, &str)]) -> Result<Ask, RequestFault> {
    read_with(limits, &Settings::default()).map(|container| container.ask)
}

fn share(core: Option<u32>, gib: Option<u64>) -> Ask {
    Ask::Share {
        core: core.map(CorePercent::new),
        memory: gib.map(MemoryBytes::from_gib),
    }
}

fn whole(count: u32, resource: &str, gib: Option<u64>) -> Ask {
    Ask::Whole {
        count,
        resource: name(resource),
        memory: gib.map(MemoryBytes::from_gib),
    }
}

#[test]
fn each_form_of_request_has_its_meaning() {
    for (limits, meaning) in [
        (&[(GPU, "2")][..], whole(2, GPU, None)),
        (&[(PPU, "1")], whole(1, PPU, None)),
        (&[(CORE, "50"), (MEMORY, "24")], share(Some(50), Some(24))),
        (&[(CORE, "1")], share(Some(1), None)),
        (&[(CORE, "100")], share(Some(100), None)),
        (&[(MEMORY, "24")], share(None, Some(24))),
        (&[(CORE, "0"), (MEMORY, "24")], share(None, Some(24))),
        (&[(CORE, "50"), (MEMORY, "0")], share(Some(50), None)),
        (&[(CORE, "200")], whole(2, CORE, None)),
        (&[(CORE, "300"), (MEMORY, "400")], whole(3, CORE, Some(400))),
        (
            &[(GPU, "1"), (CORE, "0"), (MEMORY, "0"), (PPU, "0")],
            whole(1, GPU, None),
        ),
        (&[], Ask::Nothing),
        (&[(CORE, "0")], Ask::Nothing),
        (
            &[
                ("cpu", "100m"),
                ("memory", "1.5Gi"),
                ("nvidia.com/gpu", "x"),
            ],
            Ask::Nothing,
        ),
    ] {
        assert_eq!(ask(limits), Ok(meaning), "{limits:?}");
    }
}

#[test]
fn case_9_odd_amounts_have_an_exact_meaning_or_a_reason_that_names_the_field() {
    assert_eq!(ask(&[(CORE, "0")]), Ok(Ask::Nothing));
    for value in [101, 150, 199, 250] {
        let fault = ask(&[(CORE, &value.to_string())]).unwrap_err();
        let text =
            format!("aliyun.com/gpu-core: {value} is neither 1 to 100 nor a multiple of 100");
        assert_eq!(fault.to_string(), text);
    }
    assert_eq!(ask(&[(CORE, "2e2")]), Ok(whole(2, CORE, None)));
    assert_eq!(ask(&[(CORE, "50000m")]), Ok(share(Some(50), None)));
    // The exact integers: 16Gi units of a GiB are 2^64 bytes, one too many to count.
    let fault = ask(&[(MEMORY, "16Gi")]).unwrap_err();
    assert_eq!(
        fault.to_string(),
        "aliyun.com/gpu-memory: 17179869184 is more than any node has"
    );
    assert_eq!(
        ask(&[(MEMORY, "10G")]),
        Ok(share(None, Some(10_000_000_000)))
    );
    assert_eq!(
        ask(&[(GPU, "4Gi")]).unwrap_err().to_string(),
        "aliyun.com/gpu: 4294967296 is more than any node has"
    );
    let fault = ask(&[(CORE, "9223372036854775800")]).unwrap_err();
    assert_eq!(
        fault.to_string(),
        "aliyun.com/gpu-core: 9223372036854775800 is more than any node has"
    );
    for resource in [GPU, PPU, CORE, MEMORY] {
        let fault = ask(&[(resource, "9223372036854775808")]).unwrap_err();
        assert_eq!(
            fault.to_string(),
            format!("{resource}: \"9223372036854775808\" is more than 2^63-1")
        );
        let fault = ask(&[(resource, "1.5")]).unwrap_err();
        assert_eq!(
            fault.to_string(),
            format!("{resource}: \"1.5\" is not a whole number")
        );
        let fault = ask(&[(resource, "-1")]).unwrap_err();
        assert_eq!(
            fault.to_string(),
            format!("{resource}: \"-1\" is below zero")
        );
        let fault = ask(&[(resource, "many")]).unwrap_err();
        assert_eq!(
            fault.to_string(),
            format!("{resource}: \"many\" is not a quantity")
        );
    }
}

#[test]
fn modes_are_never_mixed_in_one_container() {
    for (limits, first, second) in [
        (&[(GPU, "1"), (PPU, "1")][..], PPU, GPU),
        (&[(GPU, "1"), (CORE, "50")], GPU, CORE),
        (&[(GPU, "1"), (CORE, "200")], GPU, CORE),
        (&[(MEMORY, "1"), (GPU, "1")], GPU, MEMORY),
    ] {
        let (first, second) = (name(first), name(second));
        assert_eq!(
            ask(limits),
            Err(RequestFault::Mixed { first, second }),
            "{limits:?}"
        );
    }
}

#[test]
fn slices_are_one_partition_and_a_profile_counts_partitions() {
    let partition = |cut, count| Ok(Ask::Partition { cut, count });
    assert_eq!(ask(&[(SLICE, "3")]), partition(Cut::Slices(3), 1));
    let profile = ProfileName::new("2u.2g36gb").unwrap();
    assert_eq!(
        ask(&[("alibabacloud.com/ppu-2u.2g36gb", "2")]),
        partition(Cut::Profile(profile), 2)
    );
    assert_eq!(ask(&[(SLICE, "0")]), Ok(Ask::Nothing));
    for other in [
        ("aliyun.com/gpu", "1"),
        ("aliyun.com/gpu-core", "10"),
        ("aliyun.com/gpu-memory", "10"),
        ("alibabacloud.com/ppu-2u.2g36gb", "1"),
    ] {
        let both = ask(&[(SLICE, "1"), other]);
        assert!(
            matches!(both, Err(RequestFault::Mixed { .. })),
            "{other:?}: {both:?}"
        );
    }
    let two = ask(&[
        ("alibabacloud.com/ppu-1u.1g18gb", "1"),
        ("alibabacloud.com/ppu-2u.2g36gb", "1"),
    ]);
    assert!(matches!(two, Err(RequestFault::Mixed { .. })), "{two:?}");
}

#[test]
fn a_share_is_of_one_kind_of_card() {
    let setting = |text: &str, gives, kind| ResourceSetting {
        name: name(text),
        gives,
        unit: None,
        profile: None,
        kinds: vec![kind],
        models: Vec::new(),
    };
    let settings = Settings {
        resources: vec![
            setting("g.com/core", Gives::CorePercent, CardKind::Gpu),
            setting("g.com/memory", Gives::Memory, CardKind::Gpu),
            setting("p.com/core", Gives::CorePercent, CardKind::Ppu),
        ],
        ..Settings::default()
    };
    assert_eq!(settings.validate(), Ok(()));
    let ok = read_with(&[("g.com/core", "5"), ("g.com/memory", "5")], &settings).unwrap();
    assert_eq!(ok.ask, share(Some(5), Some(5)));
    for (limits, first, second) in [
        (
            [("p.com/core", "5"), ("g.com/memory", "5")],
            "p.com/core",
            "g.com/memory",
        ),
        (
            [("p.com/core", "5"), ("g.com/core", "5")],
            "g.com/core",
            "p.com/core",
        ),
    ] {
        let (first, second) = (name(first), name(second));
        assert_eq!(
            read_with(&limits, &settings),
            Err(RequestFault::Mixed { first, second })
        );
    }
}

#[test]
fn memory_is_counted_in_the_unit_of_the_settings() {
    let mut settings = Settings::default();
    settings.resources[3].unit = Some(MemoryUnit::Mib);
    let container = read_with(&[(MEMORY, "24576")], &settings).unwrap();
    assert_eq!(container.ask, share(None, Some(24)));
    let fault = read_with(&[(MEMORY, "17592186044416")], &settings).unwrap_err();
    assert!(matches!(
        fault,
        RequestFault::TooMuch {
            value: 17_592_186_044_416,
            ..
        }
    ));
}

#[test]
fn amounts_are_what_kubelet_will_ask_sorted_by_name_without_zeros() {
    let container = read_with(
        &[(MEMORY, "24"), ("cpu", "1"), (CORE, "50"), (GPU, "0")],
        &Settings::default(),
    )
    .unwrap();
    let amounts: Vec<(&str, u64)> = container
        .amounts
        .iter()
        .map(|amount| (amount.resource.as_str(), amount.count))
        .collect();
    assert_eq!(amounts, [(CORE, 50), (MEMORY, 24)]);
    assert!(
        read_with(&[(CORE, "0")], &Settings::default())
            .unwrap()
            .amounts
            .is_empty()
    );
}

#[test]
fn containers_keep_their_order_and_have_names_of_their_own() {
    let spec = |name, role| ContainerSpec {
        name,
        role,
        limits: vec![(GPU, "1")],
    };
    let settings = Settings::default();
    let pod = PodRequest::read(
        [
            spec("z", Role::Init),
            spec("a", Role::Sidecar),
            spec("m", Role::App),
        ],
        &settings,
    )
    .unwrap();
    let names: Vec<&str> = pod.containers.iter().map(|c| c.name.as_str()).collect();
    assert_eq!(names, ["z", "a", "m"]);
    assert!(!pod.is_empty());
    let error =
        PodRequest::read([spec("a", Role::Init), spec("a", Role::App)], &settings).unwrap_err();
    assert_eq!(
        error.to_string(),
        r#"container "a": its name is there twice"#
    );
    let error = PodRequest::read([spec("A!", Role::App)], &settings).unwrap_err();
    assert!(
        error
            .to_string()
            .starts_with(r#"container "A!": container name "A!" must be"#),
        "{error}"
    );
}

proptest! {
    #[test]
    fn never_panics_and_zero_amounts_ask_for_nothing(
        limits in prop::collection::vec(
            (
                prop::sample::select(vec![GPU, PPU, CORE, MEMORY, "cpu"]),
                prop_oneof!["[0-9]{1,20}", "[0-9]{1,4}[kMGTPEm]i?", ".{0,6}", Just("0".to_owned())],
            ),
            0..5,
        ),
    ) {
        let limits: Vec<(&str, &str)> = limits.iter().map(|(r, q)| (*r, q.as_str())).collect();
        if let Ok(container) = read_with(&limits, &Settings::default()) {
            prop_assert_eq!(container.amounts.is_empty(), container.ask == Ask::Nothing);
            prop_assert!(container.amounts.iter().all(|amount| amount.count > 0));
        }
    }
}

//! What each odd message becomes, one by one.

use model::{
    card::{CardKind, Health},
    name::CardId,
    plan::{Grant, GrantMode},
};

use super::*;
use crate::{client::MetricType, client::Phase, wire};

fn card(id: &str) -> wire::Card {
    wire::Card {
        id: id.into(),
        memory_bytes: 1 << 30,
        health: wire::CardHealth::Healthy.into(),
        ..wire::Card::default()
    }
}

fn list(cards: Vec<wire::Card>) -> crate::client::Cards {
    super::cards(wire::CardList {
        generation: 4,
        cards,
    })
}

/// The only line about the only card, which is left out.
fn left_out(card: wire::Card) -> String {
    let cards = list(vec![card]);
    assert_eq!(cards.inventory.cards(), []);
    assert_eq!(cards.malformed.len(), 1, "{:?}", cards.malformed);
    cards.malformed.into_iter().next().unwrap()
}

#[test]
fn a_card_that_makes_no_sense_is_left_out_and_named() {
    assert!(left_out(card("PPU_0")).contains("PPU_0"));
    assert!(left_out(card("")).contains("card id"));
    let line = left_out(wire::Card {
        model: "m".repeat(65),
        ..card("a")
    });
    assert!(line.contains("\"a\"") && line.contains("model"), "{line}");
    let line = left_out(wire::Card {
        uuid: "a\nb".into(),
        ..card("a")
    });
    assert!(line.contains("uuid") && !line.contains('\n'), "{line}");
    for memory_bytes in [0, (1 << 44) + 1, u64::MAX] {
        let line = left_out(wire::Card {
            memory_bytes,
            ..card("a")
        });
        assert!(line.contains(&memory_bytes.to_string()), "{line}");
    }
}

#[test]
fn of_two_cards_with_one_id_the_first_is_taken() {
    let twin = wire::Card {
        index: 1,
        ..card("a")
    };
    let cards = list(vec![card("a"), twin, card("b")]);
    let taken: Vec<_> = cards.inventory.cards().iter().map(|c| c.index).collect();
    assert_eq!(taken, [0, 0]);
    assert_eq!(
        cards.malformed,
        ["card \"a\" is there twice, the first is taken"]
    );
    assert_eq!(cards.generation, 4);
}

#[test]
fn of_many_cards_256_are_taken_and_of_many_lines_16_and_their_number() {
    let many = (0..300).map(|n| card(&format!("c-{n}"))).collect();
    let cards = list(many);
    assert_eq!(cards.inventory.cards().len(), 256);
    assert_eq!(cards.malformed, ["300 cards, only 256 are taken"]);
    let bad = (0..100).map(|n| card(&format!("C-{n}"))).collect();
    let lines = list(bad).malformed;
    assert_eq!(lines.len(), 17);
    assert_eq!(lines.last().unwrap(), "and 84 more");
}

#[test]
fn a_link_or_profile_that_makes_no_sense_costs_itself_and_not_the_card() {
    let link = |peer: &str| wire::Link {
        peer_card_id: peer.into(),
        bandwidth_bytes_per_second: 1,
    };
    let profile = |name: &str, memory_bytes, slices, max_count| wire::PartitionProfile {
        name: name.into(),
        slices,
        memory_bytes,
        max_count,
    };
    let cards = list(vec![wire::Card {
        links: vec![link("b"), link("a"), link("b"), link("B?")],
        partition_profiles: vec![
            profile("1g.1gb", 1 << 20, 1, 7),
            profile("1g.1gb", 1 << 20, 1, 7),
            profile("1G", 1 << 20, 1, 7),
            profile("2g", 1 << 31, 2, 3),
            profile("3g", 1 << 20, 0, 3),
            profile("4g", 1 << 20, 1, 0),
        ],
        ..card("a")
    }]);
    let taken = &cards.inventory.cards()[0];
    assert_eq!(taken.links.len(), 1);
    assert_eq!(taken.profiles.len(), 1);
    assert_eq!(cards.malformed.len(), 8, "{:#?}", cards.malformed);
}

#[test]
fn health_is_healthy_only_where_it_says_so() {
    let health = |health: i32, reason: &str| {
        let cards = list(vec![wire::Card {
            health,
            health_reason: reason.into(),
            ..card("a")
        }]);
        cards.inventory.cards()[0].health.clone()
    };
    assert_eq!(health(1, "ignored"), Health::Healthy);
    let unhealthy = |reason: &str| Health::Unhealthy(reason.to_owned());
    assert_eq!(health(2, "too\nhot"), unhealthy("too hot"));
    assert_eq!(health(2, ""), unhealthy("no reason given"));
    assert_eq!(health(0, ""), unhealthy("health not reported"));
    assert_eq!(health(-5, ""), unhealthy("health -5 is not known"));
}

#[test]
fn a_numa_node_of_minus_one_is_none() {
    let numa = |numa_node| {
        let cards = list(vec![wire::Card {
            numa_node,
            ..card("a")
        }]);
        cards.inventory.cards()[0].numa
    };
    assert_eq!(numa(Some(0)), Some(0));
    assert_eq!(numa(Some(u32::MAX)), None);
    assert_eq!(numa(None), None);
}

#[test]
fn kinds_and_phases_that_are_not_known_are_kept_apart_from_known_ones() {
    let answer = wire::ListSupportedXpuTypeResponse {
        kinds: vec![2, 2, 99, 0, 1],
        interface_version: "1.7".into(),
        runtime_version: "a\tb".into(),
    };
    let known = supported(&answer).unwrap();
    assert_eq!(known.kinds, [CardKind::Gpu, CardKind::Ppu, CardKind::Other]);
    assert_eq!(known.runtime_version, "a b");
    for version in ["", "1", "v1.2", "1.2.3", "one.two"] {
        let answer = wire::ListSupportedXpuTypeResponse {
            interface_version: version.into(),
            ..answer.clone()
        };
        assert!(
            supported(&answer)
                .unwrap_err()
                .contains("interface_version")
        );
    }
    let status = operation_status(&wire::OperationStatus {
        phase: 42,
        message: "m".repeat(1000),
        progress_percent: 400,
    });
    assert_eq!(status.phase, Phase::Unknown(42));
    assert_eq!(status.message.len(), 300);
    assert_eq!(status.progress_percent, 100);
}

fn edits(change: impl FnOnce(&mut wire::AllocateResponse)) -> Result<(), String> {
    let mut answer = wire::AllocateResponse {
        environment: [("A".to_owned(), "1".to_owned())].into(),
        mounts: vec![wire::Mount {
            container_path: "/a".into(),
            host_path: "/b".into(),
            read_only: true,
        }],
        device_nodes: vec![wire::DeviceNode {
            container_path: "/dev/a".into(),
            host_path: "/dev/b".into(),
            permissions: "rwm".into(),
        }],
        annotations: [("xdm.amp.com.cards".to_owned(), String::new())].into(),
        cdi_names: vec!["t-head.com/ppu=ppu-0".into()],
    };
    change(&mut answer);
    container_edits(answer).map(drop)
}

#[test]
fn edits_are_taken_whole_or_refused_with_the_name_of_what_is_wrong() {
    assert_eq!(edits(|_| {}), Ok(()));
    let refused = |named: &str, change: &dyn Fn(&mut wire::AllocateResponse)| {
        let why = edits(change).unwrap_err();
        assert!(why.contains(named), "{named}: {why}");
    };
    for key in [
        "xdm.amp.com/cards",
        "xdm.amp.com.",
        "cards",
        "xdm.amp.com.a/b",
        "",
    ] {
        refused(key, &|a| {
            a.annotations.insert(key.into(), String::new());
        });
    }
    for name in ["A=B", "A B", ""] {
        refused(name, &|a| {
            a.environment.insert(name.into(), String::new());
        });
    }
    refused("NUL", &|a| {
        a.environment.insert("N".into(), "\0".into());
    });
    for path in ["dev/x", "", "/dev/../x"] {
        refused("container_path", &|a| {
            a.mounts[0].container_path = path.into();
        });
        refused("host_path", &|a| a.device_nodes[0].host_path = path.into());
    }
    for permissions in ["", "rx", "rr", "rwmr", "é"] {
        refused("permissions", &|a| {
            a.device_nodes[0].permissions = permissions.into();
        });
    }
    for name in [
        "ppu-0",
        "t-head.com/ppu",
        "t-head.com/ppu=",
        "/ppu=a",
        "9a/b=c",
        "a/b=c ",
    ] {
        refused("cdi_names", &|a| a.cdi_names.push(name.into()));
    }
    refused("2000 mounts", &|a| {
        a.mounts = vec![wire::Mount::default(); 2000];
    });
}

fn grant(card_id: &str, mode: Option<wire::grant::Mode>) -> wire::Grant {
    wire::Grant {
        card_id: card_id.into(),
        mode,
    }
}

fn partition(card_id: &str, profile: &str) -> wire::Grant {
    let profile = profile.to_owned();
    let partition = wire::PartitionGrant { profile };
    grant(card_id, Some(wire::grant::Mode::Partition(partition)))
}

fn booked(id: &str, grants: Vec<wire::Grant>) -> wire::Allocation {
    wire::Allocation {
        allocation_id: id.into(),
        consumer: Some(wire::Consumer {
            namespace: "default".into(),
            pod: "a".into(),
            pod_uid: "uid-1".into(),
            container: "main".into(),
        }),
        grants,
    }
}

#[test]
fn partitions_of_one_profile_on_one_card_are_counted_together() {
    let one = partition("a", "1g");
    let (cards, allocations) = book(wire::ListGpuInfoResponse {
        allocations: vec![booked("x", vec![one.clone(), partition("a", "2g"), one])],
        ..wire::ListGpuInfoResponse::default()
    });
    assert_eq!(cards.malformed, Vec::<String>::new());
    let counts: Vec<_> = allocations[0]
        .grants
        .iter()
        .map(|grant| match &grant.mode {
            GrantMode::Partition { profile, count } => (profile.as_str(), *count),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(counts, [("1g", 2), ("2g", 1)]);
}

#[test]
fn allocations_of_the_book_that_make_no_sense_are_left_out_and_named() {
    let whole = || Some(wire::grant::Mode::Whole(wire::WholeGrant {}));
    let too_much = wire::ShareGrant {
        core_percent: 101,
        memory_bytes: 0,
    };
    let mut nobody = booked("nobody", vec![grant("a", whole())]);
    nobody.consumer = None;
    let (cards, allocations) = book(wire::ListGpuInfoResponse {
        allocations: vec![
            booked("good", vec![grant("a", whole())]),
            booked("good", vec![grant("b", whole())]),
            booked("no-mode", vec![grant("a", None)]),
            booked("two", vec![grant("a", whole()), grant("a", whole())]),
            booked("mixed", vec![grant("a", whole()), partition("a", "1g")]),
            booked(
                "core",
                vec![grant("a", Some(wire::grant::Mode::Share(too_much)))],
            ),
            booked("", vec![grant("a", whole())]),
            nobody,
        ],
        ..wire::ListGpuInfoResponse::default()
    });
    assert_eq!(allocations.len(), 1);
    assert_eq!(cards.malformed.len(), 7, "{:#?}", cards.malformed);
    for (line, named) in cards
        .malformed
        .iter()
        .zip(["good", "no-mode", "two", "mixed", "core", "\"\"", "nobody"])
    {
        assert!(line.contains(named), "{line}");
    }
}

#[test]
fn a_number_of_partitions_that_no_card_has_is_not_asked_for() {
    let (_, allocations) = book(wire::ListGpuInfoResponse {
        allocations: vec![booked("x", vec![partition("a", "1g")])],
        ..wire::ListGpuInfoResponse::default()
    });
    let mut asked = allocations.into_iter().next().unwrap();
    assert_eq!(allocate_request(&asked).unwrap().grants.len(), 1);
    for wrong in [0, 1025, u32::MAX] {
        let GrantMode::Partition { profile, .. } = asked.grants[0].mode.clone() else {
            panic!("{asked:?}");
        };
        asked.grants[0] = Grant {
            card: CardId::new("a").unwrap(),
            mode: GrantMode::Partition {
                profile,
                count: wrong,
            },
        };
        assert!(allocate_request(&asked).unwrap_err().contains("card a"));
    }
}

fn descriptor(name: &str, kind: i32, scope: i32) -> wire::MetricDescriptor {
    wire::MetricDescriptor {
        name: name.into(),
        help: "Two\nlines.".into(),
        r#type: kind,
        scope,
    }
}

#[test]
fn metrics_that_make_no_sense_keep_their_place() {
    let config = metric_config(wire::ExporterGetConfigResponse {
        config_version: 3,
        metrics: vec![
            descriptor("a_ratio", 1, 1),
            descriptor("0bad", 1, 1),
            descriptor("a_ratio", 1, 2),
            descriptor("b_total", 2, 2),
            descriptor("c", 9, 1),
            descriptor("d", 1, 9),
            descriptor("e_bytes", 1, 1),
        ],
        collection_interval_milliseconds: 0,
    });
    let names = |list: &[Option<crate::client::Metric>]| -> Vec<String> {
        list.iter()
            .map(|m| m.as_ref().map_or("-".to_owned(), |m| m.name.clone()))
            .collect()
    };
    assert_eq!(names(&config.card), ["a_ratio", "-", "-", "e_bytes"]);
    assert_eq!(names(&config.container), ["-", "b_total"]);
    let total = config.container[1].as_ref().unwrap();
    assert_eq!(total.kind, MetricType::Counter);
    assert_eq!(total.help, "Two lines.");
    assert_eq!(config.malformed.len(), 4, "{:#?}", config.malformed);
    assert!(!config.collection_interval.is_zero());
}

#[test]
fn samples_of_nobody_or_twice_are_left_out() {
    let sample = |id: &str| wire::CardSample {
        card_id: id.into(),
        values: vec![f64::NAN; 1000],
    };
    let consumer = booked("x", Vec::new()).consumer;
    let container = |consumer| wire::ContainerSample {
        card_id: "a".into(),
        consumer,
        ..wire::ContainerSample::default()
    };
    let snapshot = snapshot(wire::MetricSnapshot {
        cards: vec![sample("a"), sample("a"), sample("B")],
        containers: vec![
            container(consumer.clone()),
            container(consumer),
            container(None),
        ],
        ..wire::MetricSnapshot::default()
    });
    assert_eq!(snapshot.cards.len(), 1);
    assert_eq!(snapshot.cards[0].values.len(), 256);
    assert_eq!(snapshot.containers.len(), 1);
    assert_eq!(snapshot.malformed.len(), 4, "{:#?}", snapshot.malformed);
}

use proptest::prelude::*;

use super::*;
use crate::{
    card::{Card, CardKind, Health, Inventory, Link, PartitionProfile, tests::card},
    name::{CardId, ContainerName, ProfileName},
    plan::{ContainerGrants, Grant, GrantMode, Plan},
    quantity::{CorePercent, MemoryBytes},
};

fn grant(card: &str, mode: GrantMode) -> Grant {
    let card = CardId::new(card).unwrap();
    Grant { card, mode }
}

fn of(container: &str, grants: Vec<Grant>) -> ContainerGrants {
    let container = ContainerName::new(container).unwrap();
    ContainerGrants { container, grants }
}

fn malformed(text: &str) -> String {
    match read_plan(text) {
        Err(AnnotationError::Malformed(why)) => why,
        other => panic!("{text}: {other:?}"),
    }
}

#[test]
fn a_plan_is_compact_json_in_the_order_of_its_containers() {
    let share = GrantMode::Share {
        core: CorePercent::new(50),
        memory: MemoryBytes::from_gib(24),
    };
    let partition = GrantMode::Partition {
        profile: ProfileName::new("1g.18gb").unwrap(),
        count: 2,
    };
    let plan = Plan {
        containers: vec![
            of("z-init", vec![grant("ppu-1", share)]),
            of(
                "main",
                vec![
                    grant("ppu-2", GrantMode::Whole),
                    grant("ppu-3", GrantMode::Whole),
                ],
            ),
            of("a", vec![grant("gpu-0", partition)]),
        ],
    };
    let text = write_plan(&plan);
    assert_eq!(
        text,
        concat!(
            r#"{"v":1,"containers":{"#,
            r#""z-init":[{"card":"ppu-1","core":50,"memory":25769803776}],"#,
            r#""main":[{"card":"ppu-2","whole":true},{"card":"ppu-3","whole":true}],"#,
            r#""a":[{"card":"gpu-0","partition":"1g.18gb","count":2}]}}"#,
        )
    );
    assert_eq!(read_plan(&text), Ok(plan));
}

#[test]
fn unknown_fields_are_passed_over_and_grants_sorted() {
    let text = r#"{"by":"x","v":1,"containers":{"m":[{"card":"b","whole":true,"x":[{}]},{"card":"a","core":1}]}}"#;
    let share = GrantMode::Share {
        core: CorePercent::new(1),
        memory: MemoryBytes::ZERO,
    };
    let grants = vec![grant("a", share), grant("b", GrantMode::Whole)];
    let containers = vec![of("m", grants)];
    assert_eq!(read_plan(text), Ok(Plan { containers }));
}

#[test]
fn another_version_is_refused_whatever_its_form() {
    for text in [r#"{"v":2,"containers":[]}"#, r#"{"pods":{"v":1},"v":2}"#] {
        assert_eq!(read_plan(text), Err(AnnotationError::Version(2)));
        assert_eq!(read_inventory(text), Err(AnnotationError::Version(2)));
    }
    assert!(malformed(r#"{"v":0,"containers":{}}"#).contains("no version 0"));
    for text in [
        r#"{"v":-1,"containers":{}}"#,
        r#"{"v":"1","containers":{}}"#,
        r#"{"containers":{}}"#,
    ] {
        malformed(text);
    }
}

#[test]
fn what_has_no_one_meaning_is_refused_with_its_place() {
    let one = |grant: &str| malformed(&format!(r#"{{"v":1,"containers":{{"m":[{grant}]}}}}"#));
    assert_eq!(one(r#"{"card":"a"}"#), "container m, card a: has no mode");
    assert_eq!(
        one(r#"{"card":"a","whole":false}"#),
        "container m, card a: has no mode"
    );
    assert_eq!(
        one(r#"{"card":"a","whole":true,"core":5}"#),
        "container m, card a: is in two modes"
    );
    assert_eq!(
        one(r#"{"card":"a","core":5,"partition":"x"}"#),
        "container m, card a: is in two modes"
    );
    assert_eq!(
        one(r#"{"card":"a","core":101}"#),
        "container m, card a: has more than 100 core"
    );
    assert_eq!(
        one(r#"{"card":"a","partition":"x","count":0}"#),
        "container m, card a: has no partition"
    );
    assert_eq!(
        one(r#"{"card":"a","whole":true},{"card":"a","core":1}"#),
        "container m, card a: is there twice"
    );
    assert!(
        malformed(r#"{"v":1,"containers":{"m":[],"m":[]}}"#).contains("container m is there twice")
    );
    for text in [
        "",
        "null",
        "[]",
        "{}",
        r#"{"v":1}"#,
        r#"{"v":1,"containers":{"M":[]}}"#,
    ] {
        malformed(text);
    }
    one(r#"{"card":"../a","whole":true}"#);
    one(r#"{"card":"a","core":-1}"#);
    one(r#"{"card":"a","memory":1.5}"#);
    one(r#"{"card":"a","memory":18446744073709551616}"#);
}

#[test]
fn giant_and_deep_input_is_refused_in_few_words() {
    let long = "x".repeat(MOST_PLAN_BYTES + 1);
    assert_eq!(
        read_plan(&long),
        Err(AnnotationError::TooLong(
            MOST_PLAN_BYTES + 1,
            MOST_PLAN_BYTES
        ))
    );
    assert!(matches!(
        read_inventory(&"x".repeat(MOST_INVENTORY_BYTES + 1)),
        Err(AnnotationError::TooLong(..))
    ));
    malformed(&"[".repeat(MOST_PLAN_BYTES));
    malformed(&format!(
        r#"{{"v":1,"containers":{}"#,
        "{\"a\":".repeat(10_000)
    ));
    malformed(&format!(
        r#"{{"x":{}{},"v":1}}"#,
        "[".repeat(30_000),
        "]".repeat(30_000)
    ));
    let said = malformed(&format!(
        r#"{{"v":1,"containers":"{}"}}"#,
        "y".repeat(10_000)
    ));
    assert!(said.chars().count() <= 200, "{}", said.len());
}

#[test]
fn an_inventory_is_compact_json_without_what_is_as_usual() {
    let mut odd = card(1, 80);
    odd.health = Health::Unhealthy("lost".into());
    odd.shareable = false;
    odd.links = vec![Link {
        peer: CardId::new("ppu-0").unwrap(),
        bandwidth: 50_000_000_000,
    }];
    let inventory = Inventory::new(vec![card(0, 144), odd]).unwrap();
    let text = write_inventory(&open(&inventory));
    assert_eq!(
        text,
        concat!(
            r#"{"v":1,"cards":["#,
            r#"{"id":"ppu-0","index":0,"kind":"ppu","model":"PPU-144G","memory":154618822656},"#,
            r#"{"id":"ppu-1","index":1,"kind":"ppu","model":"PPU-144G","memory":85899345920,"#,
            r#""unhealthy":"lost","links":[["ppu-0",50000000000]],"shareable":false}]}"#,
        )
    );
    let read = read_inventory(&text).unwrap();
    assert_eq!(
        read.cards.cards()[1].health,
        Health::Unhealthy("lost".into())
    );
    assert_eq!(write_inventory(&read), text);
}

#[test]
fn an_inventory_says_whether_the_node_is_paused() {
    let paused = Published {
        cards: Inventory::new(vec![card(0, 144)]).unwrap(),
        paused: true,
    };
    let text = write_inventory(&paused);
    assert!(
        text.starts_with(r#"{"v":1,"paused":true,"cards":["#),
        "{text}"
    );
    assert!(read_inventory(&text).unwrap().paused);
}

fn open(inventory: &Inventory) -> Published {
    Published {
        cards: inventory.clone(),
        paused: false,
    }
}

#[test]
fn an_unknown_kind_of_card_reads_as_other() {
    let text = r#"{"v":1,"cards":[{"id":"a","index":0,"kind":"npu","memory":1,"color":"red"}]}"#;
    let read = read_inventory(text).unwrap();
    let card = &read.cards.cards()[0];
    assert_eq!(
        (card.kind, card.shareable, card.health.is_healthy()),
        (CardKind::Other, true, true)
    );
    let twice = r#"{"v":1,"cards":[{"id":"a","index":0,"kind":"gpu","memory":1},{"id":"a","index":1,"kind":"gpu","memory":1}]}"#;
    assert!(
        matches!(read_inventory(twice), Err(AnnotationError::Malformed(why)) if why.contains("\"a\""))
    );
}

#[test]
fn sixty_four_cards_all_linked_stay_within_what_kubernetes_takes() {
    let cards = (0..64).map(|n| {
        let links = (0..64).filter(|peer| *peer != n).map(|peer| Link {
            peer: CardId::new(&format!("ppu-{peer}")).unwrap(),
            bandwidth: 900_000_000_000,
        });
        let links = links.collect();
        let health = Health::Unhealthy("é".repeat(5_000));
        Card {
            health,
            links,
            ..card(n, 144)
        }
    });
    let text = write_inventory(&open(&Inventory::new(cards.collect()).unwrap()));
    assert!(text.len() < MOST_INVENTORY_BYTES, "{}", text.len());
    assert!(read_inventory(&text).is_ok());
}

fn some_mode() -> impl Strategy<Value = GrantMode> {
    prop_oneof![
        Just(GrantMode::Whole),
        (0_u32..=100, any::<u64>()).prop_map(|(core, memory)| GrantMode::Share {
            core: CorePercent::new(core),
            memory: MemoryBytes::new(memory),
        }),
        ("[a-z0-9.+-]{1,32}", 1_u32..).prop_map(|(profile, count)| GrantMode::Partition {
            profile: ProfileName::new(&profile).unwrap(),
            count,
        }),
    ]
}

fn some_plan() -> impl Strategy<Value = Plan> {
    let grants = prop::collection::btree_map("[a-z0-9-]{1,40}", some_mode(), 0..4);
    let grants = grants.prop_map(|grants| {
        grants
            .into_iter()
            .map(|(card, mode)| grant(&card, mode))
            .collect()
    });
    let containers = prop::collection::hash_map("[a-z0-9-]{1,63}", grants, 0..6);
    containers.prop_map(|containers| Plan {
        containers: containers
            .into_iter()
            .map(|(name, grants)| of(&name, grants))
            .collect(),
    })
}

fn some_card() -> impl Strategy<Value = Card> {
    let links = prop::collection::vec(("[a-c]", any::<u64>()), 0..3);
    let profiles = prop::collection::vec(
        (
            "[a-z0-9.+-]{1,32}",
            any::<u32>(),
            any::<u64>(),
            any::<u32>(),
        ),
        0..3,
    );
    (
        (any::<u32>(), 0_usize..6, ".{0,20}", any::<u64>()),
        (
            prop::option::of(".{0,200}"),
            prop::option::of(any::<u32>()),
            prop::option::of(".{0,9}"),
        ),
        (links, profiles, any::<bool>()),
    )
        .prop_map(
            |(
                (index, kind, model, memory),
                (reason, numa, switch),
                (links, profiles, shareable),
            )| Card {
                id: CardId::new("a").unwrap(),
                index,
                kind: [
                    CardKind::Gpu,
                    CardKind::Ppu,
                    CardKind::Gcu,
                    CardKind::Xpu,
                    CardKind::Amd,
                    CardKind::Other,
                ][kind],
                model,
                uuid: String::new(),
                memory: MemoryBytes::new(memory),
                health: reason.map_or(Health::Healthy, Health::Unhealthy),
                numa,
                switch,
                links: links
                    .into_iter()
                    .map(|(peer, bandwidth)| Link {
                        peer: CardId::new(&peer).unwrap(),
                        bandwidth,
                    })
                    .collect(),
                profiles: profiles
                    .into_iter()
                    .map(|(name, slices, memory, max_count)| PartitionProfile {
                        name: ProfileName::new(&name).unwrap(),
                        slices,
                        memory: MemoryBytes::new(memory),
                        max_count,
                    })
                    .collect(),
                shareable,
            },
        )
}

proptest! {
    #[test]
    fn every_plan_reads_back(plan in some_plan()) {
        prop_assert_eq!(read_plan(&write_plan(&plan)), Ok(plan));
    }

    #[test]
    fn every_inventory_reads_back_without_uuids(cards in prop::collection::vec(some_card(), 0..5)) {
        let cards = cards.into_iter().zip(["a", "b", "c", "d", "e"]).map(|(card, id)| Card {
            id: CardId::new(id).unwrap(),
            ..card
        });
        let inventory = Inventory::new(cards.collect()).unwrap();
        prop_assert_eq!(read_inventory(&write_inventory(&open(&inventory))), Ok(open(&inventory)));
    }

    #[test]
    fn a_changed_byte_never_panics(plan in some_plan(), at: prop::sample::Index, byte in 32_u8..127) {
        let mut text = write_plan(&plan).into_bytes();
        let at = at.index(text.len());
        text[at] = byte;
        let _ = read_plan(&String::from_utf8_lossy(&text));
        let _ = read_inventory(&String::from_utf8_lossy(&text));
    }
}

use model::request::Role;

use super::*;
use crate::fixture::{
    CORE, GPU, MEMORY, PART_2G, SLICE, card_id, cards, cuttable, ids, request, resource, settings,
    share,
};

fn asked(limits: &[(&str, u64)]) -> ContainerRequest {
    let all = request(&[("main", Role::App, limits)], &settings());
    all.containers[0].clone()
}

fn setting(name: &str) -> ResourceSetting {
    settings().resource(name).unwrap().into_owned()
}

fn of(
    limits: &[(&str, u64)],
    resource: &str,
    ids: &[String],
    planned: Option<&[Grant]>,
) -> Result<Vec<Grant>, BadDevices> {
    let setting = setting(resource);
    let cards = by_card(&parse(&setting, ids)?);
    let asked = asked(limits);
    let inventory = inventory();
    let grants = of_cards(&asked, &setting, &cards, planned, &settings(), &inventory)?;
    let count = asked.amounts.iter().find(|a| a.resource == setting.name);
    agree(&grants, &setting, count.unwrap().count, &cards, &inventory)?;
    Ok(grants)
}

fn inventory() -> Inventory {
    cards(4, 144)
}

fn whole(card: &str) -> Grant {
    Grant {
        card: card_id(card),
        mode: GrantMode::Whole,
    }
}

#[test]
fn either_call_of_a_share_gives_the_same_grants() {
    let limits = [(CORE, 50), (MEMORY, 24)];
    let by_core = of(&limits, CORE, &ids("ppu-1", "core", 0..50), None);
    let by_memory = of(&limits, MEMORY, &ids("ppu-1", "mem", 7..31), None);
    assert_eq!(by_core, Ok(vec![share("ppu-1", 50, 24)]));
    assert_eq!(by_core, by_memory);
}

#[test]
fn core_alone_takes_its_part_of_the_memory_and_memory_alone_no_core() {
    assert_eq!(
        of(&[(CORE, 33)], CORE, &ids("ppu-0", "core", 0..33), None),
        Ok(vec![share("ppu-0", 33, 47)])
    );
    assert_eq!(
        of(&[(MEMORY, 5)], MEMORY, &ids("ppu-0", "mem", 0..5), None),
        Ok(vec![share("ppu-0", 0, 5)])
    );
}

#[test]
fn a_share_over_two_cards_is_refused() {
    let mut two = ids("ppu-0", "core", 0..25);
    two.extend(ids("ppu-1", "core", 0..25));
    let error = of(&[(CORE, 50)], CORE, &two, None).unwrap_err();
    assert_eq!(
        error.to_string(),
        "a share or partitions must be on one card, the devices of aliyun.com/gpu-core are on ppu-0, ppu-1"
    );
}

#[test]
fn core_of_200_is_two_whole_cards_and_not_three_parts() {
    let mut two = ids("ppu-0", "core", 0..100);
    two.extend(ids("ppu-2", "core", 0..100));
    let grants = of(&[(CORE, 200)], CORE, &two, None);
    assert_eq!(grants, Ok(vec![whole("ppu-0"), whole("ppu-2")]));
    let mut uneven = ids("ppu-0", "core", 0..99);
    uneven.extend(ids("ppu-2", "core", 0..100));
    uneven.push("ppu-0.core.99".into());
    uneven.pop();
    uneven.push("ppu-2.core.0".into());
    assert!(of(&[(CORE, 200)], CORE, &uneven, None).is_err());
}

#[test]
fn memory_beside_whole_cards_called_first_goes_by_the_plan() {
    let limits = [(CORE, 200), (MEMORY, 100)];
    let memory = ids("ppu-2", "mem", 0..100);
    let planned = [whole("ppu-0"), whole("ppu-2")];
    let grants = of(&limits, MEMORY, &memory, Some(&planned));
    assert_eq!(grants, Ok(planned.to_vec()));
    assert!(matches!(
        of(&limits, MEMORY, &memory, None),
        Err(BadDevices::CardCount {
            asked: 2,
            given: 1,
            ..
        })
    ));
}

#[test]
fn whole_cards_are_their_ids() {
    let two = vec!["ppu-3.card.0".to_owned(), "ppu-1.card.0".to_owned()];
    let grants = of(&[(GPU, 2)], GPU, &two, None);
    assert_eq!(grants, Ok(vec![whole("ppu-1"), whole("ppu-3")]));
}

#[test]
fn ids_of_another_resource_or_form_are_refused() {
    let wrong = of(&[(CORE, 1)], CORE, &["ppu-0.mem.0".to_owned()], None);
    assert!(matches!(wrong, Err(BadDevices::Kind { .. })));
    let wrong = of(&[(CORE, 1)], CORE, &["GPU-1".to_owned()], None);
    assert!(matches!(wrong, Err(BadDevices::Id(_))));
}

#[test]
fn each_card_must_give_what_its_grant_needs() {
    let inventory = inventory();
    let two = [whole("ppu-0"), whole("ppu-1")];
    let need = wanted(&two, &setting(MEMORY), 200, &inventory);
    assert_eq!(need, [(card_id("ppu-0"), 144), (card_id("ppu-1"), 56)]);
    let need = wanted(&two, &setting(CORE), 200, &inventory);
    assert_eq!(need, [(card_id("ppu-0"), 100), (card_id("ppu-1"), 100)]);
    let error = agree(
        &[share("ppu-0", 50, 24)],
        &setting(CORE),
        50,
        &[(card_id("ppu-1"), 50)].into(),
        &inventory,
    );
    assert_eq!(
        error,
        Err(BadDevices::Amount {
            card: card_id("ppu-0"),
            resource: resource(CORE),
            wanted: 50,
            given: 0
        })
    );
}

#[test]
fn partitions_are_those_of_the_card_that_the_ids_name() {
    let inventory = cuttable(2, 16);
    let grants = |limits: &[(&str, u64)], name: &str, ids: &[String]| {
        let setting = setting(name);
        let cards = by_card(&parse(&setting, ids)?);
        let grants = of_cards(
            &asked(limits),
            &setting,
            &cards,
            None,
            &settings(),
            &inventory,
        )?;
        agree(&grants, &setting, limits[0].1, &cards, &inventory)?;
        Ok(grants)
    };
    let two = grants(&[(SLICE, 2)], SLICE, &ids("ppu-1", "slice", 3..5));
    assert_eq!(two, Ok(vec![partition("ppu-1", "2g", 1)]));
    let three = grants(&[(PART_2G, 3)], PART_2G, &ids("ppu-0", "part", 0..3));
    assert_eq!(three, Ok(vec![partition("ppu-0", "2g", 3)]));
    let no_such = grants(&[(SLICE, 3)], SLICE, &ids("ppu-0", "slice", 0..3));
    assert_eq!(
        no_such,
        Err(BadDevices::NoPartition {
            card: card_id("ppu-0"),
            cut: Cut::Slices(3)
        })
    );
    let mut over_two = ids("ppu-0", "slice", 6..7);
    over_two.extend(ids("ppu-1", "slice", 0..1));
    let over_two = grants(&[(SLICE, 2)], SLICE, &over_two);
    assert!(matches!(over_two, Err(BadDevices::TwoCards { .. })));
    let short = grants(&[(SLICE, 2)], SLICE, &ids("ppu-0", "slice", 0..1));
    assert!(matches!(
        short,
        Err(BadDevices::Amount {
            wanted: 2,
            given: 1,
            ..
        })
    ));
}

#[test]
fn ids_alone_say_what_a_pod_without_a_readable_request_has() {
    let inventory = cuttable(5, 16);
    let settings = settings();
    let read = |name: &str, ids: &[&str]| {
        let ids = ids.iter().map(|id| id.parse().unwrap()).collect();
        (settings.resource(name).unwrap(), ids)
    };
    let all = [
        read(GPU, &["ppu-0.card.0"]),
        read(CORE, &["ppu-1.core.3"]),
        read(MEMORY, &["ppu-1.mem.1", "ppu-1.mem.2"]),
        read(PART_2G, &["ppu-2.part.0", "ppu-2.part.2"]),
        read(
            SLICE,
            &[
                "ppu-3.slice.5",
                "ppu-4.slice.0",
                "ppu-4.slice.1",
                "ppu-4.slice.4",
            ],
        ),
    ];
    assert_eq!(
        of_ids(&all, &settings, &inventory),
        [
            whole("ppu-0"),
            share("ppu-1", 1, 2),
            partition("ppu-2", "2g", 2),
            partition("ppu-3", "1g", 1),
            // No partition has three slices: nobody else gets any of the card.
            whole("ppu-4"),
        ]
    );
}

fn partition(card: &str, profile: &str, count: u32) -> Grant {
    Grant {
        card: card_id(card),
        mode: GrantMode::Partition {
            profile: ProfileName::new(profile).unwrap(),
            count,
        },
    }
}

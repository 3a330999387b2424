use std::collections::BTreeSet;

use model::{
    annotation::write_plan,
    card::{Inventory, Link},
    ledger::{CardHold, Hold},
    plan::{ContainerGrants, GrantMode, Plan},
};
use proptest::prelude::*;

use super::*;
use crate::{
    core::Planned,
    fixture::{CORE, GPU, card_id, cards, container, core, ids, resource, simple, uid},
};

const CARDS: u32 = 7;

fn consumer(limits: &[(&str, u64)]) -> Consumer {
    let view = simple("new", 1, limits);
    Consumer {
        uid: view.uid.clone(),
        pod: view.pod.clone(),
        container: container("main"),
        request: view.request.expect("a request with a meaning"),
        assigned: None,
    }
}

fn named(n: u32) -> String {
    format!("ppu-{n}")
}

fn whole(cards: impl IntoIterator<Item = u32>) -> Vec<String> {
    cards
        .into_iter()
        .map(|n| format!("ppu-{n}.card.0"))
        .collect()
}

fn numbers(ids: &[String]) -> Vec<u32> {
    let mut numbers: Vec<u32> = ids
        .iter()
        .map(|id| id.split(['-', '.']).nth(1).unwrap().parse().unwrap())
        .collect();
    numbers.sort_unstable();
    numbers
}

/// Cards with these links (of pairs in order, in GiB/s), NUMA nodes and switches.
fn linked(places: &[(Option<u32>, Option<u32>)], links: &BTreeMap<(u32, u32), u64>) -> Inventory {
    let all = cards(CARDS, 8).cards().to_vec();
    let all = (0..)
        .zip(all)
        .zip(places)
        .map(|((n, card), (numa, switch))| Card {
            numa: *numa,
            switch: switch.map(|switch| format!("sw{switch}")),
            links: links
                .iter()
                .filter(|((a, _), bandwidth)| *a == n && **bandwidth > 0)
                .map(|((_, b), bandwidth)| Link {
                    peer: card_id(&named(*b)),
                    bandwidth: bandwidth << 30,
                })
                .collect(),
            ..card
        });
    Inventory::new(all.collect()).expect("different ids")
}

/// Bandwidth within, then pairs on one switch, then on one NUMA node.
fn worth(inventory: &Inventory, chosen: &[u32]) -> (u64, u32, u32) {
    let mut worth = (0, 0, 0);
    for (at, a) in chosen.iter().enumerate() {
        for b in chosen.iter().skip(at + 1) {
            let position = |n: &u32| usize::try_from(*n).unwrap();
            let (a, b) = (position(a), position(b));
            let (one, other) = (&inventory.cards()[a], &inventory.cards()[b]);
            worth.0 += u64::from(inventory.link(a, b));
            worth.1 += u32::from(one.switch.is_some() && one.switch == other.switch);
            worth.2 += u32::from(one.numa.is_some() && one.numa == other.numa);
        }
    }
    worth
}

fn in_set(set: u32) -> Vec<u32> {
    (0..CARDS).filter(|n| set & 1 << n != 0).collect()
}

fn places() -> impl Strategy<Value = Vec<(Option<u32>, Option<u32>)>> {
    let place = (prop::option::of(0_u32..2), prop::option::of(0_u32..3));
    prop::collection::vec(place, 7)
}

fn links() -> impl Strategy<Value = BTreeMap<(u32, u32), u64>> {
    let pair = (0..CARDS, 0..CARDS).prop_filter("two cards", |(a, b)| a != b);
    prop::collection::btree_map(pair, 0_u64..4, 0..12)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    /// Against all sets there are: of the right size, with all that must be in, of what is free
    /// and offered, and none of them better.
    #[test]
    fn without_a_plan_no_other_set_of_cards_hangs_together_better(
        places in places(),
        links in links(),
        held in 0_u32..128,
        offered in 0_u32..128,
        must in 0_u32..128,
        count in 1_u32..7,
    ) {
        let inventory = linked(&places, &links);
        let mut node = core(CARDS, 8);
        node.set_cards(inventory.clone());
        let of_others = in_set(held & held >> 1);
        let hold: Hold = of_others.iter().map(|n| (card_id(&named(*n)), CardHold::whole())).collect();
        node.ledger.hold(&uid("other"), hold).unwrap();
        let usable = offered & !(held & held >> 1);
        let must: Vec<u32> = in_set(usable & must).into_iter().take(count.saturating_sub(1) as usize).collect();
        let must_set = must.iter().fold(0_u32, |set, n| set | 1 << n);

        let pod = consumer(&[(GPU, count.into())]);
        let mut ask = || {
            let (available, must) = (whole(in_set(offered)), whole(must.clone()));
            node.prefer(&pod, &resource(GPU), &available, &must, Planned::MayMove)
        };
        let answer = ask();
        let again = ask();
        let sets = (0_u32..1 << CARDS).filter(|set| set.count_ones() == count && set & must_set == must_set && set & !usable == 0);
        let best = sets.map(|set| worth(&inventory, &in_set(set))).max();
        match (answer, best) {
            (Ok(ids), Some(best)) => {
                prop_assert_eq!(again.as_ref().ok(), Some(&ids), "the same again");
                prop_assert_eq!(ids.iter().collect::<BTreeSet<_>>().len(), count as usize);
                let chosen = numbers(&ids);
                let set = chosen.iter().fold(0_u32, |set, n| set | 1 << n);
                prop_assert_eq!(set & !usable, 0, "{:?} of {:?}", chosen, in_set(usable));
                prop_assert_eq!(set & must_set, must_set);
                prop_assert_eq!(worth(&inventory, &chosen), best, "{:?}", chosen);
            }
            (Err(_), None) => {}
            (answer, best) => prop_assert!(false, "{answer:?} where the best is {best:?}"),
        }
    }
}

/// Two fours, each card linked within its own.
fn fours() -> Inventory {
    let places = [(None, None); CARDS as usize];
    let pairs = (0..CARDS).flat_map(|a| (0..CARDS).map(move |b| (a, b)));
    let pairs = pairs.filter(|(a, b)| a != b && a / 4 == b / 4);
    linked(&places, &pairs.map(|pair| (pair, 200)).collect())
}

#[test]
fn what_is_handed_on_draws_the_rest_to_its_side() {
    let mut node = core(CARDS, 8);
    node.set_cards(fours());
    let pod = consumer(&[(GPU, 2)]);
    let chosen = node.prefer(
        &pod,
        &resource(GPU),
        &whole(0..CARDS),
        &whole([5]),
        Planned::MayMove,
    );
    assert_eq!(numbers(&chosen.expect("enough cards")), [4, 5]);
}

#[test]
fn whole_cards_by_core_are_drawn_only_where_kubelet_gives_all_of_a_card() {
    let mut node = core(CARDS, 8);
    node.set_cards(fours());
    let pod = consumer(&[(CORE, 200)]);
    let mut available: Vec<String> = (0..CARDS)
        .flat_map(|n| ids(&named(n), "core", 0..100))
        .collect();
    available.retain(|id| id != "ppu-4.core.7");
    let must = ids("ppu-5", "core", 0..100);
    let chosen = node.prefer(&pod, &resource(CORE), &available, &must, Planned::MayMove);
    let mut chosen = numbers(&chosen.expect("enough cards"));
    chosen.dedup();
    assert_eq!(chosen, [5, 6]);
}

#[test]
fn the_schedulers_plan_stands_but_for_what_kubelet_hands_on() {
    let mut node = core(CARDS, 8);
    node.set_cards(fours());
    let grants = [0, 6].map(|n| Grant {
        card: card_id(&named(n)),
        mode: GrantMode::Whole,
    });
    let plan = Plan {
        containers: vec![ContainerGrants {
            container: container("main"),
            grants: grants.to_vec(),
        }],
    };
    let pod = Consumer {
        assigned: Some(write_plan(&plan)),
        ..consumer(&[(GPU, 2)])
    };
    let mut chosen = |must: &[u32]| {
        let must = whole(must.iter().copied());
        let available = whole(0..CARDS);
        let chosen = node.prefer(&pod, &resource(GPU), &available, &must, Planned::MayMove);
        numbers(&chosen.expect("enough cards"))
    };
    assert_eq!(chosen(&[]), [0, 6]);
    assert_eq!(chosen(&[6]), [0, 6]);
    assert_eq!(chosen(&[5]), [5, 6]);
}

use proptest::prelude::*;

use super::*;
use crate::card::{Link, tests::card};

fn inventory(
    count: u32,
    place: impl Fn(u32) -> (u32, u32),
    link: impl Fn(u32, u32) -> u64,
) -> Inventory {
    let cards = (0..count).map(|n| {
        let (switch, numa) = place(n);
        let peers = (0..count).filter(|peer| *peer != n && link(n, *peer) > 0);
        let links = peers.map(|peer| Link {
            peer: card(peer, 1).id,
            bandwidth: link(n, peer) << 30,
        });
        Card {
            switch: Some(format!("sw{switch}")),
            numa: Some(numa),
            links: links.collect(),
            ..card(n, 80)
        }
    });
    Inventory::new(cards.collect()).unwrap()
}

/// Closeness within a set, and to the other free cards.
fn measure(
    inventory: &Inventory,
    free: &[usize],
    chosen: &[usize],
) -> (u64, std::cmp::Reverse<u64>) {
    let mut within = 0;
    let mut broken = 0;
    for a in chosen {
        for b in free {
            match chosen.contains(b) {
                true if a < b => within += closeness(inventory, *a, *b),
                true => {}
                false => broken += closeness(inventory, *a, *b),
            }
        }
    }
    (within, std::cmp::Reverse(broken))
}

/// The best worth of all sets of that size.
fn best(inventory: &Inventory, free: &[usize], count: usize) -> (u64, std::cmp::Reverse<u64>) {
    let sets = 0_u32..1 << free.len();
    let of_size = sets.filter(|set| usize::try_from(set.count_ones()).unwrap() == count);
    let chosen = |set: u32| -> Vec<usize> {
        let at = |at: &usize| set & 1 << at != 0;
        (0..free.len()).filter(at).map(|at| free[at]).collect()
    };
    of_size
        .map(|set| measure(inventory, free, &chosen(set)))
        .max()
        .unwrap()
}

fn machines() -> Vec<(&'static str, Inventory)> {
    let ring = |a: u32, b: u32| u64::from(a.abs_diff(b) == 1 || a.abs_diff(b) == 7);
    // The mesh of four-link machines: two fully linked fours, each card with one across, two
    // of the links double.
    let mesh = |a: u32, b: u32| match (a / 4 == b / 4, a % 4 == b % 4) {
        (true, _) => 1 + u64::from(a.abs_diff(b) == 3 || a.abs_diff(b) == 1 && a % 4 + b % 4 == 3),
        (false, same) => 2 * u64::from(same),
    };
    vec![
        ("all linked", inventory(8, |n| (n / 2, n / 4), |_, _| 900)),
        ("no links", inventory(8, |n| (n / 2, n / 4), |_, _| 0)),
        (
            "bridged pairs",
            inventory(
                8,
                |n| (n / 4, n / 4),
                |a, b| 600 * u64::from(a / 2 == b / 2),
            ),
        ),
        (
            "two fours",
            inventory(
                8,
                |n| (n / 2, n / 4),
                |a, b| 400 * u64::from(a / 4 == b / 4),
            ),
        ),
        ("ring", inventory(8, |n| (n / 4, n / 4), ring)),
        ("mesh", inventory(8, |n| (n / 2, n / 4), mesh)),
    ]
}

#[test]
fn on_real_machines_no_other_set_is_better() {
    for (name, inventory) in machines() {
        for free in 1_u32..256 {
            let free: Vec<usize> = (0..8).filter(|n| free & 1 << n != 0).collect();
            for count in 1..=free.len() {
                let chosen = choose(&inventory, &[], &free, count, Policy::Binpack).unwrap();
                assert_eq!(chosen.len(), count);
                let ours = measure(&inventory, &free, &chosen);
                let right = best(&inventory, &free, count);
                assert_eq!(
                    ours, right,
                    "{name}: {count} of {free:?}, chosen {chosen:?}"
                );
            }
        }
    }
}

#[test]
fn case_4_seven_of_eight_and_any_number_of_sixteen_take_few_steps() {
    assert_eq!(
        (sets(8, 4), sets(8, 7), sets(10, 5), sets(16, 2)),
        (70, 8, 252, 120)
    );
    for count in 3..14 {
        assert!(sets(16, count) > MOST_SETS, "{count}");
    }
    assert!(sets(64, 32) > MOST_SETS && sets(usize::MAX, 7) > MOST_SETS);
    // So either at most 300 sets are made, or 16 starts of at most 16 cards at 16 steps each.
    let machine = inventory(16, |n| (n / 4, n / 8), |a, b| 25 + u64::from(a ^ b));
    let free: Vec<usize> = (0..16).collect();
    for count in 1..=16 {
        let chosen = choose(&machine, &[], &free, count, Policy::Binpack).unwrap();
        assert_eq!(chosen.len(), count);
        assert_eq!(
            choose(&machine, &[], &free, count, Policy::Binpack),
            Some(chosen)
        );
    }
}

#[test]
fn on_sixteen_cards_the_grown_set_has_as_good_links_as_the_best_of_all() {
    let quads = |a: u32, b: u32| 50 * u64::from(a / 4 == b / 4);
    let eights = |a: u32, b: u32| 50 * u64::from(a / 8 == b / 8);
    for (name, machine) in [
        ("all linked", inventory(16, |n| (n / 4, n / 8), |_, _| 900)),
        ("no links", inventory(16, |n| (n / 4, n / 8), |_, _| 0)),
        ("quads", inventory(16, |n| (n / 8, n / 8), quads)),
        ("eights", inventory(16, |n| (n / 4, n / 8), eights)),
    ] {
        for gone in [None, Some(0), Some(5)] {
            let free: Vec<usize> = (0..16).filter(|n| Some(*n) != gone).collect();
            for count in [4, 6, 8, 12] {
                let chosen = choose(&machine, &[], &free, count, Policy::Binpack).unwrap();
                let (ours, _) = measure(&machine, &free, &chosen);
                let (right, _) = best(&machine, &free, count);
                // With a card gone the sets that only differ in switches are not all seen.
                let all = if gone.is_none() { 0 } else { 24 };
                assert_eq!(
                    ours >> all,
                    right >> all,
                    "{name} {gone:?} {count} {chosen:?}"
                );
            }
        }
    }
}

#[test]
fn the_fixed_cards_are_always_among_the_chosen() {
    let machine = inventory(8, |n| (n / 2, n / 4), |a, b| u64::from(a / 4 == b / 4));
    assert_eq!(
        choose(&machine, &[1, 6], &[0, 2, 3, 4, 5], 3, Policy::Binpack),
        Some(vec![0, 1, 6])
    );
    assert_eq!(
        choose(&machine, &[6], &[0, 1, 2, 4, 7], 3, Policy::Binpack),
        Some(vec![4, 6, 7])
    );
    assert_eq!(choose(&machine, &[6], &[0], 3, Policy::Binpack), None);
    assert_eq!(choose(&machine, &[6, 7], &[0], 1, Policy::Binpack), None);
    assert_eq!(
        choose(&machine, &[6, 7], &[0], 2, Policy::Binpack),
        Some(vec![6, 7])
    );
}

#[test]
fn of_more_cards_than_a_node_has_the_first_are_taken() {
    let cards = (0..300).map(|n| card(n, 1)).collect();
    let many = Inventory::new(cards).unwrap();
    let free: Vec<usize> = (0..300).collect();
    assert_eq!(
        choose(&many, &[], &free, 3, Policy::Binpack),
        Some(vec![0, 1, 2])
    );
    assert_eq!(
        choose(&many, &[9], &free[10..], 3, Policy::Binpack),
        Some(vec![9, 10, 11])
    );
    assert_eq!(choose(&many, &[], &free, 301, Policy::Binpack), None);
}

proptest! {
    #[test]
    fn any_links_and_counts_give_a_set_of_that_size(
        links in prop::collection::vec(prop_oneof![Just(0), any::<u64>()], 64),
        free in 0_u32..256,
        fixed in 0_u32..256,
        count in 0_usize..10,
    ) {
        let cards = (0..8_u32).map(|n| {
            let peers = (0..8_u32).zip(links.iter().skip(usize::try_from(n).unwrap() * 8));
            let links = peers.map(|(peer, bandwidth)| Link { peer: card(peer, 1).id, bandwidth: *bandwidth });
            Card { links: links.collect(), ..card(n, 80) }
        });
        let inventory = Inventory::new(cards.collect()).unwrap();
        let fixed: Vec<usize> = (0..8).filter(|n| fixed & 1 << n != 0).collect();
        let free: Vec<usize> = (0..8).filter(|n| free & 1 << n != 0 && !fixed.contains(n)).collect();
        match choose(&inventory, &fixed, &free, count, Policy::Binpack) {
            Some(chosen) => {
                prop_assert_eq!(chosen.len(), count);
                prop_assert!(chosen.windows(2).all(|w| w[0] < w[1]));
                prop_assert!(fixed.iter().all(|card| chosen.contains(card)));
                prop_assert!(chosen.iter().all(|card| fixed.contains(card) || free.contains(card)));
            }
            None => prop_assert!(count < fixed.len() || count > fixed.len() + free.len()),
        }
    }
}

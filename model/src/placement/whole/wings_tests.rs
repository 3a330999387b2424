use proptest::prelude::*;

use super::*;
use crate::{
    card::{Card, Link, tests::card},
    placement::whole,
};

fn xpu(n: u32) -> Card {
    Card {
        kind: CardKind::Xpu,
        ..card(n, 96)
    }
}

fn server() -> Inventory {
    Inventory::new((0..8).map(xpu).collect()).unwrap()
}

fn choose_by(policy: Policy, free: &[usize], count: usize) -> Vec<usize> {
    whole::choose(&server(), &[], free, count, policy).unwrap()
}

fn choose(free: &[usize], count: usize) -> Vec<usize> {
    choose_by(Policy::Binpack, free, count)
}

const ALL: [usize; 8] = [0, 1, 2, 3, 4, 5, 6, 7];

#[test]
fn an_empty_server_gives_from_one_wing() {
    assert_eq!(choose(&ALL, 1), [0]);
    assert_eq!(choose(&ALL, 2), [0, 1]);
    assert_eq!(choose(&ALL, 4), [0, 1, 2, 3]);
    assert_eq!(choose(&ALL, 8), ALL);
}

#[test]
fn the_tightest_wing_that_fits_goes_first() {
    // One, two and three free on the left, four on the right.
    assert_eq!(choose(&[3, 4, 5, 6, 7], 1), [3]);
    assert_eq!(choose(&[0, 3, 4, 5, 6, 7], 2), [0, 3]);
    assert_eq!(choose(&[0, 1, 3, 4, 5, 6, 7], 4), [4, 5, 6, 7]);
    assert_eq!(choose(&[0, 1, 2, 3, 5, 7], 2), [5, 7]);
    assert_eq!(choose(&[0, 1, 2, 5, 7], 2), [5, 7]);
    assert_eq!(choose(&[2, 4, 5, 6], 2), [4, 5]);
}

#[test]
fn a_single_card_leaves_a_pair_where_it_can() {
    // Of two and three free cards the three lose one, and a pair is left in each wing; 5 stays,
    // as it is linked to 1.
    assert_eq!(choose(&[0, 1, 5, 6, 7], 1), [6]);
    assert_eq!(choose(&[0, 4, 5, 6], 1), [0]);
    assert_eq!(choose(&[0, 1, 4, 5, 6, 7], 1), [0]);
    // The one without its peer across.
    assert_eq!(choose(&[1, 2, 3, 5, 7], 1), [2]);
}

#[test]
fn what_no_wing_serves_takes_cross_pairs() {
    assert_eq!(choose(&[2, 6], 2), [2, 6]);
    assert_eq!(choose(&[0, 1, 4, 5], 4), [0, 1, 4, 5]);
    // Not three of one wing and one of the other.
    assert_eq!(choose(&[0, 1, 2, 4, 6, 7], 4), [0, 2, 4, 6]);
    assert_eq!(choose(&[1, 2, 3, 4, 5, 6], 4), [1, 2, 5, 6]);
    // Three cross pairs: the two cards left behind are linked whichever two go.
    assert_eq!(choose(&[0, 1, 3, 4, 5, 7], 4), [0, 1, 4, 5]);
    // No cross pair is there: what is free is given all the same.
    assert_eq!(choose(&[0, 5], 2), [0, 5]);
}

#[test]
fn spread_takes_the_loosest_wing_but_never_spans_for_it() {
    let spread = |free: &[usize], count| choose_by(Policy::Spread, free, count);
    assert_eq!(spread(&[3, 4, 5, 6, 7], 1), [4]);
    assert_eq!(spread(&[0, 3, 4, 5, 6, 7], 2), [5, 6]);
    assert_eq!(spread(&ALL, 4), [0, 1, 2, 3]);
}

#[test]
fn what_is_fixed_draws_the_rest_into_its_wing_or_across() {
    let choose = |fixed: &[usize], free: &[usize], count| {
        whole::choose(&server(), fixed, free, count, Policy::Binpack)
    };
    assert_eq!(choose(&[5], &[0, 1, 7], 2), Some(vec![5, 7]));
    assert_eq!(choose(&[5], &[0, 1], 2), Some(vec![1, 5]));
    assert_eq!(choose(&[5], &[0, 1, 4], 4), Some(vec![0, 1, 4, 5]));
    assert_eq!(choose(&[5], &[0], 3), None);
}

#[test]
fn only_servers_built_so_are_taken_for_one() {
    let is = |cards: Vec<Card>| Wings::of(&Inventory::new(cards).unwrap()).is_some();
    assert!(is((0..8).map(xpu).collect()));
    // A card that has fallen out leaves the others where they are.
    assert!(is([0, 1, 2, 3, 5, 6, 7].map(xpu).to_vec()));
    assert!(!is((0..4).map(xpu).collect()), "one wing");
    assert!(!is((0..16).map(xpu).collect()), "sixteen cards");
    assert!(!is((0..8).map(|n| card(n, 96)).collect()), "another vendor");
    assert!(!is(Vec::new()));
    let across = |peer: u32| {
        let mut cards: Vec<Card> = (0..8).map(xpu).collect();
        cards[0].links = vec![Link {
            peer: card(peer, 1).id,
            bandwidth: 50 << 30,
        }];
        is(cards)
    };
    assert!(across(3) && across(4));
    assert!(!across(5), "a link that no such server has");
}

/// The vendor's rules said once more, for 1, 2 and 4 cards: each wing in turn, then across.
fn by_the_rules(free: &[usize], count: usize) -> Option<(usize, bool)> {
    let of = |wing: usize| free.iter().filter(|at| **at / 4 == wing).count();
    let order: &[usize] = match count {
        1 => &[1, 3, 2, 4],
        2 => &[2, 3, 4],
        _ => &[4],
    };
    let tightest = order.iter().find_map(|slots| {
        let wing = (0..2).find(|wing| of(*wing) == *slots)?;
        Some((wing, true))
    });
    let pairs = (0..4).filter(|at| free.contains(at) && free.contains(&(at + 4)));
    tightest.or_else(|| (count > 1 && pairs.count() * 2 >= count).then_some((0, false)))
}

#[test]
fn whatever_is_free_1_2_and_4_cards_follow_the_rules() {
    for set in 1_u32..256 {
        let free: Vec<usize> = ALL.into_iter().filter(|at| set & 1 << at != 0).collect();
        for count in [1, 2, 4] {
            let Some((wing, one_wing)) = by_the_rules(&free, count) else {
                continue;
            };
            let chosen = choose(&free, count);
            if one_wing {
                let free_in = |wing| free.iter().filter(|at| **at / 4 == wing).count();
                assert!(chosen.iter().all(|at| at / 4 == chosen[0] / 4), "{free:?}");
                assert_eq!(free_in(chosen[0] / 4), free_in(wing), "{count} of {free:?}");
            } else {
                for at in &chosen {
                    assert!(chosen.contains(&((at + 4) % 8)), "{chosen:?} of {free:?}");
                }
            }
        }
        // Four of three cross pairs leave the third.
        if choose_four_spans(&free) && cross_pairs(set) == 3 {
            let chosen = choose(&free, 4);
            let left = free.iter().filter(|at| !chosen.contains(at));
            let left: Vec<usize> = left.map(|at| at % 4).collect();
            assert_eq!(left[0], left[1], "{chosen:?} of {free:?}");
        }
    }
}

fn choose_four_spans(free: &[usize]) -> bool {
    free.len() == 6 && by_the_rules(free, 4).is_some_and(|(_, one_wing)| !one_wing)
}

proptest! {
    #[test]
    fn any_count_and_fixed_cards_give_a_set_of_that_size(
        free in 0_u32..256,
        fixed in 0_u32..256,
        count in 0_usize..10,
        policy in prop::sample::select(vec![Policy::Binpack, Policy::Spread, Policy::LinkAware]),
    ) {
        let fixed: Vec<usize> = ALL.into_iter().filter(|at| fixed & 1 << at != 0).collect();
        let free: Vec<usize> = ALL.into_iter().filter(|at| free & 1 << at != 0 && !fixed.contains(at)).collect();
        match whole::choose(&server(), &fixed, &free, count, policy) {
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

//! Servers of Kunlunxin cards: two wings of four, cards 0 to 3 and 4 to 7, each card linked
//! within its wing and to the one at the same place in the other (0-4, 1-5, 2-6, 3-7).
//!
//! What a wing can serve stays in one wing: the tightest, so that a larger request still finds a
//! wing that is free. A single card comes from a wing where an even number stays behind, as
//! pairs are asked most. What no wing can serve spans both in as many cross pairs as there are,
//! so that two cards are a cross pair and four are two of them. Among equals the cards left
//! behind keep the most links, then the lowest positions go first.

use std::cmp::Reverse;

use crate::{
    card::{CardKind, Inventory},
    settings::Policy,
};

/// Cards of a wing.
const WING: u32 = 4;

/// A node of two wings. Cards may be missing from it.
pub(super) struct Wings {
    /// Position on the node of each card that stands in the inventory, in its order.
    places: Vec<u32>,
}

/// A set of cards of one node. The better one is greater.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Ranked {
    in_one_wing: bool,
    cross_pairs: u32,
    /// How welcome what stays free in the wing is.
    tight: Reverse<u32>,
    /// Linked pairs of cards left behind.
    left: u32,
    places: Reverse<Vec<u32>>,
}

impl Wings {
    /// None where the node is not one of these. Links that its Runtime tells of and that no such
    /// server has say that it is built in another way.
    pub(super) fn of(inventory: &Inventory) -> Option<Self> {
        let cards = inventory.cards();
        if cards.iter().any(|card| card.kind != CardKind::Xpu) {
            return None;
        }
        let places: Vec<u32> = cards.iter().map(|card| card.index).collect();
        // Sorted by index: equal ones are neighbours.
        let in_order = places.windows(2).all(|pair| pair.first() < pair.last());
        let two_wings = places.first().is_some_and(|place| *place < WING)
            && places
                .last()
                .is_some_and(|place| (WING..2 * WING).contains(place));
        if !in_order || !two_wings {
            return None;
        }
        let fits = |(at, a): (usize, &u32)| {
            let mut later = places.iter().enumerate().skip(at + 1);
            later.all(|(other, b)| inventory.link(at, other) == 0 || linked(*a, *b))
        };
        let as_known = places.iter().enumerate().all(fits);
        as_known.then_some(Self { places })
    }

    /// `count` positions of the inventory, those of `fixed` among them. None where there are not
    /// enough.
    pub(super) fn choose(
        &self,
        fixed: &[usize],
        free: &[usize],
        count: usize,
        policy: Policy,
    ) -> Option<Vec<usize>> {
        let of = |positions: &[usize]| {
            let places = positions.iter().filter_map(|at| self.places.get(*at));
            places.fold(0_u32, |set, place| set | 1 << place)
        };
        let (fixed, free) = (of(fixed), of(free));
        let all = fixed | free;
        let sets = (0..1_u32 << (2 * WING)).filter(|set| {
            usize::try_from(set.count_ones()).is_ok_and(|size| size == count)
                && set & fixed == fixed
                && set & !all == 0
        });
        let best = sets.max_by_key(|set| ranked(*set, all, policy))?;
        let taken = self.places.iter().enumerate();
        let taken = taken.filter(|(_, place)| best & 1 << **place != 0);
        Some(taken.map(|(at, _)| at).collect())
    }

    /// Whether the cards at these two positions hang together.
    pub(super) fn linked(&self, a: usize, b: usize) -> bool {
        let places = (self.places.get(a), self.places.get(b));
        matches!(places, (Some(a), Some(b)) if linked(*a, *b))
    }
}

fn linked(a: u32, b: u32) -> bool {
    a / WING == b / WING || a % WING == b % WING
}

/// The cards of `set` in each wing.
fn wings(set: u32) -> [u32; 2] {
    let one = (1 << WING) - 1;
    [set & one, set >> WING & one]
}

fn linked_pairs(set: u32) -> u32 {
    let within = |wing: u32| {
        let cards = wing.count_ones();
        cards * cards.saturating_sub(1) / 2
    };
    wings(set).into_iter().map(within).sum::<u32>() + cross_pairs(set)
}

fn cross_pairs(set: u32) -> u32 {
    let [one, other] = wings(set);
    (one & other).count_ones()
}

/// How good it is to take `set` of the cards `all` that are free or taken already by the pod.
fn ranked(set: u32, all: u32, policy: Policy) -> Ranked {
    let rest = all & !set;
    let [one, other] = wings(set);
    let in_one_wing = one == 0 || other == 0;
    let left = wings(rest);
    let stays = match (one, other) {
        (_, 0) => left[0].count_ones(),
        (0, _) => left[1].count_ones(),
        _ => 0,
    };
    Ranked {
        in_one_wing,
        cross_pairs: if in_one_wing { 0 } else { cross_pairs(set) },
        tight: Reverse(match policy {
            Policy::Spread => WING - stays.min(WING),
            Policy::Binpack | Policy::LinkAware => unwelcome(set.count_ones(), stays),
        }),
        left: linked_pairs(rest),
        places: Reverse(
            (0..2 * WING)
                .filter(|place| set & 1 << place != 0)
                .collect(),
        ),
    }
}

/// How unwelcome it is that so many cards stay free in the wing: the fewer the better, but an
/// odd request makes an even number where it can.
fn unwelcome(taken: u32, stays: u32) -> u32 {
    match (taken % 2, stays) {
        (1, 2) => 1,
        (1, 1) => 2,
        _ => stays,
    }
}

#[cfg(test)]
#[path = "wings_tests.rs"]
mod tests;

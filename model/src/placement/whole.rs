//! Which of the free cards to give out together.
//!
//! The set with the most bandwidth among its own cards, then the most pairs on one switch, then
//! on one NUMA node; among equals the one that breaks the fewest such pairs of the cards left
//! behind, then the one of the lowest positions. On a node of eight cards all sets are tried.
//! On a larger one the set is grown card by card from every start, and shrunk card by card from
//! all: one or the other gives as good links for the shapes that machines have, and takes
//! microseconds where trying all sets takes seconds.
//!
//! Where cards are to be spread, of sets with equal links the one in the emptiest part of the
//! node goes first. Servers of Kunlunxin cards have rules of their own: see [`wings`].

mod wings;

use std::cmp::Reverse;

use crate::{
    card::{Card, Inventory},
    settings::Policy,
};

use wings::Wings;

/// The largest number of cards whose closeness is looked at; no node has more. Of a longer list
/// the first ones are taken.
const MOST_CARDS: usize = 64;

/// Up to this many sets are all tried: every number of 8 free cards (at most 70 sets), and of
/// up to 10 (252).
const MOST_SETS: usize = 300;

/// How close two cards are. One number: links count before switches, and these before NUMA
/// nodes, however many pairs are summed up (at most 2016 of 64 cards).
fn closeness(inventory: &Inventory, a: usize, b: usize) -> u64 {
    const MOST_LINK: u64 = (1 << 28) - 1;
    let (Some(one), Some(other)) = (inventory.cards().get(a), inventory.cards().get(b)) else {
        return 0;
    };
    let link = u64::from(inventory.link(a, b)).min(MOST_LINK);
    link << 24 | u64::from(one_switch(one, other)) << 12 | u64::from(one_numa(one, other))
}

fn one_switch(a: &Card, b: &Card) -> bool {
    a.switch.is_some() && a.switch == b.switch
}

fn one_numa(a: &Card, b: &Card) -> bool {
    a.numa.is_some() && a.numa == b.numa
}

/// How well these cards hang together, of 1000: all linked is 1000, none on one NUMA node 0.
pub(super) fn locality(inventory: &Inventory, chosen: &[usize]) -> u32 {
    let wings = Wings::of(inventory);
    let linked = |a: usize, b: usize| {
        inventory.link(a, b) > 0 || wings.as_ref().is_some_and(|wings| wings.linked(a, b))
    };
    let mut sum = 0_u32;
    let mut pairs = 0_u32;
    for (at, a) in chosen.iter().enumerate() {
        for b in chosen.iter().skip(at + 1) {
            let (Some(one), Some(other)) = (inventory.cards().get(*a), inventory.cards().get(*b))
            else {
                continue;
            };
            pairs += 1;
            sum += match () {
                () if linked(*a, *b) => 1000,
                () if one_switch(one, other) => 700,
                () if one_numa(one, other) => 400,
                () => 0,
            };
        }
    }
    sum.checked_div(pairs).unwrap_or(1000)
}

/// `count` positions, those of `fixed` among them, the others from `free`; sorted. None where
/// there are not enough.
pub(super) fn choose(
    inventory: &Inventory,
    fixed: &[usize],
    free: &[usize],
    count: usize,
    policy: Policy,
) -> Option<Vec<usize>> {
    let more = count.checked_sub(fixed.len())?;
    if free.len() < more {
        return None;
    }
    let all = fixed.len() + free.len();
    let mut chosen = if more == 0 || more == free.len() || all > MOST_CARDS {
        fixed.iter().chain(free).copied().take(count).collect()
    } else if let Some(wings) = Wings::of(inventory) {
        wings.choose(fixed, free, count, policy)?
    } else {
        Field::new(inventory, fixed, free, policy).best(count)
    };
    chosen.sort_unstable();
    Some(chosen)
}

/// The cards to choose from, the fixed ones first, and how close each two are.
struct Field {
    cards: Vec<usize>,
    fixed: usize,
    /// Row by row.
    close: Vec<u64>,
    /// Sum of each row: what the others lose when this card goes.
    degree: Vec<u64>,
    /// Whether the others are rather to lose much: it is the emptiest part of the node then.
    spread: bool,
}

/// One set of cards of a field; cards are named by their place in it.
#[derive(Clone)]
struct Set {
    taken: Vec<bool>,
    count: usize,
    /// How close each card of the field is to the set.
    gain: Vec<u64>,
    /// Closeness within.
    within: u64,
    /// Sum of the degrees.
    degrees: u64,
}

impl Set {
    fn none(cards: usize) -> Self {
        Self {
            taken: vec![false; cards],
            count: 0,
            gain: vec![0; cards],
            within: 0,
            degrees: 0,
        }
    }
}

/// A finished set. The better one is greater.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Ranked {
    within: u64,
    /// By the closeness to the cards left behind.
    around: u64,
    positions: Reverse<Vec<usize>>,
}

impl Field {
    fn new(inventory: &Inventory, fixed: &[usize], free: &[usize], policy: Policy) -> Self {
        let cards: Vec<usize> = fixed.iter().chain(free).copied().collect();
        let mut close = Vec::with_capacity(cards.len() * cards.len());
        let mut degree = Vec::with_capacity(cards.len());
        for a in &cards {
            let mut sum = 0;
            for b in &cards {
                let pair = if a == b {
                    0
                } else {
                    closeness(inventory, *a, *b)
                };
                close.push(pair);
                sum += pair;
            }
            degree.push(sum);
        }
        Self {
            cards,
            fixed: fixed.len(),
            close,
            degree,
            spread: policy == Policy::Spread,
        }
    }

    fn row(&self, at: usize) -> &[u64] {
        let width = self.cards.len();
        self.close.get(at * width..(at + 1) * width).unwrap_or(&[])
    }

    /// Greater is better.
    fn around(&self, broken: u64) -> u64 {
        if self.spread {
            broken
        } else {
            u64::MAX - broken
        }
    }

    fn degree(&self, at: usize) -> u64 {
        self.degree.get(at).copied().unwrap_or(0)
    }

    /// The best set found, of at least 1 card more than the fixed ones.
    fn best(&self, count: usize) -> Vec<usize> {
        let free = self.cards.len() - self.fixed;
        let best = if sets(free, count - self.fixed) <= MOST_SETS {
            self.try_all(count)
        } else {
            let starts = if self.fixed > 0 { 0..1 } else { 0..free };
            let grown = starts.map(|start| self.grow(start, count));
            let sets = grown.chain([self.shrink(count)]);
            sets.map(|set| self.ranked(&set)).max()
        };
        best.map(|ranked| ranked.positions.0).unwrap_or_default()
    }

    fn ranked(&self, set: &Set) -> Ranked {
        let all = self.cards.iter().zip(&set.taken);
        let taken = all.filter(|(_, taken)| **taken);
        let mut positions: Vec<usize> = taken.map(|(card, _)| *card).collect();
        positions.sort_unstable();
        Ranked {
            within: set.within,
            // Each pair within counts in two degrees.
            around: self.around(set.degrees.saturating_sub(2 * set.within)),
            positions: Reverse(positions),
        }
    }

    /// From the fixed cards, or from `start` where there are none, always the card that is
    /// closest to those taken; among equals as the policy has it, then the first.
    fn grow(&self, start: usize, count: usize) -> Set {
        let mut set = Set::none(self.cards.len());
        if self.fixed > 0 {
            (0..self.fixed).for_each(|at| self.put(&mut set, at));
        } else {
            self.put(&mut set, start);
        }
        while set.count < count
            && let Some(at) = self.closest(&set)
        {
            self.put(&mut set, at);
        }
        set
    }

    fn put(&self, set: &mut Set, at: usize) {
        set.count += 1;
        set.within += set.gain.get(at).copied().unwrap_or(0);
        set.degrees += self.degree(at);
        if let Some(taken) = set.taken.get_mut(at) {
            *taken = true;
        }
        for (gain, more) in set.gain.iter_mut().zip(self.row(at)) {
            *gain += more;
        }
    }

    fn closest(&self, set: &Set) -> Option<usize> {
        let all = set
            .gain
            .iter()
            .zip(&self.degree)
            .zip(&set.taken)
            .enumerate();
        all.filter(|(_, (_, taken))| !**taken)
            .min_by_key(|(_, ((gain, degree), _))| {
                (Reverse(**gain), Reverse(self.around(**degree)))
            })
            .map(|(at, _)| at)
    }

    /// From all cards, always the one out that is least close to the others; among equals the
    /// last.
    fn shrink(&self, count: usize) -> Set {
        let mut set = Set::none(self.cards.len());
        (0..self.cards.len()).for_each(|at| self.put(&mut set, at));
        while set.count > count {
            let all = set.gain.iter().zip(&set.taken).enumerate();
            let of_set = all.skip(self.fixed).filter(|(_, (_, taken))| **taken);
            let Some((at, _)) = of_set.min_by_key(|(at, (gain, _))| (**gain, Reverse(*at))) else {
                break;
            };
            self.take_out(&mut set, at);
        }
        set
    }

    fn take_out(&self, set: &mut Set, at: usize) {
        set.count -= 1;
        set.within -= set.gain.get(at).copied().unwrap_or(0);
        set.degrees -= self.degree(at);
        if let Some(taken) = set.taken.get_mut(at) {
            *taken = false;
        }
        for (gain, less) in set.gain.iter_mut().zip(self.row(at)) {
            *gain -= less;
        }
    }

    /// All sets of that size, one after the other.
    fn try_all(&self, count: usize) -> Option<Ranked> {
        let mut set = Set::none(self.cards.len());
        (0..self.fixed).for_each(|at| self.put(&mut set, at));
        let mut best = None;
        self.try_from(self.fixed, &set, count, &mut best);
        best
    }

    fn try_from(&self, next: usize, set: &Set, count: usize, best: &mut Option<Ranked>) {
        if set.count == count {
            let ranked = self.ranked(set);
            if best.as_ref().is_none_or(|best| ranked > *best) {
                *best = Some(ranked);
            }
            return;
        }
        let missing = count - set.count;
        for at in next..=self.cards.len().saturating_sub(missing) {
            let mut with = set.clone();
            self.put(&mut with, at);
            self.try_from(at + 1, &with, count, best);
        }
    }
}

/// How many sets of `count` out of `all` there are, or some number beyond [`MOST_SETS`].
fn sets(all: usize, count: usize) -> usize {
    let count = count.min(all.saturating_sub(count));
    let mut sets = 1_usize;
    for at in 0..count {
        // Always exact: the product of n numbers in a row is a multiple of n!.
        sets = sets.saturating_mul(all - at) / (at + 1);
        if sets > MOST_SETS {
            break;
        }
    }
    sets
}

#[cfg(test)]
#[path = "whole_tests.rs"]
mod tests;

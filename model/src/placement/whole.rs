//! Which of the free cards to give out together.
//!
//! The set with the most bandwidth among its own cards, then the most pairs on one switch, then
//! on one NUMA node; among equals the one that breaks the fewest such pairs of the cards left
//! behind, then the one of the lowest positions. Grown card by card from every start, which for
//! the shapes that machines have (cliques, rings, switches, meshes) finds the best set, and takes
//! microseconds where trying all sets takes seconds.

use crate::card::{Card, Inventory};

/// The largest number of cards whose closeness is looked at; no node has more. Of a longer list
/// the first ones are taken.
const MOST_CARDS: usize = 64;

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
                () if inventory.link(*a, *b) > 0 => 1000,
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
) -> Option<Vec<usize>> {
    let more = count.checked_sub(fixed.len())?;
    if free.len() < more {
        return None;
    }
    let all = fixed.len() + free.len();
    let mut chosen = if more == 0 || more == free.len() || all > MOST_CARDS {
        fixed.iter().chain(free).copied().take(count).collect()
    } else {
        Field::new(inventory, fixed, free).best(fixed.len(), count)
    };
    chosen.sort_unstable();
    Some(chosen)
}

/// The cards to choose from, the fixed ones first, and how close each two are.
struct Field {
    cards: Vec<usize>,
    /// Row by row.
    close: Vec<u64>,
    /// Sum of each row: what the others lose when this card goes.
    degree: Vec<u64>,
}

/// One set of cards. Better sets compare greater.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Choice {
    within: u64,
    /// Closeness to the cards left behind.
    broken: std::cmp::Reverse<u64>,
    positions: std::cmp::Reverse<Vec<usize>>,
}

impl Field {
    fn new(inventory: &Inventory, fixed: &[usize], free: &[usize]) -> Self {
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
            close,
            degree,
        }
    }

    fn row(&self, at: usize) -> &[u64] {
        let width = self.cards.len();
        self.close.get(at * width..(at + 1) * width).unwrap_or(&[])
    }

    fn best(&self, fixed: usize, count: usize) -> Vec<usize> {
        let starts = if fixed > 0 { 0..1 } else { 0..self.cards.len() };
        let best = starts.map(|start| self.grow(fixed, start, count)).max();
        best.map(|choice| choice.positions.0).unwrap_or_default()
    }

    /// From the fixed cards, or from `start` where there are none, always the card that is
    /// closest to those taken; among equals the one that leaves least behind, then the first.
    fn grow(&self, fixed: usize, start: usize, count: usize) -> Choice {
        let mut gain = vec![0_u64; self.cards.len()];
        let mut taken = vec![false; self.cards.len()];
        let mut choice = Choice {
            within: 0,
            broken: std::cmp::Reverse(0),
            positions: std::cmp::Reverse(Vec::with_capacity(count)),
        };
        let first = if fixed > 0 {
            0..fixed
        } else {
            start..start + 1
        };
        let mut next = first.clone().next();
        let mut due = first.skip(1);
        while let Some(at) = next {
            choice.within += gain.get(at).copied().unwrap_or(0);
            choice.broken.0 += self.degree.get(at).copied().unwrap_or(0);
            choice.positions.0.extend(self.cards.get(at));
            if let Some(slot) = taken.get_mut(at) {
                *slot = true;
            }
            for (gain, more) in gain.iter_mut().zip(self.row(at)) {
                *gain += more;
            }
            if choice.positions.0.len() >= count {
                break;
            }
            next = due.next().or_else(|| self.closest(&gain, &taken));
        }
        // Each pair within was counted from both ends.
        choice.broken.0 -= 2 * choice.within;
        choice.positions.0.sort_unstable();
        choice
    }

    fn closest(&self, gain: &[u64], taken: &[bool]) -> Option<usize> {
        gain.iter()
            .zip(&self.degree)
            .zip(taken)
            .enumerate()
            .filter(|(_, (_, taken))| !**taken)
            .min_by_key(|(_, ((gain, degree), _))| (std::cmp::Reverse(**gain), **degree))
            .map(|(at, _)| at)
    }
}

//! The search itself: containers in order, cards in order of preference, one step back where a
//! later container finds no room.

use super::{
    NoFit,
    draft::{Draft, HandedOn, take},
    reason::why_no_whole,
    trial::{Need, NeedOf, Part, Trial, rank},
    whole,
};
use crate::{
    ledger::{Ledger, Room},
    name::ResourceName,
    quantity::MemoryBytes,
    request::{Amount, Role},
    settings::Policy,
};

/// How many cards are tried for one pod on one node before giving up. A pod with one container
/// never needs more than one try a card; only several that barely fit together need many.
const MOST_TRIES: u32 = 2_000;

/// Where each container goes.
pub(super) struct Solution {
    /// Positions of cards, one list a container.
    pub(super) chosen: Vec<Vec<usize>>,
    /// One a card.
    pub(super) drafts: Vec<Draft>,
}

/// One search on one node.
pub(super) struct Solver<'s, 'a> {
    trial: &'s Trial<'a>,
    ledger: &'s Ledger,
    cards: Policy,
    drafts: Vec<Draft>,
    handed: Vec<HandedOn<'s>>,
    chosen: Vec<Vec<usize>>,
    tries: u32,
    /// The furthest container that found no room, and why not.
    failure: Option<(usize, NoFit)>,
}

impl<'s, 'a> Solver<'s, 'a> {
    pub(super) fn new(trial: &'s Trial<'a>, ledger: &'s Ledger, cards: Policy) -> Self {
        Self {
            trial,
            ledger,
            cards,
            drafts: vec![Draft::default(); ledger.rooms().len()],
            handed: Vec::new(),
            chosen: Vec::with_capacity(trial.needs.len()),
            tries: MOST_TRIES,
            failure: None,
        }
    }

    pub(super) fn solve(mut self) -> Result<Solution, NoFit> {
        if self.plan_from(0) {
            return Ok(Solution {
                chosen: self.chosen,
                drafts: self.drafts,
            });
        }
        // A search that fails has always said why.
        let failure = self.failure.map(|(_, why)| why);
        Err(failure.unwrap_or(NoFit::TooFew { has: 0, asked: 0 }))
    }

    /// Plans this container and all after it.
    fn plan_from(&mut self, at: usize) -> bool {
        let Some(need) = self.trial.needs.get(at) else {
            return true;
        };
        let planned = match need.ask {
            NeedOf::Part(part) => self.part(at, need, part),
            NeedOf::Whole {
                count,
                resource,
                per_card,
                memory,
            } => self.whole(at, need, count, resource, per_card, memory),
        };
        match planned {
            Ok(()) => true,
            Err(why) => {
                if let Some(why) = why
                    && self
                        .failure
                        .as_ref()
                        .is_none_or(|(furthest, _)| at > *furthest)
                {
                    self.failure = Some((at, why));
                }
                false
            }
        }
    }

    /// None for the reason where a later container has said it.
    fn part(&mut self, at: usize, need: &'s Need<'a>, part: Part<'a>) -> Result<(), Option<NoFit>> {
        let forced = self.forced(need)?;
        let order = forced.map_or_else(|| self.order(need), |card| vec![card]);
        let mut tried: Vec<&Room> = Vec::new();
        let mut found = false;
        for card in order {
            let (Some(room), Some(before)) = (
                self.ledger.rooms().get(card),
                self.drafts.get(card).cloned(),
            ) else {
                continue;
            };
            let after = self.trial.with_part(&before, need, part, self.ledger, card);
            let Some(after) = after else {
                continue;
            };
            // A card just like one that led nowhere leads nowhere.
            if before.is_untouched() {
                if tried.contains(&room) {
                    continue;
                }
                tried.push(room);
            }
            found = true;
            self.try_once()?;
            let handed = self.handed.clone();
            for Amount { resource, count } in need.amounts {
                take(&mut self.handed, need.role, resource, card, *count);
            }
            self.put(card, after);
            self.chosen.push(vec![card]);
            if self.plan_from(at + 1) {
                return Ok(());
            }
            self.chosen.pop();
            self.put(card, before);
            self.handed = handed;
        }
        if found {
            return Err(None);
        }
        Err(Some(need.why_no_part(self.ledger, part, forced.is_some())))
    }

    /// The card where what kubelet hands on to this container lies, if any does.
    fn forced(&self, need: &Need<'_>) -> Result<Option<usize>, Option<NoFit>> {
        let mut forced = None;
        for left in &self.handed {
            if need
                .amounts
                .iter()
                .all(|amount| amount.resource != *left.resource)
            {
                continue;
            }
            let is_whole = self.drafts.get(left.card).is_none_or(|draft| draft.whole);
            if is_whole || forced.is_some_and(|card| card != left.card) {
                return Err(Some(NoFit::HandedOn(left.resource.clone())));
            }
            forced = Some(left.card);
        }
        Ok(forced)
    }

    /// The cards in the order in which a part of one is looked for. An init container goes where
    /// earlier ones were if it can: a later container may be handed something of each.
    fn order(&self, need: &Need<'_>) -> Vec<usize> {
        let rooms = self.ledger.rooms();
        let mut order: Vec<usize> = (0..rooms.len()).collect();
        order.sort_by_cached_key(|card| {
            let hands_on =
                need.role == Role::Init && self.handed.iter().any(|left| left.card == *card);
            let rank = rooms
                .get(*card)
                .zip(self.drafts.get(*card))
                .map(|(room, draft)| rank(self.cards, room, draft));
            (!hands_on, rank)
        });
        order
    }

    fn whole(
        &mut self,
        at: usize,
        need: &'s Need<'a>,
        count: u32,
        resource: &'s ResourceName,
        per_card: u64,
        memory: Option<MemoryBytes>,
    ) -> Result<(), Option<NoFit>> {
        let beside = need
            .amounts
            .iter()
            .find(|amount| amount.resource != *resource);
        let wanted = usize::try_from(count).unwrap_or(usize::MAX);
        let fixed = self.handed_on_whole(wanted, resource, per_card, beside)?;
        let free: Vec<usize> = self
            .ledger
            .rooms()
            .iter()
            .zip(&self.drafts)
            .enumerate()
            .filter(|(_, (room, draft))| {
                need.can_have_whole(self.ledger, room) && draft.is_untouched()
            })
            .map(|(card, _)| card)
            .collect();
        let inventory = self.ledger.inventory();
        let chosen = whole::choose(inventory, &fixed, &free, wanted, self.cards);
        let has = fixed.len() + free.len();
        let mut chosen = chosen.ok_or_else(|| Some(why_no_whole(self.ledger, need, count, has)))?;
        if let Some((memory, amount)) = memory.zip(beside)
            && self.units_of(&chosen) < amount.count
        {
            chosen = self.largest(&fixed, free, wanted);
            if self.units_of(&chosen) < amount.count {
                return Err(Some(NoFit::WholeMemory { count, memory }));
            }
        }
        self.try_once()?;
        let before = (self.handed.clone(), self.drafts.clone());
        for card in &chosen {
            take(&mut self.handed, need.role, resource, *card, per_card);
            if let Some(draft) = self.drafts.get_mut(*card) {
                draft.whole = true;
            }
        }
        if let Some(amount) = beside {
            self.take_memory(need.role, amount, &chosen);
        }
        self.chosen.push(chosen);
        if self.plan_from(at + 1) {
            return Ok(());
        }
        self.chosen.pop();
        (self.handed, self.drafts) = before;
        Err(None)
    }

    /// The cards that kubelet hands on to a container of whole cards. It takes any devices of
    /// those handed on: with whole-card ids these are always cards; core ids make up cards only
    /// where all of them are taken, and only of cards that were handed on whole (all 100 of
    /// such a card are handed on, or none).
    fn handed_on_whole(
        &self,
        wanted: usize,
        resource: &ResourceName,
        per_card: u64,
        beside: Option<&Amount>,
    ) -> Result<Vec<usize>, Option<NoFit>> {
        let no = |resource: &ResourceName| Some(NoFit::HandedOn(resource.clone()));
        let mut cards = Vec::new();
        for left in self.handed.iter().filter(|left| left.resource == resource) {
            let is_whole = self.drafts.get(left.card).is_some_and(|draft| draft.whole);
            if !is_whole {
                return Err(no(resource));
            }
            cards.push(left.card);
        }
        cards.sort_unstable();
        if cards.len() > wanted && per_card > 1 {
            return Err(no(resource));
        }
        cards.truncate(wanted);
        for left in &self.handed {
            if beside.is_some_and(|amount| amount.resource == *left.resource)
                && !cards.contains(&left.card)
            {
                return Err(no(left.resource));
            }
        }
        Ok(cards)
    }

    /// The memory devices of a container of whole cards: it fills its cards in order.
    fn take_memory(&mut self, role: Role, amount: &'s Amount, chosen: &[usize]) {
        let of_it = |left: &HandedOn<'_>| *left.resource == amount.resource;
        let left = self.handed.iter().filter(|left| of_it(left));
        let left = left.fold(0_u64, |sum, left| sum.saturating_add(left.count));
        if role != Role::Init {
            // Where less is taken than was handed on, the rest may be on any of the cards.
            if amount.count >= left {
                self.handed.retain(|left| !of_it(left));
            }
            return;
        }
        let mut more = amount.count.saturating_sub(left);
        for card in chosen {
            let here = self
                .handed
                .iter()
                .find(|left| of_it(left) && left.card == *card);
            let here = here.map_or(0, |left| left.count);
            let count = more.min(self.units_of(&[*card]).saturating_sub(here));
            take(
                &mut self.handed,
                role,
                &amount.resource,
                *card,
                here + count,
            );
            more -= count;
        }
    }

    /// Memory units of these cards together.
    fn units_of(&self, cards: &[usize]) -> u64 {
        let rooms = cards
            .iter()
            .filter_map(|card| self.ledger.rooms().get(*card));
        rooms.fold(0, |sum, room| {
            sum.saturating_add(self.trial.unit_of(room).count_in(room.size))
        })
    }

    /// The fixed cards and the largest of the free ones, sorted.
    fn largest(&self, fixed: &[usize], mut free: Vec<usize>, wanted: usize) -> Vec<usize> {
        free.sort_by_key(|card| std::cmp::Reverse(self.units_of(&[*card])));
        let mut cards: Vec<usize> = fixed.iter().copied().chain(free).take(wanted).collect();
        cards.sort_unstable();
        cards
    }

    fn try_once(&mut self) -> Result<(), Option<NoFit>> {
        self.tries = self.tries.checked_sub(1).ok_or(None)?;
        Ok(())
    }

    fn put(&mut self, card: usize, draft: Draft) {
        if let Some(slot) = self.drafts.get_mut(card) {
            *slot = draft;
        }
    }
}

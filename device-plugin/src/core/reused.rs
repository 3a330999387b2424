//! Which cards a container gets where kubelet hands devices of an init container on to it: it
//! does so whatever is preferred.

use std::collections::BTreeMap;

use model::{
    card::Card,
    device_id::{DeviceKind, count_on},
    ledger::CardMode,
    name::CardId,
    placement,
    plan::Grant,
    request::{Ask, ContainerRequest},
    settings::{Gives, ResourceSetting},
};

use super::Core;
use crate::{identity::Consumer, prefer::parts};

/// What kubelet says of the devices of one call.
pub(super) struct Reused<'a> {
    /// Of which resource.
    pub(super) setting: &'a ResourceSetting,
    /// What it can give.
    pub(super) available: &'a [String],
    /// What it will give in any case.
    pub(super) must_include: &'a [String],
}

impl Reused<'_> {
    fn cards(&self) -> Vec<CardId> {
        let kind = DeviceKind::of(self.setting.gives);
        let must = self.must_include.iter();
        let mut cards: Vec<CardId> = must
            .filter_map(|id| CardId::new(parts(id, kind)?.card).ok())
            .collect();
        cards.sort_unstable();
        cards.dedup();
        cards
    }

    /// Whether kubelet can give all of the card. Of memory beside whole cards not all is needed.
    fn gives_all_of(&self, card: &Card) -> bool {
        if self.setting.gives == Gives::Memory {
            return true;
        }
        let kind = DeviceKind::of(self.setting.gives);
        let here = self.available.iter();
        let here = here.filter(|id| parts(id, kind).is_some_and(|p| p.card == card.id.as_str()));
        u64::try_from(here.count()).is_ok_and(|here| here >= count_on(card, self.setting))
    }
}

impl Core {
    /// The planned cards, but those first that kubelet hands on. What is then still missing comes
    /// from the plan where the scheduler made it; else from all that is free and that kubelet can
    /// give, as it hangs together best with what is handed on.
    pub(super) fn with_reused(
        &self,
        consumer: &Consumer,
        asked: &ContainerRequest,
        planned: &[Grant],
        reused: &Reused<'_>,
    ) -> BTreeMap<CardId, u64> {
        let mut cards = reused.cards();
        let is_planned = |card: &CardId| planned.iter().any(|grant| grant.card == *card);
        let left: Vec<CardId> = planned
            .iter()
            .map(|grant| grant.card.clone())
            .filter(|card| !cards.contains(card))
            .collect();
        let more = planned.len().saturating_sub(cards.len());
        let own_plan = consumer.assigned.is_none();
        let inventory = self.ledger.inventory();
        let offered = |card: &CardId| inventory.get(card).is_some_and(|c| reused.gives_all_of(c));
        let stands = cards.is_empty()
            || cards.iter().all(is_planned) && (!own_plan || left.iter().all(offered));
        if more == 0 || stands {
            cards.extend(left.into_iter().take(more));
        } else {
            let free = match &asked.ask {
                Ask::Whole { .. } if own_plan => self.free_for(asked, &cards, reused),
                _ => left,
            };
            let policy = consumer.request.placement.cards;
            let chosen = placement::together(inventory, &cards, &free, planned.len(), policy);
            cards = chosen.unwrap_or_else(|| {
                let free = free.into_iter().take(more);
                cards.iter().cloned().chain(free).collect()
            });
        }
        cards.into_iter().map(|card| (card, 1)).collect()
    }

    /// Cards that nobody has anything of, beside those in `taken`.
    fn free_for(
        &self,
        asked: &ContainerRequest,
        taken: &[CardId],
        reused: &Reused<'_>,
    ) -> Vec<CardId> {
        let serves = |card: &Card| {
            let mut names = asked.amounts.iter().map(|a| a.resource.as_str());
            names.all(|name| {
                let setting = self.settings.resource(name);
                setting.is_some_and(|setting| setting.covers(card))
            })
        };
        let states = self.ledger.cards();
        let free = states.filter(|state| {
            state.mode == CardMode::Free
                && state.card.health.is_healthy()
                && serves(state.card)
                && !taken.contains(&state.card.id)
                && reused.gives_all_of(state.card)
        });
        free.map(|state| state.card.id.clone()).collect()
    }
}

#[cfg(test)]
#[path = "reused_tests.rs"]
mod tests;

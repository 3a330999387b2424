//! All that the simulated Runtime knows, without I/O: cards, feature, book, faults, counters.

use std::time::Duration;

use model::{
    card::{Card, Health, Inventory},
    name::CardId,
};
use runtime_proto::client::{Allocation, OperationStatus};

use crate::{
    book::{Book, Refusal},
    fault::{CardFault, Fault},
    feature::Feature,
    load::Counters,
    profile::Profile,
};

/// Why an allocation is not made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// The book says no.
    #[error(transparent)]
    Book(#[from] Refusal),
    /// The feature is off.
    #[error("the node's feature is off")]
    Off,
    /// A fault on command.
    #[error("allocations are told to fail")]
    Told,
}

/// The whole state.
#[derive(Debug, Clone)]
pub struct State {
    profile: Profile,
    /// Whether the profile came in place of the one at the start.
    is_replaced: bool,
    cards: Vec<CardState>,
    feature: Feature,
    switch_takes: Duration,
    book: Book,
    generation: u64,
    revision: u64,
    behaviour: Behaviour,
    now: Duration,
    seed: u64,
}

/// One card with what happened to it.
#[derive(Debug, Clone)]
pub struct CardState {
    /// As the profile has it, with its present health.
    pub card: Card,
    /// Whether it has vanished.
    pub is_lost: bool,
    /// What only grows.
    pub counters: Counters,
}

/// How the Runtime misbehaves on command.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Behaviour {
    /// Each answer comes so much later.
    pub slow: Duration,
    /// So many allocations more are refused.
    pub refuse_allocations: u32,
    /// The calls that came last are not there.
    pub is_older: bool,
    /// Switches end in a failure.
    pub switch_fails: bool,
}

impl State {
    /// A Runtime over the profile's cards, with an empty book.
    pub fn new(
        profile: Profile,
        inventory: &Inventory,
        feature: Feature,
        switch_takes: Duration,
        seed: u64,
    ) -> Self {
        let mut state = Self {
            profile,
            is_replaced: false,
            cards: fresh(inventory),
            feature,
            switch_takes,
            book: Book::default(),
            generation: 1,
            revision: 0,
            behaviour: Behaviour::default(),
            now: Duration::ZERO,
            seed,
        };
        state.count_cards();
        state
    }

    /// Time since the start, which never goes back: counters grow and switches end.
    pub fn step(&mut self, now: Duration) {
        let passed = now.saturating_sub(self.now);
        self.now = self.now.max(now);
        for state in &mut self.cards {
            let used = self.book.on_card(&state.card.id).map(|(_, mode)| mode);
            state.counters.pass(&state.card, passed, used);
        }
        if self.feature.step(now) {
            self.generation += 1;
            self.revision += 1;
        }
    }

    /// When a switch that is under way ends.
    pub fn switch_ends(&self) -> Option<Duration> {
        self.feature.ends()
    }

    /// Grants. Whether it changed the book.
    pub fn allocate(&mut self, allocation: &Allocation) -> Result<bool, Refused> {
        if self.behaviour.refuse_allocations > 0 {
            self.behaviour.refuse_allocations -= 1;
            return Err(Refused::Told);
        }
        if !self.feature.is_on() {
            return Err(Refused::Off);
        }
        let is_new = self.book.enter(allocation)?;
        self.revision += u64::from(is_new);
        Ok(is_new)
    }

    /// Ends allocations: those that existed.
    pub fn release(&mut self, ids: Vec<String>) -> Vec<String> {
        let known = ids.into_iter().filter(|id| self.book.remove(id));
        let released: Vec<String> = known.collect();
        self.revision += u64::from(!released.is_empty());
        released
    }

    /// Starts switching on.
    pub fn enable(&mut self) -> OperationStatus {
        let fails = self.behaviour.switch_fails;
        self.feature.start(true, self.now, self.switch_takes, fails);
        self.feature.status(self.now)
    }

    /// Starts switching off. Refused while something is granted: what runs there would lose its
    /// cards.
    pub fn disable(&mut self) -> OperationStatus {
        let granted = self.book.allocations().len();
        if granted > 0 && self.feature.is_on() {
            self.revision += 1;
            self.feature.fail(format!(
                "{granted} containers still have cards of this node"
            ));
        } else {
            let fails = self.behaviour.switch_fails;
            self.feature
                .start(false, self.now, self.switch_takes, fails);
        }
        self.feature.status(self.now)
    }

    /// Where the feature stands.
    pub fn status(&self) -> OperationStatus {
        self.feature.status(self.now)
    }

    /// The feature.
    pub fn feature(&self) -> &Feature {
        &self.feature
    }

    /// The cards that are there: none while the feature is off.
    pub fn cards(&self) -> impl Iterator<Item = &CardState> {
        let is_on = self.feature.is_on();
        self.cards.iter().filter(move |c| is_on && !c.is_lost)
    }

    /// The number of that card, also of one that is lost.
    pub fn index_of(&self, id: &CardId) -> Option<u32> {
        let state = self.cards.iter().find(|c| c.card.id == *id)?;
        Some(state.card.index)
    }

    /// Changes whenever the card list does.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// Changes whenever something does that outlasts a restart.
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// Who has what.
    pub fn book(&self) -> &Book {
        &self.book
    }

    /// What hardware it is.
    pub fn profile(&self) -> &Profile {
        &self.profile
    }

    /// The hardware that took the place of that at the start, if any did.
    pub fn replaced(&self) -> Option<&Profile> {
        self.is_replaced.then_some(&self.profile)
    }

    /// How it misbehaves.
    pub fn behaviour(&self) -> &Behaviour {
        &self.behaviour
    }

    /// Time since the start.
    pub fn now(&self) -> Duration {
        self.now
    }

    /// What the measured values start from.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// The cards have been replaced in an earlier run.
    pub fn already_replaced(&mut self) {
        self.is_replaced = true;
    }

    /// Enters what an earlier run had given.
    pub fn restore(&mut self, allocations: Vec<Allocation>) {
        for allocation in allocations {
            self.book.restore(allocation);
        }
    }

    /// The Runtime starts again: the list of cards counts from the beginning, and a Runtime that
    /// keeps no book has forgotten who has what.
    pub fn restart(&mut self, keeps_book: bool) {
        self.generation = 1;
        if !keeps_book {
            self.book.clear();
            self.revision += 1;
        }
    }

    /// Makes something go wrong, or right again. An unknown card is an error that names it.
    pub fn fault(&mut self, fault: &Fault) -> Result<(), String> {
        match fault {
            Fault::Card(id, fault) => self.card_fault(id, fault)?,
            Fault::Slow(slow) => self.behaviour.slow = *slow,
            Fault::RefuseAllocate(times) => self.behaviour.refuse_allocations = *times,
            Fault::OlderInterface(on) => self.behaviour.is_older = *on,
            Fault::FeatureFails(on) => self.behaviour.switch_fails = *on,
            Fault::ReplaceCards(profile) => {
                let inventory = profile.inventory()?;
                self.cards = fresh(&inventory);
                self.profile = (**profile).clone();
                self.is_replaced = true;
                self.generation += 1;
                self.revision += 1;
                self.count_cards();
            }
            // The connections' affair.
            Fault::Eof | Fault::Restart(_) => {}
        }
        Ok(())
    }

    fn card_fault(&mut self, id: &CardId, fault: &CardFault) -> Result<(), String> {
        let Some(state) = self.cards.iter_mut().find(|c| c.card.id == *id) else {
            return Err(format!("there is no card {id}"));
        };
        match fault {
            CardFault::Lost => state.is_lost = true,
            CardFault::Back => state.is_lost = false,
            CardFault::Unhealthy(reason) => state.card.health = Health::Unhealthy(reason.clone()),
            CardFault::Healthy => state.card.health = Health::Healthy,
            CardFault::Ecc(count) => {
                state.counters.ecc_errors = state.counters.ecc_errors.saturating_add(*count);
                // Not a change of the list.
                return Ok(());
            }
        }
        self.generation += 1;
        self.count_cards();
        Ok(())
    }

    fn count_cards(&mut self) {
        let there = self.cards.iter().filter(|c| !c.is_lost);
        self.book.set_cards(there.map(|c| c.card.clone()));
    }
}

fn fresh(inventory: &Inventory) -> Vec<CardState> {
    let cards = inventory.cards().iter().map(|card| CardState {
        card: card.clone(),
        is_lost: false,
        counters: Counters::default(),
    });
    cards.collect()
}

#[cfg(test)]
#[path = "state_tests.rs"]
mod tests;

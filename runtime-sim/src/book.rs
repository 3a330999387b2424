//! The Runtime's own book: who has what, and an independent check that nothing is given twice.

use std::collections::BTreeMap;

use model::{
    card::{Card, Health, Inventory},
    ledger::{CardHold, Conflict, Hold, Ledger},
    name::{CardId, PodUid},
    plan::GrantMode,
    quantity::{CorePercent, MemoryBytes},
};
use runtime_proto::client::Allocation;

/// Why an allocation is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The id is taken.
    #[error("allocation {0:?} is there already, with another consumer or other grants")]
    Other(String),
    /// It would give something twice.
    #[error("{0}")]
    Conflict(#[from] Conflict),
    /// It asks for nothing, or for what makes no sense.
    #[error("{0}")]
    Invalid(String),
    /// The book is full.
    #[error("there are {0} allocations, more are not kept")]
    Full(usize),
}

/// 256 cards with 64 shares each.
const MOST_ALLOCATIONS: usize = 16384;

/// Allocations by id, and what each pod holds for them.
///
/// The Runtime is not told which containers of a pod run one after the other, so it counts for
/// each pod and card the most that one of its containers has: a refusal is always right, while
/// two containers of one pod that together go beyond a card are the plugin's to see. It does not
/// refuse an unhealthy card either: after a restart the same request says that a container runs
/// there.
#[derive(Debug, Clone, Default)]
pub struct Book {
    allocations: BTreeMap<String, Allocation>,
    ledger: Ledger,
}

impl Book {
    /// The cards are now these; who holds what stays.
    pub fn set_cards(&mut self, cards: impl Iterator<Item = Card>) {
        let healthy = cards.map(|card| Card {
            health: Health::Healthy,
            ..card
        });
        // The ids are unique: they come from an inventory.
        self.ledger
            .set_inventory(Inventory::new(healthy.collect()).unwrap_or_default());
    }

    /// Enters an allocation; the same one again changes nothing. Whether it is new.
    pub fn enter(&mut self, allocation: &Allocation) -> Result<bool, Refusal> {
        if let Some(known) = self.allocations.get(&allocation.id) {
            return if known == allocation {
                Ok(false)
            } else {
                Err(Refusal::Other(allocation.id.clone()))
            };
        }
        if self.allocations.len() >= MOST_ALLOCATIONS {
            return Err(Refusal::Full(MOST_ALLOCATIONS));
        }
        validate(allocation)?;
        let pod = &allocation.consumer.uid;
        let hold = hold(self.of_pod(pod).chain([allocation]));
        self.ledger.hold(pod, hold)?;
        self.insert(allocation.clone());
        Ok(true)
    }

    /// Enters what an earlier run of this Runtime had given, without a check.
    pub fn restore(&mut self, allocation: Allocation) {
        let pod = allocation.consumer.uid.clone();
        self.insert(allocation);
        self.recount(&pod);
    }

    /// Takes an allocation out. Whether it was there.
    pub fn remove(&mut self, id: &str) -> bool {
        let Some(allocation) = self.allocations.remove(id) else {
            return false;
        };
        self.recount(&allocation.consumer.uid);
        true
    }

    /// Forgets everything but the cards.
    pub fn clear(&mut self) {
        self.allocations.clear();
        let inventory = self.ledger.inventory().clone();
        self.ledger = Ledger::new(inventory);
    }

    /// All allocations, by id.
    pub fn allocations(&self) -> impl ExactSizeIterator<Item = &Allocation> {
        self.allocations.values()
    }

    /// What each allocation has on that card.
    pub fn on_card<'a>(
        &'a self,
        card: &'a CardId,
    ) -> impl Iterator<Item = (&'a Allocation, &'a GrantMode)> {
        self.allocations.values().flat_map(move |allocation| {
            let grants = allocation.grants.iter().filter(move |g| g.card == *card);
            grants.map(move |grant| (allocation, &grant.mode))
        })
    }

    fn insert(&mut self, allocation: Allocation) {
        self.allocations.insert(allocation.id.clone(), allocation);
    }

    fn of_pod<'a>(&'a self, pod: &'a PodUid) -> impl Iterator<Item = &'a Allocation> {
        self.allocations
            .values()
            .filter(move |a| a.consumer.uid == *pod)
    }

    fn recount(&mut self, pod: &PodUid) {
        let hold = hold(self.of_pod(pod));
        if hold.is_empty() {
            self.ledger.remove(pod);
        } else {
            self.ledger.hold_truth(pod, hold);
        }
    }
}

fn validate(allocation: &Allocation) -> Result<(), Refusal> {
    let wrong = |why: &str| {
        Err(Refusal::Invalid(format!(
            "allocation {:?} {why}",
            allocation.id
        )))
    };
    if allocation.id.is_empty() || allocation.id.len() > 128 {
        return wrong("has an id that is not of 1 to 128 characters");
    }
    if allocation.grants.is_empty() {
        return wrong("asks for nothing");
    }
    Ok(())
}

/// What a pod holds with these allocations: the most of each amount on each card.
fn hold<'a>(allocations: impl Iterator<Item = &'a Allocation>) -> Hold {
    let mut cards: BTreeMap<CardId, CardHold> = BTreeMap::new();
    for allocation in allocations {
        for grant in &allocation.grants {
            let hold = cards.entry(grant.card.clone()).or_default();
            match &grant.mode {
                GrantMode::Whole => hold.whole = true,
                GrantMode::Share { core, memory } => {
                    hold.shared = true;
                    hold.core = CorePercent::max(hold.core, *core);
                    hold.memory = MemoryBytes::max(hold.memory, *memory);
                }
                GrantMode::Partition { profile, count } => {
                    let most = hold.partitions.entry(profile.clone()).or_default();
                    *most = (*most).max(*count);
                }
            }
        }
    }
    cards.into_iter().collect()
}

#[cfg(test)]
#[path = "book_tests.rs"]
mod tests;

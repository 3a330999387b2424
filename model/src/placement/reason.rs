//! Why one container finds no room on a node, said with what would have to change first.

use super::{NoFit, trial::Need};
use crate::{
    card::Cut,
    ledger::Ledger,
    quantity::{CorePercent, MemoryBytes},
};

/// Why no card takes this share; `forced` where kubelet leaves no choice of the card.
pub(super) fn why_no_share(
    ledger: &Ledger,
    need: &Need<'_>,
    core: Option<CorePercent>,
    memory: Option<MemoryBytes>,
    forced: bool,
) -> NoFit {
    let rooms = ledger.rooms().iter();
    let of_kind = || {
        rooms
            .clone()
            .filter(|room| need.covers(ledger, room) && room.shareable)
    };
    if of_kind().next().is_none() {
        return NoFit::NoSuchCard(need.resource.clone());
    }
    if !of_kind().any(|room| room.healthy) {
        return NoFit::Unhealthy(need.resource.clone());
    }
    if let Some(memory) = memory
        && !of_kind().any(|room| room.healthy && room.size >= memory)
    {
        return NoFit::TooLarge(memory);
    }
    if forced {
        return NoFit::Together { core, memory };
    }
    NoFit::Share { core, memory }
}

/// Why no card takes these partitions; `forced` where kubelet leaves no choice of the card.
pub(super) fn why_no_partition(
    ledger: &Ledger,
    need: &Need<'_>,
    cut: &Cut,
    count: u32,
    forced: bool,
) -> NoFit {
    let cards = ledger.rooms().iter().zip(ledger.inventory().cards());
    let of_kind = || cards.clone().filter(|(room, _)| need.covers(ledger, room));
    let mut cuttable = of_kind()
        .filter(|(_, card)| !card.profiles.is_empty())
        .peekable();
    if cuttable.peek().is_none() {
        return NoFit::NoSuchCard(need.resource.clone());
    }
    if !cuttable.any(|(_, card)| card.profile_of(cut).is_some()) {
        return NoFit::NoSuchPartition(cut.clone());
    }
    if !of_kind().any(|(room, card)| room.healthy && card.profile_of(cut).is_some()) {
        return NoFit::Unhealthy(need.resource.clone());
    }
    let cut = cut.clone();
    if forced {
        NoFit::PartitionTogether { cut, count }
    } else {
        NoFit::Partition { cut, count }
    }
}

/// Why there are not as many free cards as asked.
pub(super) fn why_no_whole(ledger: &Ledger, need: &Need<'_>, asked: u32, free: usize) -> NoFit {
    let count = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
    let rooms = ledger.rooms().iter();
    let of_kind = || rooms.clone().filter(|room| need.covers(ledger, room));
    let has = count(of_kind().count());
    if has == 0 {
        return NoFit::NoSuchCard(need.resource.clone());
    }
    if !of_kind().any(|room| room.healthy) {
        return NoFit::Unhealthy(need.resource.clone());
    }
    if has < asked {
        return NoFit::TooFew { has, asked };
    }
    NoFit::Whole {
        free: count(free),
        asked,
    }
}

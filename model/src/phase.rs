//! From a plan to what a pod holds: peak and steady use, as kubelet counts it.
//!
//! Init containers run one after the other and their devices are handed on; sidecars stay.
//!
//! Kubelet keeps for each pod and resource the devices that its init containers had. A later
//! container takes from these first, and only then from free ones; what a sidecar or an app
//! container takes is no longer handed on. Nothing goes back before the pod ends. With `kept`
//! the sum of what the sidecars and app containers before it have, a container that asks `a`
//! therefore raises what the pod has to `kept + a` where that is more: the peak is the largest
//! of these. The ledger counts with the peak, since that is what kubelet withholds from others.

use std::collections::BTreeMap;

use crate::{
    ledger::{CardHold, Hold},
    name::{CardId, ProfileName},
    plan::{Grant, GrantMode, Plan},
    quantity::{CorePercent, MemoryBytes},
    request::{PodRequest, Role},
};

/// What a pod with this plan holds on each card from admission to its end: the most over all
/// of its phases, since kubelet takes nothing back from a pod before it ends.
pub fn peak(request: &PodRequest, plan: &Plan) -> Hold {
    run(request, plan)
        .map(|(card, on_card)| (card, on_card.peak))
        .collect()
}

/// What it holds once all init containers have ended.
pub fn steady(request: &PodRequest, plan: &Plan) -> Hold {
    run(request, plan)
        .map(|(card, on_card)| (card, on_card.kept))
        .collect()
}

/// One card's use by one pod.
#[derive(Default)]
struct Use {
    /// By the sidecars and app containers so far.
    kept: CardHold,
    /// The most so far.
    peak: CardHold,
}

fn run(request: &PodRequest, plan: &Plan) -> impl Iterator<Item = (CardId, Use)> {
    let mut cards: BTreeMap<CardId, Use> = BTreeMap::new();
    let known = request.containers.iter().filter_map(|container| {
        let grants = plan.of(container.name.as_str())?;
        Some((container.role, grants))
    });
    // A plan can come from an annotation: what it says of a container that is not there counts
    // as in use to the end.
    let unknown = plan.containers.iter().filter_map(|planned| {
        let is_known = request
            .containers
            .iter()
            .any(|c| c.name == planned.container);
        (!is_known).then_some((Role::App, planned.grants.as_slice()))
    });
    for (role, grants) in known.chain(unknown) {
        for grant in grants {
            let on_card = cards.entry(grant.card.clone()).or_default();
            on_card.enter(role, grant);
        }
    }
    cards.into_iter()
}

impl Use {
    fn enter(&mut self, role: Role, grant: &Grant) {
        let with = sum(&self.kept, grant);
        raise(&mut self.peak, &with);
        if role != Role::Init {
            self.kept = with;
        }
    }
}

fn sum(kept: &CardHold, grant: &Grant) -> CardHold {
    let mut sum = kept.clone();
    match &grant.mode {
        GrantMode::Whole => sum.whole = true,
        GrantMode::Share { core, memory } => {
            sum.shared = true;
            sum.core = sum.core.saturating_add(*core);
            sum.memory = sum.memory.saturating_add(*memory);
        }
        GrantMode::Partition { profile, count } => {
            let sum = sum.partitions.entry(profile.clone()).or_default();
            *sum = sum.saturating_add(*count);
        }
    }
    sum
}

/// Each amount to the larger of the two.
fn raise(peak: &mut CardHold, to: &CardHold) {
    peak.whole |= to.whole;
    peak.shared |= to.shared;
    peak.core = CorePercent::max(peak.core, to.core);
    peak.memory = MemoryBytes::max(peak.memory, to.memory);
    for (profile, count) in &to.partitions {
        raise_count(&mut peak.partitions, profile, *count);
    }
}

fn raise_count(partitions: &mut BTreeMap<ProfileName, u32>, profile: &ProfileName, count: u32) {
    let known = partitions.entry(profile.clone()).or_default();
    *known = count.max(*known);
}

#[cfg(test)]
#[path = "phase_tests.rs"]
mod tests;

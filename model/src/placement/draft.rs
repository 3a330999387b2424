//! What a pod's containers take of the cards while they are being planned, and how good that is.

use super::whole;
use crate::{
    card::{Card, Cut, PartitionProfile},
    ledger::{CardMode, Ledger, Room, used},
    name::ResourceName,
    plan::{GrantMode, Plan},
    quantity::{CorePercent, MemoryBytes},
    request::Role,
    settings::Policy,
};

/// One card's use by the pod so far, as [`crate::phase`] counts it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Draft {
    pub(super) whole: bool,
    pub(super) shared: bool,
    /// The partitions of it: few, of one profile most often.
    parts: Vec<Parts>,
    /// By sidecars and app containers.
    kept_core: u32,
    kept_memory: u64,
    /// The most so far.
    pub(super) peak_core: u32,
    pub(super) peak_memory: u64,
}

/// Partitions of one profile on one card.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Parts {
    /// The profile's position in the card's list.
    profile: usize,
    kept: u32,
    peak: u32,
}

impl Draft {
    /// With a share of this much more.
    pub(super) fn with_share(&self, role: Role, core: u32, memory: MemoryBytes) -> Self {
        let mut with = self.with_use(role, core, memory.bytes());
        with.shared = true;
        with
    }

    /// With that many partitions of the card more.
    pub(super) fn with_parts(&self, role: Role, card: &Card, profile: usize, count: u32) -> Self {
        let mut with = match card.profiles.get(profile) {
            Some(profile) => {
                let (core, memory) = use_of(card, profile, count);
                self.with_use(role, core, memory)
            }
            None => self.clone(),
        };
        let at = with.parts.iter().position(|parts| parts.profile == profile);
        let mut parts = match at {
            Some(at) => with.parts.swap_remove(at),
            None => Parts {
                profile,
                kept: 0,
                peak: 0,
            },
        };
        let count = parts.kept.saturating_add(count);
        parts.peak = count.max(parts.peak);
        if role != Role::Init {
            parts.kept = count;
        }
        with.parts.push(parts);
        with
    }

    fn with_use(&self, role: Role, core: u32, memory: u64) -> Self {
        let core = self.kept_core.saturating_add(core);
        let memory = self.kept_memory.saturating_add(memory);
        let keeps = role != Role::Init;
        Self {
            whole: self.whole,
            shared: self.shared,
            parts: self.parts.clone(),
            kept_core: if keeps { core } else { self.kept_core },
            kept_memory: if keeps { memory } else { self.kept_memory },
            peak_core: core.max(self.peak_core),
            peak_memory: memory.max(self.peak_memory),
        }
    }

    /// Whether the pod takes nothing of the card.
    pub(super) fn is_untouched(&self) -> bool {
        !self.whole && !self.shared && self.parts.is_empty()
    }

    /// Whether the pod has partitions of the card.
    pub(super) fn is_cut(&self) -> bool {
        !self.parts.is_empty()
    }

    /// Whether the card at that position has room for it.
    pub(super) fn fits(&self, ledger: &Ledger, at: usize, room: &Room) -> bool {
        match self.parts.as_slice() {
            [] => self.peak_core <= room.core.into() && self.peak_memory <= room.memory.bytes(),
            [one] => ledger.has_room_for(at, &[(one.profile, one.peak)]),
            several => {
                let asked: Vec<(usize, u32)> =
                    several.iter().map(|p| (p.profile, p.peak)).collect();
                ledger.has_room_for(at, &asked)
            }
        }
    }

    /// How much of the card is then promised, of 1000.
    pub(super) fn used(&self, room: &Room) -> u16 {
        if self.whole {
            return 1000;
        }
        let may = match room.mode {
            CardMode::Free => self.shared || self.is_cut(),
            CardMode::Shared => self.shared,
            CardMode::Partitioned => self.is_cut(),
            CardMode::Whole => false,
        };
        if !may {
            return room.used;
        }
        used(
            u32::from(room.core).saturating_sub(self.peak_core),
            room.memory
                .saturating_sub(MemoryBytes::new(self.peak_memory)),
            room.size,
        )
    }
}

/// Partitions as parts of their card: its slices in percent, and memory.
fn use_of(card: &Card, profile: &PartitionProfile, count: u32) -> (u32, u64) {
    let slices = u64::from(profile.slices) * u64::from(count);
    let percent = slices.saturating_mul(100) / card.slices().max(1);
    let memory = profile.memory.bytes().saturating_mul(count.into());
    (u32::try_from(percent).unwrap_or(u32::MAX), memory)
}

/// What kubelet has in hand to give to later containers before anything else.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct HandedOn<'a> {
    pub(super) resource: &'a ResourceName,
    /// Position of the card.
    pub(super) card: usize,
    /// How many devices; never 0.
    pub(super) count: u64,
}

/// A container of this role has taken `count` of the resource on that card, first of what was
/// handed on there.
pub(super) fn take<'a>(
    handed: &mut Vec<HandedOn<'a>>,
    role: Role,
    resource: &'a ResourceName,
    card: usize,
    count: u64,
) {
    let at = handed
        .iter()
        .position(|left| left.resource == resource && left.card == card);
    match (role, at.and_then(|at| handed.get_mut(at))) {
        (Role::Init, Some(left)) => left.count = left.count.max(count),
        (Role::Init, None) if count > 0 => handed.push(HandedOn {
            resource,
            card,
            count,
        }),
        (Role::Sidecar | Role::App, Some(left)) => {
            left.count = left.count.saturating_sub(count);
            handed.retain(|left| left.count > 0);
        }
        _ => {}
    }
}

/// How good a node is once these cards are used so much, 0 to 10.
///
/// Filling up looks at the whole node and at the cards that the pod gets, half each: of two
/// nodes in equal use the better one is where the pod breaks no free card. Of several whole
/// cards, how they hang together counts for two fifths, or for four where that is the policy.
pub(super) fn score(
    ledger: &Ledger,
    nodes: Policy,
    after: impl IntoIterator<Item = (usize, u16)>,
    wholes: &[usize],
) -> u8 {
    let mut node = ledger.used();
    let (mut touched, mut count) = (0_u64, 0_u64);
    for (at, after) in after {
        let Some(room) = ledger.rooms().get(at) else {
            continue;
        };
        node = node.saturating_sub(room.used.into()) + u64::from(after);
        touched += u64::from(after);
        count += 1;
    }
    let cards = u64::try_from(ledger.rooms().len()).unwrap_or(u64::MAX);
    let node = node.checked_div(cards).unwrap_or(0);
    let touched = touched.checked_div(count).unwrap_or(node);
    let filled = node.midpoint(touched);
    let wanted = match nodes {
        Policy::Binpack | Policy::LinkAware => filled,
        Policy::Spread => 1000_u64.saturating_sub(filled),
    };
    let points = if wholes.len() > 1 {
        let links = if nodes == Policy::LinkAware { 4 } else { 2 };
        let locality = u64::from(whole::locality(ledger.inventory(), wholes));
        (wanted * (5 - links) + locality * links) / 5
    } else {
        wanted
    };
    // Rounded to the nearest.
    u8::try_from((points + 50) / 100).map_or(10, |score| score.min(10))
}

/// The same for a plan that is already there. It does not say which container is an init
/// container, so that what is handed on counts twice here, up to the card's size.
pub(super) fn score_of_plan(plan: &Plan, ledger: &Ledger, nodes: Policy) -> u8 {
    let mut drafts = vec![Draft::default(); ledger.rooms().len()];
    let grants = plan.containers.iter().flat_map(|c| &c.grants);
    for grant in grants {
        let at = ledger.inventory().position(&grant.card);
        let Some(draft) = at.and_then(|at| drafts.get_mut(at)) else {
            continue;
        };
        match &grant.mode {
            GrantMode::Whole => draft.whole = true,
            GrantMode::Partition { profile, count } => {
                let card = ledger.inventory().get(&grant.card);
                let cut = Cut::Profile(profile.clone());
                if let Some((card, at)) = card.and_then(|c| Some((c, c.position_of(&cut)?))) {
                    *draft = draft.with_parts(Role::App, card, at, *count);
                }
            }
            GrantMode::Share { core, memory } => {
                *draft = draft.with_share(Role::App, CorePercent::percent(*core), *memory);
            }
        }
    }
    score_of_drafts(&drafts, ledger, nodes)
}

/// The same from the drafts of all cards.
pub(super) fn score_of_drafts(drafts: &[Draft], ledger: &Ledger, nodes: Policy) -> u8 {
    let touched = || drafts.iter().enumerate().filter(|(_, d)| !d.is_untouched());
    let wholes: Vec<usize> = touched()
        .filter(|(_, d)| d.whole)
        .map(|(at, _)| at)
        .collect();
    let after = touched().filter_map(|(at, draft)| {
        let room = ledger.rooms().get(at)?;
        Some((at, draft.used(room)))
    });
    score(ledger, nodes, after, &wholes)
}

//! One request, tried on any number of nodes.

use super::{
    NoFit,
    draft::{self, Draft},
    reason::{why_no_partition, why_no_share, why_no_whole},
    solver::{Solution, Solver},
};
use crate::{
    card::{CardKind, Cut},
    ledger::{CardMode, Ledger, Room},
    name::{ContainerName, ResourceName},
    plan::{ContainerGrants, Grant, GrantMode, Plan},
    quantity::{CorePercent, MemoryBytes, MemoryUnit},
    request::{Amount, Ask, PodRequest, Role},
    settings::{Gives, PlacementSetting, Policy, Settings},
};

/// All kinds of card, in the order of [`Trial::units`].
const KINDS: [CardKind; 6] = [
    CardKind::Gpu,
    CardKind::Ppu,
    CardKind::Gcu,
    CardKind::Xpu,
    CardKind::Amd,
    CardKind::Other,
];

/// A request made ready to be tried on many nodes.
#[derive(Debug, Clone)]
pub struct Trial<'a> {
    pub(super) needs: Vec<Need<'a>>,
    /// What memory is counted in, by kind of card.
    units: [MemoryUnit; KINDS.len()],
    placement: PlacementSetting,
}

/// What one container needs.
#[derive(Debug, Clone)]
pub(super) struct Need<'a> {
    container: &'a ContainerName,
    pub(super) role: Role,
    pub(super) amounts: &'a [Amount],
    /// The first of its resources, for messages.
    pub(super) resource: &'a ResourceName,
    /// One bit a kind of card that all its resources cover.
    kinds: u8,
    /// Only cards of these models; none where all do.
    models: Option<Vec<String>>,
    pub(super) ask: NeedOf<'a>,
}

#[derive(Debug, Clone, Copy)]
pub(super) enum NeedOf<'a> {
    Whole {
        count: u32,
        /// The resource whose devices it gets, and how many of it make up one card.
        resource: &'a ResourceName,
        per_card: u64,
        memory: Option<MemoryBytes>,
    },
    Part(Part<'a>),
}

/// What a container needs of one card.
#[derive(Debug, Clone, Copy)]
pub(super) enum Part<'a> {
    Share {
        core: Option<CorePercent>,
        memory: Option<MemoryBytes>,
    },
    Partition {
        cut: &'a Cut,
        count: u32,
    },
}

const fn bit(kind: CardKind) -> u8 {
    1 << kind as u8
}

/// The models that all of these resources cover; none where these are all models.
fn models(amounts: &[Amount], settings: &Settings) -> Option<Vec<String>> {
    let named = amounts.iter().filter_map(|amount| {
        let setting = settings.resource(amount.resource.as_str())?;
        (!setting.models.is_empty()).then(|| setting.into_owned().models)
    });
    named.reduce(|mut all, others| {
        all.retain(|model| others.contains(model));
        all
    })
}

impl<'a> Trial<'a> {
    /// Reads the request once.
    pub fn new(request: &'a PodRequest, settings: &Settings) -> Self {
        let needs = request.containers.iter().filter_map(|container| {
            let mut kinds = 0;
            for kind in KINDS {
                let covers = |amount: &Amount| {
                    settings
                        .resource(amount.resource.as_str())
                        .is_some_and(|setting| setting.covers_kind(kind))
                };
                if container.amounts.iter().all(covers) {
                    kinds |= bit(kind);
                }
            }
            let ask = match &container.ask {
                Ask::Nothing => return None,
                Ask::Share { core, memory } => NeedOf::Part(Part::Share {
                    core: *core,
                    memory: *memory,
                }),
                Ask::Partition { cut, count } => {
                    NeedOf::Part(Part::Partition { cut, count: *count })
                }
                Ask::Whole {
                    count,
                    resource,
                    memory,
                } => {
                    let by_core = settings
                        .resource(resource.as_str())
                        .is_some_and(|setting| setting.gives == Gives::CorePercent);
                    NeedOf::Whole {
                        count: *count,
                        resource,
                        per_card: if by_core { 100 } else { 1 },
                        memory: *memory,
                    }
                }
            };
            Some(Need {
                container: &container.name,
                role: container.role,
                amounts: &container.amounts,
                resource: &container.amounts.first()?.resource,
                kinds,
                models: models(&container.amounts, settings),
                ask,
            })
        });
        Self {
            needs: needs.collect(),
            units: KINDS.map(|kind| settings.memory_unit_of(kind)),
            placement: request.placement,
        }
    }

    /// Whether the pod fits; the same answer as [`Self::place`] without making a plan.
    pub fn fits(&self, ledger: &Ledger) -> Result<(), NoFit> {
        match self.needs.as_slice() {
            [] => Ok(()),
            [need] => self.one_fits(need, ledger),
            _ => self.solve(ledger).map(|_| ()),
        }
    }

    /// Where its containers go.
    pub fn place(&self, ledger: &Ledger) -> Result<Plan, NoFit> {
        let solution = self.solve(ledger)?;
        let containers = self
            .needs
            .iter()
            .zip(solution.chosen)
            .map(|(need, chosen)| {
                let mut grants: Vec<Grant> = chosen
                    .into_iter()
                    .filter_map(|at| self.grant(need, ledger, at))
                    .collect();
                grants.sort_unstable();
                ContainerGrants {
                    container: need.container.clone(),
                    grants,
                }
            });
        Ok(Plan {
            containers: containers.collect(),
        })
    }

    /// Whether it would fit if no pod held anything: where not, evicting is no use. Looks at
    /// each container for itself, so that it may say yes to containers that together are too
    /// much.
    pub fn could_fit(&self, ledger: &Ledger) -> bool {
        self.needs.iter().all(|need| {
            let rooms = ledger.rooms().iter().zip(ledger.inventory().cards());
            let mut usable = rooms.filter(|(room, _)| room.healthy && need.covers(ledger, room));
            match need.ask {
                NeedOf::Part(Part::Share { memory, .. }) => usable.any(|(room, _)| {
                    room.shareable && memory.is_none_or(|memory| memory <= room.size)
                }),
                NeedOf::Part(Part::Partition { cut, count }) => usable.any(|(_, card)| {
                    card.profile_of(cut)
                        .is_some_and(|profile| count <= profile.max_count)
                }),
                NeedOf::Whole { count, .. } => {
                    u32::try_from(usable.count()).is_ok_and(|usable| usable >= count)
                }
            }
        })
    }

    /// How good the node is for the pod, 0 to 10, with the plan of [`Self::place`], without
    /// making it. None where the pod does not fit.
    pub fn score(&self, ledger: &Ledger) -> Option<u8> {
        let PlacementSetting { cards, nodes } = self.placement;
        if let [need] = self.needs.as_slice()
            && let NeedOf::Part(part) = need.ask
        {
            let best = self.best_part(need, part, ledger, cards)?;
            return Some(draft::score(ledger, nodes, [best], &[]));
        }
        let solution = self.solve(ledger).ok()?;
        Some(draft::score_of_drafts(&solution.drafts, ledger, nodes))
    }

    fn solve(&self, ledger: &Ledger) -> Result<Solution, NoFit> {
        Solver::new(self, ledger, self.placement.cards).solve()
    }

    /// Whether some card, or enough cards, are free for the only container.
    fn one_fits(&self, need: &Need<'_>, ledger: &Ledger) -> Result<(), NoFit> {
        match need.ask {
            NeedOf::Part(part) => {
                let untouched = Draft::default();
                let mut all = 0..ledger.rooms().len();
                if all.any(|at| self.with_part(&untouched, need, part, ledger, at).is_some()) {
                    return Ok(());
                }
                Err(need.why_no_part(ledger, part, false))
            }
            NeedOf::Whole {
                count,
                memory: None,
                ..
            } => {
                let rooms = ledger.rooms().iter();
                let free = rooms
                    .filter(|room| need.can_have_whole(ledger, room))
                    .count();
                if u32::try_from(free).is_ok_and(|free| free >= count) {
                    return Ok(());
                }
                Err(why_no_whole(ledger, need, count, free))
            }
            // Which cards have the memory together takes a search.
            NeedOf::Whole { .. } => self.solve(ledger).map(|_| ()),
        }
    }

    /// The card for the only container's part, and how much of it is then promised.
    fn best_part(
        &self,
        need: &Need<'_>,
        part: Part<'_>,
        ledger: &Ledger,
        cards: Policy,
    ) -> Option<(usize, u16)> {
        let untouched = Draft::default();
        let rooms = ledger.rooms().iter().enumerate();
        let fitting = rooms.filter_map(|(at, room)| {
            let after = self.with_part(&untouched, need, part, ledger, at)?;
            Some((at, room, after))
        });
        let (at, room, after) = fitting.min_by_key(|(_, room, _)| rank(cards, room, &untouched))?;
        Some((at, after.used(room)))
    }

    /// The card at that position with the part as well; none where it has no room for it.
    pub(super) fn with_part(
        &self,
        before: &Draft,
        need: &Need<'_>,
        part: Part<'_>,
        ledger: &Ledger,
        at: usize,
    ) -> Option<Draft> {
        let room = ledger.rooms().get(at)?;
        let after = match part {
            Part::Share { core, memory } => {
                if before.whole || before.is_cut() || !need.can_share(ledger, room) {
                    return None;
                }
                let (core, memory) = self.share_of(core, memory, room);
                before.with_share(need.role, core.percent(), memory)
            }
            Part::Partition { cut, count } => {
                if before.whole || before.shared || !need.can_cut(ledger, room) {
                    return None;
                }
                let card = ledger.inventory().cards().get(at)?;
                before.with_parts(need.role, card, card.position_of(cut)?, count)
            }
        };
        after.fits(ledger, at, room).then_some(after)
    }

    /// What a share is on that card: where only core is asked, memory in the same proportion.
    pub(super) fn share_of(
        &self,
        core: Option<CorePercent>,
        memory: Option<MemoryBytes>,
        room: &Room,
    ) -> (CorePercent, MemoryBytes) {
        let core = core.unwrap_or(CorePercent::ZERO);
        let memory = memory.unwrap_or_else(|| room.size.percent_of(core, self.unit_of(room)));
        (core, memory)
    }

    pub(super) fn unit_of(&self, room: &Room) -> MemoryUnit {
        let at = KINDS.iter().position(|kind| *kind == room.kind);
        at.and_then(|at| self.units.get(at))
            .copied()
            .unwrap_or(MemoryUnit::Gib)
    }

    fn grant(&self, need: &Need<'_>, ledger: &Ledger, at: usize) -> Option<Grant> {
        let card = ledger.inventory().cards().get(at)?;
        let mode = match need.ask {
            NeedOf::Whole { .. } => GrantMode::Whole,
            NeedOf::Part(Part::Share { core, memory }) => {
                let (core, memory) = self.share_of(core, memory, ledger.rooms().get(at)?);
                GrantMode::Share { core, memory }
            }
            NeedOf::Part(Part::Partition { cut, count }) => GrantMode::Partition {
                profile: card.profile_of(cut)?.name.clone(),
                count,
            },
        };
        Some(Grant {
            card: card.id.clone(),
            mode,
        })
    }
}

impl Need<'_> {
    pub(super) fn covers(&self, ledger: &Ledger, room: &Room) -> bool {
        let models = self.models.as_ref();
        self.kinds & bit(room.kind) != 0
            && models.is_none_or(|all| all.iter().any(|model| model == ledger.model(room)))
    }

    /// Whether the card takes shares of this kind at all.
    pub(super) fn can_share(&self, ledger: &Ledger, room: &Room) -> bool {
        room.open
            && room.shareable
            && matches!(room.mode, CardMode::Free | CardMode::Shared)
            && self.covers(ledger, room)
    }

    /// Whether the card can be cut for this, or is cut already.
    fn can_cut(&self, ledger: &Ledger, room: &Room) -> bool {
        room.open
            && matches!(room.mode, CardMode::Free | CardMode::Partitioned)
            && self.covers(ledger, room)
    }

    /// Why no card has room for the part; `forced` where kubelet leaves no choice of the card.
    pub(super) fn why_no_part(&self, ledger: &Ledger, part: Part<'_>, forced: bool) -> NoFit {
        match part {
            Part::Share { core, memory } => why_no_share(ledger, self, core, memory, forced),
            Part::Partition { cut, count } => why_no_partition(ledger, self, cut, count, forced),
        }
    }

    /// Whether the card is free for this.
    pub(super) fn can_have_whole(&self, ledger: &Ledger, room: &Room) -> bool {
        room.open && room.mode == CardMode::Free && self.covers(ledger, room)
    }
}

/// Where a card comes in the order in which shares try them: the least first.
pub(super) fn rank(cards: Policy, room: &Room, draft: &Draft) -> (u32, u32) {
    let in_use = room.mode != CardMode::Free || !draft.is_untouched();
    let fullness = u32::from(draft.used(room)) * 2 + u32::from(in_use);
    match cards {
        Policy::Binpack | Policy::LinkAware => (u32::MAX - fullness, 0),
        Policy::Spread => (fullness, room.pods),
    }
}

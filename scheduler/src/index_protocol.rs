//! The bind protocol as a model: an API server, replicas of the extender that share a lease, and
//! all that can happen to them, one thing at a time. What the replicas know is the real [`Index`],
//! driven through its own functions.
//!
//! What is assumed, and nothing else
//! - The API server answers reads and lists from its latest state, and tells of each pod's changes
//!   in order; those of different pods come in any order, as late as they like.
//! - A call that its client gave up may still take effect: as long as the process that made it
//!   could be leading (see `lease`), and for no more than `CAN_STILL_TAKE_EFFECT`.
//! - A leader's calls have ended, and it decides no more, before another takes its lease.

use std::{sync::Arc, time::Instant};

use model::plan::Plan;
use stateright::{Model, Property};

use super::world::{Call, Fact, Look, Replica, Spent, Stage, World, found, name, target};
use crate::{
    assume::{Found, NoBind},
    bind::is_refusal,
    testing::uid,
};

/// A rule that can be left out, to see that it is needed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Broken {
    Nothing,
    /// A lost answer is taken for a no.
    LostIsNo,
    /// "Bound already" is taken for a no.
    ConflictIsNo,
    /// An event from before a Binding makes the pod pending again.
    PastUndoes,
    /// An answer is entered though a listing has overtaken it.
    OvertakenCounts,
    /// A new leader goes on from what its watch has shown so far.
    NoNewListing,
    /// A lease is taken while its holder decides.
    TakenTooSoon,
    /// A lease is given back while calls are under way.
    ReleasedTooSoon,
    /// A call takes effect after the lease of its process has passed on.
    LateCall,
}

/// How large the world is, and how often what happens by chance may.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bounds {
    pub(super) cards: u32,
    pub(super) pods: usize,
    pub(super) replicas: usize,
    pub(super) asks: u8,
    pub(super) takes: u8,
    pub(super) restarts: u8,
    pub(super) listings: u8,
    pub(super) touches: u8,
    pub(super) ages: u8,
}

pub(super) struct Protocol {
    pub(super) bounds: Bounds,
    pub(super) broken: Broken,
    /// When the world begins.
    pub(super) start: Instant,
}

/// What can happen. Replicas, pods and calls are numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Happens {
    /// Something else about a pod changes.
    Touched(usize),
    Deleted(usize),
    /// The watch shows a replica the next change of a pod.
    Shown(usize, usize),
    ListingBegins(usize),
    ListingEnds(usize),
    /// kube-scheduler asks a replica to bind a pod.
    Asked(usize, usize),
    /// The API server carries a call out, or finds that it can't.
    Carried(usize),
    /// The API server says no.
    Refused(usize),
    /// The client repeats a call whose first answer was a 503.
    Repeated(usize),
    AnswerComes(usize),
    GivenUp(usize),
    /// A call that was given up never takes effect.
    Vanishes(usize),
    /// So long that no earlier call can take effect.
    TimePasses,
    LooksUp(usize, usize),
    Settles(usize),
    Restarts(usize),
    ReignEnds(usize),
    Takes(usize),
    Releases(usize),
}

impl Protocol {
    fn can_take(&self, world: &World, replica: usize) -> bool {
        let free = world.holder.is_none_or(|holder| {
            let decides = world.replicas[holder].leads && self.broken != Broken::TakenTooSoon;
            let late = world.has_calls_of(holder) && self.broken != Broken::LateCall;
            // With a lease that is taken too soon its calls are under way too.
            !decides && (!late || self.broken == Broken::TakenTooSoon)
        });
        // Which replica is the first makes no difference.
        let is_first = world.spent.takes > 0 || replica == 0;
        free && is_first && !world.replicas[replica].leads
    }

    fn can_release(&self, world: &World, replica: usize) -> bool {
        let leader = &world.replicas[replica];
        let doubtful = leader.index.has_doubtful_binds(world.now()) || world.is_waiting(replica);
        leader.leads && (!doubtful || self.broken == Broken::ReleasedTooSoon)
    }

    fn can_list(&self, world: &World, replica: usize) -> bool {
        let it = &world.replicas[replica];
        let may = world.spent.listings < self.bounds.listings;
        it.listing.is_none() && (may || Self::must_list(it))
    }

    fn must_list(replica: &Replica) -> bool {
        !replica.index.pod_round.complete || (replica.leads && !replica.listed)
    }

    fn ask(world: &mut World, replica: usize, pod: usize) -> Option<()> {
        let fact = world.fact(pod);
        let index = &mut world.replica(replica).index;
        let id = uid(&name(pod));
        let plan = match index.begin_bind(&id, &target()) {
            Err(NoBind::Gone) => {
                // The watch is behind kube-scheduler's: it is asked for by name.
                let Found::Pod(seen) = found(pod, fact) else {
                    return None;
                };
                index.learn(seen);
                index.begin_bind(&id, &target()).ok()?
            }
            other => other.ok()?,
        };
        let card = card_of(&plan)?;
        world.spent.asks += 1;
        world.calls.push(Call {
            by: replica,
            pod,
            card,
            stage: Stage::Sent,
        });
        Some(())
    }

    /// The API server looks at a call.
    fn carry(world: &mut World, call: usize) {
        let Call { pod, card, .. } = world.calls[call];
        let code = match world.fact(pod) {
            Fact::Pending => {
                world.pods[pod].push(Fact::Bound(card));
                201
            }
            Fact::Bound(_) => 409,
            Fact::Gone => 404,
        };
        world.answer(call, code);
    }

    fn answer_comes(&self, world: &mut World, call: usize) -> Option<()> {
        let now = world.now();
        let Call { by, pod, stage, .. } = world.calls.remove(call);
        let Stage::Answered(code) = stage else {
            return None;
        };
        let index = &mut world.replica(by).index;
        let id = uid(&name(pod));
        let conflict_is_no = code == 409 && self.broken == Broken::ConflictIsNo;
        if code == 201 {
            index.bind_accepted(&id, now);
        } else if code == 404 {
            index.delete_pod(&id);
        } else if is_refusal(code) || conflict_is_no {
            index.bind_refused(&id);
        } else {
            index.bind_unknown(&id, now);
        }
        Some(())
    }

    fn give_up(&self, world: &mut World, call: usize) {
        let now = world.now();
        let Call { by, pod, stage, .. } = world.calls[call].clone();
        let index = &mut world.replica(by).index;
        let id = uid(&name(pod));
        if self.broken == Broken::LostIsNo {
            index.bind_refused(&id);
        } else {
            index.bind_unknown(&id, now);
        }
        if stage == Stage::Sent {
            world.calls[call].stage = Stage::GivenUp;
        } else {
            world.calls.remove(call);
        }
    }

    fn reign_ends(&self, world: &mut World, replica: usize) {
        world.replica(replica).leads = false;
        while let Some(call) = world
            .calls
            .iter()
            .position(|c| c.by == replica && c.stage != Stage::GivenUp)
        {
            self.give_up(world, call);
        }
    }

    fn take(&self, world: &mut World, replica: usize) {
        world.spent.takes += 1;
        world.holder = Some(replica);
        let it = world.replica(replica);
        it.leads = true;
        // A listing that is under way may have begun before this.
        it.listing = None;
        it.listed = self.broken == Broken::NoNewListing;
    }

    fn restart(&self, world: &mut World, replica: usize) {
        world.hang_up(replica);
        world.replicas[replica] = Arc::new(Replica::new(&self.bounds));
    }
}

impl Model for Protocol {
    type State = World;
    type Action = Happens;

    fn init_states(&self) -> Vec<World> {
        let pods = vec![vec![Fact::Pending]; self.bounds.pods];
        let mut replica = Replica::new(&self.bounds);
        replica.index.pods_reset();
        replica.listing = Some(vec![1; self.bounds.pods]);
        replica.end_listing(&pods);
        vec![World {
            replicas: (0..self.bounds.replicas)
                .map(|_| Arc::new(replica.clone()))
                .collect(),
            pods,
            calls: Vec::new(),
            holder: None,
            spent: Spent::default(),
            start: self.start,
        }]
    }

    fn actions(&self, world: &World, all: &mut Vec<Happens>) {
        let Bounds {
            asks,
            takes,
            restarts,
            touches,
            ages,
            ..
        } = self.bounds;
        let spent = &world.spent;
        let pods = 0..self.bounds.pods;
        for pod in pods.clone().filter(|pod| world.fact(*pod) != Fact::Gone) {
            all.push(Happens::Deleted(pod));
            if world.fact(pod) == Fact::Pending && spent.touches < touches {
                all.push(Happens::Touched(pod));
            }
        }
        for (number, call) in world.calls.iter().enumerate() {
            match call.stage {
                Stage::Sent => all.extend([
                    Happens::Carried(number),
                    Happens::Refused(number),
                    Happens::GivenUp(number),
                ]),
                Stage::Answered(code) => {
                    all.extend([Happens::AnswerComes(number), Happens::GivenUp(number)]);
                    if code == 201 {
                        all.push(Happens::Repeated(number));
                    }
                }
                Stage::GivenUp => all.extend([Happens::Carried(number), Happens::Vanishes(number)]),
            }
        }
        if world.calls.is_empty() && spent.ages < ages {
            all.push(Happens::TimePasses);
        }
        for (number, replica) in world.replicas.iter().enumerate() {
            if replica.listing.is_some() {
                all.push(Happens::ListingEnds(number));
            } else if replica.index.pod_round.complete {
                let behind = |pod: &usize| replica.shown[*pod] < world.pods[*pod].len();
                all.extend(
                    pods.clone()
                        .filter(behind)
                        .map(|pod| Happens::Shown(number, pod)),
                );
            }
            if self.can_list(world, number) {
                all.push(Happens::ListingBegins(number));
            }
            if replica.decides() && spent.asks < asks {
                all.extend(pods.clone().map(|pod| Happens::Asked(number, pod)));
            }
            if replica.looked.is_some() {
                all.push(Happens::Settles(number));
            } else {
                let doubtful = replica.index.doubtful(world.now());
                let is_doubtful =
                    |pod: &usize| doubtful.iter().any(|(id, _)| id.as_str() == name(*pod));
                let doubtful = pods.clone().filter(is_doubtful);
                all.extend(doubtful.map(|pod| Happens::LooksUp(number, pod)));
            }
            if spent.restarts < restarts {
                all.push(Happens::Restarts(number));
            }
            if replica.leads {
                all.push(Happens::ReignEnds(number));
            }
            if spent.takes < takes && self.can_take(world, number) {
                all.push(Happens::Takes(number));
            }
            if self.can_release(world, number) {
                all.push(Happens::Releases(number));
            }
        }
    }

    fn next_state(&self, before: &World, happens: Happens) -> Option<World> {
        let mut world = before.clone();
        match happens {
            Happens::Touched(pod) => {
                world.spent.touches += 1;
                world.pods[pod].push(Fact::Pending);
            }
            Happens::Deleted(pod) => world.pods[pod].push(Fact::Gone),
            Happens::Shown(replica, pod) => {
                let it = world.replica(replica);
                let fact = before.pods[pod][it.shown[pod]];
                it.shown[pod] += 1;
                if self.broken == Broken::PastUndoes && fact == Fact::Pending {
                    it.forget_binding(pod);
                }
                it.show(pod, fact);
            }
            Happens::ListingBegins(replica) => {
                let lengths = world.lengths();
                let is_by_chance = !Self::must_list(&before.replicas[replica]);
                world.spent.listings += u8::from(is_by_chance);
                let it = world.replica(replica);
                it.index.pods_reset();
                it.listing = Some(lengths);
            }
            Happens::ListingEnds(replica) => world.replica(replica).end_listing(&before.pods),
            Happens::Asked(replica, pod) => Self::ask(&mut world, replica, pod)?,
            Happens::Carried(call) => Self::carry(&mut world, call),
            Happens::Refused(call) => world.answer(call, 403),
            Happens::Repeated(call) => {
                let code = match world.fact(world.calls[call].pod) {
                    Fact::Gone => 404,
                    _ => 409,
                };
                world.answer(call, code);
            }
            Happens::AnswerComes(call) => self.answer_comes(&mut world, call)?,
            Happens::GivenUp(call) => self.give_up(&mut world, call),
            Happens::Vanishes(call) => drop(world.calls.remove(call)),
            Happens::TimePasses => world.spent.ages += 1,
            Happens::LooksUp(replica, pod) => {
                let look = Look {
                    pod,
                    length: world.pods[pod].len(),
                    asked: before.replicas[replica].index.asking(before.now()),
                };
                world.replica(replica).looked = Some(look);
            }
            Happens::Settles(replica) => {
                let it = world.replica(replica);
                let Look {
                    pod,
                    length,
                    mut asked,
                } = it.looked.take()?;
                if self.broken == Broken::OvertakenCounts {
                    asked.round = it.index.pod_round();
                }
                let found = found(pod, before.pods[pod][length - 1]);
                drop(it.index.settle(&uid(&name(pod)), found, asked));
            }
            Happens::Restarts(replica) => {
                world.spent.restarts += 1;
                self.restart(&mut world, replica);
            }
            Happens::ReignEnds(replica) => self.reign_ends(&mut world, replica),
            Happens::Takes(replica) => self.take(&mut world, replica),
            Happens::Releases(replica) => {
                self.restart(&mut world, replica);
                world.holder = None;
            }
        }
        world.calls.sort();
        Some(world)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(NEVER_TWICE, |_, world: &World| {
                let mut cards = world.promised();
                cards.sort_unstable();
                cards.windows(2).all(|pair| pair[0] != pair[1])
            }),
            Property::always(NO_LEAK, |_, world: &World| {
                !world.calls.is_empty() || world.replicas.iter().all(|r| world.has_no_leak(r))
            }),
            Property::sometimes(CHANGES_HANDS, |_, world: &World| {
                let had = |history: &Vec<Fact>| {
                    history.contains(&Fact::Bound(0)) && history.contains(&Fact::Gone)
                };
                world.pods.iter().any(had) && world.promised().contains(&0)
            }),
        ]
    }
}

pub(super) const NEVER_TWICE: &str = "no card is promised twice";
pub(super) const NO_LEAK: &str = "what is held once all is settled is what the API server has";
pub(super) const CHANGES_HANDS: &str = "a card that is free again goes to another pod";

fn card_of(plan: &Plan) -> Option<u32> {
    let grant = plan.containers.first()?.grants.first()?;
    grant.card.as_str().strip_prefix("ppu-")?.parse().ok()
}

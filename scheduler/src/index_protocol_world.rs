//! The world of the protocol's model: what the API server has, and what each replica knows.

use std::{
    borrow::Cow,
    fmt,
    hash::{DefaultHasher, Hash, Hasher},
    sync::Arc,
    time::Instant,
};

use model::name::NodeName;

use super::Index;
use super::protocol::Bounds;
use crate::{
    assume::{Asked, CAN_STILL_TAKE_EFFECT, Found},
    pod::{BindStep, PodSeen, PodState},
    testing::{GPU, holding, node, node_name, pending, uid, whole},
};

const NODE: &str = "n1";
const LIMITS: [(&str, &str); 1] = [(GPU, "1")];

/// What the API server has of a pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Fact {
    Pending,
    Bound(u32),
    Gone,
}

/// A Binding on its way.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Call {
    pub(super) by: usize,
    pub(super) pod: usize,
    pub(super) card: u32,
    pub(super) stage: Stage,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Stage {
    Sent,
    /// Carried out or not, the answer is on its way.
    Answered(u16),
    /// Nobody waits for the answer any more.
    GivenUp,
}

/// One replica; the process of that name may be another than before.
#[derive(Clone)]
pub(super) struct Replica {
    pub(super) index: Index,
    pub(super) leads: bool,
    /// In this reign.
    pub(super) listed: bool,
    /// How much of each pod's history the listing under way will show.
    pub(super) listing: Option<Vec<usize>>,
    /// How much of each pod's history the watch has shown.
    pub(super) shown: Vec<usize>,
    pub(super) looked: Option<Look>,
}

/// A pod that was asked for by name; the answer is on its way.
#[derive(Debug, Clone, Copy)]
pub(super) struct Look {
    pub(super) pod: usize,
    /// How much of its history is in the answer.
    pub(super) length: usize,
    pub(super) asked: Asked,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(super) struct Spent {
    pub(super) asks: u8,
    pub(super) takes: u8,
    pub(super) restarts: u8,
    pub(super) listings: u8,
    pub(super) touches: u8,
    pub(super) ages: u8,
}

#[derive(Clone)]
pub(super) struct World {
    /// Each pod's history, oldest first.
    pub(super) pods: Vec<Vec<Fact>>,
    pub(super) calls: Vec<Call>,
    // Shared between worlds as long as nothing happens to them.
    pub(super) replicas: Vec<Arc<Replica>>,
    /// Whom the lease names.
    pub(super) holder: Option<usize>,
    pub(super) spent: Spent,
    pub(super) start: Instant,
}

pub(super) fn name(pod: usize) -> String {
    format!("p{pod}")
}

pub(super) fn target() -> NodeName {
    node_name(NODE)
}

pub(super) fn seen(pod: usize, fact: Fact) -> Option<PodSeen> {
    match fact {
        Fact::Pending => Some(pending(&name(pod), &LIMITS)),
        Fact::Bound(card) => {
            let plan = whole(&[&format!("ppu-{card}")]);
            Some(holding(&name(pod), NODE, &LIMITS, plan))
        }
        Fact::Gone => None,
    }
}

pub(super) fn found(pod: usize, fact: Fact) -> Found {
    seen(pod, fact).map_or(Found::Gone, Found::Pod)
}

impl Replica {
    pub(super) fn new(bounds: &Bounds) -> Self {
        let mut index = Index::new(model::settings::Settings::default());
        index.apply_node(node(NODE, bounds.cards, 144));
        index.nodes_complete();
        Self {
            index,
            leads: false,
            listed: false,
            listing: None,
            shown: vec![0; bounds.pods],
            looked: None,
        }
    }

    pub(super) fn decides(&self) -> bool {
        self.leads && self.listed && self.index.is_synced()
    }

    pub(super) fn show(&mut self, pod: usize, fact: Fact) {
        match seen(pod, fact) {
            Some(seen) => drop(self.index.apply_pod(seen)),
            None => self.index.delete_pod(&uid(&name(pod))),
        }
    }

    pub(super) fn forget_binding(&mut self, pod: usize) {
        let uid = uid(&name(pod));
        if self.index.held(&target(), &uid).is_some() && self.index.assumed(uid.as_str()).is_none()
        {
            self.index.delete_pod(&uid);
        }
    }

    pub(super) fn end_listing(&mut self, pods: &[Vec<Fact>]) {
        let Some(listing) = self.listing.take() else {
            return;
        };
        for (pod, length) in listing.iter().enumerate() {
            let fact = pods[pod][length - 1];
            if fact != Fact::Gone {
                self.show(pod, fact);
            }
        }
        self.index.pods_complete();
        self.listed = self.leads;
        self.shown = listing;
    }

    /// All that matters of the index: its times only by what has passed since.
    pub(super) fn view(&self, now: Instant, hasher: &mut impl Hasher) {
        let Index {
            pods, pod_round, ..
        } = &self.index;
        let target = target();
        let mut entries: Vec<_> = pods.iter().collect();
        entries.sort_by_key(|(uid, _)| *uid);
        for (uid, entry) in entries {
            uid.as_str().hash(hasher);
            (entry.stamp == pod_round.stamp).hash(hasher);
            std::mem::discriminant(&entry.state).hash(hasher);
            if let PodState::Assumed(assumed) = &entry.state {
                std::mem::discriminant(&assumed.step).hash(hasher);
                if let BindStep::Accepted(at) = assumed.step {
                    (at == now).hash(hasher);
                }
                (assumed.doubt_since == Some(now)).hash(hasher);
            }
            let held = self.index.held(&target, uid);
            for card in held.iter().flat_map(|hold| hold.cards()) {
                card.as_str().hash(hasher);
            }
        }
        pod_round.complete.hash(hasher);
        self.leads.hash(hasher);
        self.listed.hash(hasher);
        self.listing.hash(hasher);
        self.shown.hash(hasher);
        let looked = self.looked.as_ref();
        looked
            .map(|l| {
                (
                    l.pod,
                    l.length,
                    l.asked.at == now,
                    l.asked.round == *pod_round,
                )
            })
            .hash(hasher);
    }
}

impl World {
    pub(super) fn fact(&self, pod: usize) -> Fact {
        self.pods[pod].last().copied().unwrap_or(Fact::Gone)
    }

    /// The cards that the API server has bound pods to.
    pub(super) fn promised(&self) -> Vec<u32> {
        let facts = (0..self.pods.len()).map(|pod| self.fact(pod));
        facts
            .filter_map(|fact| match fact {
                Fact::Bound(card) => Some(card),
                _ => None,
            })
            .collect()
    }

    pub(super) fn replica(&mut self, number: usize) -> &mut Replica {
        Arc::make_mut(&mut self.replicas[number])
    }

    pub(super) fn lengths(&self) -> Vec<usize> {
        self.pods.iter().map(Vec::len).collect()
    }

    /// The replica's process has ended: its calls have nobody that waits for them.
    pub(super) fn hang_up(&mut self, replica: usize) {
        self.calls
            .retain(|c| c.by != replica || !matches!(c.stage, Stage::Answered(_)));
        for call in self.calls.iter_mut().filter(|c| c.by == replica) {
            call.stage = Stage::GivenUp;
        }
    }

    pub(super) fn has_calls_of(&self, replica: usize) -> bool {
        self.calls.iter().any(|c| c.by == replica)
    }

    pub(super) fn is_waiting(&self, replica: usize) -> bool {
        let waits = |call: &Call| call.by == replica && call.stage != Stage::GivenUp;
        self.calls.iter().any(waits)
    }

    pub(super) fn answer(&mut self, call: usize, code: u16) {
        if self.calls[call].stage == Stage::GivenUp {
            self.calls.remove(call);
        } else {
            self.calls[call].stage = Stage::Answered(code);
        }
    }

    pub(super) fn now(&self) -> Instant {
        self.start + CAN_STILL_TAKE_EFFECT * u32::from(self.spent.ages)
    }

    /// Whether the replica's index, having been shown everything, has just what the API server has
    /// once it has asked about what is doubtful.
    pub(super) fn has_no_leak(&self, replica: &Replica) -> bool {
        if !replica.index.pod_round.complete
            || replica.listing.is_some()
            || replica.shown != self.lengths()
        {
            return true;
        }
        let mut index = Cow::Borrowed(&replica.index);
        let later = self.now() + CAN_STILL_TAKE_EFFECT;
        let asked = replica.index.asking(later);
        for (id, _) in replica.index.doubtful(later) {
            let of_it = (0..self.pods.len()).find(|pod| name(*pod) == id.as_str());
            let found = of_it.map_or(Found::Gone, |pod| found(pod, self.fact(pod)));
            drop(index.to_mut().settle(&id, found, asked));
        }
        (0..self.pods.len()).all(|pod| {
            let is_held = index.held(&target(), &uid(&name(pod))).is_some();
            is_held == matches!(self.fact(pod), Fact::Bound(_))
        })
    }
}

/// Times stand for what they are to the index now.
impl Hash for World {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        self.pods.hash(hasher);
        self.calls.hash(hasher);
        self.holder.hash(hasher);
        self.spent.hash(hasher);
        for replica in &self.replicas {
            replica.view(self.now(), hasher);
        }
    }
}

/// What the API server has: the way that leads here says the rest.
impl fmt::Debug for World {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "pods {:?}, calls {:?}", self.pods, self.calls)
    }
}

/// The checker knows worlds by their hashes.
impl PartialEq for World {
    fn eq(&self, other: &Self) -> bool {
        let hash = |world: &Self| {
            let mut hasher = DefaultHasher::new();
            world.hash(&mut hasher);
            hasher.finish()
        };
        hash(self) == hash(other)
    }
}

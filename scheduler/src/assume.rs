//! Binds that the index counts on before the watch confirms them.
//!
//! A promise is entered before the API server is asked, so that no second bind can be promised
//! the same. It is taken back only on the API server's word: a refusal, or the pod seen unbound
//! when no earlier call can take effect any more. Time alone frees nothing.

use std::time::{Duration, Instant};

use model::{
    ledger::Conflict,
    name::{NodeName, PodRef, PodUid},
    phase, placement,
    plan::Plan,
};

use crate::{
    index::{Index, Notice, Round},
    pod::{Assumed, BindStep, PodSeen, PodState, Refusal, Stand},
    reason::Reason,
};

/// An API server gives up a request after 60 s: a bind whose answer was lost can still take
/// effect until then. A little more, for what the clocks make of it.
pub(crate) const CAN_STILL_TAKE_EFFECT: Duration = Duration::from_secs(65);

/// The watch confirms a bind within moments. Past this the API server is asked about the pod.
pub(crate) const CONFIRMED_WITHIN: Duration = Duration::from_secs(30);

/// Why a pod can't be bound.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoBind {
    /// The index does not have it.
    #[error("the pod is gone")]
    Gone,
    /// It is bound.
    #[error("the pod is bound to node {0} already")]
    Bound(NodeName),
    /// Two calls for one pod at once.
    #[error("another bind of this pod is under way")]
    UnderWay,
    /// It may be bound to another node.
    #[error("an earlier bind to node {0} is not settled")]
    Unsettled(NodeName),
    /// What it asks can't be served.
    #[error(transparent)]
    Refused(Refusal),
    /// Not on this node, or not any more.
    #[error("node {node}: {reason}")]
    Node {
        /// Which node.
        node: NodeName,
        /// Why not.
        reason: Reason,
    },
    /// The plan does not go into the ledger.
    #[error("node {node}: {why}")]
    Conflict {
        /// Which node.
        node: NodeName,
        /// Why not.
        why: Conflict,
    },
}

/// What the API server says of a pod that was asked for by name.
#[derive(Debug, Clone)]
pub enum Found {
    /// No such pod, or another one under its name.
    Gone,
    /// This one.
    Pod(PodSeen),
}

/// When the API server was asked about a pod.
#[derive(Debug, Clone, Copy)]
pub struct Asked {
    pub(crate) at: Instant,
    pub(crate) round: Round,
}

impl Index {
    /// The API server is about to be asked about a pod.
    pub fn asking(&self, now: Instant) -> Asked {
        Asked {
            at: now,
            round: self.pod_round(),
        }
    }

    /// Checks the pod against the node as it is now, and enters what it will hold there.
    pub fn begin_bind(&mut self, uid: &PodUid, node: &NodeName) -> Result<Plan, NoBind> {
        let request = match self.state_mut(uid.as_str()).ok_or(NoBind::Gone)? {
            PodState::Pending(Ok(request)) => request.clone(),
            PodState::Pending(Err(refusal)) => return Err(NoBind::Refused(refusal.clone())),
            PodState::Holds(at) | PodState::NotKnown(at, _) => {
                return Err(NoBind::Bound(at.clone()));
            }
            PodState::Assumed(assumed) => return begin_again(assumed, node),
        };
        let no = |reason| NoBind::Node {
            node: node.clone(),
            reason,
        };
        let entry = self
            .node(node.as_str())
            .ok_or_else(|| no(Reason::UnknownNode))?;
        if let Some(closed) = entry.closed() {
            return Err(no(closed.reason));
        }
        let plan = placement::place(&request, entry.ledger(), self.settings())
            .map_err(|why| no(Reason::NoFit(why)))?;
        let hold = phase::peak(&request, &plan);
        let pod = self.pod_name(uid).cloned().ok_or(NoBind::Gone)?;
        self.node_mut(node)
            .hold(uid, hold.clone())
            .map_err(|why| NoBind::Conflict {
                node: node.clone(),
                why,
            })?;
        let assumed = Assumed {
            node: node.clone(),
            plan: plan.clone(),
            request,
            step: BindStep::Calling,
            doubt_since: None,
        };
        self.replace(uid, pod, PodState::Assumed(Box::new(assumed)));
        Ok(plan)
    }

    /// The API server has bound the pod.
    pub fn bind_accepted(&mut self, uid: &PodUid, now: Instant) {
        if let Some(assumed) = self.assumed_mut(uid) {
            assumed.step = BindStep::Accepted(now);
        }
    }

    /// The API server's answer was lost: what was promised stays promised.
    pub fn bind_unknown(&mut self, uid: &PodUid, now: Instant) {
        if let Some(assumed) = self.assumed_mut(uid) {
            assumed.step = BindStep::Unknown;
            // An older call may be in doubt too, but the newest is in doubt the longest.
            assumed.doubt_since = Some(now);
        }
    }

    /// The API server has refused the bind: the promise is taken back, unless the outcome of an
    /// earlier call is unknown. However long ago that was, it may have taken effect: the API
    /// server is asked.
    pub fn bind_refused(&mut self, uid: &PodUid) {
        let Some(assumed) = self.assumed_mut(uid) else {
            return;
        };
        if assumed.doubt_since.is_some() {
            assumed.step = BindStep::Unknown;
        } else {
            self.take_back(uid);
        }
    }

    /// Binds about which the API server has to be asked, oldest doubts and newest alike.
    pub fn doubtful(&self, now: Instant) -> Vec<(PodUid, PodRef)> {
        self.all_assumed()
            .filter(|(_, _, assumed)| match assumed.step {
                BindStep::Calling => false,
                BindStep::Accepted(at) => now.saturating_duration_since(at) >= CONFIRMED_WITHIN,
                BindStep::Unknown => true,
            })
            .map(|(uid, pod, _)| (uid.clone(), pod.clone()))
            .collect()
    }

    /// Enters what the API server said of a pod whose bind was doubtful. A pod that the watch has
    /// settled in the meantime is left as it is. So is one that is bound or waits by an answer
    /// that a listing may have overtaken: it is asked about again.
    pub fn settle(&mut self, uid: &PodUid, found: Found, asked: Asked) -> Option<Notice> {
        let takes_answers = self.pod_round().takes_answers_of(asked.round);
        let assumed = self.assumed_mut(uid)?;
        if assumed.step == BindStep::Calling {
            return None;
        }
        match found {
            Found::Gone => {
                self.delete_pod(uid);
                None
            }
            Found::Pod(_) if !takes_answers => None,
            Found::Pod(PodSeen {
                stand: Stand::Pending(_),
                ..
            }) => {
                // A call may have taken effect while the answer was on its way.
                if !in_doubt(assumed, asked.at) {
                    self.take_back(uid);
                }
                None
            }
            Found::Pod(seen) => self.apply_pod(seen),
        }
    }

    /// Whether a bind may still take effect at the API server that its answer does not tell of.
    pub fn has_doubtful_binds(&self, now: Instant) -> bool {
        self.all_assumed()
            .any(|(_, _, assumed)| match assumed.step {
                BindStep::Calling => true,
                BindStep::Accepted(_) => false,
                BindStep::Unknown => in_doubt(assumed, now),
            })
    }

    fn assumed_mut(&mut self, uid: &PodUid) -> Option<&mut Assumed> {
        match self.state_mut(uid.as_str())? {
            PodState::Assumed(assumed) => Some(assumed),
            _ => None,
        }
    }

    fn take_back(&mut self, uid: &PodUid) {
        let Some(request) = self.assumed_mut(uid).map(|a| a.request.clone()) else {
            return;
        };
        if let Some(pod) = self.pod_name(uid).cloned() {
            self.replace(uid, pod, PodState::Pending(Ok(request)));
        }
    }
}

/// The bind is asked for again while the first one's outcome is not known: the same plan may be
/// sent again to the same node, and the answer will settle it.
fn begin_again(assumed: &mut Assumed, node: &NodeName) -> Result<Plan, NoBind> {
    match assumed.step {
        BindStep::Calling => Err(NoBind::UnderWay),
        BindStep::Accepted(_) => Err(NoBind::Bound(assumed.node.clone())),
        BindStep::Unknown if assumed.node != *node => Err(NoBind::Unsettled(assumed.node.clone())),
        BindStep::Unknown => {
            assumed.step = BindStep::Calling;
            Ok(assumed.plan.clone())
        }
    }
}

fn in_doubt(assumed: &Assumed, now: Instant) -> bool {
    let since = match assumed.step {
        BindStep::Accepted(at) => Some(at),
        BindStep::Calling | BindStep::Unknown => assumed.doubt_since,
    };
    since.is_some_and(|since| now.saturating_duration_since(since) < CAN_STILL_TAKE_EFFECT)
}

#[cfg(test)]
#[path = "assume_tests.rs"]
mod tests;

//! Whether a pod finds room on a node, asked of many nodes in a row.

use std::borrow::Cow;

use model::{ledger::Ledger, placement, request::PodRequest, settings::Settings};

use crate::{
    index::Index,
    memo::{Finding, Memory},
    node::Node,
    reason::{Reason, Rejection},
};

/// One pod's request, to be tried on many nodes.
#[derive(Debug)]
pub struct Trial<'a> {
    request: placement::Trial<'a>,
}

impl<'a> Trial<'a> {
    /// Of this request.
    pub fn new(request: &'a PodRequest, settings: &'a Settings) -> Self {
        Self {
            request: placement::Trial::new(request, settings),
        }
    }

    /// Whether the node could take the pod now.
    pub fn on(&self, node: &Node) -> Result<(), Rejection> {
        match node.closed() {
            Some(closed) => Err(closed),
            None => self.within(node.ledger()),
        }
    }

    /// Whether this ledger has room.
    pub fn within(&self, ledger: &Ledger) -> Result<(), Rejection> {
        self.request.fits(ledger).map_err(|why| Rejection {
            mendable: self.request.could_fit(ledger),
            reason: Reason::NoFit(why),
        })
    }

    /// How good the node is, 0 to 10; nothing where the pod does not fit.
    pub fn score(&self, node: &Node) -> Option<u8> {
        if node.closed().is_some() {
            return None;
        }
        self.request.score(node.ledger())
    }
}

/// The same for the nodes of an index, where findings are kept as long as the node stays as it is.
#[derive(Debug)]
pub struct KnownTrial<'a> {
    trial: Trial<'a>,
    memory: Memory,
}

impl<'a> KnownTrial<'a> {
    /// Of this request.
    pub fn new(request: &'a PodRequest, index: &'a Index) -> Self {
        let trial = Trial::new(request, index.settings());
        let memory = index.requests().of(request);
        Self { trial, memory }
    }

    /// Whether the node could take the pod now.
    pub fn on(&self, node: &Node) -> Result<(), Cow<'_, Rejection>> {
        match self.memory.recall(node.room()) {
            Some(Finding::Fits | Finding::Scored(_)) => Ok(()),
            Some(Finding::Rejected(rejection)) => Err(Cow::Borrowed(rejection)),
            None => match self.trial.on(node) {
                Ok(()) => {
                    self.memory.keep_fit(node.room(), None);
                    Ok(())
                }
                Err(rejection) => {
                    self.memory.keep_rejection(node.room(), &rejection);
                    Err(Cow::Owned(rejection))
                }
            },
        }
    }

    /// How good the node is, 0 to 10; 0 too where the pod does not fit.
    pub fn score(&self, node: &Node) -> u8 {
        match self.memory.recall(node.room()) {
            Some(Finding::Scored(score)) => score,
            Some(Finding::Rejected(_)) => 0,
            Some(Finding::Fits) | None => {
                let score = self.trial.score(node);
                if score.is_some() {
                    self.memory.keep_fit(node.room(), score);
                }
                score.unwrap_or(0)
            }
        }
    }
}

//! Whether a pod finds room on a node, asked of many nodes in a row.

use model::{
    ledger::Ledger,
    placement,
    request::PodRequest,
    settings::{PlacementSetting, Settings},
};

use crate::{
    node::Node,
    reason::{Reason, Rejection},
};

/// One pod's request, to be tried on many nodes.
#[derive(Debug)]
pub struct Trial<'a> {
    request: placement::Trial<'a>,
    placement: PlacementSetting,
}

impl<'a> Trial<'a> {
    /// Of this request.
    pub fn new(request: &'a PodRequest, settings: &'a Settings) -> Self {
        Self {
            request: placement::Trial::new(request, settings),
            placement: settings.placement,
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

    /// How good the node is, 0 to 10; 0 too where the pod does not fit.
    pub fn score(&self, node: &Node) -> u8 {
        if node.closed().is_some() {
            return 0;
        }
        self.request
            .score(node.ledger(), self.placement)
            .unwrap_or(0)
    }
}

//! From a plan to what a pod holds: peak and steady use, as kubelet counts it.
//!
//! Init containers run one after the other and their devices are handed on; sidecars stay.

use crate::{ledger::Hold, plan::Plan, request::PodRequest};

/// What a pod with this plan holds on each card from admission to its end: the most over all
/// of its phases, since kubelet takes nothing back from a pod before it ends.
pub fn peak(request: &PodRequest, plan: &Plan) -> Hold {
    let _ = (request, plan);
    todo!("helper")
}

/// What it holds once all init containers have ended.
pub fn steady(request: &PodRequest, plan: &Plan) -> Hold {
    let _ = (request, plan);
    todo!("helper")
}

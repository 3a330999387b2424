//! Preempt: on which nodes the proposed victims' going would make room. kube-scheduler's own dry
//! run asks no extender, so this is where cards are counted.

use model::name::PodUid;

use crate::{
    convert::{PreemptCall, Proposal},
    fit::Trial,
    index::Index,
};

/// The proposals that would help, as they were made: no victim is added, so none that is
/// protected or nominated elsewhere is ever named by us. An empty list of victims is a question
/// too: whether the pod fits as things are.
pub fn preempt<'a>(index: &Index, call: PreemptCall<'a>) -> Vec<Proposal<'a>> {
    let Ok(request) = &call.wanted else {
        return Vec::new();
    };
    if request.is_empty() {
        return call.proposals;
    }
    let trial = Trial::new(request, index.settings());
    let helps = |proposal: &Proposal<'_>| {
        let Some(node) = index.node(&proposal.node).filter(|n| n.closed().is_none()) else {
            return false;
        };
        let mut ledger = node.ledger().clone();
        for uid in &proposal.victims {
            if let Ok(uid) = PodUid::new(uid) {
                ledger.remove(&uid);
            }
        }
        trial.within(&ledger).is_ok()
    };
    call.proposals.into_iter().filter(|p| helps(p)).collect()
}

//! The end of the program while pods come and go: from its last registration to the next
//! program's first, kubelet rejects every pod with cards for good. So the scheduler is told first
//! to bind nothing here, and what it has bound already gets its devices.

use std::time::Duration;

use kubernetes::convert::Life;
use model::name::PodRef;
use tokio::{
    sync::watch,
    time::{Instant, sleep, timeout},
};

use crate::{admission::Admission, identity::Answered, view::PodView};

/// The writer gives up sooner.
const CLOSED_WITHIN: Duration = Duration::from_secs(4);
/// A bind that was under way when the scheduler was told reaches kubelet within this.
const BOUND_WITHIN: Duration = Duration::from_secs(1);
/// How long the pods that are bound here may take.
const ADMITTED_WITHIN: Duration = Duration::from_secs(7);
const LOOK_AGAIN_AFTER: Duration = Duration::from_millis(200);

/// Waits until the pods that are bound here have their devices, within limits.
pub async fn drain(admission: &Admission, mut closed: watch::Receiver<bool>) {
    let _ = timeout(CLOSED_WITHIN, closed.wait_for(|c| *c)).await;
    if admission.core().ledger().inventory().cards().is_empty() {
        return;
    }
    sleep(BOUND_WITHIN).await;
    let deadline = Instant::now() + ADMITTED_WITHIN;
    loop {
        let waiting = match admission.look_at_all().await {
            Ok(look) => waiting(&look.pods, &*admission.core()),
            // Without the API server nothing more is bound.
            Err(error) => {
                tracing::warn!(%error, "ending without a look at the pods bound here");
                return;
            }
        };
        if waiting.is_empty() {
            return;
        }
        if Instant::now() + LOOK_AGAIN_AFTER > deadline {
            let pods: Vec<String> = waiting.iter().map(ToString::to_string).collect();
            tracing::warn!(
                pods = pods.join(", "),
                "ending before these pods have their devices"
            );
            return;
        }
        sleep(LOOK_AGAIN_AFTER).await;
    }
}

/// The pods that kubelet has not asked for yet, or not to the end.
fn waiting(pods: &[PodView], core: &impl Answered) -> Vec<PodRef> {
    let complete = |pod: &PodView| {
        let Ok(request) = &pod.request else {
            // Kubelet gets no devices for it from anybody.
            return true;
        };
        request.containers.iter().all(|container| {
            let mut amounts = container.amounts.iter().filter(|a| a.count > 0);
            amounts.all(|amount| core.answered(&pod.uid, &container.name, &amount.resource))
        })
    };
    let waits = |pod: &&PodView| {
        pod.life == Life::Holds
            && pod.asks()
            && !pod.started
            && !core.refused(&pod.uid)
            && !complete(pod)
    };
    pods.iter().filter(waits).map(|p| p.pod.clone()).collect()
}

#[cfg(test)]
mod tests {
    use model::name::{ContainerName, PodUid, ResourceName};

    use super::*;
    use crate::fixture::{CORE, MEMORY, pod_ref, simple, uid};

    /// Of whom one resource was answered, and who was refused.
    struct Seen(&'static str, &'static str);

    impl Answered for Seen {
        fn answered(&self, pod: &PodUid, _: &ContainerName, resource: &ResourceName) -> bool {
            *pod == uid(self.0) && resource.as_str() == CORE
        }
        fn refused(&self, pod: &PodUid) -> bool {
            *pod == uid(self.1)
        }
    }

    #[test]
    fn the_end_waits_for_pods_that_lack_devices_and_for_no_others() {
        let one = simple("one", 1, &[(CORE, 10)]);
        let half = simple("half", 1, &[(CORE, 10), (MEMORY, 10)]);
        let refused = simple("refused", 1, &[(CORE, 10)]);
        let nothing = simple("nothing", 1, &[]);
        let mut ended = simple("ended", 1, &[(CORE, 10)]);
        ended.life = Life::Ended;
        let mut runs = simple("runs", 1, &[(CORE, 10)]);
        runs.started = true;
        let pods = [one, half, refused, nothing, ended, runs];
        assert_eq!(
            waiting(&pods, &Seen("one", "refused")),
            [pod_ref("half")],
            "what waits"
        );
        assert_eq!(
            waiting(&pods, &Seen("half", "refused")),
            [pod_ref("one"), pod_ref("half")],
            "one resource of two is not all"
        );
    }
}

//! Kubelet's calls for a pod in admission, from the question who it is to the Runtime's answer.
//!
//! Two locks: `turn` lets one call of kubelet's through at a time, as kubelet itself does, and
//! is held over the Runtime's answer; the core's lock is only ever held for plain calls, so
//! that the reconcile loop never waits for a slow Runtime.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use model::name::{PodUid, ResourceName};
use runtime_proto::{Client, client::ContainerEdits};
use tokio::{
    sync::{Notify, watch},
    time::{Instant, sleep, timeout},
};

use crate::{
    core::{Assertion, Core, Observed, Planned, Step},
    fresh_kubelet::{FreshKubelet, Record},
    identity::{self, Call, Consumer},
    metrics::Metrics,
    refusal::Refusal,
    sources::Sources,
    view::Look,
};

/// How long a call waits for the first look after the start.
const REBUILT_WITHIN: Duration = Duration::from_secs(5);
/// How long the Runtime may take for one container, a restart of it included: kubelet rejects the
/// pod for good when this ends, and admits no other pod of the node meanwhile.
const RUNTIME_WITHIN: Duration = Duration::from_secs(8);
/// How long a call goes on looking where the lists of pods may be out of step for a moment. The
/// node admits no other pod meanwhile.
const IN_STEP_WITHIN: Duration = Duration::from_millis(500);
/// How long it waits for the cards of a pod that is just ending.
const ENDED_WITHIN: Duration = Duration::from_millis(1500);
/// How often a Runtime that is away is tried again within a call.
const RUNTIME_AGAIN_AFTER: Duration = Duration::from_millis(250);
const LOOK_AGAIN_AFTER: Duration = Duration::from_millis(100);

/// What all endpoints and the reconcile loop share.
pub struct Admission {
    core: Mutex<Core>,
    turn: tokio::sync::Mutex<()>,
    fresh_kubelet: FreshKubelet,
    /// Where to look.
    pub sources: Sources,
    /// The Runtime.
    pub runtime: Client,
    /// The program's metrics.
    pub metrics: Metrics,
    /// Whether what ran before the start is known.
    pub rebuilt: watch::Sender<bool>,
    /// Something was given or ended: reconcile soon.
    pub changed: Notify,
}

impl Admission {
    /// Nothing known yet.
    pub fn new(core: Core, sources: Sources, runtime: Client, metrics: Metrics) -> Self {
        Self {
            core: Mutex::new(core),
            turn: tokio::sync::Mutex::new(()),
            fresh_kubelet: FreshKubelet::default(),
            sources,
            runtime,
            metrics,
            rebuilt: watch::Sender::new(false),
            changed: Notify::new(),
        }
    }

    /// The state; never kept over an await.
    pub fn core(&self) -> MutexGuard<'_, Core> {
        // A panic while it was held has ended the program already.
        self.core.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// There is another kubelet than before: the call after the last preference will not come.
    pub fn kubelet_started(&self) {
        self.core().forget_preference();
        self.fresh_kubelet.started();
    }

    /// At the first call of another kubelet: what the one before it was given counts only where
    /// that was written down. The look that follows takes in what this one shows.
    fn note_restart(&self) {
        if self.fresh_kubelet.calls_first()
            && let Some(record) = self.sources.checkpoint()
        {
            let forgotten = self.core().forget_unrecorded(&record);
            for (pod, container) in forgotten {
                tracing::info!(%pod, %container, "kubelet was killed before it wrote down what it was given, and asks again");
            }
        }
    }

    /// What a kubelet that has just started holds back of pods that have ended.
    fn note_stale(&self) {
        match self.fresh_kubelet.look() {
            Record::Settled => {}
            Record::Read => {
                let record = self.sources.checkpoint();
                self.core().set_stale(record.as_ref());
            }
            Record::Over => self.core().set_stale(None),
        }
    }

    /// Waits for the call under way, and lets no other through while the answer is kept.
    pub async fn quiet(&self) -> tokio::sync::MutexGuard<'_, ()> {
        self.turn.lock().await
    }

    /// GetPreferredAllocation for one container.
    pub async fn prefer(
        &self,
        resource: &ResourceName,
        available: &[String],
        must_include: &[String],
        size: u64,
    ) -> Result<Vec<String>, Refusal> {
        let _turn = self.turn.lock().await;
        let answer = async {
            self.wait_until_rebuilt().await?;
            self.note_restart();
            let consumer = self.identify(resource, size).await?;
            self.note_stale();
            self.persist(&consumer, resource, |core, plan| {
                core.prefer(&consumer, resource, available, must_include, plan)
            })
            .await
        }
        .await;
        let outcome = answer.as_ref().map_or_else(Refusal::reason, |_| "answered");
        self.metrics.preferences.with_label_values(&[outcome]).inc();
        answer
    }

    /// Allocate for one container.
    pub async fn allocate(
        &self,
        resource: &ResourceName,
        ids: &[String],
    ) -> Result<ContainerEdits, Refusal> {
        let _turn = self.turn.lock().await;
        let answer: Result<(ContainerEdits, &str), Refusal> = async {
            self.wait_until_rebuilt().await?;
            self.note_restart();
            let known = self.core().follows_preference(resource, ids);
            let consumer = if let Some(consumer) = known {
                consumer
            } else {
                let count = u64::try_from(ids.len()).unwrap_or(u64::MAX);
                self.identify(resource, count).await?
            };
            let step = self
                .persist(&consumer, resource, |core, _| {
                    core.allocate(&consumer, resource, ids)
                })
                .await?;
            match step {
                Step::Answer(edits) => Ok((edits, "repeated")),
                Step::Ask(assertion) => {
                    let edits = self.ask(&consumer, &assertion).await?;
                    Ok((edits, "granted"))
                }
            }
        }
        .await;
        self.changed.notify_one();
        let outcome = match &answer {
            Ok((_, outcome)) => *outcome,
            Err(refusal) => refusal.reason(),
        };
        self.metrics.allocations.with_label_values(&[outcome]).inc();
        answer.map(|(edits, _)| edits)
    }

    async fn wait_until_rebuilt(&self) -> Result<(), Refusal> {
        let mut rebuilt = self.rebuilt.subscribe();
        let waited = timeout(REBUILT_WITHIN, rebuilt.wait_for(|r| *r)).await;
        if let Ok(Ok(_)) = waited {
            return Ok(());
        }
        let refusal = Refusal::NotReady(format!(
            "the pods of this node and the Runtime's book were not read within {REBUILT_WITHIN:?}"
        ));
        tracing::warn!(%refusal, "refused");
        Err(refusal)
    }

    /// Who kubelet asks for. Looks again for a while where the lists are out of step.
    async fn identify(&self, resource: &ResourceName, count: u64) -> Result<Consumer, Refusal> {
        let call = Call { resource, count };
        let deadline = Instant::now() + IN_STEP_WITHIN;
        loop {
            let refusal = match self.look().await {
                Ok((look, _)) => {
                    let found = identity::consumer(
                        &call,
                        look.listed.as_deref(),
                        &look.pods,
                        &*self.core(),
                    );
                    match found {
                        Ok(consumer) => return Ok(consumer),
                        Err(unknown) => {
                            self.metrics
                                .identity_failures
                                .with_label_values(&[unknown.reason()])
                                .inc();
                            Refusal::Unknown(unknown)
                        }
                    }
                }
                Err(error) => {
                    self.metrics
                        .identity_failures
                        .with_label_values(&["no_pods"])
                        .inc();
                    Refusal::NotReady(error.to_string())
                }
            };
            let may_pass = refusal.may_pass() || matches!(refusal, Refusal::NotReady(_));
            if !may_pass || Instant::now() + LOOK_AGAIN_AFTER > deadline {
                tracing::warn!(%resource, count, %refusal, "refused");
                return Err(refusal);
            }
            sleep(LOOK_AGAIN_AFTER).await;
        }
    }

    /// Decides, and again after another look where a pod that has just ended may have stood in
    /// the way. A refusal is final: kubelet rejects the pod for it.
    async fn persist<T>(
        &self,
        consumer: &Consumer,
        resource: &ResourceName,
        decide: impl Fn(&mut Core, Planned) -> Result<T, Refusal>,
    ) -> Result<T, Refusal> {
        let deadline = Instant::now() + ENDED_WITHIN;
        let mut hopeless = false;
        loop {
            let late = Instant::now() + LOOK_AGAIN_AFTER > deadline;
            let last = hopeless || late;
            let plan = if last {
                Planned::MayMove
            } else {
                Planned::Stands
            };
            let decided = decide(&mut self.core(), plan);
            let refusal = match decided {
                Ok(decided) => return Ok(decided),
                Err(refusal) => refusal,
            };
            if last || !refusal.may_pass() {
                self.refuse(consumer, resource, &refusal);
                return Err(refusal);
            }
            // The first other look comes at once: the last one may be as old as this call.
            if let Ok((_, observed)) = self.look().await {
                hopeless = !observed.leaving;
                self.confirm(observed.suspects).await;
            }
            if !hopeless {
                sleep(LOOK_AGAIN_AFTER).await;
            }
        }
    }

    fn refuse(&self, consumer: &Consumer, resource: &ResourceName, refusal: &Refusal) {
        self.core().refuse(&consumer.uid);
        self.changed.notify_one();
        tracing::warn!(
            pod = %consumer.pod,
            container = %consumer.container,
            %resource,
            %refusal,
            "refused"
        );
    }

    /// Asks the Runtime for what the ledger has entered.
    async fn ask(
        &self,
        consumer: &Consumer,
        assertion: &Assertion,
    ) -> Result<ContainerEdits, Refusal> {
        // Kubelet may hang up in the middle; then nobody waits for this answer any more.
        let _flight = Flight(self);
        let allocation = &assertion.allocation;
        let started = Instant::now();
        match self
            .tell_when_back(assertion, started + RUNTIME_WITHIN)
            .await
        {
            Ok(edits) => {
                self.core().granted(allocation, edits.clone());
                tracing::info!(
                    pod = %consumer.pod,
                    container = %consumer.container,
                    grants = describe(&allocation.grants),
                    runtime_ms = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX),
                    "granted"
                );
                Ok(edits)
            }
            Err(why) => {
                let refusal = Refusal::Runtime {
                    pod: consumer.pod.clone(),
                    container: consumer.container.clone(),
                    why,
                };
                self.core().refuse(&consumer.uid);
                self.changed.notify_one();
                tracing::warn!(pod = %consumer.pod, container = %consumer.container, %refusal, "refused");
                Err(refusal)
            }
        }
    }

    /// Tells the Runtime, and waits for one that is just restarting.
    async fn tell_when_back(
        &self,
        assertion: &Assertion,
        deadline: Instant,
    ) -> Result<ContainerEdits, runtime_proto::Error> {
        loop {
            // What has ended must be out of the Runtime's book before something takes its place.
            self.release().await;
            let left = deadline.saturating_duration_since(Instant::now());
            match self.tell(assertion, left).await {
                Err(error @ runtime_proto::Error::Unavailable { .. }) => {
                    if Instant::now() + RUNTIME_AGAIN_AFTER > deadline {
                        return Err(error);
                    }
                    tracing::debug!(%error, "waiting for the Runtime");
                    sleep(RUNTIME_AGAIN_AFTER).await;
                }
                answer => return answer,
            }
        }
    }

    /// Tells the Runtime of these grants, in place of others where it has others.
    pub async fn tell(
        &self,
        assertion: &Assertion,
        within: Duration,
    ) -> Result<ContainerEdits, runtime_proto::Error> {
        if assertion.release_first {
            self.runtime
                .release(std::slice::from_ref(&assertion.allocation.id))
                .await?;
        }
        self.runtime.allocate(&assertion.allocation, within).await
    }

    /// Ends at the Runtime what has ended here. What fails stays to be ended.
    pub async fn release(&self) {
        let ended = self.core().releases();
        if ended.is_empty() {
            return;
        }
        let ids: Vec<String> = ended.iter().map(|(id, _)| id.clone()).collect();
        match self.runtime.release(&ids).await {
            Ok(released) => {
                self.core().released(&ids);
                for (id, pod) in &ended {
                    if released.contains(id) {
                        self.metrics.releases.inc();
                        tracing::info!(%pod, allocation = id, "released");
                    }
                }
            }
            // Nothing is lost: reconcile tries again for as long as it takes.
            Err(error @ runtime_proto::Error::Unavailable { .. }) => {
                tracing::debug!(%error, allocations = ids.len(), "not released yet");
            }
            Err(error) => {
                tracing::warn!(%error, allocations = ids.len(), "not released yet");
            }
        }
    }

    /// Looks, and takes in what is seen.
    pub async fn look(&self) -> Result<(Look, Observed), kubernetes::node_pods::Error> {
        let ticket = self.core().ticket();
        let look = self.sources.look(ticket).await?;
        let observed = self.core().observe(&look, None);
        self.say(&observed);
        Ok((look, observed))
    }

    /// Looks, at the API server's list of pods too.
    pub async fn look_at_all(&self) -> Result<Look, kubernetes::node_pods::Error> {
        let (mut look, _) = self.look().await?;
        self.sources.look_beyond(&mut look).await?;
        Ok(look)
    }

    /// Ends those of the suspects that the API server knows to be gone.
    pub async fn confirm(&self, suspects: Vec<PodUid>) {
        match self.sources.gone(suspects).await {
            Ok(gone) => {
                for uid in gone {
                    if let Some(pod) = self.core().end(&uid) {
                        tracing::info!(%pod, "the pod is gone");
                    }
                }
            }
            // It stays held: a source that does not answer says nothing about a pod.
            Err(error) => tracing::debug!(%error, "not known whether pods are gone"),
        }
    }

    /// Logs and counts what was seen.
    pub fn say(&self, observed: &Observed) {
        for pod in &observed.ended {
            tracing::info!(%pod, "the pod has ended");
        }
        for (pod, container) in &observed.adopted {
            tracing::info!(%pod, %container, "found running with cards");
        }
        for (pod, conflict) in &observed.conflicts {
            self.metrics.overcommitted.inc();
            tracing::error!(%pod, %conflict, "a running pod holds more than there is");
        }
        for malformed in &observed.malformed {
            self.metrics
                .malformed
                .with_label_values(&["pod_devices"])
                .inc();
            tracing::warn!(pod = %malformed.pod, why = malformed.why, "passed over");
        }
        self.count_held();
    }

    /// Sets the gauge of pods that hold cards.
    pub fn count_held(&self) {
        let held = self.core().book().len();
        self.metrics
            .held_pods
            .set(i64::try_from(held).unwrap_or(i64::MAX));
    }
}

struct Flight<'a>(&'a Admission);

impl Drop for Flight<'_> {
    fn drop(&mut self) {
        self.0.core().abandoned();
    }
}

/// `ppu-0 whole, ppu-1 50% 24GiB`
fn describe(grants: &[model::plan::Grant]) -> String {
    use model::plan::GrantMode;
    let one = |grant: &model::plan::Grant| match &grant.mode {
        GrantMode::Whole => format!("{} whole", grant.card),
        GrantMode::Share { core, memory } => format!("{} {core} {memory}", grant.card),
        GrantMode::Partition { profile, count } => format!("{} {count}x {profile}", grant.card),
    };
    let all: Vec<String> = grants.iter().map(one).collect();
    all.join(", ")
}

/// One resource's side of it, for its endpoint.
#[derive(Clone)]
pub struct Calls {
    /// Shared by all resources.
    pub admission: Arc<Admission>,
    /// Which one.
    pub resource: ResourceName,
}

impl Calls {
    /// The ids to prefer. `size` is as kubelet writes it.
    pub async fn prefer(
        &self,
        available: &[String],
        must_include: &[String],
        size: i32,
    ) -> Result<Vec<String>, Refusal> {
        let size = u64::try_from(size).unwrap_or(0);
        self.admission
            .prefer(&self.resource, available, must_include, size)
            .await
    }

    /// What the container gets for these ids.
    pub async fn allocate(&self, ids: &[String]) -> Result<ContainerEdits, Refusal> {
        self.admission.allocate(&self.resource, ids).await
    }
}

//! The one loop: takes in what the watches see, decides on the nodes that changed, and takes the
//! steps, one at a time.

use std::{
    collections::BTreeSet,
    hash::{BuildHasher, Hasher, RandomState},
    time::Duration,
};

use kit::Ready;
use model::name::NodeName;
use tokio::{sync::mpsc, time::Instant};

use crate::{
    action::{Action, Status},
    api::{CallError, Kubernetes, Seen, Write},
    book::{Book, Change},
    decide::{Decision, JobState, Last, NodeState, decide},
    job_name::job_name,
    leftovers::{Leftovers, Owned, Step},
    metrics::Metrics,
    retries::Retries,
};

/// Steps on one node in one go: telling, deleting and making are three, and what others do in
/// between may cost a few more. Whoever needs more waits his turn behind other nodes.
const STEPS: usize = 8;

/// What is known, and what is to be done.
#[derive(Debug)]
pub struct Worker {
    kubernetes: Kubernetes,
    book: Book,
    retries: Retries,
    leftovers: Leftovers,
    metrics: Metrics,
    ready: Ready,
    started: Instant,
    /// Of what was said about objects that can't be read, so that it is said once: kind and name.
    malformed: BTreeSet<(&'static str, String)>,
    /// Watches that are in trouble.
    troubled: BTreeSet<&'static str>,
    /// Nodes whose steps ran out: they go on after others had their turn.
    unfinished: BTreeSet<NodeName>,
}

impl Worker {
    /// Knows nothing yet.
    pub fn new(
        kubernetes: Kubernetes,
        leftovers: Leftovers,
        metrics: Metrics,
        ready: Ready,
    ) -> Self {
        Self {
            kubernetes,
            book: Book::default(),
            retries: Retries::default(),
            leftovers,
            metrics,
            ready,
            started: Instant::now(),
            malformed: BTreeSet::new(),
            troubled: BTreeSet::new(),
            unfinished: BTreeSet::new(),
        }
    }

    /// Works until `seen` ends.
    pub async fn run(mut self, mut seen: mpsc::Receiver<Seen>) {
        loop {
            let next_turn = self.next_turn();
            tokio::select! {
                biased;
                next = seen.recv() => match next {
                    Some(next) => self.take_in(next),
                    None => return,
                },
                () = tokio::time::sleep_until(next_turn) => {}
            }
            while let Ok(next) = seen.try_recv() {
                self.take_in(next);
            }
            if self.book.is_synced() {
                self.ready.met();
                self.reconcile().await;
            }
        }
    }

    fn next_turn(&self) -> Instant {
        // A step that is due while nothing is synced waits for the watches anyway.
        const LONG: Duration = Duration::from_hours(1);
        if !self.unfinished.is_empty() {
            return Instant::now();
        }
        let wakes = [self.retries.next_due(), self.leftovers.next_wake()];
        match wakes.into_iter().flatten().min() {
            Some(due) if self.book.is_synced() => self.started + due,
            _ => Instant::now() + LONG,
        }
    }

    fn take_in(&mut self, seen: Seen) {
        match seen {
            Seen::Node(change) => {
                self.heard("node", &change);
                if let Change::Applied(node) | Change::Listed(node) = &change {
                    self.check_annotations(&node.state);
                }
                self.book.change_node(change);
            }
            Seen::Job(change) => {
                self.heard("job", &change);
                self.book.change_job(change);
            }
            Seen::Malformed { kind, name, why } => {
                self.malformed(kind, &name, &why);
                if kind == "job" {
                    self.book.forget_job(&name);
                }
            }
            Seen::Trouble { kind, why } => {
                if self.troubled.insert(kind) {
                    tracing::warn!(watch = kind, error = why, "the watch failed, trying on");
                    if !self.book.is_synced() {
                        self.ready.unmet(format!("{kind} watch: {why}"));
                    }
                }
            }
        }
    }

    fn heard<T>(&mut self, kind: &'static str, change: &Change<T>) {
        // The beginning of a list is only the intention to read it.
        if !matches!(change, Change::Begin) && self.troubled.remove(kind) {
            tracing::info!(watch = kind, "the watch works again");
        }
    }

    fn check_annotations(&mut self, node: &NodeState) {
        let name = node.name.as_str();
        if let Last::Unreadable(why) = &node.last {
            self.malformed("node", name, &format!("record of its last action: {why}"));
        } else {
            // Said again if it breaks again.
            self.malformed.remove(&("node", name.to_owned()));
        }
        if let Owned::Unreadable(why) = &node.left.owned {
            self.malformed("owned-resources", name, why);
        } else {
            self.malformed.remove(&("owned-resources", name.to_owned()));
        }
    }

    fn malformed(&mut self, kind: &'static str, name: &str, why: &str) {
        // Bounded: should there be more broken objects than that, they are said again.
        const MOST: usize = 10_000;
        if self.malformed.len() >= MOST {
            self.malformed.clear();
        }
        if self.malformed.insert((kind, name.to_owned())) {
            self.metrics.malformed.with_label_values(&[kind]).inc();
            tracing::warn!(kind, name, "can't be read, passed over: {why}");
        }
    }

    async fn reconcile(&mut self) {
        let now = self.started.elapsed();
        let mut nodes = std::mem::take(&mut self.unfinished);
        nodes.extend(self.book.take_dirty());
        nodes.extend(self.leftovers.take_due(now));
        nodes.retain(|node| !self.retries.holds_back(node, now));
        nodes.extend(self.retries.due(now));
        for node in nodes {
            self.settle(&node).await;
        }
        let jobs = i64::try_from(self.book.job_count()).unwrap_or(i64::MAX);
        self.metrics.jobs.set(jobs);
    }

    /// Takes steps on one node until there is nothing to do.
    async fn settle(&mut self, name: &NodeName) {
        for _ in 0..STEPS {
            let jobs = self.book.jobs(name);
            let node = self.book.node(name).map(|seen| seen.state.clone());
            let outcome = match decide(node.as_ref(), &jobs) {
                Decision::Rest => {
                    let at_work = jobs.iter().any(JobState::is_at_work);
                    let now = self.started.elapsed();
                    match self.leftovers.look(name, node.as_ref(), at_work, now) {
                        Step::Rest => {
                            if self.retries.succeed(name) {
                                tracing::info!(node = %name, "the step that failed is done");
                            }
                            return;
                        }
                        step => self.clear(name, &step).await,
                    }
                }
                decision => self.step(name, node.as_ref(), decision).await,
            };
            if let Err(error) = outcome {
                self.metrics.errors.inc();
                let why = error.to_string();
                let (now, random) = (self.started.elapsed(), random());
                if self.retries.fail(name, &why, now, random) {
                    tracing::warn!(node = %name, error = why, "a step failed, trying again");
                }
                return;
            }
        }
        self.unfinished.insert(name.clone());
    }

    async fn step(
        &mut self,
        name: &NodeName,
        node: Option<&NodeState>,
        decision: Decision,
    ) -> Result<(), CallError> {
        match (decision, node) {
            (Decision::Create(action), Some(node)) => self.create(node, action).await,
            (Decision::Tell(job), Some(node)) => self.tell(node, job).await,
            (Decision::Delete(job), _) => self.delete(name, &job).await,
            (Decision::Rest | Decision::Create(_) | Decision::Tell(_), _) => Ok(()),
        }
    }

    /// Removes something that the kit has left on a node without the label.
    async fn clear(&mut self, name: &NodeName, step: &Step) -> Result<(), CallError> {
        let Some(seen) = self.book.node(name).cloned() else {
            return Ok(());
        };
        let (what, write) = match step {
            Step::Rest => return Ok(()),
            Step::Inventory => ("inventory", self.kubernetes.remove_inventory(&seen).await?),
            Step::Names(names) => ("names", self.kubernetes.remove_names(&seen, names).await?),
            Step::Owned => (
                "owned-resources",
                self.kubernetes.remove_owned(&seen).await?,
            ),
        };
        let now = self.started.elapsed();
        let is_first = self.leftovers.wrote(name, step, now, random());
        match write {
            Write::Done(now) => {
                self.metrics.leftovers.with_label_values(&[what]).inc();
                // Kubelet writes names back for a while, which is not worth a line each time.
                if is_first {
                    tracing::info!(node = %name, what, "removed from a node without the label");
                } else {
                    tracing::debug!(node = %name, what, "removed again");
                }
                if let Some(now) = now {
                    self.book.change_node(Change::Applied(now));
                }
            }
            Write::Stale(now) => self.book.change_node(Change::Applied(now)),
            Write::Gone => self.book.forget_node(name),
        }
        Ok(())
    }

    async fn create(&mut self, node: &NodeState, action: Action) -> Result<(), CallError> {
        let Some(seen) = self.book.node(&node.name).cloned() else {
            return Ok(());
        };
        let job = job_name(&node.name, action);
        match self.kubernetes.record_start(&seen, action, &job).await? {
            Write::Done(now) => {
                if let Some(now) = now {
                    self.book.change_node(Change::Applied(now));
                }
            }
            Write::Stale(now) => {
                self.book.change_node(Change::Applied(now));
                return Ok(());
            }
            Write::Gone => {
                self.book.forget_node(&node.name);
                return Ok(());
            }
        }
        match self.kubernetes.create_job(&job, node, action).await? {
            Write::Done(made) => {
                self.metrics.action(action, Status::Running).inc();
                tracing::info!(node = %node.name, job, %action, "ActionStarted");
                if let Some(made) = made {
                    self.book.change_job(Change::Applied(made));
                }
            }
            Write::Stale(present) => self.book.change_job(Change::Applied(present)),
            Write::Gone => {}
        }
        Ok(())
    }

    async fn tell(&mut self, node: &NodeState, job: JobState) -> Result<(), CallError> {
        let words = match job.status {
            Status::Failed => self.kubernetes.agents_words(&job).await,
            Status::Succeeded | Status::Running => None,
        };
        let message = words.unwrap_or_else(|| job.message.clone());
        match self.kubernetes.tell(node, &job, &message).await? {
            Write::Done(now) => {
                self.metrics.action(job.action, job.status).inc();
                let (node, action, job_name) = (&node.name, job.action, &job.name);
                match job.status {
                    Status::Failed => {
                        tracing::warn!(%node, job = job_name, %action, reason = message, "ActionFailed");
                    }
                    Status::Succeeded | Status::Running => {
                        tracing::info!(%node, job = job_name, %action, "ActionSucceeded");
                    }
                }
                if let Some(now) = now {
                    self.book.change_node(Change::Applied(now));
                }
            }
            Write::Stale(now) => self.book.change_node(Change::Applied(now)),
            Write::Gone => self.book.forget_node(&node.name),
        }
        Ok(())
    }

    async fn delete(&mut self, node: &NodeName, job: &JobState) -> Result<(), CallError> {
        match self.kubernetes.delete_job(job).await? {
            Write::Done(left) => {
                if let Some(left) = left {
                    self.book.change_job(Change::Applied(left));
                }
                self.book.mark_deleting(&job.name);
            }
            Write::Stale(present) => {
                self.book.change_job(Change::Applied(present));
                return Ok(());
            }
            Write::Gone => self.book.forget_job(&job.name),
        }
        tracing::info!(%node, job = job.name, "job deleted");
        Ok(())
    }
}

/// For jitter.
fn random() -> u64 {
    RandomState::new().build_hasher().finish()
}

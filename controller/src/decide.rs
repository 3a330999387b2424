//! What to do about one node, from its label, its record and its Jobs. Pure.
//!
//! All state is in these objects: the controller may be restarted between any two steps, and
//! every step may be repeated. One step is decided at a time; what it changes is decided on again.

use model::name::NodeName;

use crate::{
    action::{Action, Record, Status},
    leftovers::Left,
};

/// A node as far as the controller cares.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeState {
    /// Its name.
    pub name: NodeName,
    /// Its unique id: a node may come back under the same name as another one.
    pub uid: String,
    /// It has the label with the right value.
    pub labelled: bool,
    /// It is being deleted.
    pub deleting: bool,
    /// What was last done to it.
    pub last: Last,
    /// What is still there of the kit without the label.
    pub left: Left,
}

/// What was last done to a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Last {
    /// Nothing that is recorded.
    Nothing,
    /// This.
    Recorded(Record),
    /// The record can't be read, and why.
    Unreadable(String),
}

/// A Job of the controller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobState {
    /// Its name in its namespace.
    pub name: String,
    /// Its unique id.
    pub uid: String,
    /// Unique id of the node that it was made for.
    pub node_uid: String,
    /// What it does.
    pub action: Action,
    /// How it stands.
    pub status: Status,
    /// When it came to stand so, RFC 3339; empty while it runs.
    pub time: String,
    /// Why it failed.
    pub message: String,
    /// It is being deleted: its pod may still run.
    pub deleting: bool,
}

impl JobState {
    /// Its pod runs, or may still run.
    pub fn is_at_work(&self) -> bool {
        self.deleting || self.status == Status::Running
    }
}

/// The next step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// Nothing to do until something changes.
    Rest,
    /// Make a Job.
    Create(Action),
    /// Tell the outcome of this ended Job: event, record.
    Tell(JobState),
    /// Delete this Job.
    Delete(JobState),
}

/// Decides. `node` is `None` once it is gone; `jobs` are those made for a node of its name.
pub fn decide(node: Option<&NodeState>, jobs: &[JobState]) -> Decision {
    let Some(node) = node.filter(|node| !node.deleting) else {
        return delete_first(jobs, |_| true);
    };
    // A Job for an earlier node of this name says nothing about this one.
    if let Decision::Delete(job) = delete_first(jobs, |job| job.node_uid != node.uid) {
        return Decision::Delete(job);
    }
    let mut ended: Vec<&JobState> = jobs
        .iter()
        .filter(|job| !job.deleting && job.status != Status::Running)
        .collect();
    ended.sort_by_key(|job| (&job.time, &job.name));
    // There is one record: only the Job that ended last is told.
    if let [older, _, ..] = ended.as_slice() {
        return Decision::Delete((*older).clone());
    }
    if let [job] = ended.as_slice() {
        if !is_told(node, job) {
            return Decision::Tell((*job).clone());
        }
        if job.status == Status::Succeeded {
            return Decision::Delete((*job).clone());
        }
    }
    // Never two at work on one node: the one that runs, or that is being taken down, first ends.
    if jobs.iter().any(JobState::is_at_work) {
        return Decision::Rest;
    }
    let Some(wanted) = wanted(node) else {
        return Decision::Rest;
    };
    // What remains has failed. It stays for people to look at, and nothing is tried again by
    // itself; a changed label starts the other action, and makes room for it first.
    if jobs
        .iter()
        .any(|job| job.action == wanted && is_last(node, job))
    {
        return Decision::Rest;
    }
    match delete_first(jobs, |_| true) {
        Decision::Delete(job) => Decision::Delete(job),
        _ => Decision::Create(wanted),
    }
}

fn delete_first(jobs: &[JobState], which: impl Fn(&JobState) -> bool) -> Decision {
    jobs.iter()
        .find(|job| !job.deleting && which(job))
        .map_or(Decision::Rest, |job| Decision::Delete(job.clone()))
}

/// What the node needs done, if anything.
fn wanted(node: &NodeState) -> Option<Action> {
    let (wanted, done) = match &node.last {
        Last::Recorded(last) if node.labelled => (
            Action::Enable,
            // The node may be another one than when this was written.
            is_done(last, Action::Enable) && last.node_uid == node.uid,
        ),
        Last::Recorded(last) => (Action::Disable, is_done(last, Action::Disable)),
        Last::Nothing | Last::Unreadable(_) if node.labelled => (Action::Enable, false),
        // Never switched by us, or nobody can tell: hands off.
        Last::Nothing | Last::Unreadable(_) => return None,
    };
    (!done).then_some(wanted)
}

fn is_done(last: &Record, action: Action) -> bool {
    last.action == action && last.status == Status::Succeeded
}

/// The record is of this Job.
fn is_last(node: &NodeState, job: &JobState) -> bool {
    matches!(&node.last, Last::Recorded(last) if last.job_uid == job.uid)
}

/// The record has this Job's outcome already.
fn is_told(node: &NodeState, job: &JobState) -> bool {
    is_last(node, job) && matches!(&node.last, Last::Recorded(last) if last.status == job.status)
}

#[cfg(test)]
#[path = "decide_tests.rs"]
mod tests;

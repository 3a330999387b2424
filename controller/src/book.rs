//! What is known of nodes and Jobs, kept up by plain calls, and the nodes to look at again. Pure.

use std::collections::{BTreeMap, BTreeSet};

use model::name::NodeName;

use crate::decide::{JobState, NodeState};

/// A node as it was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeSeen {
    /// What it is.
    pub state: NodeState,
    /// Its resource version.
    pub version: String,
}

/// A Job as it was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobSeen {
    /// The node that it was made for.
    pub node: NodeName,
    /// What it is.
    pub state: JobState,
    /// Its resource version.
    pub version: String,
}

/// A change as the API server tells it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change<T> {
    /// The full list begins.
    Begin,
    /// One of the full list.
    Listed(T),
    /// The full list has ended: what was not in it is gone.
    End,
    /// New or changed.
    Applied(T),
    /// Gone.
    Deleted(T),
}

/// Nodes and Jobs, by node.
#[derive(Debug, Default)]
pub struct Book {
    nodes: BTreeMap<NodeName, NodeSeen>,
    jobs: BTreeMap<NodeName, BTreeMap<String, JobSeen>>,
    /// Under which node each Job stands in `jobs`.
    homes: BTreeMap<String, NodeName>,
    /// Of the full lists that are being read.
    listed_nodes: BTreeSet<NodeName>,
    listed_jobs: BTreeSet<String>,
    nodes_synced: bool,
    jobs_synced: bool,
    dirty: BTreeSet<NodeName>,
}

impl Book {
    /// Both lists have been read in full once.
    pub fn is_synced(&self) -> bool {
        self.nodes_synced && self.jobs_synced
    }

    /// The node of that name.
    pub fn node(&self, name: &NodeName) -> Option<&NodeSeen> {
        self.nodes.get(name)
    }

    /// The Jobs made for nodes of that name.
    pub fn jobs(&self, name: &NodeName) -> Vec<JobState> {
        let jobs = self.jobs.get(name);
        jobs.into_iter()
            .flat_map(BTreeMap::values)
            .map(|job| job.state.clone())
            .collect()
    }

    /// How many Jobs there are in all.
    pub fn job_count(&self) -> usize {
        self.homes.len()
    }

    /// Nodes that changed since the last call.
    pub fn take_dirty(&mut self) -> BTreeSet<NodeName> {
        std::mem::take(&mut self.dirty)
    }

    /// Takes in a change of a node.
    pub fn change_node(&mut self, change: Change<NodeSeen>) {
        match change {
            Change::Begin => self.listed_nodes.clear(),
            Change::Listed(node) => {
                self.listed_nodes.insert(node.state.name.clone());
                self.put_node(node);
            }
            Change::End => {
                let listed = std::mem::take(&mut self.listed_nodes);
                let gone = |name: &&NodeName| !listed.contains(*name);
                let gone: Vec<_> = self.nodes.keys().filter(gone).cloned().collect();
                for name in gone {
                    self.nodes.remove(&name);
                    self.dirty.insert(name);
                }
                // Jobs of nodes that went while nobody looked.
                self.dirty.extend(
                    self.jobs
                        .keys()
                        .filter(|name| !self.nodes.contains_key(*name))
                        .cloned(),
                );
                self.nodes_synced = true;
            }
            Change::Applied(node) => {
                let old = self.nodes.get(&node.state.name);
                if old.is_none_or(|old| !is_older(&node.version, &old.version)) {
                    self.put_node(node);
                }
            }
            Change::Deleted(node) => {
                let name = node.state.name;
                let same = |old: &NodeSeen| old.state.uid == node.state.uid;
                if self.nodes.get(&name).is_some_and(same) {
                    self.nodes.remove(&name);
                    self.dirty.insert(name);
                }
            }
        }
    }

    /// Takes in a change of a Job.
    pub fn change_job(&mut self, change: Change<JobSeen>) {
        match change {
            Change::Begin => self.listed_jobs.clear(),
            Change::Listed(job) => {
                self.listed_jobs.insert(job.state.name.clone());
                self.put_job(job);
            }
            Change::End => {
                let listed = std::mem::take(&mut self.listed_jobs);
                let gone = |name: &&String| !listed.contains(*name);
                let gone: Vec<_> = self.homes.keys().filter(gone).cloned().collect();
                for name in gone {
                    self.forget_job(&name);
                }
                self.jobs_synced = true;
            }
            Change::Applied(job) => {
                let old = self.job(&job.state.name);
                if old.is_none_or(|old| !is_older(&job.version, &old.version)) {
                    self.put_job(job);
                }
            }
            Change::Deleted(job) => {
                let old = self.job(&job.state.name);
                if old.is_some_and(|old| old.state.uid == job.state.uid) {
                    self.forget_job(&job.state.name);
                }
            }
        }
    }

    /// The API server says that there is no such node (any more).
    pub fn forget_node(&mut self, name: &NodeName) {
        if self.nodes.remove(name).is_some() {
            self.dirty.insert(name.clone());
        }
    }

    /// There is no such Job of ours (any more).
    pub fn forget_job(&mut self, name: &str) {
        let Some(node) = self.homes.remove(name) else {
            return;
        };
        if let Some(jobs) = self.jobs.get_mut(&node) {
            jobs.remove(name);
            if jobs.is_empty() {
                self.jobs.remove(&node);
            }
        }
        self.dirty.insert(node);
    }

    /// The Job's deletion has begun.
    pub fn mark_deleting(&mut self, name: &str) {
        let home = self.homes.get(name);
        let jobs = home.and_then(|node| self.jobs.get_mut(node));
        if let Some(job) = jobs.and_then(|jobs| jobs.get_mut(name)) {
            job.state.deleting = true;
        }
    }

    fn job(&self, name: &str) -> Option<&JobSeen> {
        self.jobs.get(self.homes.get(name)?)?.get(name)
    }

    fn put_node(&mut self, node: NodeSeen) {
        let name = node.state.name.clone();
        let old = self.nodes.insert(name.clone(), node);
        let new = self.nodes.get(&name).map(|node| &node.state);
        if old.as_ref().map(|old| &old.state) != new {
            self.dirty.insert(name);
        }
    }

    fn put_job(&mut self, job: JobSeen) {
        let node = job.node.clone();
        let state = job.state.clone();
        if self
            .homes
            .get(&state.name)
            .is_some_and(|home| *home != node)
        {
            self.forget_job(&state.name);
        }
        self.homes.insert(state.name.clone(), node.clone());
        let jobs = self.jobs.entry(node.clone()).or_default();
        let old = jobs.insert(state.name.clone(), job);
        if old.is_none_or(|old| old.state != state) {
            self.dirty.insert(node);
        }
    }
}

/// Resource versions are numbers that grow on every API server in use; where one is not, nothing
/// is known, and what comes later counts.
fn is_older(new: &str, old: &str) -> bool {
    match (new.parse::<u64>(), old.parse::<u64>()) {
        (Ok(new), Ok(old)) => new < old,
        _ => false,
    }
}

#[cfg(test)]
#[path = "book_tests.rs"]
mod tests;

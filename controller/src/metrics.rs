//! The controller's own metrics.

use prometheus::{IntCounter, IntCounterVec, IntGauge, Opts, Registry};

use crate::action::{Action, Status};

/// Cheap to clone.
#[derive(Debug, Clone)]
pub struct Metrics {
    actions: IntCounterVec,
    /// Jobs that are there, ended or not.
    pub jobs: IntGauge,
    /// Steps that the API server or the connection to it failed.
    pub errors: IntCounter,
    /// What the kit had left on nodes without the label and was removed, by what it was.
    pub leftovers: IntCounterVec,
    /// Objects that could not be read.
    pub malformed: IntCounterVec,
}

impl Metrics {
    /// Registered.
    pub fn new(registry: &Registry) -> prometheus::Result<Self> {
        let metrics = Self {
            actions: IntCounterVec::new(
                Opts::new(
                    "lj_runtimekit_controller_actions_total",
                    "Actions on nodes that have begun (Running) and ended, by outcome.",
                ),
                &["action", "status"],
            )?,
            jobs: IntGauge::new(
                "lj_runtimekit_controller_jobs",
                "Jobs of the controller that are there; failed ones stay until the label changes.",
            )?,
            errors: IntCounter::new(
                "lj_runtimekit_controller_reconcile_errors_total",
                "Steps that failed and are tried again.",
            )?,
            leftovers: IntCounterVec::new(
                Opts::new(
                    "lj_runtimekit_controller_leftovers_removed_total",
                    "Writes that removed from a node without the label what the kit had left there.",
                ),
                &["what"],
            )?,
            malformed: IntCounterVec::new(
                Opts::new(
                    "lj_runtimekit_controller_malformed_objects_total",
                    "Objects, or annotations on them, that could not be read.",
                ),
                &["kind"],
            )?,
        };
        for action in Action::ALL {
            for status in [Status::Running, Status::Succeeded, Status::Failed] {
                metrics.action(action, status);
            }
        }
        for what in ["inventory", "names", "owned-resources"] {
            metrics.leftovers.with_label_values(&[what]);
        }
        for kind in ["node", "job", "owned-resources"] {
            metrics.malformed.with_label_values(&[kind]);
        }
        registry.register(Box::new(metrics.actions.clone()))?;
        registry.register(Box::new(metrics.jobs.clone()))?;
        registry.register(Box::new(metrics.errors.clone()))?;
        registry.register(Box::new(metrics.leftovers.clone()))?;
        registry.register(Box::new(metrics.malformed.clone()))?;
        Ok(metrics)
    }

    /// The counter of an action that came to stand so.
    pub fn action(&self, action: Action, status: Status) -> IntCounter {
        self.actions
            .with_label_values(&[action.word(), status.word()])
    }
}

//! The plugin's own metrics.

use prometheus::{IntCounter, IntCounterVec, IntGauge, Opts, Registry};

/// All of them. Cheap to clone; clones count together.
#[derive(Debug, Clone)]
pub struct Metrics {
    /// Allocate calls by outcome: `granted`, `repeated`, or the reason of the refusal.
    pub allocations: IntCounterVec,
    /// GetPreferredAllocation calls by outcome: `answered`, or the reason of the refusal.
    pub preferences: IntCounterVec,
    /// Calls whose consumer was not known at the first look, by reason.
    pub identity_failures: IntCounterVec,
    /// Whether the Runtime is connected.
    pub runtime_up: IntGauge,
    /// Register calls by outcome.
    pub registrations: IntCounterVec,
    /// Resources that are offered and registered.
    pub registered: IntGauge,
    /// Resources whose device list kubelet would not take.
    pub not_offered: IntGauge,
    /// Objects that could not be read, by kind.
    pub malformed: IntCounterVec,
    /// Pods that hold cards.
    pub held_pods: IntGauge,
    /// Allocations released at the Runtime.
    pub releases: IntCounter,
    /// What running pods hold beyond a card's size.
    pub overcommitted: IntCounter,
    /// Writes to the API server by object and outcome.
    pub writes: IntCounterVec,
}

impl Metrics {
    /// Makes and registers them.
    pub fn new(registry: &Registry) -> Result<Self, prometheus::Error> {
        let counters = |name: &str, help: &str, label: &[&str]| {
            let metric = IntCounterVec::new(
                Opts::new(format!("lj_runtimekit_device_plugin_{name}"), help),
                label,
            )?;
            registry.register(Box::new(metric.clone()))?;
            Ok::<_, prometheus::Error>(metric)
        };
        let gauge = |name: &str, help: &str| {
            let metric = IntGauge::new(format!("lj_runtimekit_device_plugin_{name}"), help)?;
            registry.register(Box::new(metric.clone()))?;
            Ok::<_, prometheus::Error>(metric)
        };
        let counter = |name: &str, help: &str| {
            let metric = IntCounter::new(format!("lj_runtimekit_device_plugin_{name}"), help)?;
            registry.register(Box::new(metric.clone()))?;
            Ok::<_, prometheus::Error>(metric)
        };
        Ok(Self {
            allocations: counters(
                "allocations_total",
                "Allocate calls by outcome.",
                &["outcome"],
            )?,
            preferences: counters(
                "preferred_allocations_total",
                "GetPreferredAllocation calls by outcome.",
                &["outcome"],
            )?,
            identity_failures: counters(
                "identity_failures_total",
                "Looks that did not tell whose devices kubelet asked for, by reason.",
                &["reason"],
            )?,
            runtime_up: gauge("runtime_up", "Whether the Runtime is connected.")?,
            registrations: counters(
                "registrations_total",
                "Register calls to kubelet by outcome.",
                &["outcome"],
            )?,
            registered: gauge("registered_resources", "Resources registered with kubelet.")?,
            not_offered: gauge(
                "oversized_resources",
                "Resources not offered because kubelet would not take their device list.",
            )?,
            malformed: counters(
                "malformed_objects_total",
                "Objects that could not be read, by kind.",
                &["kind"],
            )?,
            held_pods: gauge("held_pods", "Pods that hold cards.")?,
            releases: counter("releases_total", "Allocations released at the Runtime.")?,
            overcommitted: counter(
                "overcommitted_total",
                "Times that running pods were found to hold more than a card has.",
            )?,
            writes: counters(
                "api_writes_total",
                "Writes to the API server by object and outcome.",
                &["object", "outcome"],
            )?,
        })
    }
}

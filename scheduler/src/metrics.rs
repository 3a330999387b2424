//! The scheduler's own metrics.

use kit::Failure;
use prometheus::{
    HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGauge, Opts, Registry,
};

use crate::filter::Tally;

/// Everything that is counted.
#[derive(Debug, Clone)]
pub(crate) struct Metrics {
    /// Seconds of each call, by verb.
    pub(crate) seconds: HistogramVec,
    /// Calls that wait for room for their body, or for their turn.
    pub(crate) queued: IntGauge,
    /// Calls by verb and outcome.
    pub(crate) calls: IntCounterVec,
    /// Candidates of filter calls, kept or rejected.
    pub(crate) candidates: IntCounterVec,
    /// Objects that can't be read, by kind.
    pub(crate) malformed: IntCounterVec,
    /// Unix time of the last event of each watch.
    pub(crate) last_event: prometheus::IntGaugeVec,
    /// Nodes in the index.
    pub(crate) nodes: IntGauge,
    /// Pods in the index.
    pub(crate) pods: IntGauge,
    /// Binds that the watch has not confirmed.
    pub(crate) assumed: IntGauge,
    /// Calls that were passed on to the leader, by what came of them.
    pub(crate) forwarded: IntCounterVec,
}

impl Metrics {
    /// Registers all of them.
    pub(crate) fn new(registry: &Registry) -> Result<Self, Failure> {
        let buckets = vec![
            0.000_1, 0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 1.0,
            5.0,
        ];
        let seconds = HistogramOpts::new(
            name("call_seconds"),
            "Time from a call's body to its answer",
        )
        .buckets(buckets);
        let counter = |what: &str, help: &str, labels: &[&str]| {
            IntCounterVec::new(Opts::new(name(what), help), labels).map_err(Failure::fatal)
        };
        let gauge =
            |what: &str, help: &str| IntGauge::new(name(what), help).map_err(Failure::fatal);
        let metrics = Self {
            seconds: HistogramVec::new(seconds, &["verb"]).map_err(Failure::fatal)?,
            queued: gauge(
                "queued_calls",
                "Calls that wait for room for their body, or for their turn",
            )?,
            calls: counter(
                "calls_total",
                "Calls of kube-scheduler, by what came of them",
                &["verb", "outcome"],
            )?,
            candidates: counter(
                "candidates_total",
                "Candidate nodes of filter calls",
                &["verdict"],
            )?,
            malformed: counter(
                "malformed_total",
                "Objects and bodies that can't be read",
                &["kind"],
            )?,
            last_event: prometheus::IntGaugeVec::new(
                Opts::new(
                    name("last_event_timestamp_seconds"),
                    "When a watch last said something",
                ),
                &["watch"],
            )
            .map_err(Failure::fatal)?,
            nodes: gauge("nodes", "Nodes known")?,
            pods: gauge("pods", "Pods known that ask for cards or hold some")?,
            assumed: gauge(
                "assumed_binds",
                "Binds that the watch has not confirmed yet",
            )?,
            forwarded: counter(
                "forwarded_calls_total",
                "Calls that were passed on to the leading replica",
                &["outcome"],
            )?,
        };
        register(
            registry,
            [
                Box::new(metrics.seconds.clone()),
                Box::new(metrics.queued.clone()),
                Box::new(metrics.calls.clone()),
                Box::new(metrics.candidates.clone()),
                Box::new(metrics.malformed.clone()),
                Box::new(metrics.last_event.clone()),
                Box::new(metrics.nodes.clone()),
                Box::new(metrics.pods.clone()),
                Box::new(metrics.assumed.clone()),
                Box::new(metrics.forwarded.clone()),
            ],
        )?;
        Ok(metrics)
    }

    /// Waits for it, as one of the calls that are queued; one that is given up is so no more.
    pub(crate) async fn queue<T>(&self, place: impl Future<Output = T>) -> T {
        struct Queued<'g>(&'g IntGauge);
        impl Drop for Queued<'_> {
            fn drop(&mut self) {
                self.0.dec();
            }
        }
        self.queued.inc();
        let _queued = Queued(&self.queued);
        place.await
    }

    /// Counts the candidates of one filter call.
    pub(crate) fn tally(&self, tally: Tally) {
        for (verdict, nodes) in [("kept", tally.kept), ("rejected", tally.rejected)] {
            let nodes = u64::try_from(nodes).unwrap_or(u64::MAX);
            self.candidates.with_label_values(&[verdict]).inc_by(nodes);
        }
    }
}

/// What is counted where the server's certificate is looked after.
#[derive(Debug, Clone)]
pub(crate) struct CertificateMetrics {
    /// Unix time of the served certificate's end.
    pub(crate) expiry: IntGauge,
    /// What went wrong, by kind.
    pub(crate) failures: IntCounterVec,
}

impl CertificateMetrics {
    /// Registers them.
    pub(crate) fn new(registry: &Registry) -> Result<Self, Failure> {
        let metrics = Self {
            expiry: IntGauge::new(
                name("certificate_expiry_timestamp_seconds"),
                "When the served certificate ends",
            )
            .map_err(Failure::fatal)?,
            failures: IntCounterVec::new(
                Opts::new(
                    name("certificate_failures_total"),
                    "Looks at the certificate's Secret that found or met something wrong",
                ),
                &["kind"],
            )
            .map_err(Failure::fatal)?,
        };
        register(
            registry,
            [
                Box::new(metrics.expiry.clone()),
                Box::new(metrics.failures.clone()),
            ],
        )?;
        Ok(metrics)
    }
}

/// What is counted where the lease is looked after.
#[derive(Debug, Clone)]
pub(crate) struct LeaseMetrics {
    /// 1 where this replica decides.
    pub(crate) leader: IntGauge,
    /// How often it began or ceased to.
    pub(crate) transitions: IntCounter,
    /// Calls of the API server that failed, by what they were to do.
    pub(crate) failures: IntCounterVec,
}

impl LeaseMetrics {
    /// Registers them.
    pub(crate) fn new(registry: &Registry) -> Result<Self, Failure> {
        let metrics = Self {
            leader: IntGauge::new(name("leader"), "1 where this replica decides, 0 elsewhere")
                .map_err(Failure::fatal)?,
            transitions: IntCounter::new(
                name("lease_transitions_total"),
                "How often this replica began or ceased to lead",
            )
            .map_err(Failure::fatal)?,
            failures: IntCounterVec::new(
                Opts::new(
                    name("lease_failures_total"),
                    "Calls for the lease that the API server did not answer well",
                ),
                &["call"],
            )
            .map_err(Failure::fatal)?,
        };
        register(
            registry,
            [
                Box::new(metrics.leader.clone()),
                Box::new(metrics.transitions.clone()),
                Box::new(metrics.failures.clone()),
            ],
        )?;
        Ok(metrics)
    }
}

fn register<const N: usize>(
    registry: &Registry,
    all: [Box<dyn prometheus::core::Collector>; N],
) -> Result<(), Failure> {
    for one in all {
        registry.register(one).map_err(Failure::fatal)?;
    }
    Ok(())
}

fn name(what: &str) -> String {
    format!("lj_runtimekit_scheduler_{what}")
}

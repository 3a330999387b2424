//! The exporter's metrics about itself, on the admin server. What is about the node is in
//! [`crate::own`].

use prometheus::{IntCounter, Registry};

/// Counters of the serving side.
#[derive(Debug, Clone)]
pub struct OwnMetrics {
    /// Scrapes answered.
    pub scrapes: IntCounter,
    /// Texts rendered for them.
    pub renderings: IntCounter,
}

impl OwnMetrics {
    /// Makes and registers them.
    pub fn new(registry: &Registry) -> Result<Self, prometheus::Error> {
        let counter = |name: &str, help: &str| {
            let counter = IntCounter::new(name, help)?;
            registry.register(Box::new(counter.clone()))?;
            Ok::<_, prometheus::Error>(counter)
        };
        Ok(Self {
            scrapes: counter(
                "lj_runtimekit_exporter_scrapes_total",
                "Scrapes of the card metrics that were answered.",
            )?,
            renderings: counter(
                "lj_runtimekit_exporter_renderings_total",
                "Texts rendered for them; one serves all scrapes until something changes.",
            )?,
        })
    }
}

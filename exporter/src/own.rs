//! The metrics that the exporter makes itself; the others come from the Runtime.

use crate::exposition::Kind;

/// Name, help and type of a family.
#[derive(Debug, Clone, Copy)]
pub struct Own {
    /// Prometheus name.
    pub name: &'static str,
    /// One line.
    pub help: &'static str,
    /// Gauge or counter.
    pub kind: Kind,
}

macro_rules! own {
    ($($id:ident $kind:ident $name:literal $help:literal;)*) => {
        $(
            #[doc = $help]
            pub const $id: Own = Own { name: $name, help: $help, kind: Kind::$kind };
        )*

        /// All of them.
        pub const ALL: &[Own] = &[$($id),*];
    };
}

own! {
    BUILD_INFO Gauge "accel_exporter_build_info"
        "1, with the exporter's version.";
    RUNTIME_UP Gauge "accel_exporter_runtime_up"
        "Whether the node's Runtime tells its cards and their metrics.";
    KUBELET_UP Gauge "accel_exporter_kubelet_up"
        "Whether kubelet's PodResources answers; else the Runtime says which containers have cards.";
    POD_LIST_UP Gauge "accel_exporter_pod_list_up"
        "Whether the node's pods are known, by which ended pods are told from running ones.";
    LAST_COLLECTION Gauge "accel_exporter_last_collection_timestamp_seconds"
        "Unix time of the Runtime's collection that the values are from.";
    COLLECTIONS Counter "accel_exporter_collections_total"
        "Collections taken from the Runtime, however many scrapes they served.";
    MALFORMED Counter "accel_exporter_malformed_total"
        "Parts of answers that could not be used, by where they came from.";
    SERIES_DROPPED Gauge "accel_exporter_series_dropped"
        "Series left out of this answer because there are more than one answer may have.";
    CARD_INFO Gauge "accel_card_info"
        "1 for each card of the node, with what does not change.";
    CARD_HEALTHY Gauge "accel_card_healthy"
        "Whether the card can be given out.";
    CARD_MEMORY Gauge "accel_card_memory_total_bytes"
        "Memory of the card.";
    CARD_CORE_ALLOCATED Gauge "accel_card_core_allocated_ratio"
        "Part of the card's compute that is given to containers, 1 being all.";
    CARD_MEMORY_ALLOCATED Gauge "accel_card_memory_allocated_bytes"
        "Memory of the card that is given to containers.";
    CONTAINER_CORE_LIMIT Gauge "accel_container_core_limit_ratio"
        "Part of the card's compute that the container was given, 1 being all.";
    CONTAINER_MEMORY_LIMIT Gauge "accel_container_memory_limit_bytes"
        "Memory of the card that the container was given.";
}

/// Whether the Runtime must not use that name.
pub fn is_taken(name: &str) -> bool {
    ALL.iter().any(|own| own.name == name)
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_readme_names_every_metric() {
        let readme = include_str!("../README.md");
        for own in super::ALL {
            assert!(readme.contains(&format!("`{}`", own.name)), "{}", own.name);
        }
    }
}

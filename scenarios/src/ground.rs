//! Where scenarios run.

use std::future::Future;

use testbed::{books::Books, cluster::Cluster, stage::Signal};

/// The default resource names.
pub mod names {
    /// Whole card.
    pub const GPU: &str = "aliyun.com/gpu";
    /// Whole PPU card.
    pub const PPU: &str = "alibabacloud.com/ppu";
    /// Percent of a card.
    pub const CORE: &str = "aliyun.com/gpu-core";
    /// GiB of a card.
    pub const MEMORY: &str = "aliyun.com/gpu-memory";
    /// Slices of a partition.
    pub const SLICE: &str = "aliyun.com/gpu-slice";
}

/// What a node of 8 PPU cards of 144 GiB offers.
pub const WHOLE_NODE: [(&str, u64); 4] = [
    (names::PPU, 8),
    (names::GPU, 8),
    (names::CORE, 800),
    (names::MEMORY, 1152),
];

/// A part that a scenario may end and start again. On the first node, where there are several.
/// Where something starts it again by itself, it is back sooner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Victim {
    /// The API server, with its store.
    ApiServer,
    /// etcd, under a real API server.
    Etcd,
    /// kubelet; its pods go on.
    Kubelet,
    /// containerd; its pods go on.
    Containerd,
    /// The Runtime.
    Runtime,
    /// The device plugin.
    DevicePlugin,
    /// The exporter.
    Exporter,
    /// The scheduler extender; of several the one that leads.
    Extender,
    /// The kube-scheduler that calls it.
    KubeScheduler,
    /// The controller.
    Controller,
}

impl Victim {
    /// Every part. The stand-ins lack etcd and containerd.
    pub const ALL: [Self; 10] = [
        Self::DevicePlugin,
        Self::Kubelet,
        Self::Containerd,
        Self::Runtime,
        Self::Extender,
        Self::KubeScheduler,
        Self::Controller,
        Self::Exporter,
        Self::ApiServer,
        Self::Etcd,
    ];
    /// The kit's programs, and the kube-scheduler that is deployed with them.
    pub const PROGRAMS: [Self; 5] = [
        Self::DevicePlugin,
        Self::Extender,
        Self::KubeScheduler,
        Self::Controller,
        Self::Exporter,
    ];
}

/// A cluster with the kit on it. Node 0 has 8 PPU cards of 144 GiB unless a scenario says otherwise.
pub trait Ground {
    /// What a user can do.
    fn cluster(&self) -> &Cluster;
    /// The name of a node.
    fn node(&self, number: usize) -> String;
    /// What `:9501/metrics` of the first node says.
    fn metrics(&self) -> impl Future<Output = anyhow::Result<String>>;
    /// Waits until all books of the first node agree, and answers them.
    fn books(&self) -> impl Future<Output = anyhow::Result<Books>>;
    /// All books of a node as they are now.
    fn books_now(&self, number: usize) -> impl Future<Output = anyhow::Result<Books>>;
    /// How many nodes there are.
    fn node_count(&self) -> usize;
    /// Waits until nobody holds anything on the first node.
    fn books_are_empty(&self) -> impl Future<Output = anyhow::Result<()>>;
    /// POSTs a JSON body to the extender and answers its JSON.
    fn extender(
        &self,
        verb: &str,
        body: &serde_json::Value,
    ) -> impl Future<Output = anyhow::Result<serde_json::Value>>;
    /// Makes something happen to the Runtime of a node, such as `refuse-allocate?times=1`.
    fn runtime_fault(&self, number: usize, fault: &str)
    -> impl Future<Output = anyhow::Result<()>>;
    /// Makes the first node's Runtime refuse the next allocations.
    fn refuse_allocations(&self, times: u32) -> impl Future<Output = anyhow::Result<()>> {
        async move {
            let fault = format!("refuse-allocate?times={times}");
            self.runtime_fault(0, &fault).await
        }
    }
    /// Ends a part.
    fn stop(&self, victim: Victim, signal: Signal) -> impl Future<Output = anyhow::Result<()>>;
    /// Starts a part that was ended.
    fn start(&self, victim: Victim) -> impl Future<Output = anyhow::Result<()>>;
}

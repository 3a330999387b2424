//! What the programs see of Kubernetes: trimmed pods and nodes, kubelet's three gRPC contracts,
//! and how to reach the API server.
//!
//! [`device_plugin`], [`plugin_registration`] and [`pod_resources_wire`] are generated from
//! `proto/` by `cargo run -p proto-gen`. Only [`convert`] names both these, or the objects of [`object`],
//! and `model` types.

pub mod api;
pub mod convert;
pub mod kubelet_args;
pub mod node_pods;
pub mod object;
pub mod pod_resources;

/// Kubelet's device plugin API `v1beta1`.
#[allow(missing_docs, unreachable_pub, clippy::all, clippy::pedantic)]
pub mod device_plugin {
    include!("generated/v1beta1.rs");
}

/// Kubelet's plugin registration API `v1`.
#[allow(missing_docs, unreachable_pub, clippy::all, clippy::pedantic)]
pub mod plugin_registration {
    include!("generated/pluginregistration.rs");
}

/// Kubelet's PodResources API `v1`.
#[allow(missing_docs, unreachable_pub, clippy::all, clippy::pedantic)]
pub mod pod_resources_wire {
    include!("generated/v1.rs");
}

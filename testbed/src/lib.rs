//! Stand-ins for the parts of Kubernetes around the kit, the stage that runs everything, and
//! the demo.

pub mod api_server;
pub mod books;
pub mod cluster;
pub mod command;
pub mod demo;
pub mod job_controller;
pub mod kubelet;
pub mod quantity;
pub mod scheduler;
pub mod stage;
pub mod workload;

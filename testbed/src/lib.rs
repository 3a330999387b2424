//! Stand-ins for the parts of Kubernetes around the kit, the stage that runs everything, and
//! the demo.

pub mod books;
pub mod cluster;
pub mod demo;
pub mod stage;
pub mod workload;

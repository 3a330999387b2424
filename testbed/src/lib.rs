//! testbed

pub mod stage;

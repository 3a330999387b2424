//! runtime-sim

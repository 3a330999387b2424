//! runtime-sim
fn main() {}

//! The gRPC contract with the node-local Runtime, and the one client that all programs use.
//!
//! [`wire`] is generated from `proto/` by `cargo run -p proto-gen`. [`Client`] speaks it and
//! answers in `model` types; only `convert` knows both.

pub mod client;
mod convert;

/// The messages and services of `runtimekit.runtime.v1`.
#[allow(missing_docs, unreachable_pub, clippy::all, clippy::pedantic)]
pub mod wire {
    include!("generated/runtimekit.runtime.v1.rs");
}

pub use client::{Client, Error, Sockets};

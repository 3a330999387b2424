//! The domain of the kit, pure: cards, requests, plans, the ledger and what is written about them.
//!
//! Nothing here does I/O, reads a clock or the environment: time and randomness come in as
//! values. Nothing here knows a wire format either: modules called `convert` in other crates
//! turn gRPC messages and Kubernetes objects into these types.
//!
//! The words: a **card** is one accelerator of a **node**. A pod's container is a **consumer**.
//! It asks for whole cards, a **share** (part of one card by time division) or **partitions**
//! (fixed cuts of a card). A **plan** says which card serves which container before it runs; a
//! **grant** is what one container has on one card. The **ledger** is the book of one node:
//! what each pod holds on each card.

pub mod annotation;
pub mod backoff;
pub mod card;
pub mod device_id;
pub mod hold;
pub mod ledger;
pub mod name;
pub mod phase;
pub mod placement;
pub mod plan;
pub mod quantity;
pub mod request;
pub mod settings;
mod tally;

#[cfg(test)]
mod properties;

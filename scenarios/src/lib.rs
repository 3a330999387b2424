//! End-to-end scenarios: what a user does to a cluster and what must come of it.
//!
//! A scenario is written against [`Ground`] and knows only what a user or a peer can see: the
//! Kubernetes API, kubelet's and the Runtime's sockets, HTTP. `tests/` runs them on the
//! stand-ins of `testbed` ([`StandIns`]) and on a real cluster ([`Lab`]).

#![allow(
    clippy::indexing_slicing,
    reason = "scenarios are tests: what is missing fails them"
)]

mod batch;
mod ground;
pub mod lab;
mod partitions;
mod replicas;
mod restarts;
mod shares;
mod stand_ins;
mod storm;
mod switching;
mod watching;

pub use batch::batch_of_six_with_a_refusal;
pub use ground::{Ground, Victim, WHOLE_NODE, names};
pub use lab::Lab;
pub use partitions::{case_5_names_come_and_go_with_the_cards, partitions};
pub use replicas::the_leading_extender_goes;
pub use restarts::{
    case_10_restarts_lose_nothing, each_part_in_turn, pods_meet_a_runtime_that_is_away, short_pods,
    short_pods_survive_restarts,
};
pub use shares::{
    case_1_two_pods_at_once, case_2_two_containers, case_7_one_of_two_wins,
    case_8_init_and_sidecar, case_9_requests_without_meaning, whole_and_shared_cards_never_meet,
};
pub use stand_ins::StandIns;
pub use storm::storm;
pub use switching::{
    a_removed_label_leaves_no_names_even_without_the_plugin, label_switches_the_node,
    removed_label_takes_everything_away,
};
pub use watching::{case_11_four_pods_on_one_card, case_13_idle_node};

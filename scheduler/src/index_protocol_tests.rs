//! Every order of what can happen, within bounds, checked for cards that are promised twice; and
//! that each rule of the protocol is needed.

use std::time::Instant;

use stateright::{Checker, HasDiscoveries, Model as _};

use super::protocol::{Bounds, Broken, NEVER_TWICE, NO_LEAK, Protocol};

/// One replica, one card, and two pods that want it.
const ALONE: Bounds = Bounds {
    cards: 1,
    pods: 2,
    replicas: 1,
    asks: 2,
    takes: 1,
    restarts: 0,
    listings: 1,
    touches: 1,
    ages: 1,
};

/// One that is killed and comes back: it takes the lease a second time.
const RESTARTED: Bounds = Bounds {
    takes: 2,
    restarts: 1,
    listings: 0,
    touches: 0,
    ..ALONE
};

/// Two replicas that take the lease from each other.
const PAIR: Bounds = Bounds {
    replicas: 2,
    takes: 2,
    restarts: 1,
    listings: 0,
    touches: 0,
    ages: 0,
    ..ALONE
};

fn check(bounds: Bounds, broken: Broken) -> impl Checker<Protocol> {
    let start = Instant::now();
    let protocol = Protocol {
        bounds,
        broken,
        start,
    };
    // Where a rule is left out, the first fault is the answer.
    let checker = protocol.checker().finish_when(HasDiscoveries::AnyFailures);
    checker.threads(2).spawn_bfs().join()
}

/// No timeout and no limit: it ends when every state has been seen.
fn holds(bounds: Bounds, at_least: usize) {
    let since = Instant::now();
    let checked = check(bounds, Broken::Nothing);
    checked.assert_properties();
    let states = checked.unique_state_count();
    eprintln!("{states} states, {:?}", since.elapsed());
    // A world in which hardly anything can happen shows nothing.
    assert!(states > at_least, "{states}");
}

#[test]
fn one_replica_promises_no_card_twice() {
    holds(ALONE, 10_000);
}

#[test]
fn a_restarted_replica_promises_no_card_twice() {
    holds(RESTARTED, 1_000);
}

#[test]
fn two_replicas_promise_no_card_twice() {
    holds(PAIR, 10_000);
}

fn is_needed(bounds: Bounds, rule: Broken, otherwise: &'static str) {
    let checked = check(bounds, rule);
    let found = checked.discovery(otherwise);
    let found = found.unwrap_or_else(|| panic!("{rule:?}: nothing goes wrong without the rule"));
    // The shortest way to it, for who wonders.
    eprintln!("{rule:?}: {:?}", found.into_actions());
}

#[test]
fn one_replica_needs_each_of_its_rules() {
    is_needed(ALONE, Broken::LostIsNo, NEVER_TWICE);
    is_needed(ALONE, Broken::ConflictIsNo, NEVER_TWICE);
    is_needed(ALONE, Broken::PastUndoes, NEVER_TWICE);
    is_needed(ALONE, Broken::OvertakenCounts, NO_LEAK);
}

#[test]
fn two_replicas_need_each_of_theirs() {
    is_needed(PAIR, Broken::NoNewListing, NEVER_TWICE);
    is_needed(PAIR, Broken::TakenTooSoon, NEVER_TWICE);
    is_needed(PAIR, Broken::ReleasedTooSoon, NEVER_TWICE);
    is_needed(PAIR, Broken::LateCall, NEVER_TWICE);
}

use model::{
    name::{ContainerName, Namespace, PodName, PodRef, PodUid},
    plan::{Grant, GrantMode},
    quantity::{CorePercent, MemoryBytes},
};
use runtime_proto::client::{Consumer, Phase};

use super::*;
use crate::{load, metrics};

const SECOND: Duration = Duration::from_secs(1);

fn state(seed: u64) -> State {
    let profile = Profile::load("ppu-8x144").unwrap();
    let inventory = profile.inventory().unwrap();
    State::new(profile, &inventory, Feature::new(true, None), SECOND, seed)
}

fn card(id: &str) -> CardId {
    CardId::new(id).unwrap()
}

fn asked() -> Allocation {
    Allocation {
        id: "uid-1/main".into(),
        consumer: Consumer {
            pod: PodRef {
                namespace: Namespace::new("default").unwrap(),
                name: PodName::new("a").unwrap(),
            },
            uid: PodUid::new("uid-1").unwrap(),
            container: ContainerName::new("main").unwrap(),
        },
        grants: vec![Grant {
            card: card("ppu-1"),
            mode: GrantMode::Share {
                core: CorePercent::new(50),
                memory: MemoryBytes::from_gib(72),
            },
        }],
    }
}

#[test]
fn the_generation_grows_with_each_change_of_the_list_and_with_nothing_else() {
    let mut state = state(1);
    let start = state.generation();
    state.allocate(&asked()).unwrap();
    state
        .fault(&Fault::Card(card("ppu-0"), CardFault::Ecc(2)))
        .unwrap();
    state.step(SECOND);
    assert_eq!(state.generation(), start);
    for (nth, fault) in [
        CardFault::Lost,
        CardFault::Back,
        CardFault::Unhealthy("hot".into()),
        CardFault::Healthy,
    ]
    .into_iter()
    .enumerate()
    {
        state.fault(&Fault::Card(card("ppu-0"), fault)).unwrap();
        assert_eq!(state.generation(), start + nth as u64 + 1);
    }
}

#[test]
fn only_what_outlasts_a_restart_changes_the_revision() {
    let mut state = state(1);
    let start = state.revision();
    state
        .fault(&Fault::Card(card("ppu-0"), CardFault::Lost))
        .unwrap();
    state.allocate(&asked()).unwrap();
    assert_eq!(state.revision(), start + 1);
    state.allocate(&asked()).unwrap();
    assert_eq!(state.revision(), start + 1);
    assert_eq!(state.disable().phase, Phase::Failed);
    assert_eq!(state.revision(), start + 2);
    state.release(vec!["uid-1/main".into(), "none".into()]);
    assert_eq!(state.revision(), start + 3);
    assert_eq!(state.disable().phase, Phase::Disabling);
    state.step(SECOND * 2);
    assert_eq!(state.revision(), start + 4);
    assert_eq!(state.cards().count(), 0);
}

#[test]
fn an_unhealthy_card_is_still_entered_since_a_container_may_run_there() {
    let mut state = state(1);
    let unhealthy = CardFault::Unhealthy("hot".into());
    state.fault(&Fault::Card(card("ppu-1"), unhealthy)).unwrap();
    assert_eq!(state.allocate(&asked()), Ok(true));
}

#[test]
fn the_same_seed_gives_the_same_values_and_another_gives_others() {
    let reading = |seed| {
        let mut state = state(seed);
        state.allocate(&asked()).unwrap();
        state.step(SECOND * 7);
        metrics::snapshot(&state, 7)
    };
    assert_eq!(reading(1), reading(1));
    assert_ne!(reading(1), reading(2));
}

#[test]
fn counters_follow_what_was_allocated_however_often_they_are_read() {
    let received = |steps: u32| {
        let mut state = state(1);
        state.allocate(&asked()).unwrap();
        for step in 1..=steps {
            state.step(SECOND * 8 * step / steps);
        }
        let card = state.cards().nth(1).unwrap();
        card.counters.received_bytes
    };
    assert!(received(1) > 0.0);
    assert!((received(1) - received(8)).abs() < 1.0);
}

#[test]
fn time_that_goes_back_takes_nothing_away() {
    let mut state = state(1);
    state.allocate(&asked()).unwrap();
    state.step(SECOND * 8);
    let before = state.cards().nth(1).unwrap().counters;
    state.step(SECOND);
    state.step(SECOND * 8);
    assert_eq!(state.cards().nth(1).unwrap().counters, before);
}

#[test]
fn a_busy_card_stays_within_what_it_can_do() {
    let mut state = state(1);
    let whole = Allocation {
        grants: vec![Grant {
            card: card("ppu-1"),
            mode: GrantMode::Whole,
        }],
        ..asked()
    };
    state.allocate(&whole).unwrap();
    for second in 0..120 {
        state.step(SECOND * second);
        let busy = state.cards().nth(1).unwrap();
        let containers = load::containers(&state, busy);
        let load = load::card(&state, busy, &containers);
        assert!((0.5..=1.0).contains(&load.utilization));
        assert!(load.memory_used > 0.0 && load.memory_used < 144.0 * 1.1e9);
        assert!((90.0..=400.0).contains(&load.power));
        assert!(load.temperature < 90.0);
    }
}

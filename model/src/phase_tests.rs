use proptest::prelude::*;

use super::*;
use crate::{
    name::ContainerName,
    plan::ContainerGrants,
    request::{Ask, ContainerRequest},
};

/// Containers by role and mode, all on one card; named by their place.
fn pod(containers: &[(Role, GrantMode)]) -> (PodRequest, Plan) {
    let card = CardId::new("ppu-0").unwrap();
    let mut request = PodRequest::default();
    let mut plan = Plan::default();
    for (at, (role, mode)) in containers.iter().enumerate() {
        let name = ContainerName::new(&format!("c{at}")).unwrap();
        request.containers.push(ContainerRequest {
            name: name.clone(),
            role: *role,
            ask: Ask::Nothing,
            amounts: Vec::new(),
        });
        plan.containers.push(ContainerGrants {
            container: name,
            grants: vec![Grant {
                card: card.clone(),
                mode: mode.clone(),
            }],
        });
    }
    (request, plan)
}

fn gib(gib: u64) -> GrantMode {
    GrantMode::Share {
        core: CorePercent::ZERO,
        memory: MemoryBytes::from_gib(gib),
    }
}

fn memory(hold: &Hold) -> u64 {
    let mut cards = hold.iter();
    cards
        .next()
        .map_or(0, |(_, hold)| hold.memory.bytes() >> 30)
}

#[test]
fn case_8_init_sidecar_app_peak_6_or_4_and_steady_4() {
    use Role::{App, Init, Sidecar};
    let (request, plan) = pod(&[(Sidecar, gib(2)), (Init, gib(4)), (App, gib(2))]);
    assert_eq!(memory(&peak(&request, &plan)), 6);
    assert_eq!(memory(&steady(&request, &plan)), 4);
    let (request, plan) = pod(&[(Init, gib(4)), (Sidecar, gib(2)), (App, gib(2))]);
    assert_eq!(memory(&peak(&request, &plan)), 4);
    assert_eq!(memory(&steady(&request, &plan)), 4);
}

#[test]
fn an_init_container_alone_is_held_to_the_end_and_not_steady() {
    let (request, plan) = pod(&[(Role::Init, GrantMode::Whole)]);
    let held = peak(&request, &plan);
    assert!(held.iter().all(|(_, hold)| *hold == CardHold::whole()) && held.len() == 1);
    assert!(steady(&request, &plan).is_empty());
}

#[test]
fn partitions_and_shares_of_nothing_are_held_too() {
    let profile = ProfileName::new("1g.18gb").unwrap();
    let cut = |count| GrantMode::Partition {
        profile: profile.clone(),
        count,
    };
    let (request, plan) = pod(&[
        (Role::Init, cut(3)),
        (Role::App, cut(1)),
        (Role::App, cut(1)),
    ]);
    let card = CardId::new("ppu-0").unwrap();
    assert_eq!(
        peak(&request, &plan).get(&card),
        Some(&CardHold::partition(profile.clone(), 3))
    );
    assert_eq!(
        steady(&request, &plan).get(&card),
        Some(&CardHold::partition(profile.clone(), 2))
    );
    let (request, plan) = pod(&[(Role::App, gib(0))]);
    assert_eq!(
        peak(&request, &plan).get(&card).map(|hold| hold.shared),
        Some(true)
    );
}

#[test]
fn what_a_plan_says_of_unknown_containers_counts_to_the_end() {
    let (mut request, plan) = pod(&[
        (Role::Init, gib(4)),
        (Role::App, gib(2)),
        (Role::App, gib(3)),
    ]);
    request.containers.pop();
    assert_eq!(memory(&steady(&request, &plan)), 5);
    request.containers.clear();
    assert_eq!(memory(&peak(&request, &plan)), 9);
}

#[test]
fn two_modes_on_one_card_are_both_held() {
    let (request, plan) = pod(&[(Role::Init, gib(1)), (Role::App, GrantMode::Whole)]);
    assert!(
        peak(&request, &plan)
            .iter()
            .all(|(_, hold)| hold.is_mixed())
    );
}

/// Kubelet's own way, with device ids: what the pod has in the end.
fn with_ids(containers: &[(Role, u64)]) -> u64 {
    let mut reusable = Vec::new();
    let mut next = 0_u64;
    for (role, amount) in containers {
        let from_reusable = reusable.len().min(usize::try_from(*amount).unwrap());
        let mut given: Vec<u64> = reusable.drain(..from_reusable).collect();
        while u64::try_from(given.len()).unwrap() < *amount {
            given.push(next);
            next += 1;
        }
        if *role == Role::Init {
            reusable.extend(given);
        }
    }
    next
}

fn some_role() -> impl Strategy<Value = Role> {
    prop::sample::select(vec![Role::Init, Role::Sidecar, Role::App])
}

proptest! {
    #[test]
    fn the_peak_is_what_kubelet_gives_out(
        containers in prop::collection::vec((some_role(), 1_u64..20), 1..8),
    ) {
        let modes: Vec<(Role, GrantMode)> =
            containers.iter().map(|(role, amount)| (*role, gib(*amount))).collect();
        let (request, plan) = pod(&modes);
        prop_assert_eq!(memory(&peak(&request, &plan)), with_ids(&containers));
    }

    #[test]
    fn the_peak_is_never_below_steady_use(
        containers in prop::collection::vec((some_role(), any::<u32>(), any::<u64>()), 0..8),
    ) {
        let share = |core, memory| GrantMode::Share {
            core: CorePercent::new(core),
            memory: MemoryBytes::new(memory),
        };
        let modes: Vec<(Role, GrantMode)> =
            containers.iter().map(|(role, core, memory)| (*role, share(*core, *memory))).collect();
        let (request, plan) = pod(&modes);
        let (peak, steady) = (peak(&request, &plan), steady(&request, &plan));
        for (card, steady) in steady.iter() {
            let peak = peak.get(card).unwrap();
            prop_assert!(peak.core >= steady.core && peak.memory >= steady.memory);
            prop_assert!(peak.shared);
        }
    }
}

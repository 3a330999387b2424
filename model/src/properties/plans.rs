//! Plans on any node.

use proptest::prelude::*;

use super::some::{self, CORE, MEMORY};
use crate::{
    card::{Card, CardKind, Inventory},
    ledger::{CardHold, CardMode, Ledger},
    name::{PodUid, ProfileName},
    phase,
    placement::{NoFit, Trial, place},
    plan::GrantMode,
    quantity::{CorePercent, MemoryBytes},
    request::{Ask, PodRequest, Role},
    settings::{Policy, Settings},
};

/// The node with as many of these pods as fit.
fn filled(inventory: Inventory, pods: &[Vec<some::Drawn>], policy: Policy) -> Ledger {
    let mut ledger = Ledger::new(inventory);
    for (n, asked) in pods.iter().enumerate() {
        let request = some::request(asked);
        let request = request.by(policy);
        if let Ok(plan) = place(&request, &ledger, &Settings::default()) {
            let pod = PodUid::new(&format!("before-{n}")).unwrap();
            ledger.hold(&pod, phase::peak(&request, &plan)).unwrap();
        }
    }
    ledger
}

fn node() -> impl Strategy<Value = Ledger> {
    (
        some::inventory(),
        prop::collection::vec(some::pod(), 0..6),
        some::policy(),
    )
        .prop_map(|(inventory, pods, policy)| filled(inventory, &pods, policy))
}

fn has_room(ledger: &Ledger, core: Option<u64>, memory: Option<u64>) -> bool {
    ledger.cards().any(|state| {
        let core = CorePercent::new(u32::try_from(core.unwrap_or(0)).unwrap());
        let unit = Settings::default().memory_unit_of(state.card.kind);
        let memory = memory.map_or_else(
            || state.card.memory.percent_of(core, unit),
            MemoryBytes::from_gib,
        );
        matches!(state.mode, CardMode::Free | CardMode::Shared)
            && state.card.shareable
            && state.card.health.is_healthy()
            && state.free_core >= core
            && state.free_memory >= memory
    })
}

/// Whether the plan says of each container what it asks.
fn serves(ledger: &Ledger, request: &PodRequest, plan: &crate::plan::Plan) {
    let asking: Vec<_> = request
        .containers
        .iter()
        .filter(|c| c.ask != Ask::Nothing)
        .collect();
    assert_eq!(asking.len(), plan.containers.len());
    for (asked, planned) in asking.into_iter().zip(&plan.containers) {
        assert_eq!(asked.name, planned.container);
        assert!(planned.grants.windows(2).all(|w| w[0].card < w[1].card));
        match &asked.ask {
            Ask::Nothing => unreachable!(),
            Ask::Whole { count, .. } => {
                assert_eq!(planned.grants.len(), usize::try_from(*count).unwrap());
                assert!(
                    planned
                        .grants
                        .iter()
                        .all(|grant| grant.mode == GrantMode::Whole)
                );
            }
            Ask::Share { core, memory } => {
                let [grant] = planned.grants.as_slice() else {
                    panic!("{planned:?}");
                };
                let GrantMode::Share {
                    core: given,
                    memory: bytes,
                } = grant.mode
                else {
                    panic!("{planned:?}");
                };
                assert_eq!(given, core.unwrap_or(CorePercent::ZERO));
                assert!(memory.is_none_or(|memory| memory == bytes));
            }
            Ask::Partition { cut, count } => {
                let [grant] = planned.grants.as_slice() else {
                    panic!("{planned:?}");
                };
                let card = ledger.inventory().get(&grant.card).unwrap();
                assert_eq!(
                    grant.mode,
                    GrantMode::Partition {
                        profile: card.profile_of(cut).unwrap().name.clone(),
                        count: *count
                    }
                );
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn a_plan_serves_the_request_and_the_ledger_takes_it(
        ledger in node(),
        asked in some::pod(),
        policy in some::policy(),
    ) {
        let settings = Settings::default();
        let request = some::request(&asked);
        let request = request.by(policy);
        let placed = place(&request, &ledger, &settings);
        let trial = Trial::new(&request, &settings);
        prop_assert_eq!(trial.score(&ledger).is_some(), placed.is_ok());
        prop_assert!(trial.score(&ledger).is_none_or(|score| score <= 10));
        prop_assert_eq!(&place(&request, &ledger, &settings), &placed);
        match placed {
            Ok(plan) => {
                serves(&ledger, &request, &plan);
                let pod = PodUid::new("new").unwrap();
                prop_assert_eq!(ledger.check(&pod, &phase::peak(&request, &plan)), Ok(()));
                prop_assert!(trial.could_fit(&ledger));
                prop_assert!(trial.fits(&ledger).is_ok());
            }
            Err(NoFit::NoSuchCard(_) | NoFit::NoSuchPartition(_) | NoFit::TooLarge(_) | NoFit::TooFew { .. } | NoFit::Unhealthy(_)) => {
                prop_assert!(!trial.could_fit(&ledger));
            }
            Err(_) => {}
        }
    }

    #[test]
    fn a_share_is_found_whenever_some_card_has_room_for_it(
        ledger in node(),
        core in prop::option::of(1_u64..=100),
        memory in prop::option::of(1_u64..50),
        policy in some::policy(),
    ) {
        let limits: Vec<_> = core.map(|core| (CORE, core)).into_iter().chain(memory.map(|gib| (MEMORY, gib))).collect();
        prop_assume!(!limits.is_empty());
        let request = some::request(&[(Role::App, limits)]);
        let settings = Settings::default();
        let request = request.by(policy);
        let placed = place(&request, &ledger, &settings);
        prop_assert_eq!(placed.is_ok(), has_room(&ledger, core, memory), "{:?}", placed);
        let fits = Trial::new(&request, &settings).fits(&ledger);
        prop_assert_eq!(fits, placed.map(|_| ()));
    }

    #[test]
    fn a_partition_is_found_whenever_some_card_has_room_for_it(
        ledger in node(),
        (name, profile) in prop::sample::select(vec![(some::PARTS[0], "1g"), (some::PARTS[1], "2g")]),
        count in 1_u32..8,
        policy in some::policy(),
    ) {
        let request = some::request(&[(Role::App, vec![(name, count.into())])]);
        let profile = ProfileName::new(profile).unwrap();
        let new = PodUid::new("new").unwrap();
        let room = ledger.inventory().cards().iter().any(|card| {
            let hold = CardHold::partition(profile.clone(), count);
            card.kind == CardKind::Ppu
                && ledger.check(&new, &[(card.id.clone(), hold)].into_iter().collect()).is_ok()
        });
        let settings = Settings::default();
        let request = request.by(policy);
        let placed = place(&request, &ledger, &settings);
        prop_assert_eq!(placed.is_ok(), room, "{:?}", placed);
        prop_assert_eq!(Trial::new(&request, &settings).fits(&ledger), placed.map(|_| ()));
    }

    #[test]
    fn whole_cards_are_found_whenever_enough_are_free(
        ledger in node(),
        count in 1_u64..6,
        policy in some::policy(),
    ) {
        let request = some::request(&[(Role::App, vec![(some::GPU, count)])]);
        let free = ledger
            .cards()
            .filter(|state| state.mode == CardMode::Free && state.card.health.is_healthy())
            .count();
        let settings = Settings::default();
        let request = request.by(policy);
        let placed = place(&request, &ledger, &settings);
        prop_assert_eq!(placed.is_ok(), u64::try_from(free).unwrap() >= count);
        prop_assert_eq!(Trial::new(&request, &settings).fits(&ledger), placed.map(|_| ()));
    }

    #[test]
    fn a_name_for_models_is_served_by_cards_of_these_only_and_whenever_enough_are_free(
        ledger in node(),
        models in prop::collection::vec(prop::sample::select(vec!["A", "B", "C"]), 6),
        count in 1_u64..4,
        policy in some::policy(),
    ) {
        let cards = ledger.inventory().cards().iter().zip(models);
        let cards = cards.map(|(card, model)| Card { model: model.into(), ..card.clone() });
        let mut named = ledger.clone();
        named.set_inventory(Inventory::new(cards.collect()).unwrap());
        let mut settings = Settings::default();
        settings.resources.retain(|r| r.name.as_str() != some::GPU);
        settings.resources.push(serde_json::from_str(
            r#"{"name":"aliyun.com/gpu","gives":"wholeCard","models":["A","C"]}"#,
        ).unwrap());
        let request = some::request(&[(Role::App, vec![(some::GPU, count)])]);
        let right = |card: &Card| card.model != "B";
        let free = named
            .cards()
            .filter(|state| state.mode == CardMode::Free && state.card.health.is_healthy() && right(state.card))
            .count();
        let request = request.by(policy);
        let placed = place(&request, &named, &settings);
        prop_assert_eq!(placed.is_ok(), u64::try_from(free).unwrap() >= count);
        prop_assert_eq!(Trial::new(&request, &settings).fits(&named), placed.as_ref().map(|_| ()).map_err(Clone::clone));
        for grant in placed.iter().flat_map(|plan| &plan.containers).flat_map(|c| &c.grants) {
            prop_assert!(named.inventory().get(&grant.card).is_some_and(right), "{:?}", grant);
        }
    }
}

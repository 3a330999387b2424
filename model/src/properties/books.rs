//! The ledger under any sequence of calls.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::some;
use crate::{
    card::{Card, Inventory},
    hold::{CardHold, Hold},
    ledger::{CardMode, Ledger},
    name::{CardId, PodUid, ProfileName},
    phase,
    placement::place,
    quantity::{CorePercent, MemoryBytes},
    settings::{Policy, Settings},
};

#[derive(Debug, Clone)]
enum Call {
    Hold(u8, Hold),
    Truth(u8, Hold),
    Remove(u8),
    Cards(Inventory),
    Place(u8, Vec<some::Drawn>, Policy),
}

fn hold() -> impl Strategy<Value = Hold> {
    let share = (0_u32..60, 0_u64..30).prop_map(|(core, gib)| {
        CardHold::share(CorePercent::new(core), MemoryBytes::from_gib(gib))
    });
    let cut = (1_u32..3, 1_u32..4).prop_map(|(slices, count)| {
        CardHold::partition(ProfileName::new(&format!("{slices}g")).unwrap(), count)
    });
    let anything = (any::<bool>(), any::<bool>(), 0_u32..200, any::<u64>()).prop_map(
        |(whole, shared, core, memory)| CardHold {
            whole,
            shared,
            core: CorePercent::new(core),
            memory: MemoryBytes::new(memory),
            partitions: BTreeMap::new(),
        },
    );
    let on_card = prop_oneof![4 => share, 2 => Just(CardHold::whole()), 2 => cut, 1 => anything];
    prop::collection::vec((0_u32..7, on_card), 0..3).prop_map(|cards| {
        cards
            .into_iter()
            .map(|(n, hold)| (CardId::new(&format!("ppu-{n}")).unwrap(), hold))
            .collect()
    })
}

fn call(with_truth: bool) -> impl Strategy<Value = Call> {
    let pod = 0_u8..6;
    prop_oneof![
        6 => (pod.clone(), hold()).prop_map(|(pod, hold)| Call::Hold(pod, hold)),
        u32::from(with_truth) * 3 => (pod.clone(), hold()).prop_map(|(pod, hold)| Call::Truth(pod, hold)),
        3 => pod.clone().prop_map(Call::Remove),
        u32::from(with_truth) => some::inventory().prop_map(Call::Cards),
        4 => (pod, some::pod(), some::policy()).prop_map(|(pod, asked, policy)| Call::Place(pod, asked, policy)),
    ]
}

fn uid(n: u8) -> PodUid {
    PodUid::new(&format!("pod-{n}")).unwrap()
}

/// The book as a plain map, beside the ledger.
fn apply(ledger: &mut Ledger, book: &mut BTreeMap<PodUid, Hold>, call: Call) {
    let enter = |book: &mut BTreeMap<PodUid, Hold>, pod: PodUid, hold: Hold| {
        if hold.is_empty() {
            book.remove(&pod);
        } else {
            book.insert(pod, hold);
        }
    };
    match call {
        Call::Hold(pod, hold) => {
            let checked = ledger.check(&uid(pod), &hold);
            let entered = ledger.hold(&uid(pod), hold.clone());
            assert_eq!(checked, entered);
            if entered.is_ok() {
                enter(book, uid(pod), hold);
            }
        }
        Call::Truth(pod, hold) => {
            let checked = ledger.check(&uid(pod), &hold);
            assert_eq!(ledger.hold_truth(&uid(pod), hold.clone()), checked.err());
            enter(book, uid(pod), hold);
        }
        Call::Remove(pod) => assert_eq!(ledger.remove(&uid(pod)), book.remove(&uid(pod))),
        Call::Cards(inventory) => ledger.set_inventory(inventory),
        Call::Place(pod, asked, policy) => {
            ledger.remove(&uid(pod));
            book.remove(&uid(pod));
            let request = some::request(&asked);
            let request = request.by(policy);
            if let Ok(plan) = place(&request, ledger, &Settings::default()) {
                let held = phase::peak(&request, &plan);
                assert_eq!(ledger.hold(&uid(pod), held.clone()), Ok(()));
                enter(book, uid(pod), held);
            }
        }
    }
}

/// What all pods hold on the card together, straight from the book.
fn on_card<'a>(book: &'a BTreeMap<PodUid, Hold>, card: &'a Card) -> Vec<&'a CardHold> {
    book.values()
        .filter_map(|hold| hold.get(&card.id))
        .collect()
}

fn within_the_cards(ledger: &Ledger, book: &BTreeMap<PodUid, Hold>) {
    for state in ledger.cards() {
        let holds = on_card(book, state.card);
        let core: u64 = holds
            .iter()
            .map(|hold| u64::from(hold.core.percent()))
            .sum();
        let memory: u128 = holds
            .iter()
            .map(|hold| u128::from(hold.memory.bytes()))
            .sum();
        assert!(core <= 100, "{holds:?}");
        assert!(memory <= u128::from(state.card.memory.bytes()), "{holds:?}");
        let wholes = holds.iter().filter(|hold| hold.whole).count();
        let shares = holds.iter().filter(|hold| hold.shares()).count();
        let cuts = holds.iter().filter(|hold| hold.partitioned()).count();
        assert!(wholes <= 1, "{holds:?}");
        assert_eq!(
            [wholes, shares, cuts].iter().filter(|n| **n > 0).count(),
            usize::from(!holds.is_empty())
        );
        let slices: u32 = holds
            .iter()
            .flat_map(|hold| &hold.partitions)
            .map(|(profile, count)| {
                let profiles = state.card.profiles.iter();
                let mut of_it = profiles.filter(|known| known.name == *profile);
                of_it.next().map_or(0, |known| known.slices * count)
            })
            .sum();
        assert!(slices <= 7, "{holds:?}");
        match state.mode {
            CardMode::Free => assert_eq!(
                (state.free_core.percent(), state.free_memory),
                (100, state.card.memory)
            ),
            CardMode::Whole => assert_eq!(
                (state.free_core.percent(), state.free_memory.bytes()),
                (0, 0)
            ),
            CardMode::Shared => {
                assert_eq!(u64::from(state.free_core.percent()) + core, 100);
                assert_eq!(
                    u128::from(state.free_memory.bytes()) + memory,
                    u128::from(state.card.memory.bytes())
                );
            }
            CardMode::Partitioned => assert!(cuts > 0),
        }
        assert_eq!(state.pods, holds.len());
    }
}

/// Nothing is lost and nothing stays behind.
fn all_comes_out(mut ledger: Ledger, book: BTreeMap<PodUid, Hold>) {
    let kept: Vec<_> = ledger
        .pods()
        .map(|(pod, hold)| (pod.clone(), hold.clone()))
        .collect();
    assert_eq!(kept, book.clone().into_iter().collect::<Vec<_>>());
    let mut anew = Ledger::new(ledger.inventory().clone());
    for (pod, hold) in &book {
        anew.hold_truth(pod, hold.clone());
        assert_eq!(ledger.of(pod), Some(hold));
    }
    assert_eq!(ledger.rooms(), anew.rooms());
    assert_eq!(ledger.used(), anew.used());
    for (pod, hold) in book {
        assert_eq!(ledger.remove(&pod), Some(hold));
    }
    let empty = Ledger::new(ledger.inventory().clone());
    assert_eq!(ledger.rooms(), empty.rooms());
    assert_eq!(ledger.used(), empty.used());
    assert!(
        ledger
            .cards()
            .all(|card| card.mode == CardMode::Free && card.pods == 0)
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn no_sequence_of_holds_and_placements_promises_more_than_a_card_has_or_mixes_modes(
        inventory in some::inventory(),
        calls in prop::collection::vec(call(false), 0..24),
    ) {
        let mut ledger = Ledger::new(inventory);
        let mut book = BTreeMap::new();
        for call in calls {
            apply(&mut ledger, &mut book, call);
            within_the_cards(&ledger, &book);
        }
        all_comes_out(ledger, book);
    }

    #[test]
    fn no_sequence_of_calls_loses_anything_even_where_the_truth_is_beyond_the_cards(
        inventory in some::inventory(),
        calls in prop::collection::vec(call(true), 0..24),
    ) {
        let mut ledger = Ledger::new(inventory);
        let mut book = BTreeMap::new();
        for call in calls {
            apply(&mut ledger, &mut book, call);
        }
        all_comes_out(ledger, book);
    }
}

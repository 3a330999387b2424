use super::*;
use crate::card::{Health, PartitionProfile, tests::card};

fn id(n: u32) -> CardId {
    CardId::new(&format!("ppu-{n}")).unwrap()
}

fn pod(name: &str) -> PodUid {
    PodUid::new(name).unwrap()
}

fn ledger(sizes: &[u64]) -> Ledger {
    let cards = (0..).zip(sizes).map(|(n, gib)| card(n, *gib)).collect();
    Ledger::new(Inventory::new(cards).unwrap())
}

fn share(n: u32, core: u32, gib: u64) -> Hold {
    let share = CardHold::share(CorePercent::new(core), MemoryBytes::from_gib(gib));
    [(id(n), share)].into_iter().collect()
}

fn whole(cards: &[u32]) -> Hold {
    cards.iter().map(|n| (id(*n), CardHold::whole())).collect()
}

fn cut(n: u32, profile: &str, count: u32) -> Hold {
    let profile = ProfileName::new(profile).unwrap();
    [(id(n), CardHold::partition(profile, count))]
        .into_iter()
        .collect()
}

/// Mode, free core, free GiB and pods of each card.
fn state(ledger: &Ledger) -> Vec<(CardMode, u32, u64, usize)> {
    let one = |card: CardState<'_>| {
        let gib = card.free_memory.bytes() >> 30;
        (card.mode, card.free_core.percent(), gib, card.pods)
    };
    ledger.cards().map(one).collect()
}

fn mode(n: u32, mode: &'static str) -> Result<(), Conflict> {
    Err(Conflict::Mode { card: id(n), mode })
}

#[test]
fn what_is_held_is_not_free_and_comes_back() {
    let mut ledger = ledger(&[144, 144]);
    let fresh = state(&ledger);
    assert_eq!(fresh, [(CardMode::Free, 100, 144, 0); 2]);
    ledger.hold(&pod("a"), share(0, 50, 24)).unwrap();
    ledger.hold(&pod("b"), share(0, 25, 20)).unwrap();
    ledger.hold(&pod("c"), whole(&[1])).unwrap();
    assert_eq!(
        state(&ledger),
        [(CardMode::Shared, 25, 100, 2), (CardMode::Whole, 0, 0, 1)]
    );
    assert_eq!(ledger.of(&pod("a")), Some(&share(0, 50, 24)));
    let pods: Vec<&str> = ledger.pods().map(|(pod, _)| pod.as_str()).collect();
    assert_eq!(pods, ["a", "b", "c"]);
    assert_eq!(ledger.remove(&pod("a")), Some(share(0, 50, 24)));
    assert_eq!(ledger.remove(&pod("a")), None);
    ledger.remove(&pod("b"));
    ledger.remove(&pod("c"));
    assert_eq!(state(&ledger), fresh);
}

#[test]
fn a_hold_replaces_the_pods_own_and_not_anothers() {
    let mut ledger = ledger(&[100]);
    ledger.hold(&pod("a"), share(0, 60, 60)).unwrap();
    ledger.hold(&pod("a"), share(0, 90, 90)).unwrap();
    assert_eq!(state(&ledger), [(CardMode::Shared, 10, 10, 1)]);
    assert_eq!(
        ledger.hold(&pod("b"), share(0, 11, 1)),
        Err(Conflict::Core {
            card: id(0),
            free: CorePercent::new(10),
            asked: CorePercent::new(11),
        })
    );
    assert_eq!(
        ledger
            .hold(&pod("b"), share(0, 10, 11))
            .unwrap_err()
            .to_string(),
        "card ppu-0 has 10GiB free of the 11GiB asked"
    );
    ledger.hold(&pod("a"), whole(&[0])).unwrap();
    ledger.hold(&pod("a"), Hold::new()).unwrap();
    assert_eq!(state(&ledger), [(CardMode::Free, 100, 100, 0)]);
    assert_eq!(ledger.of(&pod("a")), None);
}

#[test]
fn a_card_is_in_one_mode_and_a_share_of_nothing_shares_it() {
    let mut ledger = ledger(&[144, 144]);
    ledger.hold(&pod("a"), share(0, 0, 0)).unwrap();
    assert_eq!(state(&ledger)[0], (CardMode::Shared, 100, 144, 1));
    assert_eq!(ledger.check(&pod("b"), &whole(&[0])), mode(0, "shared"));
    assert_eq!(ledger.check(&pod("b"), &cut(0, "1g", 1)), mode(0, "shared"));
    ledger.hold(&pod("b"), whole(&[1])).unwrap();
    assert_eq!(
        ledger.check(&pod("c"), &whole(&[1])),
        mode(1, "given whole")
    );
    assert_eq!(
        ledger.check(&pod("c"), &share(1, 0, 0)),
        mode(1, "given whole")
    );
    let mixed = CardHold {
        whole: true,
        ..CardHold::share(CorePercent::ZERO, MemoryBytes::ZERO)
    };
    let mixed: Hold = [(id(0), mixed)].into_iter().collect();
    assert_eq!(ledger.check(&pod("a"), &mixed), Err(Conflict::Mixed(id(0))));
}

#[test]
fn on_a_conflict_nothing_changes() {
    let mut ledger = ledger(&[10, 10, 10]);
    ledger.hold(&pod("a"), share(2, 1, 1)).unwrap();
    ledger.hold(&pod("b"), whole(&[0])).unwrap();
    let before = state(&ledger);
    assert_eq!(ledger.hold(&pod("b"), whole(&[0, 1, 2])), mode(2, "shared"));
    assert_eq!(
        ledger.hold(&pod("c"), whole(&[7])),
        Err(Conflict::NoCard(id(7)))
    );
    assert_eq!(state(&ledger), before);
    assert_eq!(ledger.of(&pod("b")), Some(&whole(&[0])));
    assert_eq!(ledger.of(&pod("c")), None);
}

#[test]
fn the_truth_is_entered_even_beyond_a_card_which_then_gives_nothing_out() {
    let mut ledger = ledger(&[10, 10]);
    ledger.hold(&pod("a"), share(0, 60, 2)).unwrap();
    let conflict = ledger.hold_truth(&pod("b"), share(0, 60, 2));
    assert!(matches!(conflict, Some(Conflict::Core { .. })));
    assert_eq!(state(&ledger)[0], (CardMode::Shared, 0, 0, 2));
    assert_eq!(
        ledger.check(&pod("c"), &share(0, 0, 1)),
        mode(0, "promised beyond its size")
    );
    assert_eq!(
        ledger.check(&pod("c"), &share(0, 0, 0)),
        mode(0, "promised beyond its size")
    );
    ledger.remove(&pod("b"));
    assert_eq!(state(&ledger)[0], (CardMode::Shared, 40, 8, 1));
    assert!(ledger.hold_truth(&pod("b"), whole(&[0])).is_some());
    assert_eq!(state(&ledger)[0], (CardMode::Whole, 0, 0, 2));
    ledger.remove(&pod("a"));
    assert_eq!(state(&ledger)[0], (CardMode::Whole, 0, 0, 1));
    let most = CardHold::share(CorePercent::new(u32::MAX), MemoryBytes::new(u64::MAX));
    let most: Hold = [(id(1), most)].into_iter().collect();
    for name in ["x", "y", "z"] {
        assert!(ledger.hold_truth(&pod(name), most.clone()).is_some());
    }
    for name in ["x", "y", "z"] {
        assert_eq!(ledger.remove(&pod(name)), Some(most.clone()));
    }
    assert_eq!(state(&ledger)[1], (CardMode::Free, 100, 10, 0));
}

#[test]
fn on_an_unhealthy_card_holds_stay_and_no_pod_comes_to_it() {
    let mut ledger = ledger(&[10]);
    ledger.hold(&pod("a"), share(0, 10, 1)).unwrap();
    let mut sick = card(0, 10);
    sick.health = Health::Unhealthy("ECC".into());
    ledger.set_inventory(Inventory::new(vec![sick]).unwrap());
    assert_eq!(state(&ledger), [(CardMode::Shared, 90, 9, 1)]);
    assert_eq!(
        ledger.check(&pod("b"), &share(0, 1, 1)),
        Err(Conflict::Unhealthy(id(0)))
    );
    assert_eq!(ledger.check(&pod("a"), &share(0, 10, 1)), Ok(()));
    assert_eq!(
        ledger.hold_truth(&pod("b"), share(0, 1, 1)),
        Some(Conflict::Unhealthy(id(0)))
    );
    assert_eq!(state(&ledger), [(CardMode::Shared, 89, 8, 2)]);
}

#[test]
fn a_card_that_is_not_shareable_is_given_whole_only() {
    let mut solid = card(0, 10);
    solid.shareable = false;
    let mut ledger = Ledger::new(Inventory::new(vec![solid]).unwrap());
    assert_eq!(
        ledger.check(&pod("a"), &share(0, 1, 1)),
        mode(0, "not shareable")
    );
    assert_eq!(
        ledger.hold_truth(&pod("a"), share(0, 1, 1)),
        mode(0, "not shareable").err()
    );
    assert_eq!(ledger.check(&pod("a"), &share(0, 2, 2)), Ok(()));
    ledger.remove(&pod("a"));
    assert_eq!(ledger.hold(&pod("a"), whole(&[0])), Ok(()));
}

#[test]
fn case_6_replaced_cards_have_their_own_present_size_and_holds_outlive_a_gone_card() {
    let mut ledger = ledger(&[10, 20]);
    ledger.hold(&pod("a"), share(1, 50, 15)).unwrap();
    assert_eq!(state(&ledger)[1], (CardMode::Shared, 50, 5, 1));
    ledger.set_inventory(Inventory::new(vec![card(0, 40)]).unwrap());
    assert_eq!(state(&ledger), [(CardMode::Free, 100, 40, 0)]);
    assert_eq!(ledger.of(&pod("a")), Some(&share(1, 50, 15)));
    assert_eq!(
        ledger.check(&pod("b"), &share(1, 1, 1)),
        Err(Conflict::NoCard(id(1)))
    );
    ledger.set_inventory(Inventory::new(vec![card(1, 40), card(2, 5)]).unwrap());
    assert_eq!(
        state(&ledger),
        [(CardMode::Shared, 50, 25, 1), (CardMode::Free, 100, 5, 0)]
    );
    ledger.set_inventory(Inventory::new(vec![card(1, 12)]).unwrap());
    assert_eq!(state(&ledger), [(CardMode::Shared, 0, 0, 1)]);
    ledger.set_inventory(Inventory::default());
    assert_eq!(ledger.remove(&pod("a")), Some(share(1, 50, 15)));
    ledger.set_inventory(Inventory::new(vec![card(1, 12)]).unwrap());
    assert_eq!(state(&ledger), [(CardMode::Free, 100, 12, 0)]);
}

#[test]
fn partitions_stay_within_slices_memory_and_the_count_of_each_profile() {
    let profile = |name: &str, slices, gib, max_count| PartitionProfile {
        name: ProfileName::new(name).unwrap(),
        slices,
        memory: MemoryBytes::from_gib(gib),
        max_count,
    };
    let mut mig = card(0, 80);
    mig.profiles = vec![
        profile("1g", 1, 10, 7),
        profile("1g.wide", 1, 20, 4),
        profile("3g", 3, 40, 2),
        profile("7g", 7, 80, 1),
    ];
    let mut ledger = Ledger::new(Inventory::new(vec![mig]).unwrap());
    let full = |profile: &str, free, asked| {
        let profile = ProfileName::new(profile).unwrap();
        let card = id(0);
        Err(Conflict::Partition {
            card,
            profile,
            free,
            asked,
        })
    };
    assert_eq!(ledger.check(&pod("a"), &cut(0, "2g", 1)), full("2g", 0, 1));
    assert_eq!(ledger.check(&pod("a"), &cut(0, "1g", 8)), full("1g", 7, 8));
    ledger.hold(&pod("a"), cut(0, "3g", 1)).unwrap();
    assert_eq!(state(&ledger), [(CardMode::Partitioned, 57, 40, 1)]);
    assert_eq!(ledger.check(&pod("b"), &cut(0, "7g", 1)), full("7g", 0, 1));
    assert_eq!(ledger.check(&pod("b"), &cut(0, "1g", 5)), full("1g", 4, 5));
    assert_eq!(
        ledger.check(&pod("b"), &cut(0, "1g.wide", 3)),
        full("1g.wide", 2, 3)
    );
    assert_eq!(
        ledger.check(&pod("b"), &share(0, 0, 0)),
        mode(0, "partitioned")
    );
    assert_eq!(
        ledger.check(&pod("b"), &whole(&[0])),
        mode(0, "partitioned")
    );
    ledger.hold(&pod("b"), cut(0, "1g", 4)).unwrap();
    assert_eq!(state(&ledger), [(CardMode::Partitioned, 0, 0, 2)]);
    assert!(ledger.hold_truth(&pod("c"), cut(0, "9g", 1)).is_some());
    ledger.remove(&pod("b"));
    assert_eq!(state(&ledger), [(CardMode::Partitioned, 0, 0, 2)]);
    assert_eq!(
        ledger.check(&pod("b"), &cut(0, "1g", 1)),
        mode(0, "promised beyond its size")
    );
    ledger.remove(&pod("c"));
    assert_eq!(ledger.check(&pod("b"), &cut(0, "1g", 4)), Ok(()));
}

#[test]
fn nodes_with_the_same_cards_can_share_one_inventory() {
    let inventory = Arc::new(Inventory::new(vec![card(0, 10)]).unwrap());
    let ledgers = [
        Ledger::new(Arc::clone(&inventory)),
        Ledger::new(Arc::clone(&inventory)),
    ];
    assert!(
        ledgers
            .iter()
            .all(|l| std::ptr::eq(l.inventory(), &raw const *inventory))
    );
}

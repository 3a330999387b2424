use model::{
    name::{ContainerName, Namespace, PodName, PodRef, ProfileName},
    plan::Grant,
};
use proptest::prelude::*;
use runtime_proto::client::Consumer;

use super::*;
use crate::profile::Profile;

fn book(profile: &str) -> (Book, Inventory) {
    let inventory = Profile::load(profile).unwrap().inventory().unwrap();
    let mut book = Book::default();
    book.set_cards(inventory.cards().iter().cloned());
    (book, inventory)
}

fn allocation(pod: u8, container: u8, card: u8, mode: GrantMode) -> Allocation {
    let uid = format!("uid-{pod}");
    Allocation {
        id: format!("{uid}/c{container}"),
        consumer: Consumer {
            pod: PodRef {
                namespace: Namespace::new("default").unwrap(),
                name: PodName::new(&format!("pod-{pod}")).unwrap(),
            },
            uid: PodUid::new(&uid).unwrap(),
            container: ContainerName::new(&format!("c{container}")).unwrap(),
        },
        grants: vec![Grant {
            card: CardId::new(&format!("gpu-{card}")).unwrap(),
            mode,
        }],
    }
}

fn share(core: u32, gib: u64) -> GrantMode {
    GrantMode::Share {
        core: CorePercent::new(core),
        memory: MemoryBytes::from_gib(gib),
    }
}

fn partition(profile: &str, count: u32) -> GrantMode {
    GrantMode::Partition {
        profile: ProfileName::new(profile).unwrap(),
        count,
    }
}

#[test]
fn an_id_is_entered_once_and_never_with_other_grants() {
    let (mut book, _) = book("gpu-8-mig");
    let asked = allocation(0, 0, 0, share(40, 40));
    assert_eq!(book.enter(&asked), Ok(true));
    assert_eq!(book.enter(&asked), Ok(false));
    let other = allocation(0, 0, 0, share(41, 40));
    assert_eq!(book.enter(&other), Err(Refusal::Other(asked.id.clone())));
    assert!(book.remove(&asked.id));
    assert!(!book.remove(&asked.id));
    assert_eq!(book.enter(&other), Ok(true));
}

#[test]
fn containers_of_one_pod_may_follow_each_other_on_a_card_and_other_pods_may_not() {
    let (mut book, _) = book("gpu-8-mig");
    book.enter(&allocation(0, 0, 0, share(70, 100))).unwrap();
    book.enter(&allocation(0, 1, 0, share(60, 100))).unwrap();
    assert!(book.enter(&allocation(1, 0, 0, share(31, 1))).is_err());
    assert!(book.enter(&allocation(0, 2, 0, GrantMode::Whole)).is_err());
    book.enter(&allocation(1, 0, 0, share(30, 41))).unwrap();
    book.remove("uid-0/c0");
    book.enter(&allocation(2, 0, 0, share(10, 0))).unwrap();
}

#[test]
fn nothing_and_an_empty_id_are_refused() {
    let (mut book, _) = book("gpu-8-mig");
    let mut asked = allocation(0, 0, 0, GrantMode::Whole);
    asked.grants.clear();
    assert!(matches!(book.enter(&asked), Err(Refusal::Invalid(_))));
    let mut asked = allocation(0, 0, 0, GrantMode::Whole);
    asked.id.clear();
    assert!(matches!(book.enter(&asked), Err(Refusal::Invalid(_))));
}

#[test]
fn what_is_held_on_a_lost_card_is_still_held_when_it_is_back() {
    let (mut book, inventory) = book("gpu-8-mig");
    let asked = allocation(0, 0, 0, GrantMode::Whole);
    book.enter(&asked).unwrap();
    book.set_cards(inventory.cards().iter().skip(1).cloned());
    let late = allocation(1, 0, 0, share(1, 1));
    assert!(matches!(
        book.enter(&late),
        Err(Refusal::Conflict(Conflict::NoCard(_)))
    ));
    book.set_cards(inventory.cards().iter().cloned());
    assert!(matches!(book.enter(&late), Err(Refusal::Conflict(_))));
    book.clear();
    book.enter(&late).unwrap();
}

fn mode() -> impl Strategy<Value = GrantMode> {
    prop_oneof![
        Just(GrantMode::Whole),
        (0..=100_u32, 0..=141_u64).prop_map(|(core, gib)| share(core, gib)),
        (0..3_usize, 1..4_u32)
            .prop_map(|(cut, count)| { partition(["1g.18gb", "2g.35gb", "3g.71gb"][cut], count) }),
    ]
}

proptest! {
    /// Over every sequence: per card one mode, one pod at most has it whole, and what pods share
    /// stays within its size.
    #[test]
    fn no_sequence_gives_a_card_twice(
        calls in prop::collection::vec((any::<bool>(), 0..4_u8, 0..2_u8, 0..2_u8, mode()), 1..40),
    ) {
        let (mut book, inventory) = book("gpu-8-mig");
        for (is_release, pod, container, card, mode) in calls {
            let asked = allocation(pod, container, card, mode);
            if is_release {
                book.remove(&asked.id);
            } else {
                let before = book.allocations().len();
                let is_new = book.enter(&asked).unwrap_or(false);
                prop_assert_eq!(book.allocations().len(), before + usize::from(is_new));
            }
            for card in inventory.cards() {
                let mut pods: BTreeMap<&PodUid, (bool, u32, u64, bool)> = BTreeMap::new();
                for (allocation, mode) in book.on_card(&card.id) {
                    let on = pods.entry(&allocation.consumer.uid).or_default();
                    match mode {
                        GrantMode::Whole => on.0 = true,
                        GrantMode::Share { core, memory } => {
                            on.1 = on.1.max(core.percent());
                            on.2 = on.2.max(memory.bytes());
                        }
                        GrantMode::Partition { .. } => on.3 = true,
                    }
                }
                let whole = pods.values().filter(|p| p.0).count();
                let cut = pods.values().filter(|p| p.3).count();
                prop_assert!(whole == 0 || pods.len() == 1);
                prop_assert!(cut == 0 || cut == pods.len());
                prop_assert!(pods.values().map(|p| p.1).sum::<u32>() <= 100);
                prop_assert!(pods.values().map(|p| p.2).sum::<u64>() <= card.memory.bytes());
            }
        }
    }
}

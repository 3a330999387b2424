use model::{
    card::{Card, Health},
    quantity::{MemoryBytes, MemoryUnit},
};
use proptest::prelude::*;

use super::*;
use crate::fixture::{MEMORY, cards, resource, settings};

#[test]
fn eight_cards_of_144_gib_offer_the_four_resources() {
    let (offers, too_large) = offers(&cards(8, 144), &settings(), false);
    let counts: Vec<(&str, usize)> = offers
        .iter()
        .map(|o| (o.resource.as_str(), o.devices.len()))
        .collect();
    assert_eq!(
        counts,
        [
            ("aliyun.com/gpu", 8),
            ("alibabacloud.com/ppu", 8),
            ("aliyun.com/gpu-core", 800),
            ("aliyun.com/gpu-memory", 1152),
        ]
    );
    assert!(too_large.is_empty());
    assert!(
        offers
            .iter()
            .flat_map(|o| &o.devices)
            .all(|(_, healthy)| *healthy)
    );
}

#[test]
fn case_3_memory_in_mib_on_two_80_gib_cards_is_refused_and_never_zero() {
    let mut settings = (*settings()).clone();
    let memory = settings
        .resources
        .iter_mut()
        .find(|r| r.name.as_str() == MEMORY);
    memory.unwrap().unit = Some(MemoryUnit::Mib);
    let (offers, too_large) = offers(&cards(2, 80), &settings, false);
    assert_eq!(offers.len(), 3);
    assert_eq!(too_large.len(), 1);
    assert_eq!(too_large[0].resource, resource(MEMORY));
    assert_eq!(too_large[0].devices, 2 * 80 * 1024);
    assert!(too_large[0].to_string().contains("coarser unit"));
}

#[test]
fn a_card_of_a_senseless_size_does_not_fill_the_memory() {
    let mut all: Vec<Card> = cards(2, 80).cards().to_vec();
    all[1].memory = MemoryBytes::new(u64::MAX);
    let inventory = Inventory::new(all).unwrap();
    let (offers, too_large) = offers(&inventory, &settings(), false);
    assert_eq!((offers.len(), too_large.len()), (3, 1));
}

#[test]
fn an_unhealthy_card_and_a_lost_runtime_stay_in_the_list_as_unhealthy() {
    let mut all: Vec<Card> = cards(2, 8).cards().to_vec();
    all[0].health = Health::Unhealthy("ECC".into());
    let inventory = Inventory::new(all).unwrap();
    let (one, _) = offers(&inventory, &settings(), false);
    assert_eq!(
        one[0].devices,
        [
            ("ppu-0.card.0".to_owned(), false),
            ("ppu-1.card.0".to_owned(), true)
        ]
    );
    let (lost, _) = offers(&inventory, &settings(), true);
    assert!(
        lost.iter()
            .flat_map(|o| &o.devices)
            .all(|(_, healthy)| !healthy)
    );
    assert_eq!(lost.len(), one.len());
}

#[test]
fn no_cards_offer_nothing() {
    assert_eq!(
        offers(&Inventory::default(), &settings(), false),
        (Vec::new(), Vec::new())
    );
}

proptest! {
    #[test]
    fn the_size_is_at_least_that_of_the_message(count in 1..16u32, gib in 1..200u64, healthy: bool) {
        use tonic_size::encoded_len;
        for offer in offers(&cards(count, gib), &settings(), !healthy).0 {
            let message = crate::convert::device_list(&offer);
            prop_assert!(encoded_len(&message) <= message_bytes(&offer.devices));
        }
    }
}

mod tonic_size {
    use kubernetes::device_plugin::ListAndWatchResponse;
    use prost::Message;

    pub(super) fn encoded_len(message: &ListAndWatchResponse) -> usize {
        message.encoded_len()
    }
}

use proptest::prelude::*;

use super::*;
use crate::{card::tests::card, settings::Settings};

fn counts(inventory: &Inventory, settings: &Settings) -> Vec<u64> {
    settings
        .resources_of(inventory)
        .iter()
        .map(|resource| {
            let devices = devices(inventory, resource);
            let count = count(inventory, resource);
            assert_eq!(u64::try_from(devices.len()).unwrap(), count);
            count
        })
        .collect()
}

#[test]
fn eight_ppu_cards_of_144_gib_show_8_8_800_and_1152() {
    let cards = (0..8).map(|n| card(n, 144)).collect();
    let inventory = Inventory::new(cards).unwrap();
    assert_eq!(
        counts(&inventory, &Settings::default()),
        [8, 8, 800, 1152, 0]
    );
}

#[test]
fn a_name_for_a_model_counts_cards_of_that_model_only() {
    let of = |n: u32, model: &str| Card {
        model: model.into(),
        ..card(n, 32)
    };
    let cards = vec![of(0, "R200-32G"), of(1, "R480-32G"), of(2, "R200-32G")];
    let inventory = Inventory::new(cards).unwrap();
    let settings: Settings = serde_json::from_str(
        r#"{"resources":[
            {"name":"kunlunxin.com/xpu","gives":"wholeCard"},
            {"name":"kunlunxin.com/R200","gives":"wholeCard","models":["R200-32G"]},
            {"name":"kunlunxin.com/R300","gives":"wholeCard","models":["R300"]},
            {"name":"kunlunxin.com/R200-core","gives":"corePercent","kinds":["ppu"],"models":["R200-32G"]}]}"#,
    )
    .unwrap();
    assert_eq!(counts(&inventory, &settings), [3, 2, 0, 200]);
    let r200 = settings.resource("kunlunxin.com/R200").unwrap();
    let ids: Vec<String> = devices(&inventory, &r200)
        .iter()
        .map(ToString::to_string)
        .collect();
    assert_eq!(ids, ["ppu-0.card.0", "ppu-2.card.0"]);
}

#[test]
fn case_6_each_card_counts_its_own_present_size() {
    let settings = Settings::default();
    let inventory = Inventory::new(vec![card(0, 10), card(1, 20)]).unwrap();
    let memory = settings.resource("aliyun.com/gpu-memory").unwrap();
    let ids: Vec<String> = devices(&inventory, &memory)
        .iter()
        .map(ToString::to_string)
        .collect();
    assert_eq!(ids.len(), 30);
    assert_eq!(ids.first().map(String::as_str), Some("ppu-0.mem.0"));
    assert_eq!(ids.get(9).map(String::as_str), Some("ppu-0.mem.9"));
    assert_eq!(ids.get(10).map(String::as_str), Some("ppu-1.mem.0"));
    let replaced = Inventory::new(vec![card(0, 40), card(1, 40)]).unwrap();
    assert_eq!(devices(&replaced, &memory).len(), 80);
}

#[test]
fn a_card_that_can_be_cut_has_slices_and_partitions_of_each_profile() {
    let mut cut = card(0, 24);
    cut.profiles = crate::card::tests::profiles();
    let inventory = Inventory::new(vec![cut, card(1, 24)]).unwrap();
    let settings = Settings::default();
    let names: Vec<String> = settings
        .resources_of(&inventory)
        .iter()
        .map(|resource| resource.name.to_string())
        .collect();
    assert_eq!(
        names.get(4..).unwrap(),
        [
            "aliyun.com/gpu-slice",
            "alibabacloud.com/ppu-1g",
            "alibabacloud.com/ppu-2g",
            "alibabacloud.com/ppu-7g",
        ]
    );
    assert_eq!(counts(&inventory, &settings), [2, 2, 200, 48, 7, 7, 3, 1]);
    let parts = settings.resource("alibabacloud.com/ppu-7g").unwrap();
    let ids: Vec<String> = devices(&inventory, &parts)
        .iter()
        .map(ToString::to_string)
        .collect();
    assert_eq!(ids, ["ppu-0.part.0"]);
}

#[test]
fn only_cards_that_the_name_covers_count() {
    let mut gpu = card(1, 80);
    gpu.kind = crate::card::CardKind::Gpu;
    let inventory = Inventory::new(vec![card(0, 144), gpu]).unwrap();
    assert_eq!(
        counts(&inventory, &Settings::default()),
        [2, 1, 200, 224, 0]
    );
}

#[test]
fn a_nonsense_size_is_counted_without_making_the_devices() {
    let mut huge = card(0, 1);
    huge.memory = crate::quantity::MemoryBytes::new(u64::MAX);
    let inventory = Inventory::new(vec![huge.clone()]).unwrap();
    let settings = Settings::default();
    let memory = settings.resource("aliyun.com/gpu-memory").unwrap();
    assert_eq!(count(&inventory, &memory), (1 << 34) - 1);
}

#[test]
fn other_texts_are_not_device_ids() {
    for text in [
        "",
        ".",
        "..",
        "a",
        "a.card",
        "a.card.",
        "a.card.-1",
        "a.card.+1",
        "a.card.01",
        "a.card.00",
        "a.card.1.2",
        "a.gpu.1",
        "A.card.1",
        ".card.1",
        "a.card.4294967296",
        "a.card.1 ",
        "a.Card.1",
    ] {
        assert_eq!(text.parse::<DeviceId>(), Err(BadDeviceId(text.to_owned())));
    }
    let long = format!("{}.card.0", "a".repeat(1000));
    let BadDeviceId(said) = long.parse::<DeviceId>().unwrap_err();
    assert_eq!(said.len(), 80);
}

proptest! {
    #[test]
    fn every_id_reads_back_and_is_at_most_63_long(
        card in "[a-z0-9-]{1,40}",
        kind in prop::sample::select(vec![DeviceKind::Card, DeviceKind::Core, DeviceKind::Memory]),
        n: u32,
    ) {
        let id = DeviceId { card: CardId::new(&card).unwrap(), kind, n };
        let text = id.to_string();
        prop_assert!(text.len() <= 63);
        prop_assert_eq!(text.parse(), Ok(id));
    }

    #[test]
    fn what_parses_is_written_the_same(text in "[a-b-]{0,3}\\.(card|core|mem|x)\\.[0-9+]{0,12}") {
        if let Ok(id) = text.parse::<DeviceId>() {
            prop_assert_eq!(id.to_string(), text);
        }
    }
}

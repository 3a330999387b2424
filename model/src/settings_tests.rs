use super::*;
use crate::name::ProfileName;

fn name(text: &str) -> ResourceName {
    ResourceName::new(text).unwrap()
}

fn with(resources: Vec<ResourceSetting>) -> Settings {
    Settings {
        resources,
        ..Settings::default()
    }
}

fn resource(text: &str, gives: Gives, kinds: &[CardKind]) -> ResourceSetting {
    ResourceSetting {
        name: name(text),
        gives,
        unit: None,
        profile: None,
        kinds: kinds.to_vec(),
        models: Vec::new(),
    }
}

#[test]
fn the_defaults_are_valid_and_complete() {
    let settings = Settings::default();
    assert_eq!(settings.validate(), Ok(()));
    assert_eq!(settings.resources.len(), 5);
    let ppu = settings.resource("alibabacloud.com/ppu").unwrap();
    assert!(ppu.covers_kind(CardKind::Ppu) && !ppu.covers_kind(CardKind::Gpu));
    let gpu = settings.resource("aliyun.com/gpu").unwrap();
    assert!(gpu.covers_kind(CardKind::Ppu) && gpu.covers_kind(CardKind::Other));
    let memory = settings.memory_of(CardKind::Amd).unwrap();
    assert_eq!(memory.name.as_str(), "aliyun.com/gpu-memory");
    assert_eq!(memory.memory_unit(), MemoryUnit::Gib);
}

#[test]
fn the_defaults_stand_in_for_what_a_file_leaves_out() {
    let settings: Settings = serde_json::from_str(r#"{"placement":{"nodes":"spread"}}"#).unwrap();
    assert_eq!(settings.placement.nodes, Policy::Spread);
    assert_eq!(settings.placement.cards, Policy::Binpack);
    assert_eq!(settings.resources, Settings::default().resources);
    let text = serde_json::to_string(&settings).unwrap();
    assert_eq!(serde_json::from_str::<Settings>(&text).unwrap(), settings);
    let unknown = serde_json::from_str::<Settings>(r#"{"nodeLable":{}}"#);
    assert!(unknown.unwrap_err().to_string().contains("nodeLable"));
}

#[test]
fn one_name_stands_once() {
    let twice = with(vec![
        resource("a.com/gpu", Gives::WholeCard, &[]),
        resource("a.com/gpu", Gives::WholeCard, &[CardKind::Gpu]),
    ]);
    assert_eq!(
        twice.validate(),
        Err(SettingsError::DuplicateResource(name("a.com/gpu")))
    );
}

#[test]
fn a_kind_of_card_has_one_core_name_and_one_memory_name() {
    let core = |kinds: &[CardKind], more: &[CardKind]| {
        with(vec![
            resource("a.com/core", Gives::CorePercent, kinds),
            resource("b.com/core", Gives::CorePercent, more),
        ])
        .validate()
    };
    assert_eq!(core(&[CardKind::Gpu], &[CardKind::Ppu]), Ok(()));
    let clash = Err(SettingsError::TwoNames {
        first: name("a.com/core"),
        second: name("b.com/core"),
        gives: "core".into(),
    });
    assert_eq!(core(&[], &[CardKind::Ppu]), clash);
    assert_eq!(
        core(&[CardKind::Ppu, CardKind::Gpu], &[CardKind::Ppu]),
        clash
    );
}

#[test]
fn core_and_memory_and_two_whole_names_go_together() {
    let settings = with(vec![
        resource("a.com/gpu", Gives::WholeCard, &[]),
        resource("b.com/gpu", Gives::WholeCard, &[]),
        resource("a.com/core", Gives::CorePercent, &[CardKind::Gpu]),
        resource("a.com/memory", Gives::Memory, &[CardKind::Gpu]),
    ]);
    assert_eq!(settings.validate(), Ok(()));
    assert_eq!(settings.memory_of(CardKind::Ppu), None);
    assert_eq!(settings.memory_unit_of(CardKind::Ppu), MemoryUnit::Gib);
}

#[test]
fn a_unit_is_only_for_memory() {
    let mut core = resource("a.com/core", Gives::CorePercent, &[]);
    core.unit = Some(MemoryUnit::Mib);
    assert_eq!(
        with(vec![core]).validate(),
        Err(SettingsError::UnitWithoutMemory(name("a.com/core")))
    );
}

#[test]
fn resources_are_needed_and_must_be_ones_that_kubelet_takes() {
    assert_eq!(with(Vec::new()).validate(), Err(SettingsError::NoResources));
    for reserved in [
        "kubernetes.io/gpu",
        "x.kubernetes.io/gpu",
        "requests.a.com/gpu",
        "-a.com/gpu",
    ] {
        assert_eq!(
            with(vec![resource(reserved, Gives::WholeCard, &[])]).validate(),
            Err(SettingsError::ReservedDomain(name(reserved)))
        );
    }
}

#[test]
fn keys_are_ones_that_kubernetes_takes() {
    let long = "x".repeat(64);
    let far = format!("{}/x", "a".repeat(254));
    for bad in [
        "", "/x", "a/", "-a", "a-", "a b", "a/b/c", "A.com/x", "a..b/x", "-a/x", &long, &far,
    ] {
        let mut settings = Settings::default();
        settings.node_label.key = bad.to_owned();
        let field = "nodeLabel.key";
        let value = bad.to_owned();
        assert_eq!(
            settings.validate(),
            Err(SettingsError::BadKey { field, value }),
            "{bad}"
        );
        let mut settings = Settings::default();
        settings.annotations.last_action_status = bad.to_owned();
        let field = "annotations.lastActionStatus";
        let value = bad.to_owned();
        assert_eq!(
            settings.validate(),
            Err(SettingsError::BadKey { field, value }),
            "{bad}"
        );
    }
    for good in [
        "a",
        "A_b.c-9",
        "a.b-c.d/E_f",
        &"x".repeat(63),
        &format!("{}/x", "a".repeat(253)),
    ] {
        let mut settings = Settings::default();
        settings.node_label.key = good.to_owned();
        assert_eq!(settings.validate(), Ok(()), "{good}");
    }
}

#[test]
fn the_label_value_is_one_that_kubernetes_takes() {
    for (value, valid) in [
        ("", true),
        ("on", true),
        ("1.0_x", true),
        ("a/b", false),
        ("a b", false),
    ] {
        let mut settings = Settings::default();
        settings.node_label.value = value.to_owned();
        assert_eq!(settings.validate().is_ok(), valid, "{value}");
    }
}

#[test]
fn two_annotations_never_share_a_key() {
    let mut settings = Settings::default();
    settings.annotations.allocated = settings.annotations.assigned.clone();
    assert_eq!(
        settings.validate(),
        Err(SettingsError::SameKey {
            first: "annotations.assigned",
            second: "annotations.allocated",
            value: "lj-runtimekit/assigned".into(),
        })
    );
}

#[test]
fn a_family_makes_a_resource_of_each_profile_unless_one_has_the_name_already() {
    let settings: Settings = serde_json::from_str(
        r#"{"resources":[{"name":"a.com/mig-2g","gives":"wholeCard"}],
            "partitionNames":[{"prefix":"a.com/mig-"},{"prefix":"b.com/x","kinds":["gpu"]}]}"#,
    )
    .unwrap();
    assert_eq!(settings.validate(), Ok(()));
    let gives = |name: &str| settings.resource(name).map(|r| r.gives);
    assert_eq!(gives("a.com/mig-2g"), Some(Gives::WholeCard));
    assert_eq!(gives("a.com/mig-1g.10gb"), Some(Gives::Partition));
    assert_eq!(gives("a.com/mig-"), None);
    assert_eq!(gives("a.com/mig-UPPER"), None);
    assert_eq!(gives("a.com/other"), None);
    let one = settings.resource("b.com/x1g").unwrap();
    assert_eq!(one.profile.as_ref().map(ProfileName::as_str), Some("1g"));
    assert!(one.covers_kind(CardKind::Gpu) && !one.covers_kind(CardKind::Ppu));
}

#[test]
fn families_and_partitions_that_have_no_meaning_are_refused() {
    let families = |prefixes: &[&str]| Settings {
        partition_names: prefixes
            .iter()
            .map(|prefix| PartitionNames {
                prefix: (*prefix).into(),
                kinds: Vec::new(),
            })
            .collect(),
        ..Settings::default()
    };
    assert_eq!(
        families(&["no slash"]).validate(),
        Err(SettingsError::BadPrefix("no slash".into()))
    );
    assert_eq!(
        families(&["a.com/mig-", "a.com/mig-1"]).validate(),
        Err(SettingsError::SamePrefix {
            first: "a.com/mig-".into(),
            second: "a.com/mig-1".into()
        })
    );
    assert!(matches!(
        families(&["kubernetes.io/mig-"]).validate(),
        Err(SettingsError::ReservedDomain(_))
    ));
    let mut part = resource("a.com/part", Gives::Partition, &[]);
    assert_eq!(
        with(vec![part.clone()]).validate(),
        Err(SettingsError::Profile(name("a.com/part")))
    );
    part.profile = ProfileName::new("1g").ok();
    assert_eq!(with(vec![part.clone()]).validate(), Ok(()));
    let twice = ResourceSetting {
        name: name("b.com/part"),
        ..part.clone()
    };
    assert!(matches!(
        with(vec![part, twice]).validate(),
        Err(SettingsError::TwoNames { gives, .. }) if gives == "profile 1g"
    ));
}

#[test]
fn names_for_different_models_stand_beside_each_other() {
    let of = |text: &str, gives, model: &str| ResourceSetting {
        models: vec![model.to_owned()],
        ..resource(text, gives, &[CardKind::Xpu])
    };
    let core = Gives::CorePercent;
    let two = with(vec![
        of("a.com/r200", core, "R200"),
        of("a.com/p800", core, "P800"),
    ]);
    assert_eq!(two.validate(), Ok(()));
    let same = with(vec![
        of("a.com/r200", core, "R200"),
        of("b.com/r200", core, "R200"),
    ]);
    assert!(matches!(
        same.validate(),
        Err(SettingsError::TwoNames { .. })
    ));
    let all = with(vec![
        of("a.com/r200", core, "R200"),
        resource("a.com/core", core, &[]),
    ]);
    assert!(matches!(
        all.validate(),
        Err(SettingsError::TwoNames { .. })
    ));
    let nameless = with(vec![of("a.com/r200", core, "")]);
    assert_eq!(
        nameless.validate(),
        Err(SettingsError::NoModel(name("a.com/r200")))
    );
}

#[test]
fn memory_of_a_kind_of_card_has_one_unit_whatever_the_models() {
    let of = |text: &str, model: &str, unit| ResourceSetting {
        models: vec![model.to_owned()],
        unit: Some(unit),
        ..resource(text, Gives::Memory, &[])
    };
    let with_unit = |unit| {
        with(vec![
            of("a.com/a", "A", MemoryUnit::Gib),
            of("a.com/b", "B", unit),
        ])
        .validate()
    };
    assert_eq!(with_unit(MemoryUnit::Gib), Ok(()));
    assert_eq!(
        with_unit(MemoryUnit::Mib),
        Err(SettingsError::TwoUnits {
            first: name("a.com/a"),
            second: name("a.com/b"),
        })
    );
}

#[test]
fn models_are_read_and_written_and_left_out_where_there_are_none() {
    let text = r#"{"resources":[{"name":"kunlunxin.com/R200","gives":"wholeCard","kinds":["xpu"],"models":["R200-32G"]}]}"#;
    let settings: Settings = serde_json::from_str(text).unwrap();
    assert_eq!(settings.resources[0].models, ["R200-32G"]);
    let written = serde_json::to_string(&settings).unwrap();
    assert!(written.contains(r#""models":["R200-32G"]"#), "{written}");
    let defaults = serde_json::to_string(&Settings::default()).unwrap();
    assert!(!defaults.contains("models"), "{defaults}");
}

//! The contract only grows: what a release had is still there, with its number and type.
//!
//! `buf breaking` makes the same comparison and more; this one needs nothing but cargo.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

use std::{collections::BTreeMap, path::Path};

use prost::Message;
use prost_types::{
    DescriptorProto, EnumDescriptorProto, FieldDescriptorProto, FileDescriptorSet,
    field_descriptor_proto::{Label, Type},
};

/// Each thing of a contract by its full name and number, with all that may not change of it.
type Facts = BTreeMap<String, String>;

fn facts(set: &FileDescriptorSet) -> Facts {
    let mut facts = Facts::new();
    for file in &set.file {
        let package = file.package();
        for message in &file.message_type {
            message_facts(package, message, &mut facts);
        }
        for enumeration in &file.enum_type {
            enum_facts(package, enumeration, &mut facts);
        }
        for service in &file.service {
            for method in &service.method {
                let streams = |is| if is { "stream " } else { "" };
                let signature = format!(
                    "{}{} -> {}{}",
                    streams(method.client_streaming()),
                    method.input_type(),
                    streams(method.server_streaming()),
                    method.output_type()
                );
                let name = format!("rpc {package}.{}/{}", service.name(), method.name());
                facts.insert(name, signature);
            }
        }
    }
    facts
}

fn message_facts(parent: &str, message: &DescriptorProto, facts: &mut Facts) {
    let name = format!("{parent}.{}", message.name());
    facts.insert(format!("message {name}"), String::new());
    for field in &message.field {
        let place = format!("field {name} {}", field.number());
        facts.insert(place, field_fact(message, field));
    }
    for nested in &message.nested_type {
        message_facts(&name, nested, facts);
    }
    for enumeration in &message.enum_type {
        enum_facts(&name, enumeration, facts);
    }
}

fn field_fact(message: &DescriptorProto, field: &FieldDescriptorProto) -> String {
    let oneof = field.oneof_index.map(|index| {
        let index = usize::try_from(index).unwrap();
        message.oneof_decl[index].name().to_owned()
    });
    let label = if field.label() == Label::Repeated {
        "repeated "
    } else {
        ""
    };
    let kind = match field.r#type() {
        Type::Message | Type::Enum => field.type_name().to_owned(),
        plain => format!("{plain:?}"),
    };
    format!(
        "{label}{kind} {} json {} in {oneof:?}",
        field.name(),
        field.json_name()
    )
}

fn enum_facts(parent: &str, enumeration: &EnumDescriptorProto, facts: &mut Facts) {
    for value in &enumeration.value {
        let place = format!("value {parent}.{} {}", enumeration.name(), value.number());
        facts.insert(place, value.name().to_owned());
    }
}

/// What of the old contract is not so in the new one.
fn broken(old: &FileDescriptorSet, new: &FileDescriptorSet) -> Vec<String> {
    let new = facts(new);
    facts(old)
        .into_iter()
        .filter_map(|(place, was)| match new.get(&place) {
            Some(is) if *is == was => None,
            Some(is) => Some(format!("{place} was {was:?}, is {is:?}")),
            None => Some(format!("{place} is gone")),
        })
        .collect()
}

fn baseline() -> FileDescriptorSet {
    FileDescriptorSet::decode(&include_bytes!("../baseline/v1.binpb")[..]).unwrap()
}

fn current() -> FileDescriptorSet {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("proto");
    protox::compile(["runtimekit/runtime/v1/runtime.proto"], [folder]).unwrap()
}

#[test]
fn nothing_that_was_released_has_gone_or_changed() {
    assert_eq!(broken(&baseline(), &current()), Vec::<String>::new());
}

#[test]
fn the_baseline_has_every_call_of_both_sockets() {
    let calls = facts(&baseline())
        .into_keys()
        .filter(|name| name.starts_with("rpc "))
        .count();
    assert_eq!(calls, 12);
}

fn message<'a>(set: &'a mut FileDescriptorSet, name: &str) -> &'a mut DescriptorProto {
    let mut messages = set.file.iter_mut().flat_map(|f| &mut f.message_type);
    messages.find(|m| m.name() == name).unwrap()
}

/// Changes the contract, and gives what the comparison says.
fn after(change: impl FnOnce(&mut FileDescriptorSet)) -> Vec<String> {
    let mut changed = baseline();
    change(&mut changed);
    broken(&baseline(), &changed)
}

#[test]
fn whatever_is_taken_away_renumbered_or_retyped_is_named() {
    let field = |change: &dyn Fn(&mut FieldDescriptorProto)| {
        after(|set| change(&mut message(set, "Card").field[0]))
    };
    for lines in [
        field(&|f| f.number = Some(99)),
        field(&|f| f.name = Some("identity".into())),
        field(&|f| f.set_type(Type::Bytes)),
        field(&|f| f.set_label(Label::Repeated)),
        after(|set| drop(message(set, "Card").field.remove(0))),
    ] {
        assert_eq!(lines.len(), 1, "{lines:?}");
        assert!(lines[0].contains("Card 1"), "{lines:?}");
    }
    let lines = after(|set| message(set, "Grant").field[1].oneof_index = None);
    assert!(lines[0].contains("Grant 2"), "{lines:?}");
    let lines =
        after(|set| message(set, "AllocateResponse").nested_type[0].field[1].set_type(Type::Bytes));
    assert!(lines[0].contains("EnvironmentEntry 2"), "{lines:?}");
    let lines = after(|set| set.file[0].enum_type[0].value[2].number = Some(9));
    assert!(lines[0].contains("XpuKind 2"), "{lines:?}");
    let lines = after(|set| drop(set.file[0].service[0].method.remove(0)));
    assert!(lines[0].contains("ListSupportedXPUType"), "{lines:?}");
    let lines = after(|set| set.file[0].service[0].method[1].server_streaming = Some(false));
    assert!(lines[0].contains("ListAndWatch"), "{lines:?}");
    let lines = after(|set| {
        set.file[0]
            .message_type
            .retain(|m| m.name() != "WholeGrant");
    });
    assert!(lines[0].contains("WholeGrant"), "{lines:?}");
    assert!(!after(|set| set.file[0].package = Some("other".into())).is_empty());
}

#[test]
fn what_is_added_breaks_nothing() {
    let lines = after(|set| {
        let card = message(set, "Card");
        let mut added = card.field[0].clone();
        added.name = Some("serial".into());
        added.number = Some(50);
        card.field.push(added);
        let file = &mut set.file[0];
        let mut value = file.enum_type[0].value[1].clone();
        value.name = Some("XPU_KIND_NPU".into());
        value.number = Some(6);
        file.enum_type[0].value.push(value);
        let mut method = file.service[0].method[0].clone();
        method.name = Some("Reset".into());
        file.service[0].method.push(method);
    });
    assert_eq!(lines, Vec::<String>::new());
}

//! Who may depend on whom, from `cargo metadata`.

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test fails by panicking"
)]

use std::{
    collections::{BTreeMap, BTreeSet},
    process::Command,
};

use anyhow::Context;
use serde_json::Value;

/// Members of the workspace and what each may name in `[dependencies]`, of the workspace's own.
const MAY_USE: [(&str, &[&str]); 15] = [
    ("model", &[]),
    ("kit", &["model"]),
    ("runtime-proto", &["model"]),
    ("kubernetes", &["model"]),
    (
        "device-plugin",
        &["model", "kit", "runtime-proto", "kubernetes"],
    ),
    (
        "scheduler",
        &["model", "kit", "runtime-proto", "kubernetes"],
    ),
    ("exporter", &["model", "kit", "runtime-proto", "kubernetes"]),
    (
        "controller",
        &["model", "kit", "runtime-proto", "kubernetes"],
    ),
    (
        "job-agent",
        &["model", "kit", "runtime-proto", "kubernetes"],
    ),
    ("runtime-sim", &["model", "kit", "runtime-proto"]),
    ("testbed", &["model", "kit", "runtime-proto", "kubernetes"]),
    (
        "scenarios",
        &["model", "kubernetes", "runtime-proto", "testbed"],
    ),
    ("bench", &["model", "kubernetes", "runtime-proto"]),
    ("proto-gen", &[]),
    ("house", &[]),
];

/// Crates that do I/O, read clocks or the environment, or carry wire formats: none is for `model`.
const NOT_FOR_MODEL: [&str; 16] = [
    "tokio",
    "tonic",
    "prost",
    "hyper",
    "axum",
    "kube",
    "k8s-openapi",
    "tower",
    "mio",
    "rand",
    "getrandom",
    "chrono",
    "jiff",
    "time",
    "tracing",
    "clap",
];

/// What `kit` must not know of: Kubernetes and the Runtime.
const NOT_FOR_KIT: [&str; 4] = ["kube", "k8s-openapi", "tonic", "prost"];

struct Member {
    normal: BTreeSet<String>,
    dev: BTreeSet<String>,
}

fn metadata() -> anyhow::Result<Value> {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".into());
    let out = Command::new(cargo)
        .args(["metadata", "--format-version", "1", "--locked"])
        .args(["--filter-platform", "x86_64-unknown-linux-gnu"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()?;
    anyhow::ensure!(
        out.status.success(),
        "cargo metadata: {}",
        String::from_utf8_lossy(&out.stderr)
    );
    Ok(serde_json::from_slice(&out.stdout)?)
}

fn members(metadata: &Value) -> anyhow::Result<BTreeMap<String, Member>> {
    let ids: BTreeSet<&str> = metadata["workspace_members"]
        .as_array()
        .context("members")?
        .iter()
        .filter_map(Value::as_str)
        .collect();
    let mut members = BTreeMap::new();
    for package in metadata["packages"].as_array().context("packages")? {
        if !ids.contains(package["id"].as_str().context("id")?) {
            continue;
        }
        let mut member = Member {
            normal: BTreeSet::new(),
            dev: BTreeSet::new(),
        };
        for dependency in package["dependencies"].as_array().context("dependencies")? {
            let name = dependency["name"].as_str().context("name")?.to_owned();
            if dependency["kind"].is_null() {
                member.normal.insert(name)
            } else {
                member.dev.insert(name)
            };
        }
        members.insert(package["name"].as_str().context("name")?.to_owned(), member);
    }
    Ok(members)
}

/// Everything that `name` pulls in without dev-dependencies.
fn closure(metadata: &Value, name: &str) -> anyhow::Result<BTreeSet<String>> {
    let names: BTreeMap<&str, &str> = metadata["packages"]
        .as_array()
        .context("packages")?
        .iter()
        .filter_map(|p| Some((p["id"].as_str()?, p["name"].as_str()?)))
        .collect();
    let nodes: BTreeMap<&str, &Value> = metadata["resolve"]["nodes"]
        .as_array()
        .context("nodes")?
        .iter()
        .filter_map(|n| Some((n["id"].as_str()?, n)))
        .collect();
    let mut open: Vec<&str> = names
        .iter()
        .filter(|(_, n)| **n == name)
        .map(|(id, _)| *id)
        .collect();
    let mut seen = BTreeSet::new();
    while let Some(id) = open.pop() {
        for dependency in nodes[id]["deps"].as_array().context("deps")? {
            let normal = dependency["dep_kinds"]
                .as_array()
                .is_some_and(|k| k.iter().any(|k| k["kind"].is_null()));
            let id = dependency["pkg"].as_str().context("pkg")?;
            if normal && seen.insert(id) {
                open.push(id);
            }
        }
    }
    Ok(seen.into_iter().map(|id| names[id].to_owned()).collect())
}

#[test]
fn every_crate_depends_on_what_the_house_allows() -> anyhow::Result<()> {
    let metadata = metadata()?;
    let members = members(&metadata)?;
    let rules: BTreeMap<&str, BTreeSet<&str>> = MAY_USE
        .iter()
        .map(|(name, uses)| (*name, uses.iter().copied().collect()))
        .collect();
    assert_eq!(
        members.keys().map(String::as_str).collect::<Vec<_>>(),
        rules.keys().copied().collect::<Vec<_>>(),
        "a crate came or went: say here what it may depend on"
    );
    for (name, member) in &members {
        let used: BTreeSet<&str> = member
            .normal
            .iter()
            .map(String::as_str)
            .filter(|d| rules.contains_key(d))
            .collect();
        let extra: Vec<_> = used.difference(&rules[name.as_str()]).collect();
        assert!(extra.is_empty(), "{name} may not depend on {extra:?}");
    }
    Ok(())
}

#[test]
fn no_program_depends_on_another_or_on_the_stand_ins() -> anyhow::Result<()> {
    let members = members(&metadata()?)?;
    let programs = [
        "device-plugin",
        "scheduler",
        "exporter",
        "controller",
        "job-agent",
    ];
    for name in programs {
        let member = &members[name];
        for other in programs.iter().filter(|other| **other != name) {
            assert!(
                !member.normal.contains(*other) && !member.dev.contains(*other),
                "{name} depends on {other}"
            );
        }
        assert!(
            !member.normal.contains("runtime-sim") && !member.normal.contains("testbed"),
            "{name}"
        );
        assert!(
            !member.dev.contains("testbed"),
            "{name} is tested on the testbed from scenarios, not from itself"
        );
    }
    Ok(())
}

#[test]
fn the_model_is_pure_and_the_kit_knows_no_peer() -> anyhow::Result<()> {
    let metadata = metadata()?;
    for (name, forbidden) in [("model", &NOT_FOR_MODEL[..]), ("kit", &NOT_FOR_KIT[..])] {
        let all = closure(&metadata, name)?;
        let found: Vec<_> = forbidden.iter().filter(|f| all.contains(**f)).collect();
        assert!(found.is_empty(), "{name} pulls in {found:?}");
    }
    Ok(())
}

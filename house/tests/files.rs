//! How source files are named, how long they are, and that each is part of the build.

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test fails by panicking"
)]

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

/// A file past this is two things.
const MOST_LINES: usize = 500;

/// Names that say nothing of what is inside.
const VAGUE: [&str; 8] = [
    "util", "utils", "helper", "helpers", "common", "misc", "manager", "lib_impl",
];

/// Words by which a module outside the generated code names a wire type.
const WIRE: [&str; 6] = [
    "runtime_proto::wire",
    "crate::wire",
    "k8s_openapi::",
    "device_plugin::",
    "plugin_registration::",
    "pod_resources_wire",
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("the workspace")
        .to_owned()
}

fn members() -> Vec<PathBuf> {
    let text = fs::read_to_string(root().join("Cargo.toml")).expect("Cargo.toml");
    let members = text
        .split("members = [")
        .nth(1)
        .and_then(|t| t.split(']').next())
        .expect("members");
    members
        .split('"')
        .skip(1)
        .step_by(2)
        .map(|m| root().join(m))
        .collect()
}

fn sources(folder: &Path, into: &mut Vec<PathBuf>) {
    let Ok(entries) = fs::read_dir(folder) else {
        return;
    };
    for entry in entries.flatten() {
        let path = entry.path();
        if path.is_dir() {
            if !path.ends_with("generated") && !path.ends_with("target") {
                sources(&path, into);
            }
        } else if path.extension().is_some_and(|e| e == "rs") {
            into.push(path);
        }
    }
}

fn all_sources() -> Vec<PathBuf> {
    let mut all = Vec::new();
    for member in members() {
        sources(&member, &mut all);
    }
    assert!(all.len() > 50, "found only {} source files", all.len());
    all
}

fn short(path: &Path) -> String {
    path.strip_prefix(root())
        .unwrap_or(path)
        .display()
        .to_string()
}

fn stem(path: &Path) -> &str {
    path.file_stem()
        .and_then(|s| s.to_str())
        .unwrap_or_default()
}

#[test]
fn no_file_is_two_things() {
    let long: Vec<_> = all_sources()
        .iter()
        .filter_map(|p| {
            let lines = fs::read_to_string(p).ok()?.lines().count();
            (lines > MOST_LINES).then(|| format!("{}: {lines} lines", short(p)))
        })
        .collect();
    assert!(
        long.is_empty(),
        "past {MOST_LINES} lines:\n{}",
        long.join("\n")
    );
}

#[test]
fn file_names_say_what_is_inside() {
    let vague: Vec<_> = all_sources()
        .iter()
        .filter(|p| VAGUE.contains(&stem(p)))
        .map(|p| short(p))
        .collect();
    assert!(vague.is_empty(), "{vague:?}");
}

#[test]
fn main_is_one_call() {
    for member in members() {
        if let Ok(text) = fs::read_to_string(member.join("src/main.rs"))
            && !member.ends_with("proto-gen")
        {
            assert!(
                text.lines().count() <= 20,
                "{} has more than 20 lines",
                short(&member.join("src/main.rs"))
            );
        }
    }
}

/// Follows `mod` lines from each crate root; what is left over is compiled by nobody.
#[test]
fn every_module_is_reached() {
    let mut orphans = Vec::new();
    for member in members() {
        let mut all = Vec::new();
        sources(&member.join("src"), &mut all);
        let mut reached = BTreeSet::new();
        for start in ["lib.rs", "main.rs"] {
            follow(&member.join("src").join(start), &mut reached);
        }
        orphans.extend(
            all.iter()
                .filter(|p| !reached.contains(*p))
                .map(|p| short(p)),
        );
    }
    assert!(orphans.is_empty(), "no `mod` leads to {orphans:?}");
}

fn follow(file: &Path, reached: &mut BTreeSet<PathBuf>) {
    let Ok(text) = fs::read_to_string(file) else {
        return;
    };
    if !reached.insert(file.to_owned()) {
        return;
    }
    let folder = file.parent().unwrap_or(file);
    let home = if ["lib", "main", "mod"].contains(&stem(file)) {
        folder.to_owned()
    } else {
        folder.join(stem(file))
    };
    let mut path_attribute = None;
    for line in text.lines().map(str::trim) {
        if let Some(path) = line
            .strip_prefix("#[path = \"")
            .and_then(|l| l.split('"').next())
        {
            path_attribute = Some(folder.join(path));
            continue;
        }
        let declared = line
            .trim_start_matches("pub(crate) ")
            .trim_start_matches("pub(super) ")
            .trim_start_matches("pub ")
            .strip_prefix("mod ")
            .and_then(|l| l.strip_suffix(';'));
        if let Some(name) = declared {
            if let Some(path) = path_attribute.take() {
                follow(&path, reached);
            }
            follow(&home.join(format!("{name}.rs")), reached);
            follow(&home.join(name).join("mod.rs"), reached);
        }
    }
}

/// Decisions are made on model types; only `convert` knows both these and a wire format.
#[test]
fn only_convert_names_both_a_wire_type_and_a_model_type() {
    let mut both = Vec::new();
    for path in all_sources() {
        let inside = short(&path);
        let stands_in = [
            "testbed",
            "scenarios",
            "runtime-sim",
            "bench",
            "proto-gen",
            "house",
        ]
        .iter()
        .any(|c| inside.starts_with(c));
        let is_test = stem(&path).ends_with("tests")
            || inside.contains("/tests/")
            || inside.contains("/benches/");
        let is_convert = stem(&path) == "convert" || inside.contains("/convert/");
        if stands_in || is_test || is_convert {
            continue;
        }
        let text = fs::read_to_string(&path).unwrap_or_default();
        let code = text.split("#[cfg(test)]").next().unwrap_or_default();
        let lines: Vec<_> = code
            .lines()
            .filter(|l| !l.trim_start().starts_with("//"))
            .collect();
        let names = |word: &str| lines.iter().any(|l| l.contains(word));
        if names("model::") && WIRE.iter().any(|w| names(w)) {
            both.push(inside);
        }
    }
    assert!(
        both.is_empty(),
        "both a wire type and a model type:\n{}",
        both.join("\n")
    );
}

#[test]
fn nothing_names_a_machine_s_own_paths() {
    let mut found = Vec::new();
    for path in all_sources() {
        let text = fs::read_to_string(&path).unwrap_or_default();
        for word in ["/home/", "/root/", concat!("/wo", "rk/")] {
            if text.contains(word) && !path.ends_with("house/tests/files.rs") {
                found.push(format!("{}: {word}", short(&path)));
            }
        }
    }
    assert!(found.is_empty(), "{found:?}");
}

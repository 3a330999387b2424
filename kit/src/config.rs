//! Loading a YAML file with errors that name file, line and key.

use std::{fs::File, io::Read, path::Path};

use serde::de::DeserializeOwned;
use serde_saphyr::{
    Error, Options,
    options::{AliasLimits, DuplicateKeyPolicy, MergeKeyPolicy},
};

use crate::{Failure, failure::one_line};

/// More than any configuration or card profile needs; etcd takes no more in one object.
const MOST_BYTES: u64 = 1 << 20;

/// Reads `path`. Errors are one line: `FILE:LINE:COLUMN: unknown key "nodeLable", did you mean
/// "nodeLabel"?` and the like; they are [`Failure::Usage`]. An empty file is an empty mapping.
pub fn load<T: DeserializeOwned>(path: &Path) -> Result<T, Failure> {
    let source = path.display().to_string();
    let text = read(path).map_err(|why| Failure::Usage(one_line(&format!("{source}: {why}"))))?;
    parse(&text, &source)
}

fn read(path: &Path) -> Result<String, String> {
    let file = File::open(path).map_err(|error| error.to_string())?;
    let mut bytes = Vec::new();
    // One byte more than allowed tells a file that is too long, whatever its metadata says.
    file.take(MOST_BYTES + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| error.to_string())?;
    if u64::try_from(bytes.len()).is_ok_and(|length| length > MOST_BYTES) {
        return Err(format!("longer than {MOST_BYTES} bytes"));
    }
    String::from_utf8(bytes)
        .map_err(|error| format!("not UTF-8 at byte {}", error.utf8_error().valid_up_to() + 1))
}

/// Parses `text`; `source` names it in errors.
pub fn parse<T: DeserializeOwned>(text: &str, source: &str) -> Result<T, Failure> {
    let text = if is_blank(text) { "{}" } else { text };
    serde_saphyr::from_str_with_options(text, options()).map_err(|error| {
        let place = error
            .location()
            .filter(|location| location.line() > 0)
            .map(|location| format!(":{}:{}", location.line(), location.column()))
            .unwrap_or_default();
        Failure::Usage(one_line(&format!(
            "{source}{place}: {}",
            describe(error.without_snippet())
        )))
    })
}

/// Nothing but comments, blank lines and document markers.
fn is_blank(text: &str) -> bool {
    text.lines().all(|line| {
        let line = line.trim();
        line.is_empty() || line.starts_with('#') || line == "---"
    })
}

fn options() -> Options {
    serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_documents: 1,
            max_depth: 32,
            max_nodes: 100_000,
            max_aliases: 1_000,
        },
        duplicate_keys: DuplicateKeyPolicy::Error,
        merge_keys: MergeKeyPolicy::Error,
        alias_limits: aliases(),
        strict_booleans: true,
        with_snippet: false,
    }
}

/// An alias or two to say something once; far from what an alias bomb needs.
fn aliases() -> AliasLimits {
    serde_saphyr::alias_limits! {
        max_total_replayed_events: 10_000,
        max_replay_stack_depth: 4,
        max_alias_expansions_per_anchor: 100,
    }
}

fn describe(error: &Error) -> String {
    match error {
        Error::SerdeUnknownField {
            field, expected, ..
        } => format!("unknown key {field:?}{}", hint(field, expected)),
        Error::SerdeUnknownVariant {
            variant, expected, ..
        } => format!(
            "{variant:?} is not one of {}{}",
            expected.join(", "),
            hint(variant, expected)
        ),
        Error::SerdeMissingField { field, .. } => format!("key {field:?} is missing"),
        Error::DuplicateMappingKey { key: Some(key), .. } => format!("key {key:?} is there twice"),
        Error::SerdeInvalidType {
            unexpected,
            expected,
            ..
        }
        | Error::SerdeInvalidValue {
            unexpected,
            expected,
            ..
        } => format!("expected {expected}, found {unexpected}"),
        Error::MultipleDocuments { .. } => "more than one document".to_owned(),
        other => other.to_string(),
    }
}

/// `, did you mean "…"?` for the nearest, where one is near; all of them, where none is and they
/// are few.
fn hint(wrong: &str, expected: &[&str]) -> String {
    let near = expected
        .iter()
        .map(|name| {
            (
                strsim::jaro_winkler(&wrong.to_lowercase(), &name.to_lowercase()),
                name,
            )
        })
        .filter(|(likeness, _)| *likeness > 0.8)
        .max_by(|a, b| a.0.total_cmp(&b.0));
    match near {
        Some((_, name)) => format!(", did you mean {name:?}?"),
        None if expected.is_empty() => String::new(),
        None => format!(", known here: {}", expected.join(", ")),
    }
}

#[cfg(test)]
#[path = "config_tests.rs"]
mod tests;

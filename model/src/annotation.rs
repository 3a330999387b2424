//! What the kit writes on pods and nodes: versioned, compact JSON.
//!
//! An unknown version or a value that cannot be decoded is an error that the caller must treat
//! as "in use", never as free. Unknown fields are passed over: a later kit of the same version
//! may write more.

mod inventory;
mod plan;

use serde::{Deserialize, de::DeserializeOwned};

pub use inventory::{Published, read_inventory, write_inventory};
pub use plan::{read_plan, write_plan};

/// The version that is written, and the only one that is read.
const VERSION: u64 = 1;

/// Far more than the plan of any real pod: it has room for some 2,000 grants.
pub const MOST_PLAN_BYTES: usize = 64 << 10;

/// What Kubernetes takes for all annotations of one object together.
pub const MOST_INVENTORY_BYTES: usize = 256 << 10;

/// Why an annotation's value cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AnnotationError {
    /// Not of the form that its version says.
    #[error("{0}")]
    Malformed(String),
    /// Written by a newer kit.
    #[error("version {0} is newer than this program understands ({VERSION})")]
    Version(u64),
    /// Longer than anything the kit writes.
    #[error("{0} bytes long, more than the {1} that can be right")]
    TooLong(usize, usize),
}

impl AnnotationError {
    /// The words of a decoder can repeat any length of the value.
    fn malformed(why: &impl ToString) -> Self {
        Self::Malformed(why.to_string().chars().take(200).collect())
    }
}

/// What every version has.
#[derive(Deserialize)]
struct Versioned {
    v: u64,
}

fn read<T: DeserializeOwned>(text: &str, most: usize) -> Result<T, AnnotationError> {
    if text.len() > most {
        return Err(AnnotationError::TooLong(text.len(), most));
    }
    let from_json = |error: serde_json::Error| AnnotationError::malformed(&error);
    let Versioned { v } = serde_json::from_str(text).map_err(from_json)?;
    if v > VERSION {
        return Err(AnnotationError::Version(v));
    }
    if v < VERSION {
        return Err(AnnotationError::Malformed(format!(
            "there is no version {v}"
        )));
    }
    serde_json::from_str(text).map_err(from_json)
}

/// Serializing plain structs into a string has no way to fail; were there one, the empty text
/// reads as malformed, and so as in use.
fn write(value: &impl serde::Serialize) -> String {
    serde_json::to_string(value).unwrap_or_default()
}

#[cfg(test)]
mod tests;

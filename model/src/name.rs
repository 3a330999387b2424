//! Names of things: cards, nodes, pods, containers, resources. Checked where they are made.

use std::{borrow::Borrow, fmt, sync::Arc};

use serde::{Deserialize, Serialize};

/// Why a text is not a name of that kind.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{kind} {value:?} {why}")]
pub struct NameError {
    /// What was to be named, such as `card id`.
    pub kind: &'static str,
    /// The text, cut to 80 characters.
    pub value: String,
    /// The rule that it breaks.
    pub why: &'static str,
}

impl NameError {
    fn new(kind: &'static str, value: &str, why: &'static str) -> Self {
        Self {
            kind,
            value: value.chars().take(80).collect(),
            why,
        }
    }
}

macro_rules! name {
    ($(#[$doc:meta])* $name:ident, $kind:literal, $check:path) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(Arc<str>);

        impl $name {
            /// Checks `text` and makes it a name.
            pub fn new(text: &str) -> Result<Self, NameError> {
                match $check(text) {
                    Ok(()) => Ok(Self(text.into())),
                    Err(why) => Err(NameError::new($kind, text, why)),
                }
            }

            /// The text of it.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(&*self.0, f)
            }
        }

        impl Borrow<str> for $name {
            fn borrow(&self) -> &str {
                &self.0
            }
        }

        impl TryFrom<String> for $name {
            type Error = NameError;
            fn try_from(text: String) -> Result<Self, NameError> {
                Self::new(&text)
            }
        }

        impl std::str::FromStr for $name {
            type Err = NameError;
            fn from_str(text: &str) -> Result<Self, NameError> {
                Self::new(text)
            }
        }

        impl From<$name> for String {
            fn from(name: $name) -> String {
                name.0.as_ref().to_owned()
            }
        }
    };
}

name!(
    /// A card of one node, as its Runtime names it: `[a-z0-9-]`, 1 to 40 characters, so that a
    /// device id built from it stays within kubelet's 63.
    CardId, "card id", card_id
);
name!(
    /// A Kubernetes node: 1 to 253 characters.
    NodeName, "node name", dns_name
);
name!(
    /// A pod's namespace: 1 to 63 characters.
    Namespace, "namespace", dns_label
);
name!(
    /// A pod's name within its namespace: 1 to 253 characters.
    PodName, "pod name", dns_name
);
name!(
    /// A pod's unique id: any 1 to 128 visible ASCII characters.
    PodUid, "pod uid", visible
);
name!(
    /// A container's name within its pod: 1 to 63 characters.
    ContainerName, "container name", dns_label
);
name!(
    /// An extended resource: `<domain>/<name>`.
    ResourceName, "resource name", resource
);
name!(
    /// A partition profile such as `1g.18gb`: `[a-z0-9.+-]`, 1 to 32 characters.
    ProfileName, "partition profile", profile
);

/// A pod by namespace and name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PodRef {
    /// Its namespace.
    pub namespace: Namespace,
    /// Its name.
    pub name: PodName,
}

impl fmt::Display for PodRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

fn only(
    text: &str,
    max: usize,
    allowed: fn(u8) -> bool,
    why: &'static str,
) -> Result<(), &'static str> {
    if !text.is_empty() && text.len() <= max && text.bytes().all(allowed) {
        Ok(())
    } else {
        Err(why)
    }
}

fn card_id(text: &str) -> Result<(), &'static str> {
    only(
        text,
        40,
        |b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-',
        "must be 1 to 40 of a-z, 0-9 and -",
    )
}

fn dns_name(text: &str) -> Result<(), &'static str> {
    only(
        text,
        253,
        |b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-' || b == b'.',
        "must be 1 to 253 of a-z, 0-9, - and .",
    )
}

fn dns_label(text: &str) -> Result<(), &'static str> {
    only(
        text,
        63,
        |b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-',
        "must be 1 to 63 of a-z, 0-9 and -",
    )
}

fn visible(text: &str) -> Result<(), &'static str> {
    only(
        text,
        128,
        |b| b.is_ascii_graphic(),
        "must be 1 to 128 visible ASCII characters",
    )
}

fn profile(text: &str) -> Result<(), &'static str> {
    only(
        text,
        32,
        |b| b.is_ascii_lowercase() || b.is_ascii_digit() || matches!(b, b'.' | b'+' | b'-'),
        "must be 1 to 32 of a-z, 0-9, ., + and -",
    )
}

fn resource(text: &str) -> Result<(), &'static str> {
    const WHY: &str = "must be <domain>/<name>, the name 1 to 63 of letters, digits, -, _ and .";
    let (domain, name) = text.split_once('/').ok_or(WHY)?;
    dns_name(domain).map_err(|_| WHY)?;
    only(
        name,
        63,
        |b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'),
        WHY,
    )?;
    let ends = |b: Option<&u8>| b.is_some_and(u8::is_ascii_alphanumeric);
    if ends(name.as_bytes().first()) && ends(name.as_bytes().last()) {
        Ok(())
    } else {
        Err(WHY)
    }
}

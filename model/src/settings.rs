//! The names that an administrator can change, all in one file read by every program
//! (the `ConfigMap` called `lj-runtimekit-config`). What is left out has the default shown here.

mod placement;
mod resource;

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use crate::{
    card::{CardKind, Inventory},
    name::ResourceName,
    quantity::MemoryUnit,
};

pub use placement::{BadPlacement, PlacementSetting, Policy};
pub use resource::{Gives, PartitionNames, ResourceSetting};

/// The whole file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Settings {
    /// The label that switches a node on.
    pub node_label: NodeLabel,
    /// Keys of the annotations that the kit writes.
    pub annotations: AnnotationKeys,
    /// The resources that nodes offer.
    pub resources: Vec<ResourceSetting>,
    /// Families of resources with a name for each partition profile.
    pub partition_names: Vec<PartitionNames>,
    /// How the scheduler and the device plugin choose a card.
    pub placement: PlacementSetting,
}

/// A node belongs to the kit when this label has this value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct NodeLabel {
    /// Label key.
    pub key: String,
    /// The value it must have.
    pub value: String,
}

/// Keys of the annotations that the kit writes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct AnnotationKeys {
    /// On a pod: the scheduler's plan.
    pub assigned: String,
    /// On a pod: what kubelet really gave.
    pub allocated: String,
    /// On a pod, written by its maker: how to choose its cards and node.
    pub placement: String,
    /// On a node: its cards.
    pub inventory: String,
    /// On a node: the resource names that the kit gave it.
    pub owned_resources: String,
    /// On a node: the outcome of the controller's last switch.
    pub last_action_status: String,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            node_label: NodeLabel::default(),
            annotations: AnnotationKeys::default(),
            resources: default_resources(),
            partition_names: vec![PartitionNames {
                prefix: "alibabacloud.com/ppu-".into(),
                kinds: vec![CardKind::Ppu],
            }],
            placement: PlacementSetting::default(),
        }
    }
}

impl Default for NodeLabel {
    fn default() -> Self {
        Self {
            key: "lj_runtimekit_enable".into(),
            value: "true".into(),
        }
    }
}

impl Default for AnnotationKeys {
    fn default() -> Self {
        Self {
            assigned: "lj-runtimekit/assigned".into(),
            allocated: "lj-runtimekit/allocated".into(),
            placement: "lj-runtimekit/placement".into(),
            inventory: "lj-runtimekit/inventory".into(),
            owned_resources: "lj-runtimekit/owned-resources".into(),
            last_action_status: "lj-runtimekit-controller/last-action-status".into(),
        }
    }
}

impl AnnotationKeys {
    /// Each field's place in the file, and its value.
    fn fields(&self) -> [(&'static str, &str); 6] {
        [
            ("annotations.assigned", &self.assigned),
            ("annotations.allocated", &self.allocated),
            ("annotations.placement", &self.placement),
            ("annotations.inventory", &self.inventory),
            ("annotations.ownedResources", &self.owned_resources),
            ("annotations.lastActionStatus", &self.last_action_status),
        ]
    }
}

fn default_resources() -> Vec<ResourceSetting> {
    let one = |name: &str, gives, kinds: &[CardKind]| {
        ResourceName::new(name).ok().map(|name| ResourceSetting {
            name,
            gives,
            unit: (gives == Gives::Memory).then_some(MemoryUnit::Gib),
            profile: None,
            kinds: kinds.to_vec(),
            models: Vec::new(),
        })
    };
    [
        one("aliyun.com/gpu", Gives::WholeCard, &[]),
        one("alibabacloud.com/ppu", Gives::WholeCard, &[CardKind::Ppu]),
        one("aliyun.com/gpu-core", Gives::CorePercent, &[]),
        one("aliyun.com/gpu-memory", Gives::Memory, &[]),
        one("aliyun.com/gpu-slice", Gives::Slice, &[]),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// Why settings that parse cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SettingsError {
    /// Two resources of one name.
    #[error("resources: {0} is there twice")]
    DuplicateResource(ResourceName),
    /// More than one name for a kind of card's core, or for its memory.
    #[error("resources: {second} and {first} both give {gives} of the same cards")]
    TwoNames {
        /// The earlier one.
        first: ResourceName,
        /// The later one.
        second: ResourceName,
        /// `core`, `memory`, `slices` or `profile` and its name.
        gives: String,
    },
    /// A card has one model, and it is not empty.
    #[error("resources: {0}: models has an empty name; leave models out for all models")]
    NoModel(ResourceName),
    /// Whatever the models, memory of one kind of card is counted in one unit.
    #[error("resources: {second} and {first} count memory of one kind of card in two units")]
    TwoUnits {
        /// The earlier one.
        first: ResourceName,
        /// The later one.
        second: ResourceName,
    },
    /// A unit where none belongs.
    #[error("resources: {0}: unit is only for memory")]
    UnitWithoutMemory(ResourceName),
    /// A partition of which profile?
    #[error(
        "resources: {0}: a partition needs its profile, such as 1g.18gb, and nothing else has one"
    )]
    Profile(ResourceName),
    /// No name can be made of it.
    #[error("partitionNames: {0:?} with a profile after it is not a resource name")]
    BadPrefix(String),
    /// Two families make one name.
    #[error("partitionNames: {second:?} makes names that {first:?} makes too")]
    SamePrefix {
        /// The earlier one.
        first: String,
        /// The later one.
        second: String,
    },
    /// An annotation or label key that Kubernetes would refuse.
    #[error("{field}: {value:?} is not a valid label or annotation key")]
    BadKey {
        /// Where in the file.
        field: &'static str,
        /// What stood there.
        value: String,
    },
    /// A label value that Kubernetes would refuse.
    #[error("{field}: {value:?} is not a valid label value")]
    BadValue {
        /// Where in the file.
        field: &'static str,
        /// What stood there.
        value: String,
    },
    /// Two annotations under one key would overwrite each other.
    #[error("{second}: {value:?} is the key of {first} too")]
    SameKey {
        /// The earlier field.
        first: &'static str,
        /// The later field.
        second: &'static str,
        /// The key.
        value: String,
    },
    /// Nothing for pods to ask for.
    #[error("resources: at least one is needed")]
    NoResources,
    /// A name that kubelet does not take for an extended resource.
    #[error("resources: {0} is in a domain that Kubernetes keeps for itself")]
    ReservedDomain(ResourceName),
}

impl Settings {
    /// Checks what the file's form alone cannot.
    pub fn validate(&self) -> Result<(), SettingsError> {
        let keys = self.annotations.fields();
        if !is_key(&self.node_label.key) {
            return Err(SettingsError::BadKey {
                field: "nodeLabel.key",
                value: self.node_label.key.clone(),
            });
        }
        if !self.node_label.value.is_empty() && !is_name(&self.node_label.value) {
            return Err(SettingsError::BadValue {
                field: "nodeLabel.value",
                value: self.node_label.value.clone(),
            });
        }
        for (at, (field, value)) in keys.iter().copied().enumerate() {
            if !is_key(value) {
                return Err(SettingsError::BadKey {
                    field,
                    value: value.to_owned(),
                });
            }
            if let Some((first, _)) = keys.iter().take(at).find(|(_, other)| *other == value) {
                return Err(SettingsError::SameKey {
                    first,
                    second: field,
                    value: value.to_owned(),
                });
            }
        }
        self.validate_resources()
    }

    fn validate_resources(&self) -> Result<(), SettingsError> {
        if self.resources.is_empty() {
            return Err(SettingsError::NoResources);
        }
        for (at, resource) in self.resources.iter().enumerate() {
            if resource.unit.is_some() && resource.gives != Gives::Memory {
                return Err(SettingsError::UnitWithoutMemory(resource.name.clone()));
            }
            if resource.profile.is_some() != (resource.gives == Gives::Partition) {
                return Err(SettingsError::Profile(resource.name.clone()));
            }
            if resource.models.iter().any(String::is_empty) {
                return Err(SettingsError::NoModel(resource.name.clone()));
            }
            if is_reserved(&resource.name) {
                return Err(SettingsError::ReservedDomain(resource.name.clone()));
            }
            for earlier in self.resources.iter().take(at) {
                if earlier.name == resource.name {
                    return Err(SettingsError::DuplicateResource(resource.name.clone()));
                }
                let both_memory = resource.gives == Gives::Memory && earlier.gives == Gives::Memory;
                if both_memory
                    && resource.memory_unit() != earlier.memory_unit()
                    && earlier.overlaps_in_kind(resource)
                    && !earlier.overlaps(resource)
                {
                    return Err(SettingsError::TwoUnits {
                        first: earlier.name.clone(),
                        second: resource.name.clone(),
                    });
                }
                let gives = match (resource.gives, &resource.profile) {
                    (Gives::WholeCard, _) => continue,
                    (Gives::CorePercent, _) => "core".into(),
                    (Gives::Memory, _) => "memory".into(),
                    (Gives::Slice, _) => "slices".into(),
                    (Gives::Partition, None) => "partitions".into(),
                    (Gives::Partition, Some(profile)) => format!("profile {profile}"),
                };
                let same = earlier.gives == resource.gives && earlier.profile == resource.profile;
                if same && earlier.overlaps(resource) {
                    return Err(SettingsError::TwoNames {
                        first: earlier.name.clone(),
                        second: resource.name.clone(),
                        gives,
                    });
                }
            }
        }
        for (at, family) in self.partition_names.iter().enumerate() {
            let bad = || SettingsError::BadPrefix(family.prefix.clone());
            let name = ResourceName::new(&format!("{}1g", family.prefix)).map_err(|_| bad())?;
            if is_reserved(&name) {
                return Err(SettingsError::ReservedDomain(name));
            }
            let earlier = self.partition_names.iter().take(at);
            let mut same = earlier.filter(|earlier| {
                earlier.prefix.starts_with(&family.prefix)
                    || family.prefix.starts_with(&earlier.prefix)
            });
            if let Some(first) = same.next() {
                return Err(SettingsError::SamePrefix {
                    first: first.prefix.clone(),
                    second: family.prefix.clone(),
                });
            }
        }
        Ok(())
    }

    /// The setting of that resource, if it is one of ours.
    pub fn resource(&self, name: &str) -> Option<Cow<'_, ResourceSetting>> {
        if let Some(own) = self.resources.iter().find(|r| r.name.as_str() == name) {
            return Some(Cow::Borrowed(own));
        }
        let mut families = self.partition_names.iter();
        families.find_map(|f| f.resource(name)).map(Cow::Owned)
    }

    /// The resources that these cards may serve, those of their partition profiles included.
    pub fn resources_of(&self, inventory: &Inventory) -> Vec<Cow<'_, ResourceSetting>> {
        let own = self.resources.iter().map(Cow::Borrowed);
        let families = self.partition_names.iter();
        let families = families.flat_map(|family| family.resources_of(inventory));
        let named = |name: &ResourceName| self.resources.iter().any(|r| r.name == *name);
        let families = families.filter(|made| !named(&made.name));
        own.chain(families.map(Cow::Owned)).collect()
    }

    /// A resource by which memory of cards of this kind is asked for: valid settings have one, or
    /// several for different models in the same unit.
    pub fn memory_of(&self, kind: CardKind) -> Option<&ResourceSetting> {
        self.resources
            .iter()
            .find(|r| r.gives == Gives::Memory && r.covers_kind(kind))
    }

    /// What memory of cards of this kind is counted in: the unit of their memory resource, or
    /// GiB where they have none.
    pub fn memory_unit_of(&self, kind: CardKind) -> MemoryUnit {
        self.memory_of(kind)
            .map_or(MemoryUnit::Gib, ResourceSetting::memory_unit)
    }
}

/// A label or annotation key as Kubernetes takes it: an optional DNS name of at most 253
/// characters and `/`, then a name.
fn is_key(text: &str) -> bool {
    match text.split_once('/') {
        Some((prefix, name)) => is_domain(prefix) && is_name(name),
        None => is_name(text),
    }
}

/// 1 to 63 letters, digits, `-`, `_` and `.`, the first and last a letter or digit.
fn is_name(text: &str) -> bool {
    (1..=63).contains(&text.len())
        && text
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'))
        && text.starts_with(|c: char| c.is_ascii_alphanumeric())
        && text.ends_with(|c: char| c.is_ascii_alphanumeric())
}

/// RFC 1123 as Kubernetes reads it: parts of `a-z`, `0-9` and inner `-`, joined by dots.
fn is_domain(text: &str) -> bool {
    text.len() <= 253
        && text.split('.').all(|part| {
            part.bytes()
                .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
                && !part.is_empty()
                && !part.starts_with('-')
                && !part.ends_with('-')
        })
}

/// Kubelet takes no extended resource with `kubernetes.io/` or `requests.` in front: see
/// `IsExtendedResourceName` of its core helpers.
fn is_reserved(name: &ResourceName) -> bool {
    let domain = name
        .as_str()
        .split_once('/')
        .map_or("", |(domain, _)| domain);
    domain.ends_with("kubernetes.io") || domain.starts_with("requests.") || !is_domain(domain)
}

#[cfg(test)]
#[path = "settings_tests.rs"]
mod tests;

//! The names that an administrator can change, all in one file read by every program
//! (ConfigMap `lj-runtimekit-config`). What is left out has the default shown here.

use serde::{Deserialize, Serialize};

use crate::{card::CardKind, name::ResourceName, quantity::MemoryUnit};

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
    /// On a node: its cards.
    pub inventory: String,
    /// On a node: the resource names that the kit gave it.
    pub owned_resources: String,
    /// On a node: the outcome of the controller's last switch.
    pub last_action_status: String,
}

/// One resource name and what it stands for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ResourceSetting {
    /// What pods ask for.
    pub name: ResourceName,
    /// What one of it is.
    pub gives: Gives,
    /// For memory: what one of it stands for. GiB where left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unit: Option<MemoryUnit>,
    /// Only cards of these kinds count; all kinds where left out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub kinds: Vec<CardKind>,
}

impl ResourceSetting {
    /// The memory unit; only meaningful where `gives` is memory.
    pub fn memory_unit(&self) -> MemoryUnit {
        self.unit.unwrap_or(MemoryUnit::Gib)
    }

    /// Whether a card of this kind counts.
    pub fn covers(&self, kind: CardKind) -> bool {
        self.kinds.is_empty() || self.kinds.contains(&kind)
    }
}

/// What one of a resource is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Gives {
    /// One card, alone.
    WholeCard,
    /// One percent of a card's compute.
    CorePercent,
    /// One unit of a card's memory.
    Memory,
}

/// How to choose among cards and nodes that fit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct PlacementSetting {
    /// Among the cards of a node.
    pub cards: Policy,
    /// Among nodes.
    pub nodes: Policy,
}

/// Fill up, or spread out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Policy {
    /// The fullest that fits, so that whole cards stay free.
    #[default]
    Binpack,
    /// The emptiest.
    Spread,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            node_label: NodeLabel::default(),
            annotations: AnnotationKeys::default(),
            resources: default_resources(),
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
            inventory: "lj-runtimekit/inventory".into(),
            owned_resources: "lj-runtimekit/owned-resources".into(),
            last_action_status: "lj-runtimekit-controller/last-action-status".into(),
        }
    }
}

fn default_resources() -> Vec<ResourceSetting> {
    let one = |name: &str, gives, kinds: &[CardKind]| {
        ResourceName::new(name).ok().map(|name| ResourceSetting {
            name,
            gives,
            unit: (gives == Gives::Memory).then_some(MemoryUnit::Gib),
            kinds: kinds.to_vec(),
        })
    };
    [
        one("aliyun.com/gpu", Gives::WholeCard, &[]),
        one("alibabacloud.com/ppu", Gives::WholeCard, &[CardKind::Ppu]),
        one("aliyun.com/gpu-core", Gives::CorePercent, &[]),
        one("aliyun.com/gpu-memory", Gives::Memory, &[]),
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
        /// `core` or `memory`.
        gives: &'static str,
    },
    /// A unit where none belongs.
    #[error("resources: {0}: unit is only for memory")]
    UnitWithoutMemory(ResourceName),
    /// An annotation or label key that Kubernetes would refuse.
    #[error("{field}: {value:?} is not a valid label or annotation key")]
    BadKey {
        /// Where in the file.
        field: &'static str,
        /// What stood there.
        value: String,
    },
}

impl Settings {
    /// Checks what the file's form alone cannot.
    pub fn validate(&self) -> Result<(), SettingsError> {
        todo!("helper")
    }

    /// The setting of that resource, if it is one of ours.
    pub fn resource(&self, name: &str) -> Option<&ResourceSetting> {
        self.resources.iter().find(|r| r.name.as_str() == name)
    }
}

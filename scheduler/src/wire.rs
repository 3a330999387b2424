//! The extender's JSON, as kube-scheduler's `extender/v1` has it: keys with capitals, the
//! Kubernetes objects inside in camelCase, unset is null. Only what is read is decoded, and
//! texts are borrowed from the body where JSON allows.

use std::{borrow::Cow, collections::BTreeMap, fmt, marker::PhantomData};

use serde::{
    Deserialize, Deserializer, Serialize,
    de::{MapAccess, Visitor},
};
use serde_json::value::RawValue;

/// A text that is borrowed from the body unless it has escapes.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize, Default)]
#[serde(transparent)]
pub struct Text<'a>(#[serde(borrow)] pub Cow<'a, str>);

/// A quantity: text, or a number as people write it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Quantity<'a>(pub Cow<'a, str>);

impl<'de: 'a, 'a> Deserialize<'de> for Quantity<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct TextOrNumber;
        impl<'de> Visitor<'de> for TextOrNumber {
            type Value = Quantity<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a quantity")
            }
            fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
                Ok(Quantity(Cow::Borrowed(text)))
            }
            fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
                Ok(Quantity(Cow::Owned(text.to_owned())))
            }
            fn visit_u64<E>(self, number: u64) -> Result<Self::Value, E> {
                Ok(Quantity(Cow::Owned(number.to_string())))
            }
            fn visit_i64<E>(self, number: i64) -> Result<Self::Value, E> {
                Ok(Quantity(Cow::Owned(number.to_string())))
            }
            fn visit_f64<E>(self, number: f64) -> Result<Self::Value, E> {
                Ok(Quantity(Cow::Owned(number.to_string())))
            }
        }
        deserializer.deserialize_any(TextOrNumber)
    }
}

/// A JSON object, or null, as a list of its entries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entries<'a, V>(pub Vec<(Text<'a>, V)>);

impl<V> Default for Entries<'_, V> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<'de: 'a, 'a, V: Deserialize<'de>> Deserialize<'de> for Entries<'a, V> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Object<V>(PhantomData<V>);
        impl<'de, V: Deserialize<'de>> Visitor<'de> for Object<V> {
            type Value = Entries<'de, V>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }
            fn visit_unit<E>(self) -> Result<Self::Value, E> {
                Ok(Entries::default())
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut entries = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    entries.push(entry);
                }
                Ok(Entries(entries))
            }
        }
        deserializer.deserialize_any(Object(PhantomData))
    }
}

/// The part of an object's metadata that matters.
#[derive(Debug, Clone, Default, Deserialize)]
pub struct Meta<'a> {
    /// Its name.
    #[serde(borrow, default)]
    pub name: Text<'a>,
    /// Its unique id.
    #[serde(borrow, default)]
    pub uid: Text<'a>,
    /// Its annotations.
    #[serde(borrow, default)]
    pub annotations: Entries<'a, Text<'a>>,
}

/// A container's resources.
#[derive(Debug, Clone, Default, Deserialize)]
pub struct Resources<'a> {
    /// By resource name.
    #[serde(borrow, default)]
    pub limits: Entries<'a, Quantity<'a>>,
    /// By resource name.
    #[serde(borrow, default)]
    pub requests: Entries<'a, Quantity<'a>>,
}

/// A container.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Container<'a> {
    /// Its name.
    #[serde(borrow, default)]
    pub name: Text<'a>,
    /// What it asks.
    #[serde(borrow, default)]
    pub resources: Resources<'a>,
    /// `Always` on an init container makes it a sidecar.
    #[serde(borrow, default)]
    pub restart_policy: Option<Text<'a>>,
}

/// The part of a pod's spec that matters.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Spec<'a> {
    /// In order.
    #[serde(borrow, default)]
    pub init_containers: Option<Vec<Container<'a>>>,
    /// In order.
    #[serde(borrow, default)]
    pub containers: Option<Vec<Container<'a>>>,
}

/// A pod.
#[derive(Debug, Clone, Deserialize)]
pub struct Pod<'a> {
    /// Who.
    #[serde(borrow)]
    pub metadata: Meta<'a>,
    /// What it asks.
    #[serde(borrow, default)]
    pub spec: Spec<'a>,
}

/// A node list whose nodes are kept as they came.
#[derive(Debug, Deserialize)]
pub struct NodeList<'a> {
    /// The nodes.
    #[serde(borrow, default)]
    pub items: Option<Vec<&'a RawValue>>,
}

/// Of a node only its name.
#[derive(Debug, Deserialize)]
pub struct NamedOnly<'a> {
    /// Where the name stands.
    #[serde(borrow)]
    pub metadata: NameOnly<'a>,
}

/// Of metadata only the name.
#[derive(Debug, Deserialize)]
pub struct NameOnly<'a> {
    /// The name.
    #[serde(borrow)]
    pub name: Text<'a>,
}

/// `ExtenderArgs`: the body of filter and prioritize.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct ExtenderArgs<'a> {
    /// The pod to place.
    #[serde(borrow)]
    pub pod: Option<Pod<'a>>,
    /// Candidates, in full.
    #[serde(borrow, default)]
    pub nodes: Option<NodeList<'a>>,
    /// Candidates, by name, where the extender is nodeCacheCapable.
    #[serde(borrow, default)]
    pub node_names: Option<Vec<Text<'a>>>,
}

/// `ExtenderBindingArgs`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct ExtenderBindingArgs<'a> {
    /// The pod's name.
    #[serde(borrow)]
    pub pod_name: Text<'a>,
    /// The pod's namespace.
    #[serde(borrow)]
    pub pod_namespace: Text<'a>,
    /// The pod's unique id.
    #[serde(borrow, rename = "PodUID")]
    pub pod_uid: Text<'a>,
    /// Where to.
    #[serde(borrow)]
    pub node: Text<'a>,
}

/// `ExtenderBindingResult`, and any answer of which only the error is set.
#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct ErrorOnly<'a> {
    /// Empty where all went well.
    pub error: &'a str,
}

/// `ExtenderPreemptionArgs`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct ExtenderPreemptionArgs<'a> {
    /// The pod to make room for.
    #[serde(borrow)]
    pub pod: Option<Pod<'a>>,
    /// Victims in full, where the extender is not nodeCacheCapable.
    #[serde(borrow, default)]
    pub node_name_to_victims: Option<BTreeMap<Text<'a>, Option<Victims<Pod<'a>>>>>,
    /// Victims by uid, where it is.
    #[serde(borrow, default)]
    pub node_name_to_meta_victims: Option<BTreeMap<Text<'a>, Option<Victims<MetaPod<'a>>>>>,
}

/// `Victims` or `MetaVictims`.
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct Victims<P> {
    /// Who would have to go.
    #[serde(default = "Option::default")]
    pub pods: Option<Vec<P>>,
    /// How many disruption budgets that breaks.
    #[serde(default, rename = "NumPDBViolations")]
    pub num_pdb_violations: i64,
}

/// `MetaPod`.
#[derive(Debug, Clone, Deserialize, Serialize)]
pub struct MetaPod<'a> {
    /// The pod's unique id.
    #[serde(borrow, rename = "UID")]
    pub uid: Text<'a>,
}

/// `ExtenderPreemptionResult`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct ExtenderPreemptionResult<'a> {
    /// Nodes where the victims' going makes room.
    pub node_name_to_meta_victims: BTreeMap<&'a str, Victims<MetaPod<'a>>>,
}

/// What the API server gets to bind a pod: node and plan in one write.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Binding<'a> {
    /// Always `v1`.
    pub api_version: &'static str,
    /// Always `Binding`.
    pub kind: &'static str,
    /// Of the pod; its annotations are merged into the pod's.
    pub metadata: BindingMeta<'a>,
    /// The node.
    pub target: BindingTarget<'a>,
}

/// Metadata of a binding.
#[derive(Debug, Serialize)]
pub struct BindingMeta<'a> {
    /// The pod's.
    pub name: &'a str,
    /// The pod's.
    pub namespace: &'a str,
    /// The pod's: another pod of the same name is not bound by mistake.
    pub uid: &'a str,
    /// The plan; none for a pod that asks for no card.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<&'a str, String>,
}

/// Where a binding binds to.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct BindingTarget<'a> {
    /// Always `v1`.
    pub api_version: &'static str,
    /// Always `Node`.
    pub kind: &'static str,
    /// Which node.
    pub name: &'a str,
}

//! How to choose among cards and nodes that fit.

use serde::{Deserialize, Serialize};

/// How to choose among cards and nodes that fit; a pod can ask for another way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct PlacementSetting {
    /// Among the cards of a node. For whole cards links come first: this decides among equals.
    pub cards: Policy,
    /// Among nodes.
    pub nodes: Policy,
}

/// Fill up, spread out, or keep together what is linked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Policy {
    /// The fullest that fits, so that whole cards stay free.
    #[default]
    Binpack,
    /// The emptiest.
    Spread,
    /// For several whole cards the node where they hang together best, however full it is;
    /// otherwise like [`Policy::Binpack`].
    LinkAware,
}

/// A pod's wish that has no meaning.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is no placement: write binpack, spread or link-aware, or one for each, such as \
     cards=spread,nodes=binpack"
)]
pub struct BadPlacement(String);

/// The most of a value that an error repeats.
const MOST_SHOWN: usize = 80;

impl PlacementSetting {
    /// As a pod's annotation has it: one policy for cards and nodes (`spread`), or by name
    /// (`cards=spread,nodes=link-aware`). What it does not name stays as it is here.
    pub fn with(self, text: &str) -> Result<Self, BadPlacement> {
        let bad = || BadPlacement(text.chars().take(MOST_SHOWN).collect());
        if let Some(both) = Policy::named(text.trim()) {
            return Ok(Self {
                cards: both,
                nodes: both,
            });
        }
        let mut with = self;
        let mut named = [false; 2];
        for part in text.split(',') {
            let (key, policy) = part.split_once('=').ok_or_else(bad)?;
            let policy = Policy::named(policy.trim()).ok_or_else(bad)?;
            let [cards, nodes] = &mut named;
            let (is_named, place) = match key.trim() {
                "cards" => (cards, &mut with.cards),
                "nodes" => (nodes, &mut with.nodes),
                _ => return Err(bad()),
            };
            if std::mem::replace(is_named, true) {
                return Err(bad());
            }
            *place = policy;
        }
        Ok(with)
    }
}

impl Policy {
    fn named(name: &str) -> Option<Self> {
        match name {
            "binpack" => Some(Self::Binpack),
            "spread" => Some(Self::Spread),
            "link-aware" => Some(Self::LinkAware),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pod_asks_for_one_policy_or_for_each() {
        use Policy::{Binpack, LinkAware, Spread};
        let usual = PlacementSetting {
            cards: Binpack,
            nodes: Spread,
        };
        let read = |text| usual.with(text).map(|p| (p.cards, p.nodes)).ok();
        assert_eq!(read("link-aware"), Some((LinkAware, LinkAware)));
        assert_eq!(read(" spread "), Some((Spread, Spread)));
        assert_eq!(
            read("cards=spread, nodes = link-aware"),
            Some((Spread, LinkAware))
        );
        assert_eq!(read("nodes=binpack"), Some((Binpack, Binpack)));
        assert_eq!(read("cards=link-aware"), Some((LinkAware, Spread)));
        let bad = [
            "",
            "Spread",
            "spread,",
            "cards",
            "cards=",
            "cards=most",
            "pods=spread",
            "cards=spread,cards=binpack",
            "cards=spread,",
            "spread,nodes=link-aware",
        ];
        for text in bad {
            let error = usual.with(text).unwrap_err().to_string();
            assert!(
                error.starts_with(&format!("{text:?} is no placement")),
                "{error}"
            );
        }
        let long = usual.with(&"x".repeat(1 << 20)).unwrap_err().to_string();
        assert!(long.len() < 300, "{}", long.len());
    }

    #[test]
    fn the_names_are_those_of_the_file() {
        for policy in [Policy::Binpack, Policy::Spread, Policy::LinkAware] {
            let name = serde_json::to_value(policy).unwrap();
            assert_eq!(Policy::named(name.as_str().unwrap()), Some(policy));
        }
    }
}

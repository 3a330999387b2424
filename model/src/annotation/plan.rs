//! A pod's plan: `{"v":1,"containers":{"main":[{"card":"ppu-0","core":50,"memory":25769803776}]}}`.

use std::{collections::BTreeSet, fmt};

use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{Error, MapAccess, Visitor},
};

use super::{AnnotationError, MOST_PLAN_BYTES, VERSION, read, write};
use crate::{
    name::{CardId, ContainerName, ProfileName},
    plan::{ContainerGrants, Grant, GrantMode, Plan},
    quantity::{CorePercent, MemoryBytes},
};

/// `{"v":1,"containers":{"main":[{"card":"ppu-0","core":50,"memory":25769803776}]}}`
///
/// A whole card is `{"card":"ppu-0","whole":true}`, partitions are
/// `{"card":"gpu-0","partition":"1g.18gb","count":2}`. Containers stand in the plan's order.
pub fn write_plan(plan: &Plan) -> String {
    let containers = plan.containers.iter().map(|container| {
        let grants = container.grants.iter().map(GrantText::of).collect();
        (container.container.clone(), grants)
    });
    write(&PlanText {
        v: VERSION,
        containers: Containers(containers.collect()),
    })
}

/// The reverse of [`write_plan`]: the order of containers is kept, grants are sorted by card.
pub fn read_plan(text: &str) -> Result<Plan, AnnotationError> {
    let PlanText { containers, .. } = read(text, MOST_PLAN_BYTES)?;
    let containers = containers.0.into_iter().map(|(container, texts)| {
        let mut grants = Vec::with_capacity(texts.len());
        for text in texts {
            let card = text.card.clone();
            let mode = text.mode().map_err(|why| {
                AnnotationError::malformed(&format!("container {container}, card {card}: {why}"))
            })?;
            grants.push(Grant { card, mode });
        }
        grants.sort_unstable();
        if let Some([one, _]) = grants.array_windows().find(|[a, b]| a.card == b.card) {
            let why = format!("container {container}, card {}: is there twice", one.card);
            return Err(AnnotationError::malformed(&why));
        }
        Ok(ContainerGrants { container, grants })
    });
    Ok(Plan {
        containers: containers.collect::<Result<_, _>>()?,
    })
}

#[derive(Serialize, Deserialize)]
struct PlanText {
    v: u64,
    containers: Containers,
}

#[derive(Serialize, Deserialize)]
struct GrantText {
    card: CardId,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    whole: Option<bool>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    core: Option<CorePercent>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    memory: Option<MemoryBytes>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    partition: Option<ProfileName>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    count: Option<u32>,
}

impl GrantText {
    fn of(grant: &Grant) -> Self {
        let mut text = Self {
            card: grant.card.clone(),
            whole: None,
            core: None,
            memory: None,
            partition: None,
            count: None,
        };
        match &grant.mode {
            GrantMode::Whole => text.whole = Some(true),
            GrantMode::Share { core, memory } => {
                text.core = Some(*core);
                text.memory = Some(*memory);
            }
            GrantMode::Partition { profile, count } => {
                text.partition = Some(profile.clone());
                text.count = Some(*count);
            }
        }
        text
    }

    fn mode(self) -> Result<GrantMode, &'static str> {
        let whole = self.whole == Some(true);
        let share = self.core.is_some() || self.memory.is_some();
        if u8::from(whole) + u8::from(share) + u8::from(self.partition.is_some()) > 1 {
            return Err("is in two modes");
        }
        if let Some(profile) = self.partition {
            return match self.count.unwrap_or(1) {
                0 => Err("has no partition"),
                count => Ok(GrantMode::Partition { profile, count }),
            };
        }
        if share {
            let core = self.core.unwrap_or(CorePercent::ZERO);
            if core > CorePercent::CARD {
                return Err("has more than 100 core");
            }
            let memory = self.memory.unwrap_or(MemoryBytes::ZERO);
            return Ok(GrantMode::Share { core, memory });
        }
        if whole {
            return Ok(GrantMode::Whole);
        }
        Err("has no mode")
    }
}

/// A JSON object that keeps its order: kubelet admits containers in it.
struct Containers(Vec<(ContainerName, Vec<GrantText>)>);

impl Serialize for Containers {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(container, grants)| (container, grants)))
    }
}

impl<'de> Deserialize<'de> for Containers {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(InOrder)
    }
}

struct InOrder;

impl<'de> Visitor<'de> for InOrder {
    type Value = Containers;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object of containers")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Containers, A::Error> {
        let mut names = BTreeSet::new();
        let mut containers = Vec::new();
        while let Some((container, grants)) = map.next_entry::<ContainerName, _>()? {
            if !names.insert(container.clone()) {
                return Err(A::Error::custom(format_args!(
                    "container {container} is there twice"
                )));
            }
            containers.push((container, grants));
        }
        Ok(Containers(containers))
    }
}

//! Allocations and what containers get.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use model::{
    name::{CardId, ContainerName, Namespace, PodName, PodRef, PodUid, ProfileName},
    plan::{Grant, GrantMode},
    quantity::{CorePercent, MemoryBytes},
};

use super::{Malformed, at_most, cards, text};
use crate::{
    client::{Allocation, Cards, Consumer, ContainerEdits, DeviceNode, Mount},
    wire,
};

/// 16 cards with 64 shares each, four times over.
const MOST_ALLOCATIONS: usize = 4096;
/// Wire grants of one container; each partition is one.
const MOST_GRANTS: usize = 1024;
/// Entries of each kind that one container may get.
const MOST_EDITS: usize = 1024;
/// Linux refuses a single variable past 128 KiB.
const MOST_VALUE: usize = 32 << 10;

/// What stands before the name in each annotation meant for the OCI runtime.
const ANNOTATION_PREFIX: &str = "xdm.amp.com.";

/// Each partition becomes a grant of its own. An error is the caller's: it asks for nonsense.
pub(crate) fn allocate_request(allocation: &Allocation) -> Result<wire::AllocateRequest, String> {
    let mut grants = Vec::new();
    for grant in &allocation.grants {
        let (mode, count) = match &grant.mode {
            GrantMode::Whole => (wire::grant::Mode::Whole(wire::WholeGrant {}), 1),
            GrantMode::Share { core, memory } => (
                wire::grant::Mode::Share(wire::ShareGrant {
                    core_percent: core.percent(),
                    memory_bytes: memory.bytes(),
                }),
                1,
            ),
            GrantMode::Partition { profile, count } => (
                wire::grant::Mode::Partition(wire::PartitionGrant {
                    profile: profile.to_string(),
                }),
                *count,
            ),
        };
        let count = usize::try_from(count).unwrap_or(usize::MAX);
        if count == 0 || count > MOST_GRANTS.saturating_sub(grants.len()) {
            return Err(format!(
                "not asked: {count} grants on card {} of allocation {:?}",
                grant.card, allocation.id
            ));
        }
        let one = wire::Grant {
            card_id: grant.card.to_string(),
            mode: Some(mode),
        };
        grants.extend(std::iter::repeat_n(one, count));
    }
    Ok(wire::AllocateRequest {
        allocation_id: allocation.id.clone(),
        consumer: Some(wire::Consumer {
            namespace: allocation.consumer.pod.namespace.to_string(),
            pod: allocation.consumer.pod.name.to_string(),
            pod_uid: allocation.consumer.uid.to_string(),
            container: allocation.consumer.container.to_string(),
        }),
        grants,
    })
}

pub(crate) fn book(answer: wire::ListGpuInfoResponse) -> (Cards, Vec<Allocation>) {
    let mut malformed = Malformed::default();
    let inventory = cards::inventory(answer.cards, &mut malformed);
    let mut allocations = Vec::new();
    let mut ids = BTreeSet::new();
    let all = at_most(
        answer.allocations,
        MOST_ALLOCATIONS,
        "allocations",
        &mut malformed,
    );
    for wire in all {
        let id = text::one_line(&wire.allocation_id, 128);
        match allocation(wire) {
            Ok(allocation) if !ids.insert(allocation.id.clone()) => {
                malformed.add(&format!("allocation {id:?} is there twice"));
            }
            Ok(allocation) => allocations.push(allocation),
            Err(why) => malformed.add(&format!("allocation {id:?}: {why}")),
        }
    }
    let cards = Cards {
        generation: answer.generation,
        inventory,
        malformed: malformed.into_lines(),
    };
    (cards, allocations)
}

fn allocation(wire: wire::Allocation) -> Result<Allocation, String> {
    let id = text::printable("allocation_id", &wire.allocation_id, 128)?;
    if id.is_empty() {
        return Err("allocation_id is empty".to_owned());
    }
    let consumer = consumer(&wire.consumer.unwrap_or_default())?;
    let grants = grants(&wire.grants)?;
    Ok(Allocation {
        id,
        consumer,
        grants,
    })
}

pub(super) fn consumer(wire: &wire::Consumer) -> Result<Consumer, String> {
    let name = |e: model::name::NameError| e.to_string();
    Ok(Consumer {
        pod: PodRef {
            namespace: Namespace::new(&wire.namespace).map_err(name)?,
            name: PodName::new(&wire.pod).map_err(name)?,
        },
        uid: PodUid::new(&wire.pod_uid).map_err(name)?,
        container: ContainerName::new(&wire.container).map_err(name)?,
    })
}

/// Partitions of one profile on one card are counted together. Sorted by card.
fn grants(wire: &[wire::Grant]) -> Result<Vec<Grant>, String> {
    if wire.len() > MOST_GRANTS {
        return Err(format!("{} grants, past {MOST_GRANTS}", wire.len()));
    }
    let mut alone: BTreeMap<CardId, GrantMode> = BTreeMap::new();
    let mut partitions: BTreeMap<(CardId, ProfileName), u32> = BTreeMap::new();
    for grant in wire {
        let card = CardId::new(&grant.card_id).map_err(|e| e.to_string())?;
        let mode = match &grant.mode {
            None => return Err(format!("the grant on card {card} has no mode")),
            Some(wire::grant::Mode::Whole(wire::WholeGrant {})) => GrantMode::Whole,
            Some(wire::grant::Mode::Share(share)) if share.core_percent > 100 => {
                return Err(format!(
                    "core_percent {} on card {card}",
                    share.core_percent
                ));
            }
            Some(wire::grant::Mode::Share(share)) => GrantMode::Share {
                core: CorePercent::new(share.core_percent),
                memory: MemoryBytes::new(share.memory_bytes),
            },
            Some(wire::grant::Mode::Partition(partition)) => {
                let profile = ProfileName::new(&partition.profile).map_err(|e| e.to_string())?;
                let count = partitions.entry((card, profile)).or_default();
                *count = count.saturating_add(1);
                continue;
            }
        };
        if alone.insert(card.clone(), mode).is_some() {
            return Err(format!("two grants on card {card}"));
        }
    }
    if let Some((card, _)) = partitions.keys().find(|(card, _)| alone.contains_key(card)) {
        return Err(format!("card {card} is granted in two modes"));
    }
    let cut = partitions
        .into_iter()
        .map(|((card, profile), count)| Grant {
            card,
            mode: GrantMode::Partition { profile, count },
        });
    let mut all: Vec<Grant> = alone
        .into_iter()
        .map(|(card, mode)| Grant { card, mode })
        .chain(cut)
        .collect();
    all.sort();
    Ok(all)
}

/// All or nothing: a container that lacks one of its edits would run with other cards than it
/// was granted, or with none.
pub(crate) fn container_edits(answer: wire::AllocateResponse) -> Result<ContainerEdits, String> {
    let few = |what: &str, count: usize| {
        if count > MOST_EDITS {
            return Err(format!("{count} {what}, past {MOST_EDITS}"));
        }
        Ok(())
    };
    few("environment variables", answer.environment.len())?;
    few("mounts", answer.mounts.len())?;
    few("device nodes", answer.device_nodes.len())?;
    few("annotations", answer.annotations.len())?;
    few("CDI names", answer.cdi_names.len())?;
    let environment = sorted(answer.environment, "environment variable", |name| {
        !name.is_empty()
            && name.len() <= 256
            && name.bytes().all(|b| b.is_ascii_graphic() && b != b'=')
    })?;
    let annotations = sorted(answer.annotations, "annotation", |key| {
        key.len() <= 253
            && key.strip_prefix(ANNOTATION_PREFIX).is_some_and(|name| {
                !name.is_empty()
                    && name
                        .bytes()
                        .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'))
            })
    })?;
    let mounts = answer.mounts.iter().map(mount).collect::<Result<_, _>>()?;
    let device_nodes = answer
        .device_nodes
        .into_iter()
        .map(device_node)
        .collect::<Result<_, _>>()?;
    if let Some(name) = answer.cdi_names.iter().find(|n| !text::is_cdi_name(n)) {
        return Err(format!(
            "cdi_names: {:?} is not vendor/class=name",
            text::one_line(name, 80)
        ));
    }
    Ok(ContainerEdits {
        environment,
        mounts,
        device_nodes,
        annotations,
        cdi_names: answer.cdi_names,
    })
}

fn sorted(
    map: HashMap<String, String>,
    what: &str,
    allowed: fn(&str) -> bool,
) -> Result<Vec<(String, String)>, String> {
    let mut all: Vec<_> = map.into_iter().collect();
    all.sort();
    for (name, value) in &all {
        if !allowed(name) {
            let name = text::one_line(name, 80);
            return Err(format!("{what} {name:?}: the name is not allowed"));
        }
        if value.len() > MOST_VALUE || value.contains('\0') {
            return Err(format!(
                "{what} {name:?}: the value is longer than {MOST_VALUE} bytes or has a NUL"
            ));
        }
    }
    Ok(all)
}

fn mount(wire: &wire::Mount) -> Result<Mount, String> {
    Ok(Mount {
        container_path: text::absolute_path("mounts: container_path", &wire.container_path)?,
        host_path: text::absolute_path("mounts: host_path", &wire.host_path)?,
        read_only: wire.read_only,
    })
}

fn device_node(wire: wire::DeviceNode) -> Result<DeviceNode, String> {
    let permissions = wire.permissions;
    let mut letters: Vec<char> = permissions.chars().take(4).collect();
    letters.sort_unstable();
    letters.dedup();
    if letters.is_empty()
        || letters.len() != permissions.len()
        || letters.iter().any(|c| !matches!(c, 'r' | 'w' | 'm'))
    {
        return Err(format!(
            "device_nodes: permissions {:?} of {:?} are not of r, w and m",
            text::one_line(&permissions, 16),
            text::one_line(&wire.container_path, 80)
        ));
    }
    Ok(DeviceNode {
        container_path: text::absolute_path("device_nodes: container_path", &wire.container_path)?,
        host_path: text::absolute_path("device_nodes: host_path", &wire.host_path)?,
        permissions,
    })
}

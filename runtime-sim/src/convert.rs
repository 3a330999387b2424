//! Between model types and wire messages, on the serving side.

use std::collections::BTreeMap;

use model::{
    card::{Card, CardKind, Health},
    name::{CardId, ContainerName, Namespace, PodName, PodRef, PodUid, ProfileName},
    plan::{Grant, GrantMode},
    quantity::{CorePercent, MemoryBytes},
};
use runtime_proto::{
    client::{Allocation, Consumer, ContainerEdits, OperationStatus, Phase},
    wire,
};

/// Wire grants of one container.
const MOST_GRANTS: usize = 1024;

pub(crate) fn kind(kind: CardKind) -> wire::XpuKind {
    match kind {
        CardKind::Gpu => wire::XpuKind::Gpu,
        CardKind::Ppu => wire::XpuKind::Ppu,
        CardKind::Gcu => wire::XpuKind::Gcu,
        CardKind::Xpu => wire::XpuKind::Xpu,
        CardKind::Amd => wire::XpuKind::Amd,
        CardKind::Other => wire::XpuKind::Unspecified,
    }
}

pub(crate) fn card(card: &Card) -> wire::Card {
    let (health, health_reason) = match &card.health {
        Health::Healthy => (wire::CardHealth::Healthy, String::new()),
        Health::Unhealthy(reason) => (wire::CardHealth::Unhealthy, reason.clone()),
    };
    let links = card.links.iter().map(|link| wire::Link {
        peer_card_id: link.peer.to_string(),
        bandwidth_bytes_per_second: link.bandwidth,
    });
    let profiles = card.profiles.iter().map(|profile| wire::PartitionProfile {
        name: profile.name.to_string(),
        slices: profile.slices,
        memory_bytes: profile.memory.bytes(),
        max_count: profile.max_count,
    });
    wire::Card {
        id: card.id.to_string(),
        index: card.index,
        kind: kind(card.kind).into(),
        model: card.model.clone(),
        uuid: card.uuid.clone(),
        memory_bytes: card.memory.bytes(),
        health: health.into(),
        health_reason,
        numa_node: card.numa,
        pci_address: format!("0000:{:02x}:00.0", card.index.saturating_add(16)),
        pcie_switch: card.switch.clone().unwrap_or_default(),
        links: links.collect(),
        partition_profiles: profiles.collect(),
        shareable: card.shareable,
    }
}

pub(crate) fn consumer(consumer: &Consumer) -> wire::Consumer {
    wire::Consumer {
        namespace: consumer.pod.namespace.to_string(),
        pod: consumer.pod.name.to_string(),
        pod_uid: consumer.uid.to_string(),
        container: consumer.container.to_string(),
    }
}

pub(crate) fn allocation(allocation: &Allocation) -> wire::Allocation {
    let mut grants = Vec::new();
    for grant in &allocation.grants {
        let (mode, count) = match &grant.mode {
            GrantMode::Whole => (wire::grant::Mode::Whole(wire::WholeGrant {}), 1),
            GrantMode::Share { core, memory } => {
                let share = wire::ShareGrant {
                    core_percent: core.percent(),
                    memory_bytes: memory.bytes(),
                };
                (wire::grant::Mode::Share(share), 1)
            }
            GrantMode::Partition { profile, count } => {
                let profile = profile.to_string();
                let partition = wire::PartitionGrant { profile };
                (wire::grant::Mode::Partition(partition), *count)
            }
        };
        let one = wire::Grant {
            card_id: grant.card.to_string(),
            mode: Some(mode),
        };
        let count = usize::try_from(count).unwrap_or(MOST_GRANTS);
        grants.extend(std::iter::repeat_n(one, count.min(MOST_GRANTS)));
    }
    wire::Allocation {
        allocation_id: allocation.id.clone(),
        consumer: Some(consumer(&allocation.consumer)),
        grants,
    }
}

/// What is asked; the error is for the caller.
pub(crate) fn asked(request: wire::AllocateRequest) -> Result<Allocation, String> {
    let who = request.consumer.unwrap_or_default();
    let wrong = |e: model::name::NameError| e.to_string();
    Ok(Allocation {
        id: request.allocation_id,
        consumer: Consumer {
            pod: PodRef {
                namespace: Namespace::new(&who.namespace).map_err(wrong)?,
                name: PodName::new(&who.pod).map_err(wrong)?,
            },
            uid: PodUid::new(&who.pod_uid).map_err(wrong)?,
            container: ContainerName::new(&who.container).map_err(wrong)?,
        },
        grants: grants(&request.grants)?,
    })
}

/// The same partitions of one card are counted together; sorted, so that the same request in
/// another order is the same.
fn grants(wire: &[wire::Grant]) -> Result<Vec<Grant>, String> {
    if wire.len() > MOST_GRANTS {
        return Err(format!("{} grants, past {MOST_GRANTS}", wire.len()));
    }
    let mut all = Vec::new();
    let mut partitions: BTreeMap<(CardId, ProfileName), u32> = BTreeMap::new();
    for grant in wire {
        let card = CardId::new(&grant.card_id).map_err(|e| e.to_string())?;
        let mode = match &grant.mode {
            None => return Err(format!("the grant on card {card} has no mode")),
            Some(wire::grant::Mode::Whole(wire::WholeGrant {})) => GrantMode::Whole,
            Some(wire::grant::Mode::Share(share)) if share.core_percent > 100 => {
                let core = share.core_percent;
                return Err(format!("core_percent {core} on card {card} is past 100"));
            }
            Some(wire::grant::Mode::Share(share)) => GrantMode::Share {
                core: CorePercent::new(share.core_percent),
                memory: MemoryBytes::new(share.memory_bytes),
            },
            Some(wire::grant::Mode::Partition(partition)) => {
                let profile = ProfileName::new(&partition.profile).map_err(|e| e.to_string())?;
                *partitions.entry((card, profile)).or_default() += 1;
                continue;
            }
        };
        if all.iter().any(|g: &Grant| g.card == card) {
            return Err(format!("two grants on card {card}"));
        }
        all.push(Grant { card, mode });
    }
    all.extend(
        partitions
            .into_iter()
            .map(|((card, profile), count)| Grant {
                card,
                mode: GrantMode::Partition { profile, count },
            }),
    );
    all.sort();
    Ok(all)
}

pub(crate) fn edits(edits: ContainerEdits) -> wire::AllocateResponse {
    let mounts = edits.mounts.into_iter().map(|mount| wire::Mount {
        container_path: mount.container_path,
        host_path: mount.host_path,
        read_only: mount.read_only,
    });
    let nodes = edits.device_nodes.into_iter().map(|node| wire::DeviceNode {
        container_path: node.container_path,
        host_path: node.host_path,
        permissions: node.permissions,
    });
    wire::AllocateResponse {
        environment: edits.environment.into_iter().collect(),
        mounts: mounts.collect(),
        device_nodes: nodes.collect(),
        annotations: edits.annotations.into_iter().collect(),
        cdi_names: edits.cdi_names,
    }
}

pub(crate) fn status(status: OperationStatus) -> wire::OperationStatus {
    let phase = match status.phase {
        Phase::Disabled => wire::FeaturePhase::Disabled,
        Phase::Enabling => wire::FeaturePhase::Enabling,
        Phase::Enabled => wire::FeaturePhase::Enabled,
        Phase::Disabling => wire::FeaturePhase::Disabling,
        Phase::Failed => wire::FeaturePhase::Failed,
        Phase::Unknown(_) => wire::FeaturePhase::Unspecified,
    };
    wire::OperationStatus {
        phase: phase.into(),
        message: status.message,
        progress_percent: status.progress_percent,
    }
}

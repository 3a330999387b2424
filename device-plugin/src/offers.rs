//! What is offered to kubelet: for each resource that some card serves, the full device list.

use model::{
    card::Inventory,
    device_id::{count, devices},
    name::ResourceName,
    settings::Settings,
};

/// The largest gRPC message that kubelet takes; it shows a capacity of 0 for a list above it.
pub const KUBELET_MESSAGE_LIMIT: usize = 4 << 20;

/// The devices of one resource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Offer {
    /// Which resource.
    pub resource: ResourceName,
    /// Device id and whether it can be given out, in the inventory's order.
    pub devices: Vec<(String, bool)>,
}

/// A resource whose list kubelet would not take.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{resource} is not offered: its {devices} devices make a list of {bytes} bytes, and kubelet takes less than {KUBELET_MESSAGE_LIMIT}; use a coarser unit"
)]
pub struct TooLarge {
    /// Which resource.
    pub resource: ResourceName,
    /// How many devices it would have.
    pub devices: usize,
    /// Size of the list as a message.
    pub bytes: usize,
}

/// All offers for these cards, and the resources that can't be offered. `runtime_lost`: the
/// Runtime has been away too long to give anything out.
pub fn offers(
    inventory: &Inventory,
    settings: &Settings,
    runtime_lost: bool,
) -> (Vec<Offer>, Vec<TooLarge>) {
    let mut offers = Vec::new();
    let mut too_large = Vec::new();
    for setting in &settings.resources_of(inventory) {
        // Asked first: a Runtime that says nonsense must not fill the memory.
        let expected = usize::try_from(count(inventory, setting)).unwrap_or(usize::MAX);
        let at_least = expected.saturating_mul(SMALLEST_DEVICE_BYTES);
        if at_least >= KUBELET_MESSAGE_LIMIT {
            too_large.push(TooLarge {
                resource: setting.name.clone(),
                devices: expected,
                bytes: at_least,
            });
            continue;
        }
        let ids = devices(inventory, setting);
        if ids.is_empty() {
            continue;
        }
        let healthy =
            |card| !runtime_lost && inventory.get(card).is_some_and(|c| c.health.is_healthy());
        let devices: Vec<(String, bool)> = ids
            .iter()
            .map(|id| (id.to_string(), healthy(&id.card)))
            .collect();
        let bytes = message_bytes(&devices);
        if bytes < KUBELET_MESSAGE_LIMIT {
            offers.push(Offer {
                resource: setting.name.clone(),
                devices,
            });
        } else {
            too_large.push(TooLarge {
                resource: setting.name.clone(),
                devices: devices.len(),
                bytes,
            });
        }
    }
    (offers, too_large)
}

/// A one-letter card's first memory unit: `a.mem.0`, with its health and lengths.
const SMALLEST_DEVICE_BYTES: usize = 2 + 2 + 7 + 2 + 9;

/// Size of the ListAndWatch message with every device unhealthy, the longer word: health may
/// change after registration.
fn message_bytes(devices: &[(String, bool)]) -> usize {
    const UNHEALTHY_FIELD: usize = 2 + "Unhealthy".len();
    devices
        .iter()
        .map(|(id, _)| {
            // An id has at most 63 bytes, so every length is one byte.
            let device = 2 + id.len() + UNHEALTHY_FIELD;
            2 + device
        })
        .sum()
}

#[cfg(test)]
#[path = "offers_tests.rs"]
mod tests;

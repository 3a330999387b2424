//! What a container gets for its grants.

use model::plan::GrantMode;
use runtime_proto::client::{Allocation, ContainerEdits, DeviceNode, Mount};

use crate::state::State;

/// Which kinds of edits containers get.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub enum Edits {
    /// All: environment, annotations, device nodes, mounts and CDI names.
    #[default]
    All,
    /// Environment and annotations only: for real nodes, which lack such devices.
    Environment,
}

/// The edits for one allocation: the same for the same allocation, always.
pub fn edits(state: &State, allocation: &Allocation, which: Edits) -> ContainerEdits {
    let indices: Vec<u32> = allocation
        .grants
        .iter()
        .filter_map(|grant| state.index_of(&grant.card))
        .collect();
    let mut edits = ContainerEdits {
        environment: environment(allocation, &indices),
        annotations: vec![
            (
                "xdm.amp.com.allocation-id".to_owned(),
                allocation.id.clone(),
            ),
            ("xdm.amp.com.cards".to_owned(), cards(allocation)),
        ],
        ..ContainerEdits::default()
    };
    if which == Edits::All {
        let profile = state.profile();
        let nodes = indices.iter().map(|index| profile.device_node(*index));
        let mut paths: Vec<String> = profile
            .control_devices
            .iter()
            .cloned()
            .chain(nodes)
            .collect();
        paths.dedup();
        edits.device_nodes = paths
            .into_iter()
            .map(|path| DeviceNode {
                container_path: path.clone(),
                host_path: path,
                permissions: "rw".to_owned(),
            })
            .collect();
        edits.mounts = profile
            .mounts
            .iter()
            .map(|path| Mount {
                container_path: path.clone(),
                host_path: path.clone(),
                read_only: true,
            })
            .collect();
        let names = allocation.grants.iter();
        edits.cdi_names = names
            .map(|g| format!("{}={}", profile.cdi, g.card))
            .collect();
        edits.cdi_names.dedup();
    }
    edits
}

fn cards(allocation: &Allocation) -> String {
    let mut cards: Vec<&str> = allocation.grants.iter().map(|g| g.card.as_str()).collect();
    cards.dedup();
    cards.join(",")
}

/// Sorted by name, as the contract's client has it.
fn environment(allocation: &Allocation, indices: &[u32]) -> Vec<(String, String)> {
    let mut all = vec![("XDM_VISIBLE_CARDS".to_owned(), cards(allocation))];
    let mut numbers: Vec<String> = indices.iter().map(ToString::to_string).collect();
    numbers.dedup();
    all.push(("XDM_VISIBLE_INDICES".to_owned(), numbers.join(",")));
    let mut partitions = Vec::new();
    for grant in &allocation.grants {
        match &grant.mode {
            GrantMode::Whole => {}
            GrantMode::Share { core, memory } => {
                all.push(("XDM_CORE_PERCENT".to_owned(), core.percent().to_string()));
                all.push(("XDM_MEMORY_BYTES".to_owned(), memory.bytes().to_string()));
            }
            GrantMode::Partition { profile, count } => {
                partitions.push(format!("{}:{profile}:{count}", grant.card));
            }
        }
    }
    if !partitions.is_empty() {
        all.push(("XDM_PARTITIONS".to_owned(), partitions.join(",")));
    }
    all.sort();
    // A container has at most one share; a second one would only repeat a name.
    all.dedup_by(|a, b| a.0 == b.0);
    all
}

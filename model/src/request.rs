//! What a pod asks for, container by container, in the order kubelet admits them.

use std::{borrow::Cow, collections::BTreeSet};

use crate::{
    card::Cut,
    name::{ContainerName, ResourceName},
    quantity::{CorePercent, CountError, MemoryBytes, parse_count},
    settings::{Gives, PlacementSetting, ResourceSetting, Settings},
};

/// When a container runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Role {
    /// Runs to its end before the next container starts.
    Init,
    /// An init container with restartPolicy Always: starts in its place and stays.
    Sidecar,
    /// Runs beside the other app containers once all init containers have ended.
    App,
}

/// A container as the pod's spec has it: quantities still as text.
#[derive(Debug, Clone)]
pub struct ContainerSpec<'a> {
    /// Its name.
    pub name: &'a str,
    /// When it runs.
    pub role: Role,
    /// Resource name and quantity, limits (which requests default to and must equal).
    pub limits: Vec<(&'a str, &'a str)>,
}

/// What a container wants of the node's cards.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ask {
    /// No card.
    Nothing,
    /// `count` cards, each alone.
    Whole {
        /// At least 1.
        count: u32,
        /// Under which name: it limits the kinds of card.
        resource: ResourceName,
        /// Memory units asked beside a core of 200, 300 …: what the cards must have together.
        memory: Option<MemoryBytes>,
    },
    /// Part of one card.
    Share {
        /// 1 to 100, or none: best effort.
        core: Option<CorePercent>,
        /// None: the same percentage of the card's memory as of its core.
        memory: Option<MemoryBytes>,
    },
    /// Partitions of one card.
    Partition {
        /// Which.
        cut: Cut,
        /// How many; at least 1.
        count: u32,
    },
}

/// One resource of one container, as kubelet will ask the plugin for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Amount {
    /// Which resource.
    pub resource: ResourceName,
    /// How many device ids; at least 1.
    pub count: u64,
}

/// One container of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContainerRequest {
    /// Its name.
    pub name: ContainerName,
    /// When it runs.
    pub role: Role,
    /// What it means.
    pub ask: Ask,
    /// What it says, of our resources only, by name; nothing for an ask of nothing.
    pub amounts: Vec<Amount>,
}

/// A pod's request: all containers, init containers first, in the pod's order.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PodRequest {
    /// One entry a container, also those that ask for nothing.
    pub containers: Vec<ContainerRequest>,
    /// How to choose among the cards and nodes that fit.
    pub placement: PlacementSetting,
}

/// The most containers of one pod that may ask for cards: bounds what planning one pod can cost.
pub const MOST_ASKING: usize = 128;

/// Why a pod's request has no meaning. Says which container and which resource.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("container {container:?}: {why}")]
pub struct RequestError {
    /// Which container.
    pub container: String,
    /// What is wrong.
    pub why: RequestFault,
}

/// What is wrong with one container's request.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RequestFault {
    /// Not a valid container name.
    #[error(transparent)]
    Name(#[from] crate::name::NameError),
    /// Not a count.
    #[error("{resource}: {why}")]
    Count {
        /// Which resource.
        resource: ResourceName,
        /// Why not.
        why: CountError,
    },
    /// Core above 100 that is not a multiple of 100.
    #[error("{resource}: {value} is neither 1 to 100 nor a multiple of 100")]
    Core {
        /// Which resource.
        resource: ResourceName,
        /// What was asked.
        value: u64,
    },
    /// More than this kit can count: over 2^32 cards, or 2^64 bytes.
    #[error("{resource}: {value} is more than any node has")]
    TooMuch {
        /// Which resource.
        resource: ResourceName,
        /// What was asked.
        value: u64,
    },
    /// Another container of the pod has this name.
    #[error("its name is there twice")]
    Twice,
    /// Far more containers ask for cards than any node could serve.
    #[error("it is the last of more than {MOST_ASKING} that ask for cards")]
    TooMany,
    /// Two of whole cards, a share and partitions, or one of them under two names.
    #[error("{first} and {second} can't be asked by one container")]
    Mixed {
        /// One.
        first: ResourceName,
        /// The other.
        second: ResourceName,
    },
}

impl PodRequest {
    /// Reads a pod's containers; resources that are not ours are passed over, and an amount of
    /// zero asks for nothing.
    pub fn read<'a>(
        containers: impl IntoIterator<Item = ContainerSpec<'a>>,
        settings: &Settings,
    ) -> Result<Self, RequestError> {
        let mut names = BTreeSet::new();
        let mut read = Vec::new();
        let mut asking = 0;
        for spec in containers {
            let container = ContainerRequest::read(&spec, settings)
                .and_then(|container| {
                    asking += usize::from(container.ask != Ask::Nothing);
                    if !names.insert(container.name.clone()) {
                        Err(RequestFault::Twice)
                    } else if asking > MOST_ASKING {
                        Err(RequestFault::TooMany)
                    } else {
                        Ok(container)
                    }
                })
                .map_err(|why| RequestError {
                    container: spec.name.chars().take(80).collect(),
                    why,
                })?;
            read.push(container);
        }
        Ok(Self {
            containers: read,
            placement: settings.placement,
        })
    }

    /// Whether no container asks for a card.
    pub fn is_empty(&self) -> bool {
        self.containers.iter().all(|c| c.ask == Ask::Nothing)
    }
}

/// One resource that a container asks, with what it is.
struct Asked<'s> {
    setting: Cow<'s, ResourceSetting>,
    count: u64,
}

impl Asked<'_> {
    fn too_much(&self) -> RequestFault {
        RequestFault::TooMuch {
            resource: self.setting.name.clone(),
            value: self.count,
        }
    }

    fn cards(&self, count: u64) -> Result<u32, RequestFault> {
        u32::try_from(count).map_err(|_| self.too_much())
    }

    fn memory(&self) -> Result<MemoryBytes, RequestFault> {
        self.setting
            .memory_unit()
            .times(self.count)
            .ok_or_else(|| self.too_much())
    }
}

impl ContainerRequest {
    fn read(spec: &ContainerSpec<'_>, settings: &Settings) -> Result<Self, RequestFault> {
        let name = ContainerName::new(spec.name)?;
        let mut asked = Vec::new();
        for (resource, quantity) in &spec.limits {
            let Some(setting) = settings.resource(resource) else {
                continue;
            };
            let count = parse_count(quantity).map_err(|why| RequestFault::Count {
                resource: setting.name.clone(),
                why,
            })?;
            if count > 0 {
                asked.push(Asked { setting, count });
            }
        }
        asked.sort_by(|a, b| a.setting.name.cmp(&b.setting.name));
        let ask = meaning(&asked)?;
        let amounts = asked
            .iter()
            .map(|asked| Amount {
                resource: asked.setting.name.clone(),
                count: asked.count,
            })
            .collect();
        Ok(Self {
            name,
            role: spec.role,
            ask,
            amounts,
        })
    }
}

/// The meaning of what one container asks, zero amounts left out.
fn meaning(asked: &[Asked<'_>]) -> Result<Ask, RequestFault> {
    let whole = only(asked, Gives::WholeCard)?;
    let core = only(asked, Gives::CorePercent)?;
    let memory = only(asked, Gives::Memory)?;
    let slices = only(asked, Gives::Slice)?;
    let partition = only(asked, Gives::Partition)?;
    let mut modes = [whole, core.or(memory), slices, partition]
        .into_iter()
        .flatten();
    if let (Some(first), Some(second)) = (modes.next(), modes.next()) {
        return Err(mixed(first, second));
    }
    if let (Some(core), Some(memory)) = (core, memory)
        && !core.setting.overlaps(&memory.setting)
    {
        return Err(mixed(core, memory));
    }
    if let Some(whole) = whole {
        return Ok(Ask::Whole {
            count: whole.cards(whole.count)?,
            resource: whole.setting.name.clone(),
            memory: None,
        });
    }
    if let Some(slices) = slices {
        return Ok(Ask::Partition {
            cut: Cut::Slices(slices.cards(slices.count)?),
            count: 1,
        });
    }
    if let Some(partition) = partition
        && let Some(profile) = &partition.setting.profile
    {
        return Ok(Ask::Partition {
            cut: Cut::Profile(profile.clone()),
            count: partition.cards(partition.count)?,
        });
    }
    share(core, memory)
}

/// Core, memory or both.
fn share(core: Option<&Asked<'_>>, memory: Option<&Asked<'_>>) -> Result<Ask, RequestFault> {
    let memory_asked = memory.map(Asked::memory).transpose()?;
    let Some(core) = core else {
        return Ok(match memory_asked {
            None => Ask::Nothing,
            Some(_) => Ask::Share {
                core: None,
                memory: memory_asked,
            },
        });
    };
    if core.count > 100 {
        if core.count % 100 != 0 {
            return Err(RequestFault::Core {
                resource: core.setting.name.clone(),
                value: core.count,
            });
        }
        return Ok(Ask::Whole {
            count: core.cards(core.count / 100)?,
            resource: core.setting.name.clone(),
            memory: memory_asked,
        });
    }
    Ok(Ask::Share {
        core: Some(CorePercent::new(core.cards(core.count)?)),
        memory: memory_asked,
    })
}

/// The one resource that gives this; two are refused.
fn only<'a, 's>(
    asked: &'a [Asked<'s>],
    gives: Gives,
) -> Result<Option<&'a Asked<'s>>, RequestFault> {
    let mut of_it = asked.iter().filter(|asked| asked.setting.gives == gives);
    match (of_it.next(), of_it.next()) {
        (Some(first), Some(second)) => Err(mixed(first, second)),
        (first, _) => Ok(first),
    }
}

fn mixed(first: &Asked<'_>, second: &Asked<'_>) -> RequestFault {
    RequestFault::Mixed {
        first: first.setting.name.clone(),
        second: second.setting.name.clone(),
    }
}

#[cfg(test)]
#[path = "request_tests.rs"]
mod tests;

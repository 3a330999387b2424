//! The state file: what a Runtime that keeps its book remembers over a restart.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use model::{
    name::{CardId, ContainerName, Namespace, PodName, PodRef, PodUid, ProfileName},
    plan::{Grant, GrantMode},
    quantity::{CorePercent, MemoryBytes},
};
use runtime_proto::client::{Allocation, Consumer};
use serde::{Deserialize, Serialize};

use crate::profile::Profile;

/// The format written here.
const VERSION: u32 = 1;

/// What is remembered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Remembered {
    version: u32,
    /// Whether the feature is on. A switch that was under way is forgotten.
    pub feature_on: bool,
    /// Why the last switch failed, if it did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub feature_failure: Option<String>,
    /// The cards that took the place of those it was started with, if any did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replaced: Option<Profile>,
    /// The book.
    pub allocations: Vec<Entry>,
}

/// One allocation, as the state file and `GET /book` show it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    id: String,
    namespace: Namespace,
    pod: PodName,
    pod_uid: PodUid,
    container: ContainerName,
    grants: Vec<EntryGrant>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct EntryGrant {
    card: CardId,
    #[serde(flatten)]
    mode: EntryMode,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "mode", rename_all = "lowercase")]
enum EntryMode {
    Whole,
    Share {
        core_percent: CorePercent,
        memory_bytes: MemoryBytes,
    },
    Partition {
        profile: ProfileName,
        count: u32,
    },
}

impl Remembered {
    /// What to remember.
    pub fn new<'a>(
        feature_on: bool,
        feature_failure: Option<String>,
        replaced: Option<Profile>,
        allocations: impl Iterator<Item = &'a Allocation>,
    ) -> Self {
        Self {
            version: VERSION,
            feature_on,
            feature_failure,
            replaced,
            allocations: allocations.map(Entry::from).collect(),
        }
    }
}

/// Why the state file can't be used.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// Reading or writing failed.
    #[error("state file {file}: {why}")]
    Io {
        /// Which file.
        file: PathBuf,
        /// From the system.
        why: io::Error,
    },
    /// It is not what this program writes.
    #[error("state file {file}: {why}")]
    Content {
        /// Which file.
        file: PathBuf,
        /// Where and what.
        why: serde_json::Error,
    },
    /// It is from another version.
    #[error("state file {file} has version {found}, this program reads {VERSION}")]
    Version {
        /// Which file.
        file: PathBuf,
        /// What stands there.
        found: u32,
    },
}

/// Reads the file; `None` where there is none yet.
pub fn read(file: &Path) -> Result<Option<Remembered>, StoreError> {
    let text = match fs::read_to_string(file) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(why) => {
            return Err(StoreError::Io {
                file: file.into(),
                why,
            });
        }
    };
    let remembered: Remembered =
        serde_json::from_str(&text).map_err(|why| StoreError::Content {
            file: file.into(),
            why,
        })?;
    if remembered.version != VERSION {
        return Err(StoreError::Version {
            file: file.into(),
            found: remembered.version,
        });
    }
    Ok(Some(remembered))
}

/// Writes the file anew beside itself and puts it in place at once: whoever reads it, and
/// whenever the program is killed, it is whole.
pub fn write(file: &Path, remembered: &Remembered) -> Result<(), StoreError> {
    let failed = |why| StoreError::Io {
        file: file.into(),
        why,
    };
    let text = serde_json::to_string(remembered).map_err(|why| StoreError::Content {
        file: file.into(),
        why,
    })?;
    let mut fresh = file.as_os_str().to_owned();
    fresh.push(".new");
    let fresh = PathBuf::from(fresh);
    fs::write(&fresh, text).map_err(failed)?;
    fs::rename(&fresh, file).map_err(failed)
}

impl From<&Allocation> for Entry {
    fn from(allocation: &Allocation) -> Self {
        let consumer = &allocation.consumer;
        let grants = allocation.grants.iter().map(|grant| EntryGrant {
            card: grant.card.clone(),
            mode: match &grant.mode {
                GrantMode::Whole => EntryMode::Whole,
                GrantMode::Share { core, memory } => EntryMode::Share {
                    core_percent: *core,
                    memory_bytes: *memory,
                },
                GrantMode::Partition { profile, count } => EntryMode::Partition {
                    profile: profile.clone(),
                    count: *count,
                },
            },
        });
        Self {
            id: allocation.id.clone(),
            namespace: consumer.pod.namespace.clone(),
            pod: consumer.pod.name.clone(),
            pod_uid: consumer.uid.clone(),
            container: consumer.container.clone(),
            grants: grants.collect(),
        }
    }
}

impl From<Entry> for Allocation {
    fn from(entry: Entry) -> Self {
        let grants = entry.grants.into_iter().map(|grant| Grant {
            card: grant.card,
            mode: match grant.mode {
                EntryMode::Whole => GrantMode::Whole,
                EntryMode::Share {
                    core_percent,
                    memory_bytes,
                } => GrantMode::Share {
                    core: core_percent,
                    memory: memory_bytes,
                },
                EntryMode::Partition { profile, count } => GrantMode::Partition { profile, count },
            },
        });
        Self {
            id: entry.id,
            consumer: Consumer {
                pod: PodRef {
                    namespace: entry.namespace,
                    name: entry.pod,
                },
                uid: entry.pod_uid,
                container: entry.container,
            },
            grants: grants.collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allocation() -> Allocation {
        Allocation {
            id: "uid-1/main".into(),
            consumer: Consumer {
                pod: PodRef {
                    namespace: Namespace::new("default").unwrap(),
                    name: PodName::new("a").unwrap(),
                },
                uid: PodUid::new("uid-1").unwrap(),
                container: ContainerName::new("main").unwrap(),
            },
            grants: vec![
                Grant {
                    card: CardId::new("gpu-0").unwrap(),
                    mode: GrantMode::Whole,
                },
                Grant {
                    card: CardId::new("gpu-1").unwrap(),
                    mode: GrantMode::Share {
                        core: CorePercent::new(30),
                        memory: MemoryBytes::from_gib(24),
                    },
                },
                Grant {
                    card: CardId::new("gpu-2").unwrap(),
                    mode: GrantMode::Partition {
                        profile: ProfileName::new("1g.18gb").unwrap(),
                        count: 3,
                    },
                },
            ],
        }
    }

    #[test]
    fn what_is_written_is_read_back_the_same() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("state.json");
        assert_eq!(read(&file).unwrap(), None);
        let allocation = allocation();
        let cards = Profile::built_in_called("ppu-8-cut").unwrap();
        let why = Some("why".into());
        let remembered = Remembered::new(true, why, Some(cards), [&allocation].into_iter());
        write(&file, &remembered).unwrap();
        write(&file, &remembered).unwrap();
        let back = read(&file).unwrap().unwrap();
        assert_eq!(back, remembered);
        let entry = back.allocations.into_iter().next().unwrap();
        assert_eq!(Allocation::from(entry), allocation);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_state_file_of_another_version_or_of_rubbish_is_refused_by_name() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("state.json");
        for text in [
            "{",
            r#"{"version":2,"feature_on":true,"allocations":[]}"#,
            r#"{"version":1,"feature_on":true,"allocations":[{"id":"x"}]}"#,
        ] {
            fs::write(&file, text).unwrap();
            let why = read(&file).unwrap_err().to_string();
            assert!(why.contains("state.json"), "{why}");
        }
    }
}

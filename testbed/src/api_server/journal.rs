//! The state file: one JSON line a change, so that not even a kill loses a write that was
//! answered. It is rewritten, atomically, when it has grown to several times its content.

use std::{
    collections::BTreeMap,
    fs::File,
    io::{BufRead, BufReader, BufWriter, Write},
    path::{Path, PathBuf},
    sync::Arc,
};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{
    resource,
    store::{Change, Key},
};

/// Revisions skipped at each start, so that none is ever given out twice, and a client that
/// watched before the restart is told to list again.
const SKIP: u64 = 1000;

/// Lines beyond twice the number of objects before the file is rewritten.
const SLACK: usize = 10_000;

#[derive(Serialize, Deserialize)]
struct Line {
    revision: u64,
    #[serde(default)]
    storage: String,
    #[serde(default)]
    namespace: String,
    #[serde(default)]
    name: String,
    /// Unset for a removal.
    #[serde(default)]
    object: Option<Value>,
}

/// An open state file.
#[derive(Debug)]
pub struct Journal {
    path: PathBuf,
    file: File,
    lines: usize,
    broken: bool,
}

/// Why a state file can't be used.
#[derive(Debug, thiserror::Error)]
#[error("state file {file}: {source}")]
pub struct JournalError {
    file: String,
    source: std::io::Error,
}

/// What a state file held: the revision to go on from, the objects, and the file to go on with.
pub(super) type Restored = (u64, BTreeMap<Key, Arc<Value>>, Journal);

impl Journal {
    /// Reads the file, where there is one, and opens it to go on writing. Lines that can't be
    /// read, such as a half-written last one, are passed over and counted in one log line.
    pub fn open(path: &Path) -> Result<Restored, JournalError> {
        let error = |source| JournalError {
            file: path.display().to_string(),
            source,
        };
        let (mut revision, mut objects, mut skipped) = (1, BTreeMap::new(), 0_usize);
        match File::open(path) {
            Ok(file) => {
                for line in BufReader::new(file).split(b'\n') {
                    let line = line.map_err(error)?;
                    let Ok(line) = serde_json::from_slice::<Line>(&line) else {
                        skipped += 1;
                        continue;
                    };
                    revision = revision.max(line.revision);
                    let Some(resource) = resource::of_storage(&line.storage) else {
                        continue;
                    };
                    let key = Key::new(resource.storage, &line.namespace, &line.name);
                    match line.object {
                        Some(object) => objects.insert(key, Arc::new(object)),
                        None => objects.remove(&key),
                    };
                }
                revision += SKIP;
            }
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => {}
            Err(e) => return Err(error(e)),
        }
        if skipped > 0 {
            tracing::warn!(file = %path.display(), skipped, "lines of the state file are not readable");
        }
        let journal = Self::rewrite(path, revision, &objects).map_err(error)?;
        Ok((revision, objects, journal))
    }

    /// Writes a change. A failure is logged once, and the server goes on without the file.
    pub fn write(&mut self, change: &Change, objects: &BTreeMap<Key, Arc<Value>>) {
        if self.broken {
            return;
        }
        let result = if self.lines > 2 * objects.len() + SLACK {
            Self::rewrite(&self.path, change.revision, objects).map(|new| *self = new)
        } else {
            self.lines += 1;
            let line = line(change.revision, &change.key, change.after.as_deref());
            line.and_then(|line| self.file.write_all(&line))
        };
        if let Err(error) = result {
            self.broken = true;
            tracing::error!(file = %self.path.display(), %error, "the state is no longer saved");
        }
    }

    fn rewrite(
        path: &Path,
        revision: u64,
        objects: &BTreeMap<Key, Arc<Value>>,
    ) -> std::io::Result<Self> {
        let mut next = path.as_os_str().to_owned();
        next.push(".next");
        let next = PathBuf::from(next);
        let mut out = BufWriter::new(File::create(&next)?);
        out.write_all(&line(revision, &Key::new("", "", ""), None)?)?;
        for (key, object) in objects {
            out.write_all(&line(revision, key, Some(object))?)?;
        }
        let file = out
            .into_inner()
            .map_err(std::io::IntoInnerError::into_error)?;
        std::fs::rename(&next, path)?;
        Ok(Self {
            path: path.to_owned(),
            file,
            lines: objects.len() + 1,
            broken: false,
        })
    }
}

fn line(revision: u64, key: &Key, object: Option<&Value>) -> std::io::Result<Vec<u8>> {
    let mut line = serde_json::to_vec(&Line {
        revision,
        storage: key.storage.to_owned(),
        namespace: key.namespace.clone(),
        name: key.name.clone(),
        object: object.cloned(),
    })?;
    line.push(b'\n');
    Ok(line)
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use serde_json::json;

    use super::*;
    use crate::api_server::store::Store;

    fn open(path: &Path) -> Store {
        let (revision, objects, journal) = Journal::open(path).unwrap();
        let mut store = Store::new(10);
        store.restore(revision, objects, journal);
        store
    }

    #[test]
    fn objects_and_revision_live_on_in_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state");
        let mut store = open(&path);
        let (kept, gone) = (Key::new("pods", "a", "k"), Key::new("pods", "a", "g"));
        let object = store.put(kept.clone(), json!({"spec": 1}));
        store.put(gone.clone(), json!({}));
        store.remove(&gone);
        let last = store.revision();
        // Not dropped in order: as after a kill.
        std::mem::forget(store);
        let store = open(&path);
        assert_eq!(store.get(&kept), Some(&object));
        assert_eq!(store.get(&gone), None);
        assert!(store.revision() > last);
        assert!(store.changes_after(last).is_err());
    }

    #[test]
    fn a_half_written_line_costs_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state");
        let key = Key::new("nodes", "", "n");
        open(&path).put(key.clone(), json!({}));
        let mut file = File::options().append(true).open(&path).unwrap();
        file.write_all(b"{\"revision\":9,\"sto").unwrap();
        assert!(open(&path).get(&key).is_some());
    }

    #[test]
    fn the_file_does_not_grow_without_bound() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state");
        let mut store = open(&path);
        let key = Key::new("nodes", "", "n");
        for n in 0..SLACK + 100 {
            store.put(key.clone(), json!({"n": n}));
        }
        let lines = std::fs::read_to_string(&path).unwrap().lines().count();
        assert!(lines < 200, "{lines}");
        drop(store);
        let store = open(&path);
        assert_eq!(store.get(&key).unwrap()["n"], json!(SLACK + 99));
    }
}

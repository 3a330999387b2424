//! All objects under one revision, and the window of the latest changes.
//!
//! Watchers have no queue here: each keeps the revision it has seen and reads on in the window,
//! so that any number of slow ones cost nothing; one that falls out of the window is told so.

use std::{
    collections::{BTreeMap, VecDeque},
    ops::Bound,
    sync::Arc,
};

use serde_json::Value;
use tokio::sync::watch;

use super::{field, journal::Journal};

/// Where an object is kept.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// [`super::resource::Resource::storage`].
    pub storage: &'static str,
    /// Empty for cluster-wide kinds.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

impl Key {
    /// The key of an object.
    pub fn new(storage: &'static str, namespace: &str, name: &str) -> Self {
        Self {
            storage,
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        }
    }
}

/// What happened to an object.
#[derive(Debug, Clone)]
pub struct Change {
    /// The revision that it made.
    pub revision: u64,
    /// Which object.
    pub key: Key,
    /// Before; unset for a new object.
    pub before: Option<Arc<Value>>,
    /// After; unset for a removed object.
    pub after: Option<Arc<Value>>,
    /// For a removed object: its last state, at this revision.
    pub last: Option<Arc<Value>>,
}

/// A cursor is older than the window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Compacted {
    /// The oldest revision that changes are known after.
    pub oldest: u64,
}

/// Most changes that one look at the window takes, so that one watcher's batch stays small.
const MOST_PER_LOOK: usize = 256;

/// Events kept; the oldest go first, as they would after an hour.
pub const MOST_EVENTS: usize = 5000;

/// The objects, the revision and the window.
#[derive(Debug)]
pub struct Store {
    objects: BTreeMap<Key, Arc<Value>>,
    revision: u64,
    window: VecDeque<Arc<Change>>,
    window_size: usize,
    /// Changes up to this revision are not in the window.
    compacted: u64,
    /// In order of creation; names of removed ones are dropped when they come up.
    events: VecDeque<Key>,
    changed: watch::Sender<u64>,
    journal: Option<Journal>,
}

impl Store {
    /// An empty store whose window holds so many changes.
    pub fn new(window_size: usize) -> Self {
        Self {
            objects: BTreeMap::new(),
            revision: 1,
            window: VecDeque::new(),
            window_size: window_size.max(1),
            compacted: 1,
            events: VecDeque::new(),
            changed: watch::Sender::new(1),
            journal: None,
        }
    }

    /// Takes what a journal held, and writes every change to it from now on.
    pub fn restore(&mut self, revision: u64, objects: BTreeMap<Key, Arc<Value>>, journal: Journal) {
        let mut events: Vec<_> = objects
            .iter()
            .filter(|(key, _)| key.storage == "events")
            .map(|(key, event)| (revision_of(event), key.clone()))
            .collect();
        events.sort();
        self.events = events.into_iter().map(|(_, key)| key).collect();
        self.objects = objects;
        self.revision = revision;
        // Watches from before the restart can't be served on from the window.
        self.compacted = revision;
        self.window.clear();
        self.journal = Some(journal);
        self.changed.send_replace(revision);
    }

    /// The latest revision.
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// The oldest revision that a watch can start from.
    pub fn oldest(&self) -> u64 {
        self.compacted
    }

    /// Tells each new revision.
    pub fn subscribe(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }

    /// One object.
    pub fn get(&self, key: &Key) -> Option<&Arc<Value>> {
        self.objects.get(key)
    }

    /// The objects of a storage after `after` (of one namespace where given), in order.
    pub fn range<'a>(
        &'a self,
        storage: &'static str,
        namespace: Option<&'a str>,
        after: Option<&Key>,
    ) -> impl Iterator<Item = (&'a Key, &'a Arc<Value>)> {
        let first = Key::new(storage, namespace.unwrap_or_default(), "");
        let start = match after {
            Some(key) if *key >= first => Bound::Excluded(key.clone()),
            _ => Bound::Included(first),
        };
        self.objects
            .range((start, Bound::Unbounded))
            .take_while(move |(key, _)| {
                key.storage == storage && namespace.is_none_or(|n| key.namespace == n)
            })
    }

    /// Every object.
    pub fn all(&self) -> impl Iterator<Item = (&Key, &Arc<Value>)> {
        self.objects.iter()
    }

    /// Adds or replaces an object under a new revision, which is written into it.
    pub fn put(&mut self, key: Key, mut object: Value) -> Arc<Value> {
        self.revision += 1;
        set_revision(&mut object, self.revision);
        let object = Arc::new(object);
        let before = self.objects.insert(key.clone(), Arc::clone(&object));
        if before.is_none() && key.storage == "events" {
            self.events.push_back(key.clone());
        }
        self.record(Change {
            revision: self.revision,
            key,
            before,
            after: Some(Arc::clone(&object)),
            last: None,
        });
        self.expire_events();
        object
    }

    /// Removes an object; its last state carries the revision of the removal.
    pub fn remove(&mut self, key: &Key) -> Option<Arc<Value>> {
        let before = self.objects.remove(key)?;
        self.revision += 1;
        let mut last = (*before).clone();
        set_revision(&mut last, self.revision);
        let last = Arc::new(last);
        self.record(Change {
            revision: self.revision,
            key: key.clone(),
            before: Some(before),
            after: None,
            last: Some(Arc::clone(&last)),
        });
        Some(last)
    }

    /// The changes after a revision, oldest first; not all of them at once.
    pub fn changes_after(&self, revision: u64) -> Result<Vec<Arc<Change>>, Compacted> {
        if revision < self.compacted {
            return Err(Compacted {
                oldest: self.compacted,
            });
        }
        let from = self.window.partition_point(|c| c.revision <= revision);
        Ok(self
            .window
            .iter()
            .skip(from)
            .take(MOST_PER_LOOK)
            .cloned()
            .collect())
    }

    fn record(&mut self, change: Change) {
        if let Some(journal) = &mut self.journal {
            journal.write(&change, &self.objects);
        }
        self.window.push_back(Arc::new(change));
        while self.window.len() > self.window_size {
            if let Some(dropped) = self.window.pop_front() {
                self.compacted = dropped.revision;
            }
        }
        self.changed.send_replace(self.revision);
    }

    fn expire_events(&mut self) {
        while self.events.len() > MOST_EVENTS {
            if let Some(oldest) = self.events.pop_front() {
                self.remove(&oldest);
            }
        }
    }
}

/// The revision written into an object; 0 where there is none.
pub fn revision_of(object: &Value) -> u64 {
    field::text(object, "/metadata/resourceVersion")
        .parse()
        .unwrap_or_default()
}

fn set_revision(object: &mut Value, revision: u64) {
    field::map(object, "metadata").insert("resourceVersion".into(), revision.to_string().into());
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn named(name: &str) -> (Key, Value) {
        (
            Key::new("pods", "a", name),
            json!({"metadata": {"name": name}}),
        )
    }

    #[test]
    fn every_write_has_its_own_revision_and_change() {
        let mut store = Store::new(10);
        let (key, pod) = named("p");
        let added = store.put(key.clone(), pod.clone());
        let modified = store.put(key.clone(), pod);
        let removed = store.remove(&key).unwrap();
        assert!(revision_of(&added) < revision_of(&modified));
        assert!(revision_of(&modified) < revision_of(&removed));
        let changes = store.changes_after(revision_of(&added)).unwrap();
        assert_eq!(changes.len(), 2);
        assert!(changes[1].after.is_none());
    }

    #[test]
    fn a_cursor_that_fell_out_of_the_window_is_told() {
        let mut store = Store::new(2);
        let start = store.revision();
        for n in 0..3 {
            let (key, pod) = named(&n.to_string());
            store.put(key, pod);
        }
        assert!(store.changes_after(start).is_err());
        assert_eq!(store.changes_after(start + 1).unwrap().len(), 2);
    }

    #[test]
    fn a_range_stays_in_its_kind_and_namespace() {
        let mut store = Store::new(10);
        for (storage, namespace) in [
            ("nodes", ""),
            ("pods", "a"),
            ("pods", "ab"),
            ("secrets", "a"),
        ] {
            store.put(Key::new(storage, namespace, "x"), json!({}));
        }
        assert_eq!(store.range("pods", None, None).count(), 2);
        assert_eq!(store.range("pods", Some("a"), None).count(), 1);
        let after = Key::new("pods", "a", "x");
        assert_eq!(store.range("pods", None, Some(&after)).count(), 1);
    }

    #[test]
    fn events_do_not_grow_without_bound() {
        let mut store = Store::new(1);
        for n in 0..MOST_EVENTS + 7 {
            store.put(Key::new("events", "a", &n.to_string()), json!({}));
        }
        assert_eq!(store.range("events", None, None).count(), MOST_EVENTS);
    }
}

//! The state of the cluster and how it came about.
//!
//! Every write takes the next number of one counter, the resourceVersion, and is remembered with what was there before and
//! after. That one log serves everything that needs the past: a watch reads it forward from where the client left off, a list
//! that is read in pages rewinds it to the moment of the first page, a stale answer or a restored backup rewinds it further.
//! The log is bounded for each kind, in length and in age; what fell off its end is *compacted*, and whoever asks for it has to
//! begin anew.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;
use tokio::sync::Notify;

use crate::meta;
use crate::observer::Observed;

/// Namespace (empty for cluster-scoped kinds) and name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key {
    /// Comes first, so that a namespace is one stretch of the map.
    pub namespace: Arc<str>,
    /// The name.
    pub name: Arc<str>,
}

impl Key {
    /// A key of these parts.
    pub fn new(namespace: &str, name: &str) -> Self {
        Self { namespace: namespace.into(), name: name.into() }
    }
}

/// One write.
#[derive(Clone, Debug)]
pub struct Change {
    /// The number of the write.
    pub revision: u64,
    /// When it happened.
    pub at: Timestamp,
    /// Whom it is about.
    pub key: Key,
    /// The object before, if it existed.
    pub before: Option<Arc<Value>>,
    /// The object after; for a removal its last state under the new revision.
    pub after: Arc<Value>,
    /// What happened.
    pub kind: ChangeKind,
}

/// What a write did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangeKind {
    /// The object exists afterwards.
    Put,
    /// The object is gone afterwards.
    Removed,
}

/// The past that was asked for is no longer known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("too old resource version: {wanted} ({oldest})")]
pub struct Compacted {
    /// What was asked for.
    pub wanted: u64,
    /// The oldest state that is still known.
    pub oldest: u64,
}

#[derive(Debug, Default)]
struct Drawer {
    live: BTreeMap<Key, Arc<Value>>,
    log: VecDeque<Change>,
    compacted: u64,
    changed: Arc<Notify>,
}

/// How much of the past is kept, for each kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct History {
    /// This many writes at most.
    pub writes: usize,
    /// Writes this old are forgotten with the next write to their kind. A day of heartbeats would fill the memory otherwise.
    pub age: Duration,
}

/// All objects of all kinds. Kinds are told apart by their qualified names.
#[derive(Debug)]
pub(crate) struct Store {
    revision: u64,
    epoch: u64,
    history: History,
    drawers: BTreeMap<String, Drawer>,
    written: Arc<Notify>,
    /// Who looks.
    pub(crate) observed: Observed,
}

impl Store {
    /// An empty store.
    pub(crate) fn new(history: History) -> Self {
        Self {
            revision: 1,
            epoch: 0,
            history,
            drawers: BTreeMap::new(),
            written: Arc::default(),
            observed: Observed::default(),
        }
    }

    /// The number of the last write.
    pub(crate) fn revision(&self) -> u64 {
        self.revision
    }

    /// Grows when the past is rewritten by [`Store::restore`]; watches of an older epoch have to end.
    pub(crate) fn epoch(&self) -> u64 {
        self.epoch
    }

    /// The kinds of which there are or were objects.
    pub(crate) fn kinds(&self) -> impl Iterator<Item = &str> {
        self.drawers.keys().map(String::as_str)
    }

    /// Wakes those who wait for a write to any kind.
    pub(crate) fn written(&self) -> Arc<Notify> {
        self.written.clone()
    }

    /// One object as it is now.
    pub(crate) fn get(&self, kind: &str, key: &Key) -> Option<&Arc<Value>> {
        self.drawers.get(kind)?.live.get(key)
    }

    /// Writes an object and returns it as it is stored, with its new resourceVersion.
    pub(crate) fn put(&mut self, kind: &str, key: Key, mut object: Value, at: Timestamp) -> Arc<Value> {
        self.revision += 1;
        meta::set(&mut object, "resourceVersion", self.revision.to_string());
        let after = Arc::new(object);
        let drawer = Self::drawer(&mut self.drawers, kind);
        let before = drawer.live.insert(key.clone(), after.clone());
        let change = Change { revision: self.revision, at, key, before, after: after.clone(), kind: ChangeKind::Put };
        self.observed.written(kind, &change);
        drawer.record(change, self.history);
        self.written.notify_waiters();
        after
    }

    /// Removes an object and returns its last state under the revision of the removal; nothing if it does not exist.
    pub(crate) fn remove(&mut self, kind: &str, key: &Key, at: Timestamp) -> Option<Arc<Value>> {
        let drawer = self.drawers.get_mut(kind)?;
        let before = drawer.live.remove(key)?;
        self.revision += 1;
        let mut last = before.as_ref().clone();
        meta::set(&mut last, "resourceVersion", self.revision.to_string());
        let after = Arc::new(last);
        let change = Change {
            revision: self.revision,
            at,
            key: key.clone(),
            before: Some(before),
            after: after.clone(),
            kind: ChangeKind::Removed,
        };
        self.observed.written(kind, &change);
        drawer.record(change, self.history);
        self.written.notify_waiters();
        Some(after)
    }

    /// The objects of a kind as they were at a revision, in order, beginning after `after`; one namespace or all.
    pub(crate) fn view<'a>(
        &'a self,
        kind: &str,
        revision: u64,
        namespace: Option<&str>,
        after: Option<&Key>,
    ) -> Result<Vec<(&'a Key, &'a Arc<Value>)>, Compacted> {
        let Some(drawer) = self.drawers.get(kind) else { return Ok(Vec::new()) };
        if revision < drawer.compacted {
            return Err(Compacted { wanted: revision, oldest: drawer.compacted });
        }
        let first = Key::new(namespace.unwrap_or_default(), "");
        let from = match after {
            Some(after) if *after >= first => Bound::Excluded(after),
            _ => Bound::Included(&first),
        };
        let wanted = |key: &Key| namespace.is_none_or(|n| *key.namespace == *n);
        let live = drawer.live.range((from, Bound::Unbounded)).take_while(|(key, _)| wanted(key));
        if drawer.log.back().is_none_or(|last| last.revision <= revision) {
            return Ok(live.collect());
        }
        let mut view: BTreeMap<&Key, &Arc<Value>> = live.collect();
        for change in drawer.log.iter().rev().take_while(|c| c.revision > revision) {
            let in_range = wanted(&change.key) && after.is_none_or(|a| change.key > *a);
            match &change.before {
                Some(before) if in_range => drop(view.insert(&change.key, before)),
                _ => drop(view.remove(&change.key)),
            }
        }
        Ok(view.into_iter().collect())
    }

    /// The writes to a kind after a revision, oldest first.
    pub(crate) fn changes_after(&self, kind: &str, revision: u64) -> Result<impl Iterator<Item = &Change>, Compacted> {
        let drawer = self.drawers.get(kind);
        let compacted = drawer.map_or(0, |s| s.compacted);
        if revision < compacted {
            return Err(Compacted { wanted: revision, oldest: compacted });
        }
        Ok(drawer.into_iter().flat_map(move |s| {
            let start = s.log.partition_point(|c| c.revision <= revision);
            s.log.range(start..)
        }))
    }

    /// The revision that a reader who lags behind until `at` would see: that of the last write up to then.
    pub(crate) fn revision_at(&self, kind: &str, at: Timestamp) -> u64 {
        let Some(drawer) = self.drawers.get(kind) else { return self.revision };
        let seen = drawer.log.iter().rev().find(|c| c.at <= at).map_or(drawer.compacted, |c| c.revision);
        seen.max(drawer.compacted)
    }

    /// This revision, or the oldest one at which the state of a kind is still known.
    pub(crate) fn revision_back(&self, kind: &str, revision: u64) -> u64 {
        revision.max(self.drawers.get(kind).map_or(0, |drawer| drawer.compacted))
    }

    /// Makes those who wait for a kind look again, although nothing was written.
    pub(crate) fn wake(&self, kind: &str) {
        if let Some(drawer) = self.drawers.get(kind) {
            drawer.changed.notify_waiters();
        }
    }

    /// Wakes those who wait for writes to a kind. Waiting has to begin before looking, or a write in between is missed.
    pub(crate) fn changed(&mut self, kind: &str) -> Arc<Notify> {
        Self::drawer(&mut self.drawers, kind).changed.clone()
    }

    /// Forgets how states up to and including this revision came about.
    pub(crate) fn compact(&mut self, revision: u64) {
        for drawer in self.drawers.values_mut() {
            while drawer.log.front().is_some_and(|c| c.revision <= revision) {
                drawer.log.pop_front();
            }
            drawer.compacted = drawer.compacted.max(revision.min(self.revision));
            drawer.changed.notify_waiters();
        }
    }

    /// Puts the state of an earlier revision back, as an administrator does with a backup: later writes never happened, and
    /// their numbers will be given out again.
    pub(crate) fn restore(&mut self, revision: u64) -> Result<(), Compacted> {
        let oldest = self.drawers.values().map(|s| s.compacted).max().unwrap_or_default();
        if revision < oldest {
            return Err(Compacted { wanted: revision, oldest });
        }
        for drawer in self.drawers.values_mut() {
            while let Some(change) = drawer.log.pop_back_if(|c| c.revision > revision) {
                match change.before {
                    Some(before) => drawer.live.insert(change.key, before),
                    None => drawer.live.remove(&change.key),
                };
            }
            drawer.changed.notify_waiters();
        }
        self.revision = self.revision.min(revision);
        self.epoch += 1;
        self.written.notify_waiters();
        Ok(())
    }

    fn drawer<'a>(drawers: &'a mut BTreeMap<String, Drawer>, kind: &str) -> &'a mut Drawer {
        drawers.entry(kind.to_owned()).or_default()
    }
}

impl Drawer {
    fn record(&mut self, change: Change, history: History) {
        let age = SignedDuration::try_from(history.age).unwrap_or(SignedDuration::MAX);
        let forgotten = change.at.checked_sub(age).unwrap_or(Timestamp::MIN);
        self.log.push_back(change);
        let mut excess = self.log.len().saturating_sub(history.writes);
        while let Some(oldest) = self.log.pop_front_if(|oldest| excess > 0 || oldest.at < forgotten) {
            self.compacted = oldest.revision;
            excess = excess.saturating_sub(1);
        }
        self.changed.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    const KIND: &str = "things";

    /// A write to one of a few names in one of two namespaces.
    #[derive(Clone, Debug)]
    enum Write {
        Put(u8),
        Remove(u8),
    }

    fn key(name: u8) -> Key {
        Key::new(if name.is_multiple_of(2) { "even" } else { "odd" }, &format!("n{name}"))
    }

    fn writes() -> impl Strategy<Value = Vec<Write>> {
        let write = prop_oneof![3 => (0u8..6).prop_map(Write::Put), 1 => (0u8..6).prop_map(Write::Remove)];
        prop::collection::vec(write, 1..40)
    }

    type Snapshot = Vec<(Key, Arc<Value>)>;

    fn snapshot(store: &Store, revision: u64) -> Result<Snapshot, Compacted> {
        let view = store.view(KIND, revision, None, None)?;
        Ok(view.into_iter().map(|(key, object)| (key.clone(), object.clone())).collect())
    }

    /// Carries out the writes and notes the state after each revision.
    fn lived(writes: &[Write], history: usize) -> (Store, BTreeMap<u64, Snapshot>) {
        let mut store = Store::new(History { writes: history, age: Duration::MAX });
        let mut states = BTreeMap::from([(store.revision(), Vec::new())]);
        for write in writes {
            match write {
                Write::Put(name) => drop(store.put(KIND, key(*name), json!({ "metadata": {} }), Timestamp::UNIX_EPOCH)),
                Write::Remove(name) => drop(store.remove(KIND, &key(*name), Timestamp::UNIX_EPOCH)),
            }
            let now = snapshot(&store, store.revision()).unwrap();
            states.insert(store.revision(), now);
        }
        (store, states)
    }

    proptest! {
        #[test]
        fn every_state_in_history_can_be_seen_again_and_older_ones_are_refused(writes in writes(), history in 1usize..20) {
            let (store, states) = lived(&writes, history);
            let oldest = store.drawers.get(KIND).map_or(0, |drawer| drawer.compacted);
            for (revision, state) in &states {
                match snapshot(&store, *revision) {
                    Ok(seen) => prop_assert_eq!(&seen, state),
                    Err(compacted) => prop_assert!(compacted.wanted < oldest),
                }
            }
        }

        #[test]
        fn a_page_begins_after_the_last_one_also_in_the_past(writes in writes(), at in any::<prop::sample::Index>(), after in 0u8..6) {
            let (store, states) = lived(&writes, 100);
            let (revision, state) = states.iter().nth(at.index(states.len())).unwrap();
            for namespace in [None, Some("even"), Some("odd")] {
                let page = store.view(KIND, *revision, namespace, Some(&key(after))).unwrap();
                let page: Vec<&Key> = page.into_iter().map(|(key, _)| key).collect();
                let wanted = |k: &&Key| **k > key(after) && namespace.is_none_or(|n| *k.namespace == *n);
                let expected: Vec<&Key> = state.iter().map(|(key, _)| key).filter(wanted).collect();
                prop_assert_eq!(page, expected);
            }
        }

        #[test]
        fn a_restored_state_is_the_state_of_then(writes in writes(), at in any::<prop::sample::Index>()) {
            let (mut store, states) = lived(&writes, 100);
            let (revision, state) = states.iter().nth(at.index(states.len())).unwrap();
            store.restore(*revision).unwrap();
            prop_assert_eq!(store.revision(), *revision);
            prop_assert_eq!(&snapshot(&store, *revision).unwrap(), state);
            prop_assert_eq!(store.changes_after(KIND, *revision).unwrap().count(), 0);
        }
    }

    #[test]
    fn old_writes_are_forgotten_with_the_next_one() {
        let mut store = Store::new(History { writes: 100, age: Duration::from_mins(10) });
        let mut write_at = |minute| {
            let at = Timestamp::UNIX_EPOCH + SignedDuration::from_mins(minute);
            store.put(KIND, key(0), json!({ "metadata": {} }), at);
            store.changes_after(KIND, 1).map(Iterator::count)
        };
        assert_eq!(write_at(0), Ok(1));
        assert_eq!(write_at(10), Ok(2));
        assert_eq!(write_at(11), Err(Compacted { wanted: 1, oldest: 2 }));
    }

    #[test]
    fn what_was_compacted_cannot_be_restored() {
        let (mut store, _) = lived(&[Write::Put(0), Write::Put(1)], 100);
        store.compact(store.revision());
        assert!(store.restore(1).is_err());
        assert_eq!(store.get(KIND, &key(1)).map(|o| meta::version(o).to_owned()), Some("3".to_owned()));
    }
}

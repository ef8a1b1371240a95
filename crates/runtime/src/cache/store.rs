//! The objects of one kind, and the rules by which lists, events and own writes change them.
//!
//! Three sources report the same objects and are not ordered: lists (complete, possibly old), the watch (in order, but
//! delayed) and the responses to own writes (new, but only for single objects). These rules compare the resourceVersion
//! within the kind:
//!
//! - The response to an own write is applied immediately if it is newer. Older data does not revert it
//!   ([`floors`](super::floors)).
//! - The watch and each object only move forward. If an event or a list is older than what was already seen, or a list
//!   contains an older object, the API server has lost history (a restored etcd). Nothing of it is applied, all floors
//!   are removed, and the next quorum list is applied regardless of its version.
//! - An object that a list does not contain has *vanished*, unless it was written by this process after the list was created.
//!
//! No clock, no I/O: the tests cover every rule with a table of cases.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use meta::Object;
use serde::de::DeserializeOwned;

use super::admission::Ends;
use super::decoded::{Decoded, Lookup, UndecodableObject, key_of};
use super::delta::{Delta, Removal};
use super::floors::{Floors, Ruling};
use super::index::{Catalogue, Index};
use super::vanished::Vanished;
use super::version::{Version, number};
use crate::Key;

/// An object that a cache can store.
pub trait Cached: Object + DeserializeOwned + Send + Sync + 'static {}

impl<K: Object + DeserializeOwned + Send + Sync + 'static> Cached for K {}

/// Returns true if handlers need not be called for the difference between two states of an object.
pub type UpdatePredicate<K> = fn(&K, &K) -> bool;

/// Returns which objects are stored at all. The selection may change: see `admission`.
pub type Keep<K> = Arc<dyn Fn(&K) -> bool + Send + Sync>;

/// Changes in the order in which they happened.
pub(super) type Deltas<K> = Vec<(Key, Delta<K>)>;

/// How data from the API server was handled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Freshness {
    /// It was applied.
    Taken,
    /// It is older than what was already seen. Nothing was applied; the cache is in doubt until a quorum list.
    Regressed,
}

pub(super) struct Store<K> {
    held: BTreeMap<Key, Held<K>>,
    catalogues: Vec<Catalogue<K>>,
    floors: Floors,
    vanished: Vanished<K>,
    /// The version up to which lists and the watch have reported. Own writes do not count, because they do not
    /// cover the other objects.
    position: Option<u64>,
    doubt: Doubt,
    ignored: Option<UpdatePredicate<K>>,
    keep: Option<Keep<K>>,
    ends: Ends,
    undecodable: usize,
    namespaces: BTreeSet<Arc<str>>,
}

enum Held<K> {
    Whole(Arc<K>),
    Undecodable(Arc<UndecodableObject>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Doubt {
    No,
    /// The API server did not respond for a while. The next list may be from another history, in which a version stands
    /// for another state.
    Possible,
    /// The stored versions may be from a history that no longer exists: they are not compared with anything.
    Yes,
}

impl<K: Cached> Held<K> {
    fn uid(&self) -> &str {
        match self {
            Self::Whole(object) => object.uid_text(),
            Self::Undecodable(object) => &object.uid,
        }
    }

    fn version(&self) -> &str {
        match self {
            Self::Whole(object) => object.resource_version(),
            Self::Undecodable(object) => &object.resource_version,
        }
    }

    fn is_same_as(&self, other: &Decoded<K>) -> bool {
        !self.version().is_empty() && self.version() == other.version() && self.uid() == other.uid()
    }
}

impl<K: Cached> Store<K> {
    pub(super) fn new(indexes: Vec<Index<K>>, ignored: Option<UpdatePredicate<K>>, keep: Option<Keep<K>>) -> Self {
        Self {
            held: BTreeMap::new(),
            catalogues: indexes.into_iter().map(Catalogue::new).collect(),
            floors: Floors::default(),
            vanished: Vanished::default(),
            position: None,
            doubt: Doubt::No,
            ignored,
            keep,
            ends: Ends::default(),
            undecodable: 0,
            namespaces: BTreeSet::new(),
        }
    }

    pub(super) fn look_up(&self, key: &Key) -> Lookup<K> {
        match self.held.get(key) {
            None => Lookup::Absent,
            Some(Held::Whole(object)) => Lookup::Present(object.clone()),
            Some(Held::Undecodable(object)) => Lookup::Undecodable(object.clone()),
        }
    }

    /// Returns all objects that can be decoded, sorted by key.
    pub(super) fn whole(&self) -> impl Iterator<Item = &Arc<K>> {
        self.held.values().filter_map(|held| match held {
            Held::Whole(object) => Some(object),
            Held::Undecodable(_) => None,
        })
    }

    pub(super) fn undecodable(&self) -> impl Iterator<Item = &Arc<UndecodableObject>> {
        let unreadable = self.held.values().filter_map(|held| match held {
            Held::Undecodable(object) => Some(object),
            Held::Whole(_) => None,
        });
        // Nearly always the number is zero, and no search is necessary.
        unreadable.take(self.undecodable)
    }

    pub(super) fn find(&self, index: &Index<K>, value: &str) -> Vec<Arc<K>> {
        let Some(catalogue) = self.catalogues.iter().find(|catalogue| catalogue.is_for(index)) else {
            // An undeclared index is slow, not empty: an empty result could cost a Machine.
            return self.whole().filter(|object| index.covers(object, value)).cloned().collect();
        };
        let whole = |key| match self.held.get(key) {
            Some(Held::Whole(object)) => Some(object.clone()),
            Some(Held::Undecodable(_)) | None => None,
        };
        catalogue.keys(value).filter_map(whole).collect()
    }

    pub(super) fn holds(&self, key: &Key) -> bool {
        self.held.contains_key(key)
    }

    pub(super) fn len(&self) -> usize {
        self.held.len()
    }

    pub(super) fn undecodable_count(&self) -> usize {
        self.undecodable
    }

    /// The watch reported this object as added or changed.
    pub(super) fn applied(&mut self, shown: Decoded<K>, deltas: &mut Deltas<K>) -> Freshness {
        let at = number(shown.version());
        if self.advance(at) == Freshness::Regressed {
            return Freshness::Regressed;
        }
        let key = shown.key();
        if self.floors.judge(&key, shown.uid(), at) == Ruling::Fair {
            self.floors.reached(&key);
            if self.keeps(&shown) {
                self.take(key, shown, deltas);
            } else {
                self.remove(&key, Some(shown), Removal::Deleted, deltas);
            }
        }
        Freshness::Taken
    }

    /// The watch reported the deletion of this object.
    pub(super) fn ended(&mut self, last: Decoded<K>, deltas: &mut Deltas<K>) -> Freshness {
        let at = number(last.version());
        if self.advance(at) == Freshness::Regressed {
            return Freshness::Regressed;
        }
        let key = last.key();
        if self.floors.judge_end(&key, last.uid(), at) == Ruling::Fair {
            self.floors.reached(&key);
            self.ends.note(&key, last.uid());
            let last_state = self.held.get(&key).is_some_and(|held| held.uid() == last.uid()).then_some(last);
            self.remove(&key, last_state, Removal::Deleted, deltas);
        }
        Freshness::Taken
    }

    /// The watch has reported everything up to this version.
    pub(super) fn passed(&mut self, version: &Version) -> Freshness {
        let at = version.number();
        let freshness = self.advance(at);
        if let (Freshness::Taken, Some(at)) = (freshness, at) {
            self.floors.passed(at);
            self.vanished.passed();
        }
        freshness
    }

    /// Replaces everything with a complete list. A list that is older than what was already seen is not applied, unless
    /// it is the quorum list that resolves the doubt.
    pub(super) fn listed(
        &mut self,
        version: &Version,
        items: impl IntoIterator<Item = Decoded<K>>,
        deltas: &mut Deltas<K>,
    ) -> Freshness {
        let at = version.number();
        if self.advance(at) == Freshness::Regressed {
            return Freshness::Regressed;
        }
        let kept = items.into_iter().filter(|item| self.keeps(item));
        let mut fresh: BTreeMap<Key, Decoded<K>> = kept.map(|item| (item.key(), item)).collect();
        if self.doubt != Doubt::Yes && fresh.iter().any(|(key, item)| self.has_gone_back(key, item, at)) {
            self.suspect();
            return Freshness::Regressed;
        }
        let uids: BTreeMap<Key, Box<str>> = if self.floors.is_empty() {
            BTreeMap::new()
        } else {
            fresh.iter().map(|(key, item)| (key.clone(), item.uid().into())).collect()
        };

        fresh.retain(|key, item| {
            let ruling = self.floors.judge(key, item.uid(), number(item.version()));
            ruling == Ruling::Fair && !self.floors.outlast(key, at)
        });
        let gone: Vec<Key> =
            self.held.keys().filter(|key| !fresh.contains_key(key) && !self.floors.outlast(key, at)).cloned().collect();
        let how = match self.doubt {
            Doubt::No | Doubt::Possible => Removal::Vanished,
            Doubt::Yes => Removal::Forgotten,
        };
        for key in gone {
            self.remove(&key, None, how, deltas);
        }
        self.vanished.listed(deltas);
        for (key, item) in fresh {
            self.take(key, item, deltas);
        }
        self.floors.listed(at, |key, uid| uids.get(key).is_some_and(|listed| **listed == *uid));
        self.position = at;
        self.doubt = Doubt::No;
        Freshness::Taken
    }

    /// Returns the objects that were reported as vanished by the previous list, and were in fact forgotten, as the next
    /// list shows.
    pub(super) fn forgotten_before(&mut self) -> Deltas<K> {
        match self.doubt {
            Doubt::No | Doubt::Possible => Deltas::new(),
            Doubt::Yes => self.vanished.forgotten(),
        }
    }

    /// Applies the response to an own write.
    pub(super) fn wrote(&mut self, object: K, deltas: &mut Deltas<K>) {
        let key = key_of(&object);
        let Some(at) = number(object.resource_version()) else {
            return; // unknown whether the watch is newer; it will report the write
        };
        let uid = object.uid_text().to_owned();
        if is_its_end(&object) {
            return self.deleted(&key, &uid, deltas);
        }
        let overtaken = match (self.doubt, self.held.get(&key)) {
            (Doubt::Yes, _) => false,
            (Doubt::No | Doubt::Possible, Some(held)) => number(held.version()).is_none_or(|held| held >= at),
            // The watch is newer and the object does not exist: it was deleted before the response arrived.
            (Doubt::No | Doubt::Possible, None) => self.position.is_some_and(|position| position >= at),
        };
        if overtaken || self.floors.judge(&key, &uid, Some(at)) == Ruling::Stale {
            return;
        }
        self.floors.written(&key, &uid, at);
        self.take(key, Decoded::Whole(object), deltas);
    }

    /// A list of newly selected objects is in progress.
    pub(super) fn begin_admission(&mut self) {
        self.ends.begin();
    }

    /// Applies the list of newly selected objects. What the watch has reported in the meantime is newer.
    pub(super) fn admit(&mut self, items: impl IntoIterator<Item = Decoded<K>>, deltas: &mut Deltas<K>) {
        for item in items {
            let (key, at) = (item.key(), number(item.version()));
            let known = self.held.get(&key).is_some_and(|held| self.doubt == Doubt::No && number(held.version()) >= at);
            let stale = self.floors.judge(&key, item.uid(), at) == Ruling::Stale;
            if known || stale || self.ends.saw(&key, item.uid()) || !self.keeps(&item) {
                continue;
            }
            if let Some(at) = at.filter(|at| self.position.is_none_or(|position| position < *at)) {
                self.floors.written(&key, item.uid(), at);
            }
            self.take(key, item, deltas);
        }
    }

    pub(super) fn end_admission(&mut self) {
        self.ends.end();
    }

    /// Drops the objects that the filter no longer selects.
    pub(super) fn shed(&mut self) {
        let Some(keep) = self.keep.clone() else { return };
        let unwanted = |held: &Held<K>| matches!(held, Held::Whole(object) if !keep(object));
        let keys: Vec<Key> = self.held.iter().filter(|(_, held)| unwanted(held)).map(|(key, _)| key.clone()).collect();
        let mut nobody_cares = Deltas::new();
        for key in keys {
            self.floors.reached(&key);
            self.remove(&key, None, Removal::Vanished, &mut nobody_cares);
        }
    }

    /// An own delete request removed this object.
    pub(super) fn deleted(&mut self, key: &Key, uid: &str, deltas: &mut Deltas<K>) {
        let Some(held) = self.held.get(key).filter(|held| held.uid() == uid) else {
            return; // the watch was faster, or another object of that name already exists
        };
        match number(held.version()) {
            Some(at) => self.floors.deleted(key, uid, at),
            None => self.floors.reached(key),
        }
        self.remove(key, None, Removal::Deleted, deltas);
    }

    fn keeps(&self, shown: &Decoded<K>) -> bool {
        match (&self.keep, shown) {
            (None, _) => true,
            (Some(keep), Decoded::Whole(object)) => keep(object),
            // The filter cannot evaluate an undecodable object, which would never be dropped.
            (Some(_), Decoded::Undecodable(_)) => false,
        }
    }

    /// The stored objects may be from another history than the next data: only a list can decide.
    pub(super) fn suspect(&mut self) {
        self.floors.forget();
        self.position = None;
        self.doubt = Doubt::Yes;
    }

    /// The API server did not respond for a while, and everything is listed with quorum next. That list contains
    /// own writes, and possibly reveals that the server was restored from a backup.
    pub(super) fn cut_off(&mut self) {
        self.floors.forget();
        if self.doubt == Doubt::No {
            self.doubt = Doubt::Possible;
        }
    }

    /// Returns whether a list of version `list` contains an older state of an object than the cache. The list is
    /// later than that change, so it is from another history.
    fn has_gone_back(&self, key: &Key, item: &Decoded<K>, list: Option<u64>) -> bool {
        let Some(held) = self.held.get(key).filter(|held| held.uid() == item.uid()) else { return false };
        let (Some(now), Some(then), Some(list)) = (number(item.version()), number(held.version()), list) else {
            return false;
        };
        now < then && then <= list
    }

    fn advance(&mut self, at: Option<u64>) -> Freshness {
        let Some(at) = at else { return Freshness::Taken };
        if self.position.is_some_and(|position| at < position) {
            self.suspect();
            return Freshness::Regressed;
        }
        self.position = Some(at);
        Freshness::Taken
    }

    fn take(&mut self, key: Key, fresh: Decoded<K>, deltas: &mut Deltas<K>) {
        let known = self.held.get_key_value(&key);
        // Otherwise the same version may be from another history.
        if self.doubt == Doubt::No && known.is_some_and(|(_, held)| held.is_same_as(&fresh)) {
            return; // reported by the watch after an own write, or unchanged in a relist
        }
        let key = match known {
            Some((known, _)) => known.clone(),
            None => self.share_namespace(key),
        };
        let fresh = match fresh {
            Decoded::Whole(object) => Held::Whole(Arc::new(object)),
            Decoded::Undecodable(object) => Held::Undecodable(Arc::new(object)),
        };
        self.enter(&key, &fresh);
        let (now, old) = match fresh {
            Held::Whole(object) => {
                (Lookup::Present(object.clone()), self.held.insert(key.clone(), Held::Whole(object)))
            }
            Held::Undecodable(object) => {
                (Lookup::Undecodable(object.clone()), self.held.insert(key.clone(), Held::Undecodable(object)))
            }
        };
        let delta = match (old, now) {
            (_, Lookup::Absent) => return,
            (None, Lookup::Present(new)) => Delta::Added(new),
            (Some(Held::Whole(old)), Lookup::Present(new))
                if self.ignored.is_some_and(|ignored| ignored(&old, &new)) =>
            {
                return;
            }
            (Some(Held::Whole(old)), Lookup::Present(new)) => Delta::Changed { old, new },
            (Some(Held::Undecodable(was)), Lookup::Present(new)) => Delta::Fixed { was, new },
            (Some(Held::Whole(old)), Lookup::Undecodable(object)) => Delta::Undecodable { old: Some(old), object },
            (_, Lookup::Undecodable(object)) => Delta::Undecodable { old: None, object },
        };
        deltas.push((key, delta));
    }

    /// Removes the object under `key`. `last_state` is its last state, if the API server sent it.
    fn remove(&mut self, key: &Key, last_state: Option<Decoded<K>>, how: Removal, deltas: &mut Deltas<K>) {
        self.withdraw(key);
        let Some((key, held)) = self.held.remove_entry(key) else { return };
        let delta = match held {
            Held::Whole(held) => {
                let last = match last_state {
                    Some(Decoded::Whole(last_state)) => Arc::new(last_state),
                    Some(Decoded::Undecodable(_)) | None => held,
                };
                Delta::Removed { last, how }
            }
            Held::Undecodable(last) => {
                self.undecodable -= 1;
                Delta::RemovedUndecodable { last, how }
            }
        };
        deltas.push((key, delta));
    }

    fn enter(&mut self, key: &Key, fresh: &Held<K>) {
        self.withdraw(key);
        if matches!(self.held.get(key), Some(Held::Undecodable(_))) {
            self.undecodable -= 1;
        }
        match fresh {
            Held::Whole(object) => self.catalogues.iter_mut().for_each(|catalogue| catalogue.enter(key, object)),
            Held::Undecodable(_) => self.undecodable += 1,
        }
    }

    fn withdraw(&mut self, key: &Key) {
        if let Some(Held::Whole(object)) = self.held.get(key) {
            self.catalogues.iter_mut().for_each(|catalogue| catalogue.withdraw(key, object));
        }
    }

    /// All objects of a namespace share one copy of its name.
    fn share_namespace(&mut self, key: Key) -> Key {
        if let Some(namespace) = self.namespaces.get(&key.namespace) {
            return Key { namespace: namespace.clone(), name: key.name };
        }
        self.namespaces.insert(key.namespace.clone());
        key
    }
}

/// Returns whether this response is the end of the object: an update that removes the last finalizer deletes it.
fn is_its_end(object: &impl Object) -> bool {
    object.is_deleting() && object.deletion_grace_period_seconds() == Some(0) && !object.has_finalizers()
}

#[cfg(test)]
mod tests;

//! The objects of one kind, and the rules by which lists, events and our own writes change them.
//!
//! Three sources speak about the same objects and overtake each other: lists (all at once, possibly old), the watch (in
//! order, but late) and the answers to our writes (new, but only ours). The rules, all by resourceVersion within the kind:
//!
//! - the answer to our write is taken at once if it is newer, and nothing older than it undoes it ([`floors`](super::floors));
//! - the watch moves forward only, and so does each object. An event or a list from before what was already shown, or a list in which an
//!   object is, means that the API server has lost history (a restored etcd): nothing is taken from it, all floors are forgotten,
//!   and the next quorum list is taken whatever its version;
//! - what a list no longer contains has *vanished*, unless we wrote it after the list was made.
//!
//! No clock, no I/O: every rule has its table of cases in the tests.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use api::Object;
use serde::de::DeserializeOwned;

use super::admission::Ends;
use super::decoded::{Decoded, Lookup, UndecodableObject, key_of};
use super::delta::{Delta, Removal};
use super::floors::{Floors, Ruling};
use super::index::{Catalogue, Index};
use super::vanished::Vanished;
use super::version::{Version, number};
use crate::Key;

/// An object as a cache can hold one.
pub trait Cached: Object + DeserializeOwned + Send + Sync + 'static {}

impl<K: Object + DeserializeOwned + Send + Sync + 'static> Cached for K {}

/// Tells that nobody needs to be woken for the difference between two states of an object.
pub type UpdatePredicate<K> = fn(&K, &K) -> bool;

/// Tells which objects are held at all. It may change its mind: see `admission`.
pub type Keep<K> = Arc<dyn Fn(&K) -> bool + Send + Sync>;

/// Changes in the order in which they happened.
pub(super) type Deltas<K> = Vec<(Key, Delta<K>)>;

/// What was made of something the API server showed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Freshness {
    /// It has been taken into account.
    Taken,
    /// It is from before what was already shown. Nothing was taken; the cache is in doubt until a quorum list.
    Regressed,
}

pub(super) struct Store<K> {
    held: BTreeMap<Key, Held<K>>,
    catalogues: Vec<Catalogue<K>>,
    floors: Floors,
    vanished: Vanished<K>,
    /// How far lists and the watch have come. Our own writes do not count: they say nothing about the other objects.
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
    /// The API server did not answer for a while. The next list may be of another history, in which one version stands for another state.
    Possible,
    /// The versions we hold may be from a history that no longer exists: they are not compared with anything.
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

    /// All that can be read, in the order of their keys.
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
        // There are none nearly always, and then nobody should look at everything to find that out.
        unreadable.take(self.undecodable)
    }

    pub(super) fn find(&self, index: &Index<K>, value: &str) -> Vec<Arc<K>> {
        let Some(catalogue) = self.catalogues.iter().find(|catalogue| catalogue.is_for(index)) else {
            // An index nobody declared is slow, not empty: an empty answer could cost a machine.
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

    /// The watch showed this object, new or changed.
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

    /// The watch showed the end of this object.
    pub(super) fn ended(&mut self, last: Decoded<K>, deltas: &mut Deltas<K>) -> Freshness {
        let at = number(last.version());
        if self.advance(at) == Freshness::Regressed {
            return Freshness::Regressed;
        }
        let key = last.key();
        if self.floors.judge_end(&key, last.uid(), at) == Ruling::Fair {
            self.floors.reached(&key);
            self.ends.note(&key, last.uid());
            let told = self.held.get(&key).is_some_and(|held| held.uid() == last.uid()).then_some(last);
            self.remove(&key, told, Removal::Deleted, deltas);
        }
        Freshness::Taken
    }

    /// The watch has shown everything up to here.
    pub(super) fn passed(&mut self, version: &Version) -> Freshness {
        let at = version.number();
        let freshness = self.advance(at);
        if let (Freshness::Taken, Some(at)) = (freshness, at) {
            self.floors.passed(at);
            self.vanished.passed();
        }
        freshness
    }

    /// A complete list replaces everything at once. A list that is older than what was already shown is not taken, unless
    /// it is the one that settles the doubt this causes.
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

    /// What the last list called vanished although it was forgotten, as the list shows that is taken over next.
    pub(super) fn forgotten_before(&mut self) -> Deltas<K> {
        match self.doubt {
            Doubt::No | Doubt::Possible => Deltas::new(),
            Doubt::Yes => self.vanished.forgotten(),
        }
    }

    /// The answer to a write of ours.
    pub(super) fn wrote(&mut self, object: K, deltas: &mut Deltas<K>) {
        let key = key_of(&object);
        let Some(at) = number(object.resource_version()) else {
            return; // nothing tells whether the watch is already further; it will show the write
        };
        let uid = object.uid_text().to_owned();
        if is_its_end(&object) {
            return self.deleted(&key, &uid, deltas);
        }
        let overtaken = match (self.doubt, self.held.get(&key)) {
            (Doubt::Yes, _) => false,
            (Doubt::No | Doubt::Possible, Some(held)) => number(held.version()).is_none_or(|held| held >= at),
            // The watch has been there and it is no longer: someone deleted it before our answer arrived.
            (Doubt::No | Doubt::Possible, None) => self.position.is_some_and(|position| position >= at),
        };
        if overtaken || self.floors.judge(&key, &uid, Some(at)) == Ruling::Stale {
            return;
        }
        self.floors.written(&key, &uid, at);
        self.take(key, Decoded::Whole(object), deltas);
    }

    /// Somebody is reading what the filter has begun to keep.
    pub(super) fn begin_admission(&mut self) {
        self.ends.begin();
    }

    /// They have read this. What the watch has shown in the meantime is newer.
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

    /// Lets go of what the filter no longer keeps.
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

    /// A delete of ours removed this object.
    pub(super) fn deleted(&mut self, key: &Key, uid: &str, deltas: &mut Deltas<K>) {
        let Some(held) = self.held.get(key).filter(|held| held.uid() == uid) else {
            return; // the watch has been faster, or another one of that name is already there
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
            // What cannot be read cannot be judged, and would be held for good.
            (Some(_), Decoded::Undecodable(_)) => false,
        }
    }

    /// What is held may be of another history than what comes next: only a list can tell.
    pub(super) fn suspect(&mut self) {
        self.floors.forget();
        self.position = None;
        self.doubt = Doubt::Yes;
    }

    /// The API server did not answer for a while, and everything is read with quorum next: that shows what our own answers have told
    /// too, and perhaps that it was put back.
    pub(super) fn cut_off(&mut self) {
        self.floors.forget();
        if self.doubt == Doubt::No {
            self.doubt = Doubt::Possible;
        }
    }

    /// Whether a list of version `list` shows an object as it was before we saw it change. The list is later than the change, so
    /// it is of another history, however far that has come.
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
        // Otherwise the same version may be of another history.
        if self.doubt == Doubt::No && known.is_some_and(|(_, held)| held.is_same_as(&fresh)) {
            return; // our own write coming back, or an object a relist found unchanged
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
            (Some(Held::Undecodable(was)), Lookup::Present(new)) => Delta::Mended { was, new },
            (Some(Held::Whole(old)), Lookup::Undecodable(object)) => Delta::Undecodable { old: Some(old), object },
            (_, Lookup::Undecodable(object)) => Delta::Undecodable { old: None, object },
        };
        deltas.push((key, delta));
    }

    /// Removes what is held under `key`. `told` is its last state if someone sent it along.
    fn remove(&mut self, key: &Key, told: Option<Decoded<K>>, how: Removal, deltas: &mut Deltas<K>) {
        self.withdraw(key);
        let Some((key, held)) = self.held.remove_entry(key) else { return };
        let delta = match held {
            Held::Whole(held) => {
                let last = match told {
                    Some(Decoded::Whole(told)) => Arc::new(told),
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

    /// Ten thousand objects of one namespace hold its name once.
    fn share_namespace(&mut self, key: Key) -> Key {
        if let Some(namespace) = self.namespaces.get(&key.namespace) {
            return Key { namespace: namespace.clone(), name: key.name };
        }
        self.namespaces.insert(key.namespace.clone());
        key
    }
}

/// Whether this answer shows the end of the object: an update that took away its last finalizer is a deletion.
fn is_its_end(object: &impl Object) -> bool {
    object.is_deleting() && object.deletion_grace_period_seconds() == Some(0) && !object.has_finalizers()
}

#[cfg(test)]
mod tests;

//! What the verbs work on, under one lock: a request is one step, and no two steps overlap.

use fastrand::Rng;
use jiff::Timestamp;
use serde_json::Value;
use std::sync::Arc;

use crate::catalog::Catalog;
use crate::kinds::definitions;
use crate::meta;
use crate::names;
use crate::resource::Resource;
use crate::store::{History, Key, Store};

/// Objects, the kinds they are of, and the source of names.
#[derive(Debug)]
pub(crate) struct State {
    /// The objects.
    pub(crate) store: Store,
    /// The kinds.
    pub(crate) catalog: Catalog,
    random: Rng,
}

/// Whether a write takes effect or is only tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    /// It is stored.
    Real,
    /// It is checked and answered, but not stored.
    DryRun,
}

impl State {
    /// An empty cluster.
    pub(crate) fn new(seed: u64, history: History) -> Self {
        Self { store: Store::new(history), catalog: Catalog::built_in(), random: Rng::with_seed(seed) }
    }

    /// One object.
    pub(crate) fn get(&self, resource: &Resource, key: &Key) -> Option<&Arc<Value>> {
        self.store.get(resource.stored_as(), key)
    }

    /// A new uid.
    pub(crate) fn uid(&mut self) -> String {
        names::uid(&mut self.random)
    }

    /// A name that begins with `base`.
    pub(crate) fn generated_name(&mut self, base: &str) -> String {
        names::generated(base, &mut self.random)
    }

    /// A number below `limit`.
    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.random.u64(..limit.max(1))
    }

    /// Stores an object.
    pub(crate) fn put(
        &mut self,
        resource: &Resource,
        key: Key,
        object: Value,
        now: Timestamp,
        effect: Effect,
    ) -> Arc<Value> {
        if effect == Effect::DryRun {
            return Arc::new(object);
        }
        let kind = resource.stored_as();
        let stored = self.store.put(kind, key, object, now);
        if kind == definitions::STORED_AS {
            self.catalog.refresh(&self.store);
        }
        stored
    }

    /// Stores a change of an object, unless it was the last thing that kept a deleted object: then the object goes.
    pub(crate) fn settle(&mut self, resource: &Resource, key: &Key, object: Value, now: Timestamp) {
        let kept = !meta::is_deleting(&object)
            || !meta::finalizers(&object).is_empty()
            || meta::deletion_grace(&object).unwrap_or_default() > 0
            || resource.rules.is_held(&object);
        if kept {
            self.put(resource, key.clone(), object, now, Effect::Real);
        } else {
            self.remove(resource, key, now, Effect::Real);
        }
    }

    /// Removes an object; a definition takes the objects it defines with it.
    pub(crate) fn remove(
        &mut self,
        resource: &Resource,
        key: &Key,
        now: Timestamp,
        effect: Effect,
    ) -> Option<Arc<Value>> {
        let kind = resource.stored_as();
        if effect == Effect::DryRun {
            return self.store.get(kind, key).cloned();
        }
        let removed = self.store.remove(kind, key, now);
        if kind == definitions::STORED_AS {
            let orphans = self.store.view(&key.name, self.store.revision(), None, None).unwrap_or_default();
            let orphans: Vec<Key> = orphans.into_iter().map(|(key, _)| key.clone()).collect();
            for orphan in orphans {
                self.store.remove(&key.name, &orphan, now);
            }
            self.catalog.refresh(&self.store);
            self.store.wake(&key.name);
        }
        removed
    }
}

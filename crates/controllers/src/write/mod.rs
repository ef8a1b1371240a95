//! The one way in which controllers write.
//!
//! Several of our controllers write to the same objects: to a Node the machine's own reconcile, its drain, the roll-out of its deployment
//! and the check for unmanaged nodes; to a Machine its own reconcile, its set and its deployment; to sets and deployments their own
//! reconciles and the overshoot safety. What is written is guarded by the version that was decided on, so side by side they would refuse
//! each other's writes. So a [`Writer`] takes the object's write lock, and finds out without a request whether somebody was faster: then
//! the decision is made again, on what there is now. What other programs write in between, our own other component in a process of its own
//! among them, is still the API server's to refuse.
//!
//! The answer is in the cache before the lock is released, because whoever is next looks there. What did not work is one `WriteError`,
//! whatever the kind, and says how it is tried again.

mod error;
mod guard;
mod held;
mod locks;
mod node;
#[cfg(test)]
mod tests;

use std::fmt::{self, Debug};
use std::sync::Arc;

use api::Object;
use kube::api::PostParams;
use runtime::Key;
use runtime::cache::{Cache, Cached};
use runtime::client::{Api, ApiError, SendCheck};
use serde::Serialize;
use serde_json::Value;

pub(crate) use error::{Retry, WriteError};
pub(crate) use guard::{Guard, Part};
pub(crate) use held::{Deletion, Found, Held, Written};
use locks::WriteLocks;

/// A kind that can be written.
pub trait Kind: Object + Cached + Clone + Debug {}

impl<K: Object + Cached + Clone + Debug> Kind for K {}

/// Writes objects of one kind, with the client of one component. Clones share the write locks.
#[derive(Clone)]
pub struct Writer<K: Kind> {
    api: Api<K>,
    /// `None` for objects without a lasting cache: then nothing is known to be stale, and no answer is kept.
    cache: Option<Cache<K>>,
    locks: WriteLocks,
}

impl<K: Kind> Writer<K> {
    /// Writes to what this cache shows.
    pub(crate) fn new(api: Api<K>, cache: &Cache<K>) -> Self {
        Self { api, cache: Some(cache.clone()), locks: WriteLocks::default() }
    }

    /// Writes to objects without a lasting cache.
    pub(crate) fn uncached(api: Api<K>) -> Self {
        Self { api, cache: None, locks: WriteLocks::default() }
    }

    /// The same objects and the same locks, for the other component and its client.
    pub(crate) fn through(&self, api: Api<K>) -> Self {
        Self { api, ..self.clone() }
    }

    /// Waits until nobody else of us writes to the object, and looks whether somebody has since it was decided on.
    pub(crate) async fn hold<'a>(
        &'a self,
        guard: Guard<'a>,
        step: &'a (dyn fmt::Display + Sync),
    ) -> Result<Held<'a, K>, WriteError> {
        let lock = self.locks.take(guard.name).await;
        let held = Held::new(self, guard, step, lock);
        held.check()?;
        Ok(held)
    }

    /// One patch of one object.
    pub(crate) async fn patch(
        &self,
        guard: Guard<'_>,
        part: Part,
        body: Value,
        step: &(dyn fmt::Display + Sync),
    ) -> Result<Written<K>, WriteError> {
        self.hold(guard, step).await?.patch(part, body).await
    }

    /// Makes an object. Nobody else of us knows its name yet, so there is nothing to lock.
    pub(crate) async fn create(
        &self,
        body: &(impl Serialize + Sync),
        step: &(dyn fmt::Display + Sync),
    ) -> Result<Arc<K>, WriteError> {
        self.create_by(&self.api, body, step).await
    }

    /// The same, if `check` holds when the request is about to leave.
    pub(crate) async fn create_if(
        &self,
        check: SendCheck,
        body: &(impl Serialize + Sync),
        step: &(dyn fmt::Display + Sync),
    ) -> Result<Arc<K>, WriteError> {
        self.create_by(&self.api.checked(check), body, step).await
    }

    async fn create_by(
        &self,
        api: &Api<K>,
        body: &(impl Serialize + Sync),
        step: &(dyn fmt::Display + Sync),
    ) -> Result<Arc<K>, WriteError> {
        let created = api.create_from(&PostParams::default(), body).await;
        let answer = created.map_err(|error| WriteError::of(step, &error))?;
        self.wrote(&answer);
        Ok(Arc::new(answer))
    }

    /// Asks the API server itself for an object. One that it finds is in the cache before the watch shows it.
    pub(crate) async fn read(&self, name: &str) -> Result<Option<Arc<K>>, ApiError> {
        let found = self.api.get_opt(name).await.map_err(|error| ApiError::of(&error))?;
        if let Some(object) = &found {
            self.wrote(object);
        }
        Ok(found.map(Arc::new))
    }

    fn shown(&self, name: &str) -> Option<Arc<K>> {
        self.cache.as_ref()?.get(&self.key(name))
    }

    fn wrote(&self, answer: &K) {
        if let Some(cache) = &self.cache {
            cache.wrote(answer.clone());
        }
    }

    fn deleted(&self, name: &str, uid: &str) {
        if let Some(cache) = &self.cache {
            cache.deleted(&self.key(name), uid);
        }
    }

    fn key(&self, name: &str) -> Key {
        self.api.namespace().map_or_else(|| Key::cluster(name), |namespace| Key::new(namespace, name))
    }
}

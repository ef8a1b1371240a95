//! Writes to the API server. All controllers write through a [`Writer`].
//!
//! Several controllers of this process write the same objects:
//!
//! | object | writers |
//! | --- | --- |
//! | Node | reconcile of the Machine, its drain, rollout of the MachineDeployment, check for unmanaged Nodes |
//! | Machine | its own reconcile, its MachineSet, its MachineDeployment |
//! | MachineSet, MachineDeployment | their own reconciles, overshoot protection |
//!
//! A write has the version of the decision as precondition, so concurrent writes would cause conflicts. A [`Writer`] therefore takes the
//! write lock of the object and compares the version with the cache before it sends a request. If the object has changed, the write fails
//! and the controller decides again. Concurrent writes of other processes are rejected by the API server.
//!
//! The response is put into the cache before the lock is released, so that the next writer decides on it.

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

pub(crate) use error::WriteError;
pub(crate) use guard::{Guard, Part};
pub(crate) use held::{Deletion, Found, Held, Written};
use locks::WriteLocks;

/// Kind of objects that can be written.
pub trait Kind: Object + Cached + Clone + Debug {}

impl<K: Object + Cached + Clone + Debug> Kind for K {}

/// Writes objects of one kind with the client of one component. Clones share the write locks.
#[derive(Clone)]
pub struct Writer<K: Kind> {
    api: Api<K>,
    /// `None` for objects without a permanent cache: then versions are not compared, and responses are not cached.
    cache: Option<Cache<K>>,
    locks: WriteLocks,
}

impl<K: Kind> Writer<K> {
    /// Creates a writer for the objects of a cache.
    pub(crate) fn new(api: Api<K>, cache: &Cache<K>) -> Self {
        Self { api, cache: Some(cache.clone()), locks: WriteLocks::default() }
    }

    /// Creates a writer for objects without a permanent cache.
    pub(crate) fn uncached(api: Api<K>) -> Self {
        Self { api, cache: None, locks: WriteLocks::default() }
    }

    /// Returns a writer for the other component, with its client and with the same locks.
    pub(crate) fn with_client(&self, api: Api<K>) -> Self {
        Self { api, ..self.clone() }
    }

    /// Waits for the write lock. Fails if the object has changed since the decision.
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

    /// Locks an object and patches it.
    pub(crate) async fn patch(
        &self,
        guard: Guard<'_>,
        part: Part,
        body: Value,
        step: &(dyn fmt::Display + Sync),
    ) -> Result<Written<K>, WriteError> {
        self.hold(guard, step).await?.patch(part, body).await
    }

    /// Creates an object. It needs no lock, because no other controller of this process knows its name.
    pub(crate) async fn create(
        &self,
        body: &(impl Serialize + Sync),
        step: &(dyn fmt::Display + Sync),
    ) -> Result<Arc<K>, WriteError> {
        self.create_by(&self.api, body, step).await
    }

    /// Creates an object, if `check` returns true when the request is sent.
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
        let created = created.map_err(|error| WriteError::of(step, &error))?;
        self.wrote(&created);
        Ok(Arc::new(created))
    }

    /// Reads an object from the API server and puts it into the cache, possibly before the watch does.
    pub(crate) async fn read(&self, name: &str) -> Result<Option<Arc<K>>, ApiError> {
        let found = self.api.get_opt(name).await.map_err(|error| ApiError::of(&error))?;
        if let Some(object) = &found {
            self.wrote(object);
        }
        Ok(found.map(Arc::new))
    }

    fn cached(&self, name: &str) -> Option<Arc<K>> {
        self.cache.as_ref()?.get(&self.key(name))
    }

    fn wrote(&self, object: &K) {
        if let Some(cache) = &self.cache {
            cache.wrote(object.clone());
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

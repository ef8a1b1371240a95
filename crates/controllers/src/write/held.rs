//! An object whose write lock is held.

use std::fmt;
use std::sync::Arc;

use either::Either;
use kube::api::{DeleteParams, Patch, PatchParams};
use runtime::client::{Api, SendCheck};
use serde_json::Value;

use super::guard::{preconditions, stamp};
use super::locks::WriteLock;
use super::{Guard, Kind, Part, WriteError, Writer};

/// An object whose write lock is held until this is dropped. The lock is held for one or two requests, and requests have deadlines.
pub(crate) struct Held<'a, K: Kind> {
    writer: &'a Writer<K>,
    name: &'a str,
    uid: &'a str,
    /// The version of the decision, then the version of the last write.
    version: Option<String>,
    step: &'a (dyn fmt::Display + Sync),
    _lock: WriteLock,
}

/// Response to a write.
pub(crate) struct Written<K> {
    pub(crate) object: Arc<K>,
    step: Option<String>,
}

impl<K> Written<K> {
    /// Returns the object, or an error if the write changed nothing. To be used if the controller would otherwise repeat the write
    /// immediately.
    pub(crate) fn kept(self) -> Result<Arc<K>, WriteError> {
        match self.step {
            Some(step) => Err(WriteError::NothingChanged { step }),
            None => Ok(self.object),
        }
    }
}

/// Result of a deletion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Deletion {
    /// The object is deleted.
    Done,
    /// The object did not exist.
    AlreadyGone,
    /// The object has finalizers and is being deleted.
    Terminating,
}

/// Result of reading an object by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// The object has the expected uid.
    Itself,
    /// Another object has the name.
    Another,
    /// No object has the name.
    Nothing,
}

impl<'a, K: Kind> Held<'a, K> {
    pub(super) fn new(
        writer: &'a Writer<K>,
        guard: Guard<'a>,
        step: &'a (dyn fmt::Display + Sync),
        lock: WriteLock,
    ) -> Self {
        let Guard { name, uid, version } = guard;
        Self { writer, name, uid, version: version.map(str::to_owned), step, _lock: lock }
    }

    /// Fails if the cache shows another version of the object. The API server would reject the write.
    pub(super) fn check(&self) -> Result<(), WriteError> {
        let Some(version) = self.version.as_deref() else { return Ok(()) };
        let known = self.writer.cached(self.name);
        let is_stale =
            known.is_some_and(|object| object.uid().as_str() == self.uid && object.resource_version() != version);
        if is_stale { Err(WriteError::Stale { step: self.step.to_string() }) } else { Ok(()) }
    }

    /// Patches the object. The next write has the resulting version as precondition.
    pub(crate) async fn patch(&mut self, part: Part, body: Value) -> Result<Written<K>, WriteError> {
        self.patch_with(part, body, |_| {}).await
    }

    /// Patches the object and calls `on_written` before the response is put into the cache.
    pub(crate) async fn patch_with(
        &mut self,
        part: Part,
        mut body: Value,
        on_written: impl FnOnce(&K),
    ) -> Result<Written<K>, WriteError> {
        self.check()?;
        stamp(&mut body, self.uid, self.version.as_deref());
        let (api, parameters) = (&self.writer.api, PatchParams::default());
        let response = match part {
            Part::Object => api.patch(self.name, &parameters, &Patch::Merge(&body)).await,
            Part::Status => api.patch_status(self.name, &parameters, &Patch::Merge(&body)).await,
            Part::StrategicStatus => api.patch_status(self.name, &parameters, &Patch::Strategic(&body)).await,
        };
        let written = response.map_err(|error| WriteError::of(self.step, &error))?;
        // The write that removes the last finalizer deletes the object, and its response has the version before.
        let deleted = written.is_deleting() && !written.has_finalizers();
        let unchanged = !deleted && self.version.as_deref() == Some(written.resource_version());
        if let Some(version) = &mut self.version {
            written.resource_version().clone_into(version);
        }
        on_written(&written);
        self.writer.wrote(&written);
        Ok(Written { object: Arc::new(written), step: unchanged.then(|| self.step.to_string()) })
    }

    /// Deletes the object.
    pub(crate) async fn delete(&self) -> Result<Deletion, WriteError> {
        self.delete_by(&self.writer.api).await
    }

    /// Deletes the object, if `check` returns true when the request is sent.
    pub(crate) async fn delete_if(&self, check: SendCheck) -> Result<Deletion, WriteError> {
        self.delete_by(&self.writer.api.checked(check)).await
    }

    async fn delete_by(&self, api: &Api<K>) -> Result<Deletion, WriteError> {
        let guard = preconditions(self.uid, self.version.as_deref());
        let parameters = DeleteParams { preconditions: Some(guard), ..DeleteParams::default() };
        let deletion = match api.delete(self.name, &parameters).await {
            Ok(Either::Left(object)) => {
                self.writer.wrote(&object);
                return Ok(Deletion::Terminating);
            }
            Ok(Either::Right(_)) => Deletion::Done,
            Err(error) => match WriteError::of(self.step, &error) {
                error if error.is_gone() => Deletion::AlreadyGone,
                error => return Err(error),
            },
        };
        self.mark_deleted();
        Ok(deletion)
    }

    /// Reads the object after a conflict: it was either deleted or changed by another client. The cache is updated accordingly.
    pub(crate) async fn refresh(&self) -> Result<Found, WriteError> {
        let api = &self.writer.api;
        let found = api.get_opt(self.name).await.map_err(|error| WriteError::of(self.step, &error))?;
        let result = match &found {
            Some(object) if object.uid().as_str() == self.uid => Found::Itself,
            Some(_) => Found::Another,
            None => Found::Nothing,
        };
        if result != Found::Itself {
            self.mark_deleted();
        }
        if let Some(object) = &found {
            self.writer.wrote(object);
        }
        Ok(result)
    }

    /// Removes the object from the cache, because the API server has reported that it does not exist.
    pub(crate) fn mark_deleted(&self) {
        self.writer.deleted(self.name, self.uid);
    }
}

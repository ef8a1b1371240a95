//! One object while its write lock is held.

use std::fmt;
use std::sync::Arc;

use either::Either;
use kube::api::{DeleteParams, Patch, PatchParams};
use runtime::client::{Api, SendCheck};
use serde_json::Value;

use super::guard::{preconditions, stamp};
use super::locks::WriteLock;
use super::{Guard, Kind, Part, Retry, WriteError, Writer};

/// The right to write to one object until it is dropped. A write lock lasts for a request or two, and those have deadlines.
pub(crate) struct Held<'a, K: Kind> {
    writer: &'a Writer<K>,
    name: &'a str,
    uid: &'a str,
    /// What was decided on, then what the last write made of it.
    version: Option<String>,
    step: &'a (dyn fmt::Display + Sync),
    _lock: WriteLock,
}

/// The answer to a write.
pub(crate) struct Written<K> {
    pub(crate) object: Arc<K>,
    step: Option<String>,
}

impl<K> Written<K> {
    /// A write that changes nothing is an error where the next attempt would be the same, and at once.
    pub(crate) fn kept(self) -> Result<Arc<K>, WriteError> {
        match self.step {
            Some(step) => Err(WriteError::NothingChanged { step }),
            None => Ok(self.object),
        }
    }
}

/// What came of a deletion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Deletion {
    /// The object is gone.
    Done,
    /// It was gone before.
    AlreadyGone,
    /// Finalizers hold it.
    Terminating,
}

/// Who has the name of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// The very object that was meant.
    Itself,
    /// Another one.
    Another,
    /// None.
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

    /// What is known to have changed since it was decided on is not sent: it would only be refused.
    pub(super) fn check(&self) -> Result<(), WriteError> {
        let Some(version) = self.version.as_deref() else { return Ok(()) };
        let known = self.writer.shown(self.name);
        let is_stale =
            known.is_some_and(|object| object.uid().as_str() == self.uid && object.resource_version() != version);
        if is_stale { Err(WriteError::Stale { step: self.step.to_string() }) } else { Ok(()) }
    }

    /// Sends a patch; the next one is guarded by what this one made of the object.
    pub(crate) async fn patch(&mut self, part: Part, body: Value) -> Result<Written<K>, WriteError> {
        self.patch_telling(part, body, |_| {}).await
    }

    /// The same, for whoever has to know the answer before the cache tells everybody.
    pub(crate) async fn patch_telling(
        &mut self,
        part: Part,
        mut body: Value,
        tell: impl FnOnce(&K),
    ) -> Result<Written<K>, WriteError> {
        self.check()?;
        stamp(&mut body, self.uid, self.version.as_deref());
        let (api, parameters) = (&self.writer.api, PatchParams::default());
        let answer = match part {
            Part::Object => api.patch(self.name, &parameters, &Patch::Merge(&body)).await,
            Part::Status => api.patch_status(self.name, &parameters, &Patch::Merge(&body)).await,
            Part::StrategicStatus => api.patch_status(self.name, &parameters, &Patch::Strategic(&body)).await,
        };
        let answer = answer.map_err(|error| WriteError::of(self.step, &error))?;
        // The write that takes the last finalizer is the object's end, and its answer shows the version before it.
        let gone = answer.is_deleting() && !answer.has_finalizers();
        let unchanged = !gone && self.version.as_deref() == Some(answer.resource_version());
        if let Some(version) = &mut self.version {
            answer.resource_version().clone_into(version);
        }
        tell(&answer);
        self.writer.wrote(&answer);
        Ok(Written { object: Arc::new(answer), step: unchanged.then(|| self.step.to_string()) })
    }

    /// Asks for the deletion of this very object.
    pub(crate) async fn delete(&self) -> Result<Deletion, WriteError> {
        self.delete_by(&self.writer.api).await
    }

    /// The same, if `check` holds when the request is about to leave.
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
                error if error.retry() == Retry::Gone => Deletion::AlreadyGone,
                error => return Err(error),
            },
        };
        self.is_gone();
        Ok(deletion)
    }

    /// Finds out what a conflict means: that this object is no more, or only that somebody wrote to it at the same time. Taking the one for
    /// the other would strike it from the cache for good.
    pub(crate) async fn catch_up(&self) -> Result<Found, WriteError> {
        let api = &self.writer.api;
        let found = api.get_opt(self.name).await.map_err(|error| WriteError::of(self.step, &error))?;
        let who = match &found {
            Some(object) if object.uid().as_str() == self.uid => Found::Itself,
            Some(_) => Found::Another,
            None => Found::Nothing,
        };
        if who != Found::Itself {
            self.is_gone();
        }
        if let Some(object) = &found {
            self.writer.wrote(object);
        }
        Ok(who)
    }

    /// The API server has said that this very object is no more.
    pub(crate) fn is_gone(&self) {
        self.writer.deleted(self.name, self.uid);
    }
}

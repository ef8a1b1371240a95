//! The data of the Secrets that MachineClasses refer to.
//!
//! The cache holds only the metadata of Secrets, because most Secrets are not needed. The data of a Secret that a class
//! refers to is read when a Machine needs it, and again only when its resourceVersion has changed.
//!
//! A read may fail for as long as a role lacks a verb, and a reconcile must not wait for it. So a reconcile uses the
//! data that is available (`Credentials::available`). The rest is read by separate workers with backoff, and the end of
//! the read wakes the Machines of the classes that refer to the Secret. Only a driver call, which needs the data, waits
//! for it ([`Credentials::of`]).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use api::{MachineClass, Object, SecretContent, SecretData, SecretView};
use kube::Client;
use parking_lot::Mutex;
use planner::drain::Persistence;
use planner::secret::ReadFailure;
use runtime::cache::{Cache, Lookup};
use runtime::client::{Api, ApiError, ErrorClass};
use runtime::queue::{Outcome, Queue, RetryPolicy};
use runtime::{Clock, Key, Metrics, Random};

use crate::outcome::after_error;

/// Minimum and maximum backoff of reads. The maximum is short, so that a permission that an administrator grants is
/// used soon.
const RETRIES: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(30));

/// The data of Secrets, by the version at which it was read. Clones share all state.
#[derive(Clone)]
pub struct Credentials {
    client: Client,
    secrets: Cache<SecretView>,
    kept: Arc<Mutex<BTreeMap<Key, Kept>>>,
    reads: Queue<Key>,
    clock: Clock,
}

/// What is known of one Secret.
#[derive(Default)]
struct Kept {
    read: Option<Read>,
    /// Why this version could not be read.
    failure: Option<(String, ReadFailure)>,
    /// The result that was not returned to the workers yet.
    pending: Option<ReadResult>,
}

struct Read {
    version: String,
    /// The version in the cache when it was read. Until the watch has caught up, it is not read again.
    cached_version: String,
    data: Arc<SecretData>,
}

/// The result of a read, for the Machines that use the Secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ReadResult {
    /// The data is available and has not changed.
    Unchanged,
    /// The data cannot be read.
    Unreadable,
    /// The data has changed, or can be read again: failed calls may succeed now.
    Changed,
}

/// What is available of a Secret.
#[derive(Clone, Debug)]
pub(crate) enum Availability {
    /// Its data.
    Data(Arc<SecretData>),
    /// It is being read.
    Reading,
    /// It could not be read; the read is retried.
    Unreadable(ReadFailure),
    /// The cache shows no such Secret.
    Absent,
}

/// Data that could not be read.
#[derive(Debug, thiserror::Error)]
#[error("failed to read Secret {secret}: {why}")]
pub struct Unreadable {
    secret: Key,
    why: String,
}

impl Credentials {
    /// Reads with `client` the Secrets that the cache `secrets` shows.
    pub fn new(client: Client, secrets: Cache<SecretView>, clock: &Clock, metrics: &Metrics, random: &Random) -> Self {
        let (initial_backoff, max_backoff) = RETRIES;
        let retries = RetryPolicy { initial_backoff, max_backoff, ..RetryPolicy::default() };
        let reads = Queue::new("secretdata", retries, metrics, random);
        Self { client, secrets, kept: Arc::default(), reads, clock: clock.clone() }
    }

    /// Returns the queue of Secrets to read.
    pub(crate) fn reads(&self) -> &Queue<Key> {
        &self.reads
    }

    /// Returns what is available of each Secret that a class refers to, beginning with `secretRef`. Queues the read of
    /// the others.
    pub(crate) fn available(&self, class: &MachineClass) -> Vec<(Key, Availability)> {
        let named = planner::secret::named_by(class).map(|(namespace, name)| Key::new(namespace, name));
        named.map(|key| (key.clone(), self.availability(&key))).collect()
    }

    fn availability(&self, key: &Key) -> Availability {
        let Some(version) = self.version(key) else { return Availability::Absent };
        match self.known(key, &version) {
            Some(Ok(data)) => Availability::Data(data),
            Some(Err(failure)) => Availability::Unreadable(failure),
            None => {
                self.reads.add(key.clone());
                Availability::Reading
            }
        }
    }

    /// Returns the merged data of a class: `secretRef`, overlaid by `credentialsSecretRef`. A Secret that does not
    /// exist counts as empty, as in MCM.
    pub async fn of(&self, class: &MachineClass) -> Result<Arc<SecretData>, Unreadable> {
        let mut merged: Option<Arc<SecretData>> = None;
        for (namespace, name) in planner::secret::named_by(class) {
            let Some(data) = self.one(Key::new(namespace, name)).await? else { continue };
            merged = Some(match merged {
                None => data,
                Some(base) => Arc::new(SecretData::of_class(Some(&base), Some(&data))),
            });
        }
        Ok(merged.unwrap_or_default())
    }

    /// Records that a write of this process changed version `from` to version `to`, but not the data. The Secret is not
    /// read again.
    pub fn carry_over(&self, secret: &Key, from: &str, to: &str) {
        let mut kept = self.kept.lock();
        let read = kept.get_mut(secret).and_then(|kept| kept.read.as_mut());
        if let Some(read) = read.filter(|read| read.version == from) {
            to.clone_into(&mut read.version);
        }
    }

    /// Drops the data of a Secret that no longer exists.
    pub fn forget(&self, secret: &Key) {
        self.kept.lock().remove(secret);
    }

    /// Reads a Secret unless its data is available. Returns the result, unless it was returned before.
    pub(crate) async fn read(&self, key: &Key) -> (Option<ReadResult>, Outcome) {
        let Some(version) = self.version(key) else { return (None, Outcome::Done) };
        let is_known = matches!(self.known(key, &version), Some(Ok(_)));
        let outcome =
            if is_known { Outcome::Done } else { self.fetch(key, &version).await.err().unwrap_or(Outcome::Done) };
        let result = self.kept.lock().get_mut(key).and_then(|kept| kept.pending.take());
        (result, outcome)
    }

    async fn one(&self, key: Key) -> Result<Option<Arc<SecretData>>, Unreadable> {
        let Some(version) = self.version(&key) else { return Ok(None) };
        let mut known = self.known(&key, &version);
        if known.is_none() {
            // The workers wake the Machines that use the Secret, and retry a failed read.
            match self.fetch(&key, &version).await {
                Ok(()) => self.reads.add(key.clone()),
                Err(_) => self.reads.add_rate_limited(key.clone()),
            }
            known = self.known(&key, &version);
        }
        match known {
            None => Ok(None),
            Some(Ok(data)) => Ok(Some(data)),
            Some(Err(failure)) => Err(Unreadable { secret: key, why: failure.why }),
        }
    }

    /// Returns the version in the cache.
    fn version(&self, key: &Key) -> Option<String> {
        match self.secrets.look_up(key) {
            Lookup::Absent => None,
            Lookup::Present(secret) => Some(secret.resource_version().to_owned()),
            Lookup::Undecodable(object) => Some(object.resource_version.clone()),
        }
    }

    /// Returns what is known of this version. A failure is returned until the next read, which follows after the
    /// backoff.
    fn known(&self, key: &Key, version: &str) -> Option<Result<Arc<SecretData>, ReadFailure>> {
        let kept = self.kept.lock();
        let kept = kept.get(key)?;
        if let Some(read) = kept.read.as_ref().filter(|read| read.version == version || read.cached_version == version)
        {
            return Some(Ok(read.data.clone()));
        }
        let failure = kept.failure.as_ref().filter(|(failed, _)| failed == version);
        failure.map(|(_, failure)| Err(failure.clone()))
    }

    /// Reads the Secret from the API server, and stores the result.
    async fn fetch(&self, key: &Key, version: &str) -> Result<(), Outcome> {
        let api: Api<SecretContent> = Api::namespaced(self.client.clone(), &key.namespace);
        match api.get_opt(&key.name).await {
            Ok(Some(secret)) => {
                self.keep(key, version, secret);
                Ok(())
            }
            // It was deleted; the watch has not shown it yet.
            Ok(None) => {
                self.forget(key);
                Err(Outcome::Failed)
            }
            Err(error) => {
                let api_error = ApiError::of(&error);
                self.failed(key, version, &api_error);
                Err(after_error(&api_error))
            }
        }
    }

    /// Stores the data under the version at which it was read. It may be newer than the version in the cache.
    fn keep(&self, key: &Key, cached_version: &str, secret: SecretContent) {
        let (version, cached_version) = (secret.resource_version().to_owned(), cached_version.to_owned());
        let mut kept = self.kept.lock();
        let kept = kept.entry(key.clone()).or_default();
        let is_same = kept.failure.is_none() && kept.read.as_ref().is_some_and(|before| *before.data == secret.data);
        let result = if is_same { ReadResult::Unchanged } else { ReadResult::Changed };
        kept.pending = kept.pending.max(Some(result));
        kept.failure = None;
        kept.read = Some(Read { version, cached_version, data: Arc::new(secret.data) });
    }

    fn failed(&self, key: &Key, version: &str, api_error: &ApiError) {
        let outlook = match api_error.class {
            ErrorClass::Forbidden | ErrorClass::Unauthorized | ErrorClass::Invalid | ErrorClass::Undecodable => {
                Persistence::Permanent
            }
            _ => Persistence::Transient,
        };
        let mut kept = self.kept.lock();
        let kept = kept.entry(key.clone()).or_default();
        let since = kept.failure.as_ref().map_or_else(|| self.clock.now(), |(_, failure)| failure.since);
        let failure = ReadFailure { why: api_error.to_string(), outlook, since };
        let is_new = kept.failure.as_ref().is_none_or(|(_, before)| before.why != failure.why);
        if is_new {
            tracing::warn!(secret = %key, why = failure.why, "failed to read Secret of a MachineClass");
            kept.pending = kept.pending.max(Some(ReadResult::Unreadable));
        }
        kept.failure = Some((version.to_owned(), failure));
    }
}

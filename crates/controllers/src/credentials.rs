//! The data of the Secrets that classes name.
//!
//! The cache holds only the metadata of Secrets: most of them are none of our business. The data of one that a class names is
//! fetched when a machine needs it, and again only when its resourceVersion has changed.
//!
//! A read may fail for as long as a role lacks a verb, and nothing that can go on without it may wait for it. So whoever looks at a
//! machine takes what is at hand (`Credentials::look`); what is not is read by workers of their own, with back-off, and the end of
//! the read wakes the machines of the classes that name the Secret. Only a call to the cloud, which cannot go on without, waits
//! ([`Credentials::of`]).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use api::{MachineClass, Object, SecretContent, SecretData, SecretView};
use kube::Client;
use parking_lot::Mutex;
use planner::drain::Outlook;
use planner::secret::ReadFailure;
use runtime::cache::{Cache, Lookup};
use runtime::client::{Api, ApiError, RetryClass};
use runtime::queue::{Outcome, Queue, RetryPolicy};
use runtime::{Clock, Key, Metrics, Random};

use crate::requests::again_after;

/// A permission is granted by people, and they wait for it to be noticed.
const RETRIES: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(30));

/// The data of Secrets, by the version it was read at. Clones are the same.
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
    /// What those who use it have not been told yet.
    news: Option<News>,
}

struct Read {
    version: String,
    /// The version that the cache showed when it was read: until the watch has caught up it need not be read again.
    asked_at: String,
    data: Arc<SecretData>,
}

/// What a read means for those who use the Secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum News {
    /// It is at hand, as it was before.
    AtHand,
    /// It cannot be read.
    Unreadable,
    /// It is another than before, or can be read again: what failed because of it may succeed now.
    Changed,
}

/// What is at hand of a Secret.
#[derive(Clone, Debug)]
pub(crate) enum AtHand {
    /// Its data.
    Data(Arc<SecretData>),
    /// It is being read.
    Reading,
    /// It could not be read and is read again.
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
    /// Reads through `client` what `secrets` says exists.
    pub fn new(client: Client, secrets: Cache<SecretView>, clock: &Clock, metrics: &Metrics, random: &Random) -> Self {
        let (first_pause, longest_pause) = RETRIES;
        let retries = RetryPolicy { first_pause, longest_pause, ..RetryPolicy::default() };
        let reads = Queue::new("secretdata", retries, metrics, random);
        Self { client, secrets, kept: Arc::default(), reads, clock: clock.clone() }
    }

    /// The Secrets that are to be read.
    pub(crate) fn reads(&self) -> &Queue<Key> {
        &self.reads
    }

    /// What is at hand of each Secret that a class names, that of `secretRef` first. What is not is read from now on.
    pub(crate) fn look(&self, class: &MachineClass) -> Vec<(Key, AtHand)> {
        let named = planner::secret::named_by(class).map(|(namespace, name)| Key::new(namespace, name));
        named.map(|key| (key.clone(), self.look_at(&key))).collect()
    }

    fn look_at(&self, key: &Key) -> AtHand {
        let Some(version) = self.version(key) else { return AtHand::Absent };
        match self.at_hand(key, &version) {
            Some(Ok(data)) => AtHand::Data(data),
            Some(Err(failure)) => AtHand::Unreadable(failure),
            None => {
                self.reads.add(key.clone());
                AtHand::Reading
            }
        }
    }

    /// The merged data of a class: that of `secretRef`, overlaid by that of `credentialsSecretRef`. A Secret that does not exist
    /// counts as empty, as it always has.
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

    /// A write of ours made version `to` of version `from`, and left the data alone: it need not be read again.
    pub fn carry_over(&self, secret: &Key, from: &str, to: &str) {
        let mut kept = self.kept.lock();
        let read = kept.get_mut(secret).and_then(|kept| kept.read.as_mut());
        if let Some(read) = read.filter(|read| read.version == from) {
            to.clone_into(&mut read.version);
        }
    }

    /// Drops what was read of a Secret that is gone.
    pub fn forget(&self, secret: &Key) {
        self.kept.lock().remove(secret);
    }

    /// Reads a Secret unless it is at hand, and says what those who use it have to be told.
    pub(crate) async fn read(&self, key: &Key) -> (Option<News>, Outcome) {
        let Some(version) = self.version(key) else { return (None, Outcome::Done) };
        let is_known = matches!(self.at_hand(key, &version), Some(Ok(_)));
        let outcome =
            if is_known { Outcome::Done } else { self.fetch(key, &version).await.err().unwrap_or(Outcome::Done) };
        let news = self.kept.lock().get_mut(key).and_then(|kept| kept.news.take());
        (news, outcome)
    }

    async fn one(&self, key: Key) -> Result<Option<Arc<SecretData>>, Unreadable> {
        let Some(version) = self.version(&key) else { return Ok(None) };
        let mut known = self.at_hand(&key, &version);
        if known.is_none() {
            // The workers tell those who use it, and try again what failed.
            match self.fetch(&key, &version).await {
                Ok(()) => self.reads.add(key.clone()),
                Err(_) => self.reads.add_rate_limited(key.clone()),
            }
            known = self.at_hand(&key, &version);
        }
        match known {
            None => Ok(None),
            Some(Ok(data)) => Ok(Some(data)),
            Some(Err(failure)) => Err(Unreadable { secret: key, why: failure.why }),
        }
    }

    /// The version that the cache shows.
    fn version(&self, key: &Key) -> Option<String> {
        match self.secrets.look_up(key) {
            Lookup::Absent => None,
            Lookup::Present(secret) => Some(secret.resource_version().to_owned()),
            Lookup::Undecodable(object) => Some(object.resource_version.clone()),
        }
    }

    /// What is known of this version. A failure stands until the next read, which comes after the back-off.
    fn at_hand(&self, key: &Key, version: &str) -> Option<Result<Arc<SecretData>, ReadFailure>> {
        let kept = self.kept.lock();
        let kept = kept.get(key)?;
        if let Some(read) = kept.read.as_ref().filter(|read| read.version == version || read.asked_at == version) {
            return Some(Ok(read.data.clone()));
        }
        let failure = kept.failure.as_ref().filter(|(failed, _)| failed == version);
        failure.map(|(_, failure)| Err(failure.clone()))
    }

    /// Asks the API server, and keeps what it says.
    async fn fetch(&self, key: &Key, version: &str) -> Result<(), Outcome> {
        let api: Api<SecretContent> = Api::namespaced(self.client.clone(), &key.namespace);
        match api.get_opt(&key.name).await {
            Ok(Some(secret)) => {
                self.keep(key, version, secret);
                Ok(())
            }
            // It is gone, and the watch is about to say so.
            Ok(None) => {
                self.forget(key);
                Err(Outcome::Failed)
            }
            Err(error) => {
                let api_error = ApiError::of(&error);
                self.failed(key, version, &api_error);
                Err(again_after(&api_error))
            }
        }
    }

    /// Kept under the version it was read at, which may be newer than the one that was asked for.
    fn keep(&self, key: &Key, asked_at: &str, secret: SecretContent) {
        let (version, asked_at) = (secret.resource_version().to_owned(), asked_at.to_owned());
        let mut kept = self.kept.lock();
        let kept = kept.entry(key.clone()).or_default();
        let is_same = kept.failure.is_none() && kept.read.as_ref().is_some_and(|before| *before.data == secret.data);
        let news = if is_same { News::AtHand } else { News::Changed };
        kept.news = kept.news.max(Some(news));
        kept.failure = None;
        kept.read = Some(Read { version, asked_at, data: Arc::new(secret.data) });
    }

    fn failed(&self, key: &Key, version: &str, api_error: &ApiError) {
        let outlook = match api_error.class {
            RetryClass::Forbidden | RetryClass::Unauthorized | RetryClass::Invalid | RetryClass::Undecodable => {
                Outlook::Lasting
            }
            _ => Outlook::Passing,
        };
        let mut kept = self.kept.lock();
        let kept = kept.entry(key.clone()).or_default();
        let since = kept.failure.as_ref().map_or_else(|| self.clock.now(), |(_, failure)| failure.since);
        let failure = ReadFailure { why: api_error.to_string(), outlook, since };
        let is_news = kept.failure.as_ref().is_none_or(|(_, before)| before.why != failure.why);
        if is_news {
            tracing::warn!(secret = %key, why = failure.why, "failed to read a Secret that a MachineClass names");
            kept.news = kept.news.max(Some(News::Unreadable));
        }
        kept.failure = Some((version.to_owned(), failure));
    }
}

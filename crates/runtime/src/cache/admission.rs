//! A cache that keeps only some of what it is shown, and changes its mind about which.
//!
//! A watch of all pods, of which only those on a few nodes are wanted, need not hold the others; so a cache may have a filter,
//! asked before anything is stored. When the filter begins to keep more, what it has not kept so far has to be read once, with
//! quorum, while the watch goes on ([`Cache::admit`]). The two overtake each other: an object that the watch has seen end in
//! the meantime must not be brought back by the list that still had it. So, while such a list is being read, every end is
//! remembered.

use std::collections::BTreeSet;

use kube::Client;

use super::Cache;
use super::list_watch::{ApiServer, ListWatchError};
use super::pages;
use super::settings::{Reading, Settings};
use super::store::Cached;
use crate::Key;

/// What a filter has begun to keep could not be read.
#[derive(Debug, thiserror::Error)]
#[error("failed to list {kind}: {why}")]
pub struct Unread {
    kind: String,
    why: String,
}

impl Unread {
    fn of(kind: &str, error: &ListWatchError) -> Self {
        Self { kind: kind.to_owned(), why: error.to_string() }
    }
}

impl<K: Cached> Cache<K> {
    /// Reads the objects with these fields, which the filter has begun to keep, and holds them from now on. The filter must be
    /// changed before, and the cache be synced. Dropping the future does no harm; nothing was held then.
    pub async fn admit(&self, client: &Client, fields: &str) -> Result<(), Unread> {
        let settings = Settings { fields: Some(fields.to_owned()), ..Settings::default() };
        let list_watch = ApiServer::new::<K>(client.clone(), &settings);
        let admission = Admission::begin(self);
        let read = pages::collect(&list_watch, &settings, Reading::Quorum).await;
        let collected = read.map_err(|error| Unread::of(self.shared.kind(), &error))?;
        admission.cache.shared.change(|store, deltas| store.admit(collected.items, deltas));
        Ok(())
    }

    /// Lets go of what the filter has ceased to keep. Nobody is told.
    pub fn shed(&self) {
        self.shared.change(|store, _| store.shed());
    }
}

/// While it lives, ends are remembered.
struct Admission<'a, K: Cached> {
    cache: &'a Cache<K>,
}

impl<'a, K: Cached> Admission<'a, K> {
    fn begin(cache: &'a Cache<K>) -> Self {
        cache.shared.change(|store, _| store.begin_admission());
        Self { cache }
    }
}

impl<K: Cached> Drop for Admission<'_, K> {
    fn drop(&mut self) {
        self.cache.shared.change(|store, _| store.end_admission());
    }
}

/// The ends that were shown while somebody reads.
#[derive(Debug, Default)]
pub(super) struct Ends {
    readers: usize,
    seen: BTreeSet<(Key, Box<str>)>,
}

impl Ends {
    pub(super) fn begin(&mut self) {
        self.readers += 1;
    }

    pub(super) fn end(&mut self) {
        self.readers = self.readers.saturating_sub(1);
        if self.readers == 0 {
            self.seen.clear();
        }
    }

    pub(super) fn note(&mut self, key: &Key, uid: &str) {
        if self.readers > 0 {
            self.seen.insert((key.clone(), uid.into()));
        }
    }

    pub(super) fn saw(&self, key: &Key, uid: &str) -> bool {
        self.seen.contains(&(key.clone(), uid.into()))
    }
}

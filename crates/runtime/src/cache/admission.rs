//! A cache that stores only the objects that a filter selects, and a filter that may change.
//!
//! A cache that watches all pods, but needs only those on some nodes, does not have to store the others. Its filter is
//! evaluated before an object is stored. When the filter starts to select more objects, the cache lists them once, with
//! quorum, while the watch continues ([`Cache::admit`]). The list and the watch are not ordered: an object that the
//! watch reported as deleted in the meantime must not be restored from an older list. Therefore all deletions are
//! recorded while such a list is in progress.

use std::collections::BTreeSet;

use kube::Client;

use super::Cache;
use super::list_watch::{ApiServer, ListWatchError};
use super::pages;
use super::settings::{Reading, Settings};
use super::store::Cached;
use crate::Key;

/// The objects that the filter newly selects could not be listed.
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
    /// Lists the objects with these fields, which the filter newly selects, and stores them. The filter must be changed
    /// before the call, and the cache must be synced. If the future is dropped, nothing is stored.
    pub async fn admit(&self, client: &Client, fields: &str) -> Result<(), Unread> {
        let settings = Settings { fields: Some(fields.to_owned()), ..Settings::default() };
        let list_watch = ApiServer::new::<K>(client.clone(), &settings);
        let admission = Admission::begin(self);
        let read = pages::collect(&list_watch, &settings, Reading::Quorum).await;
        let collected = read.map_err(|error| Unread::of(self.shared.kind(), &error))?;
        admission.cache.shared.change(|store, deltas| store.admit(collected.items, deltas));
        Ok(())
    }

    /// Drops the objects that the filter no longer selects. Handlers are not called.
    pub fn shed(&self) {
        self.shared.change(|store, _| store.shed());
    }
}

/// Records deletions while it exists.
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

/// Deletions that the watch reported while a list for newly selected objects is in progress.
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

//! Caches of API objects.
//!
//! A [`Cache`] stores all objects of one kind (or those that a selector matches), answers lookups without a request to
//! the API server, and calls handlers with the old and new state of each change. Its [`Reflector`] keeps it up to date:
//! it lists, watches, and relists if required. Controllers base decisions on the caches, so these rules apply:
//!
//! - **Own writes are visible immediately** ([`Cache::wrote`], [`Cache::deleted`]), and older data does not revert
//!   them.
//! - **Objects that disappear while the watch is disconnected are reported** as [`Removal::Vanished`], not as
//!   [`Removal::Deleted`].
//! - **The connection state is reported** ([`Cache::watch`], [`Reflector::on_signal`]).
//! - **Objects that cannot be decoded are present** ([`Lookup::Undecodable`]).
//! - **An API server with an older state is detected** ([`Trust::Doubtful`]), and its data is not applied.
//! - **An incomplete list changes nothing.**
//!
//! kube's own watcher is not used, because it hides the version of a list and the bookmarks, which these rules need.
//! `store` contains the rules, `protocol` the exchange with the API server.

mod admission;
mod backoff;
mod caches;
mod decoded;
mod delta;
mod floors;
mod index;
mod list_watch;
mod milestones;
mod outbox;
mod pages;
mod protocol;
mod reflector;
mod retry_signal;
mod settings;
mod shared;
mod signal;
mod status;
mod store;
mod vanished;
mod version;

use std::sync::Arc;

pub use admission::Unread;
pub use caches::Caches;
pub use decoded::{Decoded, Lookup, UndecodableObject};
pub use delta::{Delta, Removal};
pub use index::Index;
pub use outbox::Handler;
pub use reflector::{CacheBuilder, Reflector};
pub use retry_signal::RetrySignal;
pub use settings::{Form, Listing, Reading, Settings};
pub use shared::Stopped;
pub use signal::{DisconnectReason, Listener, Signal, Tally, Watch};
pub use status::{Counters, State, Status, Trust};
pub use store::{Cached, Keep, UpdatePredicate};
pub use version::Version;

use crate::Key;
use shared::Shared;

/// All known objects of one kind. Clones share the same cache.
pub struct Cache<K: Cached> {
    shared: Arc<Shared<K>>,
}

/// A request to relist a kind ([`Cache::request_refresh`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RefreshTicket(u64);

impl<K: Cached> Clone for Cache<K> {
    fn clone(&self) -> Self {
        Self { shared: self.shared.clone() }
    }
}

impl<K: Cached> Cache<K> {
    /// Returns a builder for a cache.
    pub fn builder() -> CacheBuilder<K> {
        CacheBuilder::default()
    }

    /// Returns the object under this key, if it exists and can be decoded. If *absent* and *undecodable* lead to
    /// different decisions, use [`Cache::look_up`].
    pub fn get(&self, key: &Key) -> Option<Arc<K>> {
        match self.look_up(key) {
            Lookup::Present(object) => Some(object),
            Lookup::Absent | Lookup::Undecodable(_) => None,
        }
    }

    /// Returns what is known about this key.
    pub fn look_up(&self, key: &Key) -> Lookup<K> {
        self.shared.store().look_up(key)
    }

    /// Returns all objects that can be decoded, as one consistent snapshot sorted by key.
    pub fn list(&self) -> Vec<Arc<K>> {
        self.shared.store().whole().cloned().collect()
    }

    /// Returns the objects that an index has under this value, as one consistent snapshot sorted by key. If the index
    /// was not declared when the cache was built, all objects are searched.
    pub fn find(&self, index: &Index<K>, value: &str) -> Vec<Arc<K>> {
        self.shared.store().find(index, value)
    }

    /// Returns the number of objects, including undecodable ones.
    pub fn len(&self) -> usize {
        self.shared.store().len()
    }

    /// Returns whether the cache is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the objects that cannot be decoded, sorted by key.
    pub fn undecodable(&self) -> Vec<Arc<UndecodableObject>> {
        self.shared.store().undecodable().cloned().collect()
    }

    /// Applies the response to a write, so that the next reconcile sees it before the watch reports it. The response is
    /// ignored if the watch is already newer. Handlers are called now, and not again when the watch reports the same
    /// state.
    ///
    /// The object must match the selectors of this cache. A response without the last finalizer of a deleted object is
    /// applied as its deletion.
    pub fn wrote(&self, object: K) {
        if self.shared.covers(Some(object.namespace()).filter(|namespace| !namespace.is_empty())) {
            self.shared.change(|store, deltas| store.wrote(object, deltas));
        }
    }

    /// Applies the response to a delete request that removed the object. If the request only set the deletionTimestamp,
    /// pass the response to [`Cache::wrote`] instead. Older events and lists do not restore the object.
    pub fn deleted(&self, key: &Key, uid: &str) {
        self.shared.change(|store, deltas| store.deleted(key, uid, deltas));
    }

    /// Relists the kind with quorum and returns when the cache is at least as new as this call. For a new leader, whose
    /// cache may not contain the last writes of the previous leader.
    pub async fn refresh(&self) -> Result<(), Stopped> {
        self.shared.refresh().await
    }

    /// Requests a relist and returns immediately, for callers that must not wait. When the list was applied,
    /// [`Cache::has_refreshed`] returns true and [`Signal::Listed`] is sent.
    pub fn request_refresh(&self) -> RefreshTicket {
        RefreshTicket(self.shared.request_refresh())
    }

    /// Returns whether a quorum list that started after this request was applied.
    pub fn has_refreshed(&self, ticket: RefreshTicket) -> bool {
        self.shared.has_refreshed(ticket.0)
    }

    /// Returns after the kind was listed completely for the first time.
    pub async fn synced(&self) -> Result<(), Stopped> {
        self.shared.synced().await
    }

    /// Returns whether the kind was listed completely.
    pub fn is_synced(&self) -> bool {
        self.shared.is_synced()
    }

    /// Returns whether destructive decisions may be based on this cache.
    pub fn trust(&self) -> Trust {
        self.shared.trust()
    }

    /// Returns the connection state of the watch.
    pub fn watch(&self) -> Watch {
        self.shared.watch()
    }

    /// Returns the state and the counters of the cache.
    pub fn status(&self) -> Status {
        self.shared.status()
    }
}

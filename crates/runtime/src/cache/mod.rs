//! What the API server holds, kept beside us.
//!
//! A [`Cache`] holds all objects of one kind (or those a selector picks), answers questions without asking the API server,
//! and tells handlers what changed, with both sides of each change. Its [`Reflector`] keeps it up to date: it lists, watches,
//! and lists again when it must. Controllers plan on what is in here, so it is careful about what it claims:
//!
//! - **Our own writes are in it at once** ([`Cache::wrote`], [`Cache::deleted`]), and nothing older undoes them.
//! - **What disappeared while nobody watched is told**, as [`Removal::Vanished`], which is not [`Removal::Deleted`].
//! - **Whether it could have heard is told too** ([`Cache::watch`], [`Reflector::on_signal`]).
//! - **What cannot be decoded is still there** ([`Lookup::Undecodable`]).
//! - **A server that goes back in time is noticed** ([`Trust::Doubtful`]) instead of believed.
//! - **Half a list changes nothing.**
//!
//! kube's own watcher is not used: it hides the version of a list and the bookmarks, and these rules are made of them. See
//! `store` for the rules, `protocol` for the conversation with the API server.

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

/// All objects of one kind, as far as we know. Clones are the same cache.
pub struct Cache<K: Cached> {
    shared: Arc<Shared<K>>,
}

/// A request to read a kind again ([`Cache::request_refresh`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RefreshTicket(u64);

impl<K: Cached> Clone for Cache<K> {
    fn clone(&self) -> Self {
        Self { shared: self.shared.clone() }
    }
}

impl<K: Cached> Cache<K> {
    /// Declares a cache: what it holds, how it is searched, who is told.
    pub fn builder() -> CacheBuilder<K> {
        CacheBuilder::default()
    }

    /// The object under this key, if it is there and can be read. Where *absent* and *cannot be read* lead to different
    /// decisions, ask [`Cache::look_up`].
    pub fn get(&self, key: &Key) -> Option<Arc<K>> {
        match self.look_up(key) {
            Lookup::Present(object) => Some(object),
            Lookup::Absent | Lookup::Undecodable(_) => None,
        }
    }

    /// What is known under this key.
    pub fn look_up(&self, key: &Key) -> Lookup<K> {
        self.shared.store().look_up(key)
    }

    /// Everything that can be read, of one moment, in the order of the keys.
    pub fn list(&self) -> Vec<Arc<K>> {
        self.shared.store().whole().cloned().collect()
    }

    /// What an index has under this value, of one moment, in the order of the keys. An index that was not declared when
    /// the cache was built is answered too, by looking at everything.
    pub fn find(&self, index: &Index<K>, value: &str) -> Vec<Arc<K>> {
        self.shared.store().find(index, value)
    }

    /// How many objects there are, undecodable ones too.
    pub fn len(&self) -> usize {
        self.shared.store().len()
    }

    /// Whether there are none at all.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// What is left of those that cannot be decoded, in the order of the keys.
    pub fn undecodable(&self) -> Vec<Arc<UndecodableObject>> {
        self.shared.store().undecodable().cloned().collect()
    }

    /// Takes the answer to a write of ours, so that the next reconcile sees it before the watch does. It is ignored if the
    /// watch has already been further. Handlers are told now and not again when the watch shows the same state.
    ///
    /// Give it only objects this cache would select. An answer that shows the end of an object (its last finalizer is
    /// gone) is taken as its deletion.
    pub fn wrote(&self, object: K) {
        if self.shared.covers(Some(object.namespace()).filter(|namespace| !namespace.is_empty())) {
            self.shared.change(|store, deltas| store.wrote(object, deltas));
        }
    }

    /// Takes the answer to a delete of ours that removed the object (and did not merely mark it: then the answer is the
    /// object, for [`Cache::wrote`]). No older event or list brings it back.
    pub fn deleted(&self, key: &Key, uid: &str) {
        self.shared.change(|store, deltas| store.deleted(key, uid, deltas));
    }

    /// Reads the kind again with quorum and returns once the cache is at least as new as this call. For a new leader,
    /// whose cache may not have seen the last writes of its predecessor.
    pub async fn refresh(&self) -> Result<(), Stopped> {
        self.shared.refresh().await
    }

    /// Asks for the same and returns at once, for whoever must not wait. [`Cache::has_refreshed`] says when it has happened, and
    /// [`Signal::Listed`] is told at that moment.
    pub fn request_refresh(&self) -> RefreshTicket {
        RefreshTicket(self.shared.request_refresh())
    }

    /// Whether a list with quorum that began after this request has been taken over.
    pub fn has_refreshed(&self, ticket: RefreshTicket) -> bool {
        self.shared.has_refreshed(ticket.0)
    }

    /// Returns once the kind has been read completely for the first time.
    pub async fn synced(&self) -> Result<(), Stopped> {
        self.shared.synced().await
    }

    /// Whether the kind has been read completely.
    pub fn is_synced(&self) -> bool {
        self.shared.is_synced()
    }

    /// Whether destructive decisions may rest on it.
    pub fn trust(&self) -> Trust {
        self.shared.trust()
    }

    /// Whether it hears the API server.
    pub fn watch(&self) -> Watch {
        self.shared.watch()
    }

    /// What it is doing, and what happened so far.
    pub fn status(&self) -> Status {
        self.shared.status()
    }
}

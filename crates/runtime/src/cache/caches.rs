//! A group of all caches of one cluster.
//!
//! A worker that starts before all kinds are synced sees Machines without Nodes, or Nodes without Machines, and acts on
//! it. Therefore workers wait until *all* caches are synced. A new leader waits until all of them are newer than its
//! election.
//!
//! The caches of a group also warn each other. A cache detects a restored etcd if it has seen a version that is now in
//! the future. A kind that rarely changes may not detect it, because its last version was already reached again; it
//! would keep objects that the restore removed. Therefore, if one cache is in doubt, all caches of the group relist.
//! The group does not know which caches share an API server; an unnecessary list costs little in this case.

use std::sync::{Arc, Weak};

use futures::future::{BoxFuture, FutureExt, join_all};

use super::Cache;
use super::shared::{Shared, Stopped};
use super::status::{Status, Trust};
use super::store::Cached;

/// A group of caches of any kinds. Clones share the members that existed when the clone was created.
#[derive(Clone, Default)]
pub struct Caches {
    members: Vec<Arc<dyn Member>>,
}

/// A cache of any kind.
pub(super) trait Member: Send + Sync {
    fn status(&self) -> Status;
    fn is_synced(&self) -> bool;
    fn trust(&self) -> Trust;
    fn synced(&self) -> BoxFuture<'_, Result<(), Stopped>>;
    fn refresh(&self) -> BoxFuture<'_, Result<(), Stopped>>;
    fn firm(&self) -> BoxFuture<'_, Result<(), Stopped>>;
    fn meet(&self, other: Weak<dyn Member>);
    fn suspect(&self);
}

impl<K: Cached> Member for Shared<K> {
    fn status(&self) -> Status {
        self.status()
    }

    fn is_synced(&self) -> bool {
        self.is_synced()
    }

    fn trust(&self) -> Trust {
        self.trust()
    }

    fn synced(&self) -> BoxFuture<'_, Result<(), Stopped>> {
        self.synced().boxed()
    }

    fn refresh(&self) -> BoxFuture<'_, Result<(), Stopped>> {
        self.refresh().boxed()
    }

    fn firm(&self) -> BoxFuture<'_, Result<(), Stopped>> {
        self.firm().boxed()
    }

    fn meet(&self, other: Weak<dyn Member>) {
        self.meet(other);
    }

    fn suspect(&self) {
        self.suspect();
    }
}

impl Caches {
    /// Returns a group without members.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a cache to the group. If one member doubts the API server, all members relist.
    pub fn add<K: Cached>(&mut self, cache: &Cache<K>) {
        let newcomer: Arc<dyn Member> = cache.shared.clone();
        for member in &self.members {
            member.meet(Arc::downgrade(&newcomer));
            newcomer.meet(Arc::downgrade(member));
        }
        self.members.push(newcomer);
    }

    /// Returns a group with the members of both groups, each once. The members of both groups warn each other from now
    /// on.
    #[must_use]
    pub fn with(&self, other: &Self) -> Self {
        let newcomers: Vec<_> = other.members.iter().filter(|member| !self.has(member)).cloned().collect();
        let others: Vec<_> = self.members.iter().filter(|member| !other.has(member)).collect();
        for (newcomer, member) in newcomers.iter().flat_map(|one| others.iter().map(move |other| (one, other))) {
            member.meet(Arc::downgrade(newcomer));
            newcomer.meet(Arc::downgrade(member));
        }
        Self { members: [self.members.clone(), newcomers].concat() }
    }

    fn has(&self, member: &Arc<dyn Member>) -> bool {
        self.members.iter().any(|here| std::ptr::addr_eq(Arc::as_ptr(here), Arc::as_ptr(member)))
    }

    /// Returns after every kind was listed completely.
    pub async fn all_synced(&self) -> Result<(), Stopped> {
        join_all(self.members.iter().map(|member| member.synced())).await.into_iter().collect()
    }

    /// Returns whether every kind was listed completely.
    pub fn is_synced(&self) -> bool {
        self.members.iter().all(|member| member.is_synced())
    }

    /// Relists every kind with quorum and returns when all caches are at least as new as this call.
    pub async fn refresh_all(&self) -> Result<(), Stopped> {
        join_all(self.members.iter().map(|member| member.refresh())).await.into_iter().collect()
    }

    /// Returns [`Trust::Doubtful`] if one member is doubtful, because decisions combine kinds.
    pub fn trust(&self) -> Trust {
        let doubtful = self.members.iter().any(|member| member.trust() == Trust::Doubtful);
        if doubtful { Trust::Doubtful } else { Trust::Firm }
    }

    /// Returns when no member is in doubt, for work that was postponed because of a doubtful member.
    pub async fn all_firm(&self) -> Result<(), Stopped> {
        join_all(self.members.iter().map(|member| member.firm())).await.into_iter().collect()
    }

    /// Returns one sentence for each cache that is not ready; empty if all caches are ready.
    pub fn waiting_for(&self) -> Vec<String> {
        self.members.iter().filter_map(|member| member.status().waiting_for()).collect()
    }

    /// Returns the status of each member.
    pub fn statuses(&self) -> Vec<Status> {
        self.members.iter().map(|member| member.status()).collect()
    }
}

//! All caches of one cluster, as one gate.
//!
//! A worker that starts while one kind is still empty sees machines without nodes, or nodes without machines, and acts on
//! it. So workers wait for *all* caches, and a new leader for all of them to be newer than its election.
//!
//! They also warn each other. A restored etcd is found out by whoever had seen a version that is now in the future; a kind in which
//! little happens may find its own last version already passed again, and would keep for good what the restore made vanish. So when
//! one cache is in doubt, all of them read everything again. Which of them share an API server is not known here; a list too many
//! costs little on a day like that.

use std::sync::{Arc, Weak};

use futures::future::{BoxFuture, FutureExt, join_all};

use super::Cache;
use super::shared::{Shared, Stopped};
use super::status::{Status, Trust};
use super::store::Cached;

/// A group of caches of any kinds. Clones share the members they had when they were made.
#[derive(Clone, Default)]
pub struct Caches {
    members: Vec<Arc<dyn Member>>,
}

/// A cache whose kind does not matter.
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
    /// A group without members.
    pub fn new() -> Self {
        Self::default()
    }

    /// Makes a cache a member. From now on, what makes one member doubt the API server makes all of them read it again.
    pub fn add<K: Cached>(&mut self, cache: &Cache<K>) {
        let newcomer: Arc<dyn Member> = cache.shared.clone();
        for member in &self.members {
            member.meet(Arc::downgrade(&newcomer));
            newcomer.meet(Arc::downgrade(member));
        }
        self.members.push(newcomer);
    }

    /// The members of both groups, each once. From now on they warn each other too.
    #[must_use]
    pub fn with(&self, other: &Self) -> Self {
        let newcomers: Vec<_> = other.members.iter().filter(|member| !self.has(member)).cloned().collect();
        let strangers: Vec<_> = self.members.iter().filter(|member| !other.has(member)).collect();
        for (newcomer, member) in newcomers.iter().flat_map(|one| strangers.iter().map(move |other| (one, other))) {
            member.meet(Arc::downgrade(newcomer));
            newcomer.meet(Arc::downgrade(member));
        }
        Self { members: [self.members.clone(), newcomers].concat() }
    }

    fn has(&self, member: &Arc<dyn Member>) -> bool {
        self.members.iter().any(|here| std::ptr::addr_eq(Arc::as_ptr(here), Arc::as_ptr(member)))
    }

    /// Returns once every kind has been read completely.
    pub async fn all_synced(&self) -> Result<(), Stopped> {
        join_all(self.members.iter().map(|member| member.synced())).await.into_iter().collect()
    }

    /// Whether every kind has been read completely.
    pub fn is_synced(&self) -> bool {
        self.members.iter().all(|member| member.is_synced())
    }

    /// Reads every kind again with quorum and returns once all of them are at least as new as this call.
    pub async fn refresh_all(&self) -> Result<(), Stopped> {
        join_all(self.members.iter().map(|member| member.refresh())).await.into_iter().collect()
    }

    /// Doubtful if one of them is: decisions combine kinds.
    pub fn trust(&self) -> Trust {
        let doubtful = self.members.iter().any(|member| member.trust() == Trust::Doubtful);
        if doubtful { Trust::Doubtful } else { Trust::Firm }
    }

    /// Returns once none of them is in doubt, for work that was put off because one was.
    pub async fn all_firm(&self) -> Result<(), Stopped> {
        join_all(self.members.iter().map(|member| member.firm())).await.into_iter().collect()
    }

    /// What the gate waits for, a sentence for each cache that is not ready; empty if it is open.
    pub fn waiting_for(&self) -> Vec<String> {
        self.members.iter().filter_map(|member| member.status().waiting_for()).collect()
    }

    /// What each of them is doing.
    pub fn statuses(&self) -> Vec<Status> {
        self.members.iter().map(|member| member.status()).collect()
    }
}

//! Watches that last as long as somebody needs them.

use std::sync::{Arc, Weak};

use kube::Client;
use parking_lot::Mutex;
use runtime::cache::{Cache, Cached, Feed};
use runtime::{Clock, Random, Tasks};
use tokio_util::sync::DropGuard;

/// Starts watches on the target cluster.
#[derive(Clone)]
pub(super) struct Watcher {
    pub(super) client: Client,
    pub(super) clock: Clock,
    pub(super) random: Random,
    pub(super) tasks: Tasks,
}

impl Watcher {
    /// Feeds a cache until the guard is dropped; calls `synced` once it has been read completely, which no delta tells when
    /// there is nothing to read.
    pub(super) fn follow<K: Cached>(
        &self,
        name: &'static str,
        (cache, feed): (Cache<K>, Feed<K>),
        synced: impl FnOnce() + Send + 'static,
    ) -> DropGuard {
        let stop = self.tasks.stopping().child_token();
        let feeding = feed.run(self.client.clone(), self.clock.clone(), self.random.fork(), stop.clone());
        self.tasks.spawn(name, async move {
            let telling = async {
                if cache.synced().await.is_ok() {
                    synced();
                }
            };
            tokio::join!(feeding, telling);
        });
        stop.drop_guard()
    }
}

/// One watch for all who need it: it begins with the first of them and ends with the last.
pub(super) struct OnDemand<K: Cached> {
    name: &'static str,
    watcher: Watcher,
    declare: Box<dyn Fn() -> (Cache<K>, Feed<K>) + Send + Sync>,
    synced: Arc<dyn Fn() + Send + Sync>,
    running: Mutex<Weak<Held<K>>>,
}

/// A watch that runs while this is held.
pub(super) struct Held<K: Cached> {
    pub(super) cache: Cache<K>,
    _watch: DropGuard,
}

impl<K: Cached> OnDemand<K> {
    /// A watch that does not run yet. `declare` says what it holds and whom it tells; `synced` is called each time it has been
    /// read for the first time.
    pub(super) fn new(
        name: &'static str,
        watcher: Watcher,
        declare: impl Fn() -> (Cache<K>, Feed<K>) + Send + Sync + 'static,
        synced: impl Fn() + Send + Sync + 'static,
    ) -> Self {
        Self { name, watcher, declare: Box::new(declare), synced: Arc::new(synced), running: Mutex::default() }
    }

    /// The watch, running.
    pub(super) fn hold(&self) -> Arc<Held<K>> {
        let mut running = self.running.lock();
        if let Some(held) = running.upgrade() {
            return held;
        }
        let (cache, feed) = (self.declare)();
        let synced = self.synced.clone();
        let watch = self.watcher.follow(self.name, (cache.clone(), feed), move || synced());
        let held = Arc::new(Held { cache, _watch: watch });
        *running = Arc::downgrade(&held);
        held
    }
}

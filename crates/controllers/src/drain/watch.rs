//! Watches that exist while a drain needs them.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

use kube::Client;
use parking_lot::Mutex;
use planner::drain::Watched;
use runtime::cache::{Cache, Cached, DisconnectReason, Reflector, RetrySignal, Signal, Trust, Watch};
use runtime::{Clock, Random, Tasks};
use tokio_util::sync::DropGuard;

/// Starts watches on the target cluster.
#[derive(Clone)]
pub(super) struct Watcher {
    pub(super) client: Client,
    pub(super) clock: Clock,
    pub(super) random: Random,
    pub(super) tasks: Tasks,
    pub(super) retry_signal: RetrySignal,
}

impl Watcher {
    /// Runs a reflector until the guard is dropped. Calls `synced` once the first list is complete: if it is empty,
    /// there is no delta.
    pub(super) fn follow<K: Cached>(
        &self,
        name: &'static str,
        (cache, reflector): (Cache<K>, Reflector<K>),
        synced: impl FnOnce() + Send + 'static,
    ) -> DropGuard {
        let stop = self.tasks.stopping().child_token();
        let reflector = reflector.with_retry_signal(&self.retry_signal);
        let reflecting = reflector.run(self.client.clone(), self.clock.clone(), self.random.fork(), stop.clone());
        self.tasks.spawn(name, async move {
            let notifying = async {
                if cache.synced().await.is_ok() {
                    synced();
                }
            };
            tokio::join!(reflecting, notifying);
        });
        stop.drop_guard()
    }
}

/// A watch that is shared by all drains. It starts with the first holder and ends with the last.
pub(super) struct OnDemand<K: Cached> {
    name: &'static str,
    watcher: Watcher,
    declare: Box<dyn Fn() -> (Cache<K>, Reflector<K>) + Send + Sync>,
    on_change: Arc<dyn Fn() + Send + Sync>,
    /// Whether the missing permission was logged.
    logged: AtomicBool,
    running: Mutex<Weak<Held<K>>>,
}

/// Keeps a watch running.
pub(super) struct Held<K: Cached> {
    pub(super) cache: Cache<K>,
    _watch: DropGuard,
}

impl<K: Cached> OnDemand<K> {
    /// Creates a watch that does not run yet. `declare` builds the cache and its handlers. `on_change` is called when
    /// the first list is complete, and when the watch is disconnected.
    pub(super) fn new(
        name: &'static str,
        watcher: Watcher,
        declare: impl Fn() -> (Cache<K>, Reflector<K>) + Send + Sync + 'static,
        on_change: impl Fn() + Send + Sync + 'static,
    ) -> Self {
        Self {
            name,
            watcher,
            declare: Box::new(declare),
            on_change: Arc::new(on_change),
            logged: AtomicBool::new(false),
            running: Mutex::default(),
        }
    }

    /// Returns the running watch.
    pub(super) fn hold(&self) -> Arc<Held<K>> {
        let mut running = self.running.lock();
        if let Some(held) = running.upgrade() {
            return held;
        }
        let (cache, mut reflector) = (self.declare)();
        let (synced, refused) = (self.on_change.clone(), self.on_change.clone());
        reflector.on_signal(move |signal| {
            if *signal == Signal::Disconnected {
                refused();
            }
        });
        let watch = self.watcher.follow(self.name, (cache.clone(), reflector), move || synced());
        let held = Arc::new(Held { cache, _watch: watch });
        *running = Arc::downgrade(&held);
        held
    }

    /// Returns the objects, unless the cache and the API server contradict each other. A missing permission must not
    /// delay a drain until its timeout, so it is a result, too, and is logged once.
    pub(super) fn shown(&self, cache: Option<&Cache<K>>) -> Watched<Vec<Arc<K>>> {
        let Some(cache) = cache else { return Watched::NotYet };
        if let Watch::Disconnected { by: DisconnectReason::Refused, why, .. } = cache.watch() {
            if !self.logged.swap(true, Ordering::Relaxed) {
                tracing::warn!(
                    kind = self.name,
                    why,
                    "missing permission to list and watch; drains continue without these objects"
                );
            }
            return Watched::Never;
        }
        if cache.is_synced() && cache.trust() == Trust::Firm { Watched::Seen(cache.list()) } else { Watched::NotYet }
    }
}

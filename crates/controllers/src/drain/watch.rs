//! Watches that last as long as somebody needs them.

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
    /// Reflectors a cache until the guard is dropped; calls `synced` once it has been read completely, which no delta tells when
    /// there is nothing to read.
    pub(super) fn follow<K: Cached>(
        &self,
        name: &'static str,
        (cache, reflector): (Cache<K>, Reflector<K>),
        synced: impl FnOnce() + Send + 'static,
    ) -> DropGuard {
        let stop = self.tasks.stopping().child_token();
        let reflector = reflector.with_retry_signal(&self.retry_signal);
        let feeding = reflector.run(self.client.clone(), self.clock.clone(), self.random.fork(), stop.clone());
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
    declare: Box<dyn Fn() -> (Cache<K>, Reflector<K>) + Send + Sync>,
    news: Arc<dyn Fn() + Send + Sync>,
    /// Whether it was said that we may not look.
    said: AtomicBool,
    running: Mutex<Weak<Held<K>>>,
}

/// A watch that runs while this is held.
pub(super) struct Held<K: Cached> {
    pub(super) cache: Cache<K>,
    _watch: DropGuard,
}

impl<K: Cached> OnDemand<K> {
    /// A watch that does not run yet. `declare` says what it holds and whom it tells; `news` is called each time it has been
    /// read for the first time, and when it turns out that it cannot be read.
    pub(super) fn new(
        name: &'static str,
        watcher: Watcher,
        declare: impl Fn() -> (Cache<K>, Reflector<K>) + Send + Sync + 'static,
        news: impl Fn() + Send + Sync + 'static,
    ) -> Self {
        Self {
            name,
            watcher,
            declare: Box::new(declare),
            news: Arc::new(news),
            said: AtomicBool::new(false),
            running: Mutex::default(),
        }
    }

    /// The watch, running.
    pub(super) fn hold(&self) -> Arc<Held<K>> {
        let mut running = self.running.lock();
        if let Some(held) = running.upgrade() {
            return held;
        }
        let (cache, mut reflector) = (self.declare)();
        let (synced, refused) = (self.news.clone(), self.news.clone());
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

    /// What it has shown, unless the API server contradicts itself. A role that does not let us look must not hold up a drain
    /// until its timeout, so that is an answer too, and said once.
    pub(super) fn shown(&self, cache: Option<&Cache<K>>) -> Watched<Vec<Arc<K>>> {
        let Some(cache) = cache else { return Watched::NotYet };
        if let Watch::Disconnected { by: DisconnectReason::Refused, why, .. } = cache.watch() {
            if !self.said.swap(true, Ordering::Relaxed) {
                tracing::warn!(
                    kind = self.name,
                    why,
                    "may not see them; drains go on without: grant the verbs list and watch"
                );
            }
            return Watched::Never;
        }
        if cache.is_synced() && cache.trust() == Trust::Firm { Watched::Seen(cache.list()) } else { Watched::NotYet }
    }
}

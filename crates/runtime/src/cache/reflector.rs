//! Builder of a cache, and the task that keeps it up to date.

use std::sync::Arc;

use kube::Client;
use tokio_util::sync::CancellationToken;

use super::Cache;
use super::delta::Delta;
use super::index::Index;
use super::list_watch::ApiServer;
use super::outbox::Handler;
use super::protocol::Protocol;
use super::retry_signal::RetrySignal;
use super::settings::{Form, Listing, Reading, Settings};
use super::shared::Shared;
use super::signal::{Listener, Signal};
use super::store::{Cached, Keep, Store, UpdatePredicate};
use crate::{Clock, Key, Random};

/// Builder of a cache.
pub struct CacheBuilder<K: Cached> {
    settings: Settings,
    indexes: Vec<Index<K>>,
    ignored: Option<UpdatePredicate<K>>,
    keep: Option<Keep<K>>,
    handlers: Vec<Handler<K>>,
}

impl<K: Cached> Default for CacheBuilder<K> {
    fn default() -> Self {
        Self { settings: Settings::default(), indexes: Vec::new(), ignored: None, keep: None, handlers: Vec::new() }
    }
}

impl<K: Cached> CacheBuilder<K> {
    /// Stores only objects of this namespace.
    #[must_use]
    pub fn namespace(mut self, namespace: impl Into<String>) -> Self {
        self.settings.namespace = Some(namespace.into());
        self
    }

    /// Stores only objects with these labels.
    #[must_use]
    pub fn labels(mut self, selector: impl Into<String>) -> Self {
        self.settings.labels = Some(selector.into());
        self
    }

    /// Stores only objects with these fields.
    #[must_use]
    pub fn fields(mut self, selector: impl Into<String>) -> Self {
        self.settings.fields = Some(selector.into());
        self
    }

    /// Requests only the metadata of each object; `K` must be decodable from it.
    #[must_use]
    pub fn metadata_only(mut self) -> Self {
        self.settings.form = Form::Metadata;
        self
    }

    /// Sets how whole kinds are listed.
    #[must_use]
    pub fn listing(mut self, listing: Listing) -> Self {
        self.settings.listing = listing;
        self
    }

    /// Sets the required freshness of ordinary lists.
    #[must_use]
    pub fn reading(mut self, reading: Reading) -> Self {
        self.settings.reading = reading;
        self
    }

    /// Changes any other setting.
    #[must_use]
    pub fn with(mut self, change: impl FnOnce(&mut Settings)) -> Self {
        change(&mut self.settings);
        self
    }

    /// Adds this index.
    #[must_use]
    pub fn index(mut self, index: Index<K>) -> Self {
        self.indexes.push(index);
        self
    }

    /// Does not call handlers for changes for which `ignored` returns true, such as a heartbeat. The cache itself is
    /// updated.
    #[must_use]
    pub fn ignore_updates(mut self, ignored: UpdatePredicate<K>) -> Self {
        self.ignored = Some(ignored);
        self
    }

    /// Stores only objects for which `keep` returns true. If `keep` selects more objects later, call [`Cache::admit`];
    /// if fewer, [`Cache::shed`]. An object that cannot be decoded is not stored.
    #[must_use]
    pub fn keep(mut self, keep: impl Fn(&K) -> bool + Send + Sync + 'static) -> Self {
        self.keep = Some(Arc::new(keep));
        self
    }

    /// Calls `handler` for every change. It must only enqueue.
    #[must_use]
    pub fn on_delta(mut self, handler: impl Fn(&Key, &Delta<K>) + Send + Sync + 'static) -> Self {
        self.handlers.push(Box::new(handler));
        self
    }

    /// Returns the empty cache and the reflector that fills it.
    pub fn build(self) -> (Cache<K>, Reflector<K>) {
        let store = Store::new(self.indexes, self.ignored, self.keep);
        let shared = Arc::new(Shared::new(self.settings.namespace.clone(), store));
        let (settings, handlers) = (self.settings, self.handlers);
        let reflector = Reflector { shared: shared.clone(), settings, handlers, listeners: Vec::new() };
        (Cache { shared }, reflector)
    }
}

/// Keeps one cache up to date while it runs. If it (or the future of [`Reflector::run`]) is dropped, the cache stops.
pub struct Reflector<K: Cached> {
    shared: Arc<Shared<K>>,
    settings: Settings,
    handlers: Vec<Handler<K>>,
    listeners: Vec<Listener>,
}

impl<K: Cached> Reflector<K> {
    /// Also calls `handler` for every change. For handlers that read caches that did not exist when this one was
    /// declared.
    pub fn on_delta(&mut self, handler: impl Fn(&Key, &Delta<K>) + Send + Sync + 'static) {
        self.handlers.push(Box::new(handler));
    }

    /// Calls `listener` for every signal of the cache. It must not block.
    pub fn on_signal(&mut self, listener: impl Fn(&Signal) + Send + Sync + 'static) {
        self.listeners.push(Box::new(listener));
    }

    /// Retries together with all reflectors with the same signal when one of them gets a response after an outage.
    #[must_use]
    pub fn with_retry_signal(mut self, signal: &RetrySignal) -> Self {
        self.settings.retry_signal = signal.clone();
        self
    }

    /// Lists and watches until `stop`. After an error it waits, reports the cause in [`Cache::status`], and retries.
    pub async fn run(self, client: Client, clock: Clock, random: Random, stop: CancellationToken) {
        let list_watch = ApiServer::new::<K>(client, &self.settings);
        self.run_on(list_watch, clock, random, stop).await;
    }

    pub(super) async fn run_on(
        mut self,
        list_watch: impl super::list_watch::ListWatch<K>,
        clock: Clock,
        random: Random,
        stop: CancellationToken,
    ) {
        self.shared.listeners().open(std::mem::take(&mut self.listeners));
        self.shared.outbox().open(std::mem::take(&mut self.handlers));
        let mut protocol = Protocol::new(list_watch, self.shared.clone(), self.settings.clone(), clock, random);
        let work = async {
            let mut phase = protocol.beginning();
            loop {
                phase = protocol.step(phase).await;
            }
        };
        tokio::select! {
            biased;
            () = stop.cancelled() => {}
            () = work => {}
        }
    }
}

impl<K: Cached> Drop for Reflector<K> {
    fn drop(&mut self) {
        self.shared.outbox().close();
        self.shared.listeners().close();
        self.shared.stopped();
    }
}

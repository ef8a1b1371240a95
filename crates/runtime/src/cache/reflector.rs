//! Declaring a cache, and keeping it fed.

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

/// A cache that is being declared.
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
    /// Holds only this namespace.
    #[must_use]
    pub fn namespace(mut self, namespace: impl Into<String>) -> Self {
        self.settings.namespace = Some(namespace.into());
        self
    }

    /// Holds only objects with these labels.
    #[must_use]
    pub fn labels(mut self, selector: impl Into<String>) -> Self {
        self.settings.labels = Some(selector.into());
        self
    }

    /// Holds only objects with these fields.
    #[must_use]
    pub fn fields(mut self, selector: impl Into<String>) -> Self {
        self.settings.fields = Some(selector.into());
        self
    }

    /// Reads only the metadata of each object; `K` must do with that.
    #[must_use]
    pub fn metadata_only(mut self) -> Self {
        self.settings.form = Form::Metadata;
        self
    }

    /// Reads whole kinds this way.
    #[must_use]
    pub fn listing(mut self, listing: Listing) -> Self {
        self.settings.listing = listing;
        self
    }

    /// Accepts ordinary lists of this freshness.
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

    /// Keeps this index.
    #[must_use]
    pub fn index(mut self, index: Index<K>) -> Self {
        self.indexes.push(index);
        self
    }

    /// Wakes nobody for a change that `ignored` calls uninteresting, such as a heartbeat. The cache itself is kept exact.
    #[must_use]
    pub fn ignore_updates(mut self, ignored: UpdatePredicate<K>) -> Self {
        self.ignored = Some(ignored);
        self
    }

    /// Holds only what `keep` says yes to. When it begins to say yes to more, see [`Cache::admit`]; to less, [`Cache::shed`]. An
    /// object that cannot be decoded cannot be asked about, and is not held.
    #[must_use]
    pub fn keep(mut self, keep: impl Fn(&K) -> bool + Send + Sync + 'static) -> Self {
        self.keep = Some(Arc::new(keep));
        self
    }

    /// Tells `handler` of every change. It must only enqueue.
    #[must_use]
    pub fn on_delta(mut self, handler: impl Fn(&Key, &Delta<K>) + Send + Sync + 'static) -> Self {
        self.handlers.push(Box::new(handler));
        self
    }

    /// The cache, still empty, and the reflector that fills it.
    pub fn build(self) -> (Cache<K>, Reflector<K>) {
        let store = Store::new(self.indexes, self.ignored, self.keep);
        let shared = Arc::new(Shared::new(self.settings.namespace.clone(), store));
        let (settings, handlers) = (self.settings, self.handlers);
        let reflector = Reflector { shared: shared.clone(), settings, handlers, listeners: Vec::new() };
        (Cache { shared }, reflector)
    }
}

/// Keeps one cache up to date while it runs. Dropping it (or the future of [`Reflector::run`]) stops the cache.
pub struct Reflector<K: Cached> {
    shared: Arc<Shared<K>>,
    settings: Settings,
    handlers: Vec<Handler<K>>,
    listeners: Vec<Listener>,
}

impl<K: Cached> Reflector<K> {
    /// Tells `handler` of every change too. For handlers that look things up in caches that did not exist yet when this
    /// one was declared.
    pub fn on_delta(&mut self, handler: impl Fn(&Key, &Delta<K>) + Send + Sync + 'static) {
        self.handlers.push(Box::new(handler));
    }

    /// Tells `listener` what happens to the cache itself. It must only take note.
    pub fn on_signal(&mut self, listener: impl Fn(&Signal) + Send + Sync + 'static) {
        self.listeners.push(Box::new(listener));
    }

    /// Tries again together with all that were given the same signal, once one of them is answered after an outage.
    #[must_use]
    pub fn with_retry_signal(mut self, signal: &RetrySignal) -> Self {
        self.settings.retry_signal = signal.clone();
        self
    }

    /// Lists and watches until `stop`. Errors do not end it: it waits, says in [`Cache::status`] what for, and tries again.
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

//! State that a cache, its reflector and its group share.

use std::sync::Weak;

use jiff::Timestamp;
use parking_lot::{Mutex, RwLock, RwLockReadGuard};
use tokio::sync::watch;

use super::caches::Member;
use super::decoded::Decoded;
use super::delta::Delta;
use super::milestones::{Milestones, Progress};
use super::outbox::Outbox;
use super::signal::{DisconnectReason, Listeners, Signal, Tally, Watch};
use super::status::{Counters, State, Status, Trust};
use super::store::{Cached, Deltas, Freshness, Store};
use super::version::Version;

/// The reflector was stopped before the awaited condition was reached.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the cache of {kind} was stopped")]
pub struct Stopped {
    kind: String,
}

pub(super) struct Shared<K: Cached> {
    kind: String,
    namespace: Option<String>,
    store: RwLock<Store<K>>,
    outbox: Outbox<K>,
    activity: Mutex<Activity>,
    listeners: Listeners,
    milestones: Milestones,
    /// Number of refreshes requested so far.
    wanted: watch::Sender<u64>,
    /// The members to warn when this cache doubts the API server.
    others: Mutex<Vec<Weak<dyn Member>>>,
}

#[derive(Clone, Debug, Default)]
struct Activity {
    state: State,
    last_heard: Option<Timestamp>,
    watch: Watch,
    counters: Counters,
}

impl<K: Cached> Shared<K> {
    pub(super) fn new(namespace: Option<String>, store: Store<K>) -> Self {
        Self {
            kind: K::plural().into_owned(),
            namespace,
            store: RwLock::new(store),
            outbox: Outbox::new(),
            activity: Mutex::default(),
            listeners: Listeners::default(),
            milestones: Milestones::default(),
            wanted: watch::Sender::default(),
            others: Mutex::default(),
        }
    }

    pub(super) fn kind(&self) -> &str {
        &self.kind
    }

    pub(super) fn covers(&self, namespace: Option<&str>) -> bool {
        self.namespace.is_none() || self.namespace.as_deref() == namespace
    }

    pub(super) fn store(&self) -> RwLockReadGuard<'_, Store<K>> {
        self.store.read()
    }

    pub(super) fn outbox(&self) -> &Outbox<K> {
        &self.outbox
    }

    /// Changes the store and then calls the handlers, with the store unlocked.
    pub(super) fn change<R>(&self, change: impl FnOnce(&mut Store<K>, &mut Deltas<K>) -> R) -> R {
        let result = self.change_silently(change);
        self.outbox.deliver();
        result
    }

    /// Applies a complete list, which completes the refreshes up to `ticket`. Tasks that it wakes find the cache synced
    /// and trusted.
    pub(super) fn list(
        &self,
        version: &Version,
        items: impl IntoIterator<Item = Decoded<K>>,
        ticket: Option<u64>,
    ) -> Freshness {
        let (freshness, tally) = self.change_silently(|store, deltas| {
            let before = store.len();
            let forgotten = store.forgotten_before();
            let freshness = store.listed(version, items, deltas);
            let tally = Tally { before, gone: removals(deltas) };
            deltas.extend(forgotten.into_iter().filter(|(key, _)| !store.holds(key)));
            (freshness, tally)
        });
        self.milestones.change(|progress| match freshness {
            Freshness::Taken => {
                progress.synced = true;
                progress.trust = Trust::Firm;
                progress.refreshed = progress.refreshed.max(ticket.unwrap_or(0));
            }
            Freshness::Regressed => progress.trust = Trust::Doubtful,
        });
        if freshness == Freshness::Taken {
            self.listeners.tell(Signal::Listed(tally));
        }
        self.outbox.deliver();
        freshness
    }

    fn change_silently<R>(&self, change: impl FnOnce(&mut Store<K>, &mut Deltas<K>) -> R) -> R {
        let mut deltas = Deltas::new();
        let mut store = self.store.write();
        let result = change(&mut store, &mut deltas);
        if !deltas.is_empty() {
            self.outbox.put(deltas);
        }
        result
    }

    pub(super) async fn refresh(&self) -> Result<(), Stopped> {
        let ticket = self.request_refresh();
        self.reached(|progress| progress.refreshed >= ticket).await
    }

    pub(super) fn request_refresh(&self) -> u64 {
        let mut ticket = 0;
        self.wanted.send_modify(|wanted| {
            *wanted += 1;
            ticket = *wanted;
        });
        ticket
    }

    pub(super) fn has_refreshed(&self, ticket: u64) -> bool {
        self.milestones.now().refreshed >= ticket
    }

    pub(super) async fn synced(&self) -> Result<(), Stopped> {
        self.reached(|progress| progress.synced).await
    }

    pub(super) async fn firm(&self) -> Result<(), Stopped> {
        self.reached(|progress| progress.trust == Trust::Firm).await
    }

    async fn reached(&self, milestone: impl Fn(&Progress) -> bool) -> Result<(), Stopped> {
        let progress = self.milestones.wait_for(&milestone).await;
        if milestone(&progress) { Ok(()) } else { Err(Stopped { kind: self.kind.clone() }) }
    }

    pub(super) fn is_synced(&self) -> bool {
        self.milestones.now().synced
    }

    pub(super) fn trust(&self) -> Trust {
        self.milestones.now().trust
    }

    pub(super) fn status(&self) -> Status {
        let (objects, undecodable) = {
            let store = self.store();
            (store.len(), store.undecodable_count())
        };
        let activity = self.activity.lock().clone();
        Status {
            kind: self.kind.clone(),
            state: activity.state,
            synced: self.is_synced(),
            trust: self.trust(),
            last_heard: activity.last_heard,
            objects,
            undecodable,
            counters: Counters { handler_panics: self.outbox.panics(), ..activity.counters },
        }
    }

    pub(super) fn wanted(&self) -> watch::Receiver<u64> {
        self.wanted.subscribe()
    }

    /// Returns whether a requested refresh is not complete.
    pub(super) fn refresh_is_wanted(&self) -> bool {
        *self.wanted.borrow() > self.milestones.now().refreshed
    }

    /// Returns the number of refreshes requested so far: a quorum list that starts now completes them.
    pub(super) fn tickets(&self) -> u64 {
        *self.wanted.borrow()
    }

    /// The API server returned an older state than before. Warns the other members, which may not be able to detect it.
    pub(super) fn doubted(&self) {
        self.milestones.change(|progress| progress.trust = Trust::Doubtful);
        let others = self.others.lock().clone();
        others.iter().filter_map(Weak::upgrade).for_each(|other| other.suspect());
    }

    pub(super) fn meet(&self, other: Weak<dyn Member>) {
        self.others.lock().push(other);
    }

    /// Another member doubts the API server: this cache is not trusted until it was relisted.
    pub(super) fn suspect(&self) {
        self.store.write().suspect();
        self.milestones.change(|progress| progress.trust = Trust::Doubtful);
        self.wanted.send_modify(|wanted| *wanted += 1);
    }

    pub(super) fn stopped(&self) {
        self.enter(State::Stopped);
        self.milestones.change(|progress| progress.stopped = true);
    }

    pub(super) fn enter(&self, state: State) {
        self.activity.lock().state = state;
    }

    /// The API server sent something.
    pub(super) fn responded(&self, now: Timestamp) {
        let before = {
            let mut activity = self.activity.lock();
            activity.last_heard = Some(now);
            std::mem::take(&mut activity.watch)
        };
        if before != Watch::Connected {
            self.listeners.tell(Signal::Recovered);
        }
    }

    /// The API server is unreachable or rejected the request. If the watch is already disconnected, its start time is
    /// kept.
    pub(super) fn broke(&self, by: DisconnectReason, why: &str, now: Timestamp) {
        let before = {
            let mut activity = self.activity.lock();
            let since = match &activity.watch {
                Watch::Connected => now,
                Watch::Disconnected { since, .. } => *since,
            };
            std::mem::replace(&mut activity.watch, Watch::Disconnected { since, by, why: why.to_owned() })
        };
        let is_known = matches!(before, Watch::Disconnected { by: before, .. } if before == by);
        if !is_known {
            self.listeners.tell(Signal::Disconnected);
        }
    }

    pub(super) fn watch(&self) -> Watch {
        self.activity.lock().watch.clone()
    }

    pub(super) fn listeners(&self) -> &Listeners {
        &self.listeners
    }

    pub(super) fn count(&self, count: impl FnOnce(&mut Counters)) {
        count(&mut self.activity.lock().counters);
    }
}

fn removals<K>(deltas: &Deltas<K>) -> usize {
    deltas.iter().filter(|(_, delta)| matches!(delta, Delta::Removed { .. } | Delta::RemovedUndecodable { .. })).count()
}

//! The last decision about each object, and what the object waits for.
//!
//! There is one entry per object. Entries of deleted objects are removed when the number of entries has doubled since
//! the last removal, so the size follows the number of objects.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock, Weak};

use controllers::decision::{Listen, Subject};
use controllers::{Cluster, Decision, Listener};
use jiff::Timestamp;
use parking_lot::Mutex;
use runtime::cache::{Cache, Cached, Lookup};
use runtime::{Clock, Key};
use serde::Serialize;

/// The last decision about each object. Clones share their state.
#[derive(Clone)]
pub(crate) struct LastDecisions {
    clock: Clock,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    /// Tells which objects exist. Weak, because the controllers hold a reference to their listeners.
    cluster: OnceLock<Weak<Cluster>>,
    entries: Mutex<Entries>,
}

#[derive(Default)]
struct Entries {
    all: BTreeMap<(Subject, Key), Entry>,
    sweep_at: usize,
}

const MIN_SWEEP: usize = 64;

/// A decision, as shown on `/debug/state`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Entry {
    /// Time of the decision.
    decided: Timestamp,
    /// Reason of the decision.
    because: String,
    /// What was done. Usually nothing.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    did: Vec<String>,
    /// What triggers the next reconcile, and its latest time.
    #[serde(skip_serializing_if = "String::is_empty")]
    awaits: String,
}

impl LastDecisions {
    /// Creates an empty collection.
    pub(crate) fn new(clock: Clock) -> Self {
        Self { clock, shared: Arc::default() }
    }

    /// Sets the controllers whose caches tell which objects exist.
    pub(super) fn set_cluster(&self, cluster: &Arc<Cluster>) {
        let _ = self.shared.cluster.set(Arc::downgrade(cluster));
    }

    /// Returns the listener that stores every decision.
    pub(crate) fn listener(&self) -> Listener {
        Arc::new(self.clone())
    }

    fn note(&self, decision: &Decision) {
        let entry = Entry {
            decided: self.clock.now(),
            because: decision.because.clone(),
            did: decision.steps.clone(),
            awaits: decision.awaits.clone(),
        };
        let mut entries = self.shared.entries.lock();
        entries.all.insert((decision.about, decision.key.clone()), entry);
        if entries.all.len() >= entries.sweep_at {
            self.sweep(&mut entries);
        }
    }

    fn sweep(&self, entries: &mut Entries) {
        if let Some(cluster) = self.shared.cluster.get().and_then(Weak::upgrade) {
            entries.all.retain(|(subject, key), _| exists(&cluster, *subject, key));
        }
        entries.sweep_at = (entries.all.len() * 2).max(MIN_SWEEP);
    }

    /// Returns the last decision about each existing object, by kind and key.
    pub(super) fn shown(&self) -> BTreeMap<String, BTreeMap<String, Entry>> {
        let mut entries = self.shared.entries.lock();
        self.sweep(&mut entries);
        let mut shown = BTreeMap::<String, BTreeMap<String, Entry>>::new();
        for ((subject, key), entry) in &entries.all {
            shown.entry(subject.to_string()).or_default().insert(key.to_string(), entry.clone());
        }
        shown
    }
}

impl Listen for LastDecisions {
    fn decided(&self, decision: &Decision) {
        self.note(decision);
    }
}

fn exists(cluster: &Cluster, subject: Subject, key: &Key) -> bool {
    let manager = cluster.manager();
    match subject {
        Subject::Machine => holds(cluster.machines(), key),
        Subject::Set => manager.is_some_and(|manager| holds(manager.sets(), key)),
        Subject::Deployment => manager.is_some_and(|manager| holds(manager.deployments(), key)),
    }
}

fn holds<K: Cached>(cache: &Cache<K>, key: &Key) -> bool {
    !matches!(cache.look_up(key), Lookup::Absent)
}

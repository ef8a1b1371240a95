//! What was last decided about each object, and what it waits for: the answer to "why does nothing happen?".
//!
//! One entry an object. Entries of objects that are gone are swept out when there are twice as many as after the last sweep, so the
//! size follows the number of objects, and an entry costs no more than the sentence in it.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock, Weak};

use controllers::decision::{Listen, Subject};
use controllers::{Cluster, Decision, Listener};
use jiff::Timestamp;
use parking_lot::Mutex;
use runtime::cache::{Cache, Cached, Lookup};
use runtime::{Clock, Key};
use serde::Serialize;

/// The last decision about each object. Clones are the same last_decisions.
#[derive(Clone)]
pub(crate) struct LastDecisions {
    clock: Clock,
    inside: Arc<Inside>,
}

#[derive(Default)]
struct Inside {
    /// Who knows which objects are still there. Weak, because the controllers themselves hold on to whom they tell.
    cluster: OnceLock<Weak<Cluster>>,
    entries: Mutex<Entries>,
}

#[derive(Default)]
struct Entries {
    all: BTreeMap<(Subject, Key), Entry>,
    sweep_at: usize,
}

const SMALLEST_SWEEP: usize = 64;

/// A decision, as it is shown.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Entry {
    /// When.
    decided: Timestamp,
    /// Why.
    because: String,
    /// What was done; nothing most of the time.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    did: Vec<String>,
    /// What will wake it, and when at the latest.
    #[serde(skip_serializing_if = "String::is_empty")]
    awaits: String,
}

impl LastDecisions {
    /// An empty one.
    pub(crate) fn new(clock: Clock) -> Self {
        Self { clock, inside: Arc::default() }
    }

    /// From now on it is known which objects are still there.
    pub(super) fn know(&self, cluster: &Arc<Cluster>) {
        let _ = self.inside.cluster.set(Arc::downgrade(cluster));
    }

    /// Writes down every decision it is told of.
    pub(crate) fn listener(&self) -> Listener {
        Arc::new(self.clone())
    }

    fn note(&self, decision: &Decision) {
        let entry = Entry {
            decided: self.clock.now(),
            because: decision.because.clone(),
            did: decision.did.clone(),
            awaits: decision.awaits.clone(),
        };
        let mut entries = self.inside.entries.lock();
        entries.all.insert((decision.about, decision.key.clone()), entry);
        if entries.all.len() >= entries.sweep_at {
            self.sweep(&mut entries);
        }
    }

    fn sweep(&self, entries: &mut Entries) {
        if let Some(cluster) = self.inside.cluster.get().and_then(Weak::upgrade) {
            entries.all.retain(|(subject, key), _| is_there(&cluster, *subject, key));
        }
        entries.sweep_at = (entries.all.len() * 2).max(SMALLEST_SWEEP);
    }

    /// The last decision about each object that is still there, by kind and key.
    pub(super) fn shown(&self) -> BTreeMap<String, BTreeMap<String, Entry>> {
        let mut entries = self.inside.entries.lock();
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

fn is_there(cluster: &Cluster, subject: Subject, key: &Key) -> bool {
    let fleet = cluster.fleet();
    match subject {
        Subject::Machine => holds(cluster.machines(), key),
        Subject::Set => fleet.is_some_and(|fleet| holds(fleet.sets(), key)),
        Subject::Deployment => fleet.is_some_and(|fleet| holds(fleet.deployments(), key)),
    }
}

fn holds<K: Cached>(cache: &Cache<K>, key: &Key) -> bool {
    !matches!(cache.look_up(key), Lookup::Absent)
}

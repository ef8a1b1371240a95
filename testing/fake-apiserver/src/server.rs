//! The server as a value: made, asked, looked into.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use jiff::Timestamp;
use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::failure::Failure;
use crate::faults::Faults;
use crate::garbage::Collector;
use crate::kinds::priorities;
use crate::ledger::{Entry, Ledger, Tally};
use crate::observer::Observer;
use crate::protection::release_unused;
use crate::query::Query;
use crate::service::Service;
use crate::state::{Effect, State};
use crate::store::{Change, Compacted, History, Key};
use crate::termination::end_namespaces;
use crate::verbs::{Call, Part, create};

/// Tells the time.
pub type Now = Arc<dyn Fn() -> Timestamp + Send + Sync>;

/// How a server is made.
#[derive(Clone)]
pub struct Options {
    /// Where all timestamps come from.
    pub now: Now,
    /// Where uids and generated names come from; the same seed and requests give the same objects.
    pub seed: u64,
    /// How much is remembered for watches, pages, stale reads and restored backups.
    pub history: History,
    /// How often a watch that asked for bookmarks gets one.
    pub bookmark_every: Duration,
    /// How long a watch lasts at least when the client does not say; at most twice that.
    pub shortest_watch: Duration,
}

impl Options {
    /// The reference's intervals and a generous memory.
    pub fn new(now: Now, seed: u64) -> Self {
        Self {
            now,
            seed,
            history: History { writes: 20_000, age: Duration::from_mins(10) },
            bookmark_every: Duration::from_mins(1),
            shortest_watch: Duration::from_mins(30),
        }
    }
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options").field("seed", &self.seed).field("history", &self.history).finish_non_exhaustive()
    }
}

/// A Kubernetes API server in memory. Clones are the same server.
#[derive(Clone, Debug)]
pub struct Server {
    pub(crate) shared: Arc<Shared>,
}

pub(crate) struct Shared {
    pub(crate) state: Mutex<State>,
    pub(crate) faults: Faults,
    pub(crate) ledger: Mutex<Ledger>,
    pub(crate) now: Now,
    pub(crate) bookmark_every: Duration,
    pub(crate) shortest_watch: Duration,
    pub(crate) open_watches: Arc<AtomicUsize>,
    pub(crate) tokens: Mutex<BTreeMap<String, String>>,
}

impl fmt::Debug for Shared {
    // Neither objects nor tokens: both may be secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").field("open_watches", &self.open_watches).finish_non_exhaustive()
    }
}

impl Server {
    /// A server without any objects, not even namespaces.
    pub fn empty(options: Options) -> Self {
        let shared = Shared {
            state: Mutex::new(State::new(options.seed, options.history)),
            faults: Faults::seeded(options.seed),
            ledger: Mutex::default(),
            now: options.now,
            bookmark_every: options.bookmark_every,
            shortest_watch: options.shortest_watch,
            open_watches: Arc::default(),
            tokens: Mutex::default(),
        };
        Self { shared: Arc::new(shared) }
    }

    /// A server as one finds it: with the namespaces `default`, `kube-system`, `kube-public` and `kube-node-lease`, and the
    /// priority classes of the system.
    pub fn new(options: Options) -> Self {
        let server = Self::empty(options);
        for namespace in ["default", "kube-system", "kube-public", "kube-node-lease"] {
            // It cannot exist yet.
            let _created =
                server.insert(&json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": namespace } }));
        }
        for class in priorities::of_the_system() {
            let _created = server.insert(&class);
        }
        server
    }

    /// The server as a tower service, for a client in the same process. No credentials are asked for.
    pub fn service(&self) -> Service {
        Service::trusting(self.clone())
    }

    /// What goes wrong on demand.
    pub fn faults(&self) -> &Faults {
        &self.shared.faults
    }

    /// Creates an object as a client would, without the update_fallback through HTTP, faults and counters.
    pub fn insert(&self, object: &Value) -> Result<Arc<Value>, Failure> {
        let mut state = self.shared.state.lock();
        state.store.observed.act_alone();
        let resource = state.catalog.of(object).ok_or_else(Failure::unknown_path)?;
        let namespace = crate::meta::namespace(object).to_owned();
        let call = Call {
            namespace: Some(namespace).filter(|_| resource.is_namespaced()),
            name: None,
            part: Part::Whole,
            query: Query::default(),
            now: (self.shared.now)(),
            resource,
        };
        let body = object.to_string();
        create::create(&mut state, &call, body.as_bytes()).map(|answer| answer.object)
    }

    /// Stores a copy of an object of another server as it is there: uid, times, status, deletion and all. Nothing is completed or checked, except that its
    /// kind is known; it only gets a version of this server.
    pub fn copy(&self, object: &Value) -> Result<Arc<Value>, Failure> {
        let mut state = self.shared.state.lock();
        state.store.observed.act_alone();
        let resource = state.catalog.of(object).ok_or_else(Failure::unknown_path)?;
        let namespace = if resource.is_namespaced() { crate::meta::namespace(object) } else { "" };
        let key = Key::new(namespace, crate::meta::name(object));
        let now = (self.shared.now)();
        Ok(state.put(&resource, key, object.clone(), now, Effect::Real))
    }

    /// All objects of a kind, by its qualified name (`pods`, `machines.machine.sapcloud.io`), in order.
    pub fn objects(&self, kind: &str) -> Vec<Arc<Value>> {
        let state = self.shared.state.lock();
        let view = state.store.view(kind, state.store.revision(), None, None).unwrap_or_default();
        view.into_iter().map(|(_, object)| object.clone()).collect()
    }

    /// All objects of all kinds, kind by kind.
    pub fn everything(&self) -> Vec<Arc<Value>> {
        let kinds: Vec<String> = self.shared.state.lock().store.kinds().map(str::to_owned).collect();
        kinds.iter().flat_map(|kind| self.objects(kind)).collect()
    }

    /// One object of a kind, by its qualified name; the namespace is empty for cluster-scoped kinds.
    pub fn object(&self, kind: &str, namespace: &str, name: &str) -> Option<Arc<Value>> {
        self.shared.state.lock().store.get(kind, &Key::new(namespace, name)).cloned()
    }

    /// What happened to a kind after a revision, oldest first: for tests that look at every step and not only at the end.
    pub fn changes(&self, kind: &str, after: u64) -> Result<Vec<Change>, Compacted> {
        let state = self.shared.state.lock();
        Ok(state.store.changes_after(kind, after)?.cloned().collect())
    }

    /// The number of the last write.
    pub fn revision(&self) -> u64 {
        self.shared.state.lock().store.revision()
    }

    /// Forgets history up to and including this revision, so that older watches and continued lists get a 410.
    pub fn compact(&self, revision: u64) {
        self.shared.state.lock().store.compact(revision);
    }

    /// Rolls everything back to an earlier revision, as a restored backup does: later writes never happened, their numbers are
    /// given out again, and all watches end.
    pub fn restore(&self, revision: u64) -> Result<(), Compacted> {
        let mut state = self.shared.state.lock();
        state.store.restore(revision)?;
        let State { store, catalog, .. } = &mut *state;
        catalog.refresh(store);
        Ok(())
    }

    /// Does what a real cluster's controller manager does for every kind: collects what has lost its owner, clears out
    /// namespaces that were deleted, and lets go of deleted volumes and claims that nobody uses. It goes on until it is dropped, and nothing of it happens where nobody asks for it.
    ///
    /// It acts on events only, so under a paused clock it takes no time but the five seconds that a deleted namespace is let be.
    pub async fn keep_house(&self) -> Infallible {
        let mut collector = Collector::default();
        let written = self.shared.state.lock().store.written();
        loop {
            let woken = written.notified();
            tokio::pin!(woken);
            // Listening has to begin before looking, or a write in between is missed.
            woken.as_mut().enable();
            let now = (self.shared.now)();
            let due = {
                let mut state = self.shared.state.lock();
                state.store.observed.act_alone();
                collector.collect(&mut state, now);
                release_unused(&mut state, now);
                let due = end_namespaces(&mut state, now);
                release_unused(&mut state, now);
                collector.collect(&mut state, now);
                due
            };
            let wait = due.and_then(|due| Duration::try_from(due.duration_since(now)).ok());
            match wait {
                None => woken.await,
                Some(wait) => drop(tokio::time::timeout(wait, woken).await),
            }
        }
    }

    /// Calls `observer` for everything that happens from now on. There is one at most.
    pub fn observe(&self, observer: Observer) {
        self.shared.state.lock().store.observed.set(observer);
    }

    /// How many watches are open.
    pub fn open_watches(&self) -> usize {
        self.shared.open_watches.load(Ordering::Relaxed)
    }

    /// How many requests of each sort were answered since the start or the last [`Server::forget_requests`].
    pub fn request_counts(&self) -> BTreeMap<Tally, u64> {
        self.shared.ledger.lock().counts()
    }

    /// The requests themselves, oldest first; the newest twenty thousand.
    pub fn requests(&self) -> Vec<Entry> {
        self.shared.ledger.lock().log()
    }

    /// Starts counting anew.
    pub fn forget_requests(&self) {
        self.shared.ledger.lock().clear();
    }

    /// Lets the bearer of a token in on the network face, as this user.
    pub fn grant(&self, token: impl Into<String>, user: impl Into<String>) {
        self.shared.tokens.lock().insert(token.into(), user.into());
    }

    /// Takes a grant back: from now on the token is answered with 401.
    pub fn revoke(&self, token: &str) {
        self.shared.tokens.lock().remove(token);
    }
}

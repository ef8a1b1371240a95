//! The pods of the nodes that are being drained, and of no other.
//!
//! Watching all pods of a cluster costs memory and traffic for every pod of every node, all the time, to serve the one node
//! that is being drained. So each drain has a list and a watch of its own, by the name of its node. That does not scale without
//! end either: each watch is a stream, and a roll of the whole cluster would open one per node. From a certain number on the next
//! drains share one watch of all pods, which stores only the pods of their nodes.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use api::view::PodView;
use parking_lot::Mutex;
use runtime::cache::{Cache, Index, Trust};
use runtime::queue::Queue;
use runtime::{Backoff, Exponential, Key};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::DropGuard;

use super::watch::{Held, OnDemand, Watcher};

/// Pods by the node they are bound to.
const PODS_BY_NODE: Index<PodView> = Index::new("pods-by-node", |pod| vec![pod.spec.node_name.to_string()]);

/// The waits after the pods of a node could not be read.
const WAITS: Exponential = Exponential::new(Duration::from_secs(1), Duration::from_secs(30));

/// The nodes that share a watch.
type Members = Arc<Mutex<BTreeMap<String, Member>>>;

/// A node that shares a watch.
struct Member {
    /// Whom its pods wake.
    machine: Key,
    /// Whether its pods are held yet; also tells this member from a later one of the same node.
    admitted: Arc<AtomicBool>,
}

/// Opens watches of the pods of a node.
pub(super) struct PodWatches {
    watcher: Watcher,
    queue: Queue<Key>,
    /// How many more drains may have a watch of their own.
    places: Arc<Semaphore>,
    members: Members,
    shared: OnDemand<PodView>,
}

/// A watch of the pods of one node; it ends when this is dropped.
pub(super) struct PodWatch {
    node: String,
    source: Source,
}

enum Source {
    Own { cache: Cache<PodView>, _watch: DropGuard, _place: OwnedSemaphorePermit },
    Shared { shared: Arc<Held<PodView>>, admitted: Arc<AtomicBool>, members: Members, _admission: DropGuard },
}

impl PodWatches {
    /// Watches that wake machines in this queue; at most `own` of them are a node's alone.
    pub(super) fn new(watcher: Watcher, queue: Queue<Key>, own: usize) -> Self {
        let members = Members::default();
        let shared = shared(&watcher, &queue, &members);
        Self { places: Arc::new(Semaphore::new(own)), watcher, queue, members, shared }
    }

    /// Begins to watch the pods of a node. The machine is woken when they have been read and whenever one of them changes.
    pub(super) fn open(&self, node: &str, machine: &Key) -> PodWatch {
        let source = match self.places.clone().try_acquire_owned() {
            Ok(place) => self.own(node, machine, place),
            Err(_) => self.join(node, machine),
        };
        PodWatch { node: node.to_owned(), source }
    }

    fn own(&self, node: &str, machine: &Key, place: OwnedSemaphorePermit) -> Source {
        let (cache, mut reflector) = Cache::<PodView>::builder().fields(of_node(node)).build();
        let (queue, key) = (self.queue.clone(), machine.clone());
        reflector.on_delta(move |_, _| queue.add(key.clone()));
        let (queue, key) = (self.queue.clone(), machine.clone());
        let watch = self.watcher.follow("pods of a node", (cache.clone(), reflector), move || queue.add(key));
        Source::Own { cache, _watch: watch, _place: place }
    }

    /// Joins the watch that many share. What it has not stored so far is read once.
    fn join(&self, node: &str, machine: &Key) -> Source {
        let shared = self.shared.hold();
        let admitted = Arc::new(AtomicBool::new(false));
        let member = Member { machine: machine.clone(), admitted: admitted.clone() };
        self.members.lock().insert(node.to_owned(), member);
        let stop = self.watcher.tasks.stopping().child_token();
        let guard = stop.clone().drop_guard();
        let (cache, watcher, queue) = (shared.cache.clone(), self.watcher.clone(), self.queue.clone());
        let (node, key, done) = (node.to_owned(), machine.clone(), admitted.clone());
        self.watcher.tasks.spawn("pods of one node more", async move {
            let admission = async {
                if admit(&cache, &watcher, &node).await {
                    done.store(true, Ordering::Release);
                    queue.add(key);
                }
            };
            tokio::select! {
                biased;
                () = stop.cancelled() => {}
                () = admission => {}
            }
        });
        Source::Shared { shared, admitted, members: self.members.clone(), _admission: guard }
    }
}

/// Reads the pods of the node and returns whether the cache holds them.
///
/// The node has a list of its own, also if the first list of the shared watch is still in progress. That list may have started before
/// the node was cordoned, and before its pods passed the filter.
async fn admit(cache: &Cache<PodView>, watcher: &Watcher, node: &str) -> bool {
    if cache.synced().await.is_err() {
        return false;
    }
    let mut backoff = Backoff::new(WAITS);
    while let Err(why) = cache.admit(&watcher.client, &of_node(node)).await {
        tracing::warn!(node, %why, "cannot see which pods are on the node; trying again");
        tokio::time::sleep(watcher.random.stretched(backoff.failed(), 0.5)).await;
    }
    true
}

fn shared(watcher: &Watcher, queue: &Queue<Key>, members: &Members) -> OnDemand<PodView> {
    let (queue, members) = (queue.clone(), members.clone());
    let declare = move || {
        let (queue, told, asked) = (queue.clone(), members.clone(), members.clone());
        Cache::<PodView>::builder()
            .index(PODS_BY_NODE)
            .keep(move |pod| asked.lock().contains_key(pod.spec.node_name.as_str()))
            .on_delta(move |_, delta| {
                let nodes = [delta.before(), delta.now()].into_iter().flatten().map(|pod| &pod.spec.node_name);
                let members = told.lock();
                nodes
                    .filter_map(|node| members.get(node.as_str()))
                    .for_each(|member| queue.add(member.machine.clone()));
            })
            .build()
    };
    OnDemand::new("pods of many nodes", watcher.clone(), declare, || ())
}

impl PodWatch {
    /// The pods on the node, once they have been read; nothing while the API server contradicts itself.
    pub(super) fn pods(&self) -> Option<Vec<Arc<PodView>>> {
        match &self.source {
            Source::Own { cache, .. } => sound(cache).then(|| cache.list()),
            Source::Shared { shared, admitted, .. } => (admitted.load(Ordering::Acquire) && sound(&shared.cache))
                .then(|| shared.cache.find(&PODS_BY_NODE, &self.node)),
        }
    }

    /// Pods that are there and cannot be read, as `namespace/name`. The shared watch cannot tell on which node they are.
    pub(super) fn unreadable(&self) -> Vec<String> {
        match &self.source {
            Source::Own { cache, .. } => cache.undecodable().iter().map(|object| object.key().to_string()).collect(),
            Source::Shared { .. } => Vec::new(),
        }
    }

    /// Takes the answer to a write of ours.
    pub(super) fn wrote(&self, pod: PodView) {
        self.cache().wrote(pod);
    }

    /// Takes note that a delete of ours removed this very pod.
    pub(super) fn deleted(&self, pod: &Key, uid: &str) {
        self.cache().deleted(pod, uid);
    }

    fn cache(&self) -> &Cache<PodView> {
        match &self.source {
            Source::Own { cache, .. } => cache,
            Source::Shared { shared, .. } => &shared.cache,
        }
    }
}

impl Drop for PodWatch {
    fn drop(&mut self) {
        let Source::Shared { shared, admitted, members, .. } = &self.source else { return };
        let is_this = |member: &Member| Arc::ptr_eq(&member.admitted, admitted);
        let mut all = members.lock();
        if all.get(&self.node).is_some_and(is_this) {
            all.remove(&self.node);
            drop(all);
            shared.cache.shed();
        }
    }
}

fn sound(cache: &Cache<PodView>) -> bool {
    cache.is_synced() && cache.trust() == Trust::Firm
}

fn of_node(node: &str) -> String {
    format!("spec.nodeName={node}")
}

#[cfg(test)]
mod tests;

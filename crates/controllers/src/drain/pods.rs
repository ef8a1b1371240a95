//! The pods of the Nodes that are being drained.
//!
//! A watch of all pods of a cluster costs memory and traffic for every pod of every Node. So each drain has its own
//! list and watch, limited to its Node by a field selector. Each watch is a stream, and a rollout of the whole cluster
//! would open one per Node. From a certain number on, further drains share one watch of all pods, which stores only the
//! pods of their Nodes.

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

/// Backoff after the pods of a Node could not be listed.
const WAITS: Exponential = Exponential::new(Duration::from_secs(1), Duration::from_secs(30));

/// The nodes that share a watch.
type Members = Arc<Mutex<BTreeMap<String, Member>>>;

/// A node that shares a watch.
struct Member {
    /// The Machine that its pods wake.
    machine: Key,
    /// Whether its pods are in the cache. It also identifies this member: the same Node may join again later.
    admitted: Arc<AtomicBool>,
}

/// Opens watches of the pods of Nodes.
pub(super) struct PodWatches {
    watcher: Watcher,
    queue: Queue<Key>,
    /// Limits the number of drains with a watch of their own.
    permits: Arc<Semaphore>,
    members: Members,
    shared: OnDemand<PodView>,
}

/// A watch of the pods of one Node. It ends when this is dropped.
pub(super) struct PodWatch {
    node: String,
    source: Source,
}

enum Source {
    Own { cache: Cache<PodView>, _watch: DropGuard, _permit: OwnedSemaphorePermit },
    Shared { shared: Arc<Held<PodView>>, admitted: Arc<AtomicBool>, members: Members, _admission: DropGuard },
}

impl PodWatches {
    /// Watches that wake Machines in this queue. At most `own` of them are not shared.
    pub(super) fn new(watcher: Watcher, queue: Queue<Key>, own: usize) -> Self {
        let members = Members::default();
        let shared = shared(&watcher, &queue, &members);
        Self { permits: Arc::new(Semaphore::new(own)), watcher, queue, members, shared }
    }

    /// Starts to watch the pods of a Node. The Machine is woken when they were listed, and whenever one of them
    /// changes.
    pub(super) fn open(&self, node: &str, machine: &Key) -> PodWatch {
        let source = match self.permits.clone().try_acquire_owned() {
            Ok(permit) => self.own(node, machine, permit),
            Err(_) => self.join(node, machine),
        };
        PodWatch { node: node.to_owned(), source }
    }

    fn own(&self, node: &str, machine: &Key, permit: OwnedSemaphorePermit) -> Source {
        let (cache, mut reflector) = Cache::<PodView>::builder().fields(of_node(node)).build();
        let (queue, key) = (self.queue.clone(), machine.clone());
        reflector.on_delta(move |_, _| queue.add(key.clone()));
        let (queue, key) = (self.queue.clone(), machine.clone());
        let watch = self.watcher.follow("pods of a node", (cache.clone(), reflector), move || queue.add(key));
        Source::Own { cache, _watch: watch, _permit: permit }
    }

    /// Joins the shared watch. The pods of the Node that are not in its cache are listed once.
    fn join(&self, node: &str, machine: &Key) -> Source {
        let shared = self.shared.hold();
        let admitted = Arc::new(AtomicBool::new(false));
        let member = Member { machine: machine.clone(), admitted: admitted.clone() };
        self.members.lock().insert(node.to_owned(), member);
        let stop = self.watcher.tasks.stopping().child_token();
        let guard = stop.clone().drop_guard();
        let (cache, watcher, queue) = (shared.cache.clone(), self.watcher.clone(), self.queue.clone());
        let (node, key, done) = (node.to_owned(), machine.clone(), admitted.clone());
        self.watcher.tasks.spawn("pods of a node in the shared watch", async move {
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

/// Lists the pods of the Node and returns whether the cache contains them.
///
/// The Node has its own list, also if the first list of the shared watch is still in progress. That list may have
/// started before the node was cordoned, and before its pods passed the filter.
async fn admit(cache: &Cache<PodView>, watcher: &Watcher, node: &str) -> bool {
    if cache.synced().await.is_err() {
        return false;
    }
    let mut backoff = Backoff::new(WAITS);
    while let Err(why) = cache.admit(&watcher.client, &of_node(node)).await {
        tracing::warn!(node, %why, "failed to list pods of the Node; retrying");
        tokio::time::sleep(watcher.random.stretched(backoff.failed(), 0.5)).await;
    }
    true
}

fn shared(watcher: &Watcher, queue: &Queue<Key>, members: &Members) -> OnDemand<PodView> {
    let (queue, members) = (queue.clone(), members.clone());
    let declare = move || {
        let (queue, members_to_wake, kept) = (queue.clone(), members.clone(), members.clone());
        Cache::<PodView>::builder()
            .index(PODS_BY_NODE)
            .keep(move |pod| kept.lock().contains_key(pod.spec.node_name.as_str()))
            .on_delta(move |_, delta| {
                let nodes = [delta.before(), delta.now()].into_iter().flatten().map(|pod| &pod.spec.node_name);
                let members = members_to_wake.lock();
                nodes
                    .filter_map(|node| members.get(node.as_str()))
                    .for_each(|member| queue.add(member.machine.clone()));
            })
            .build()
    };
    OnDemand::new("pods of many nodes", watcher.clone(), declare, || ())
}

impl PodWatch {
    /// Returns the pods on the Node, once they were listed. Returns `None` while the cache and the API server
    /// contradict each other.
    pub(super) fn pods(&self) -> Option<Vec<Arc<PodView>>> {
        match &self.source {
            Source::Own { cache, .. } => is_reliable(cache).then(|| cache.list()),
            Source::Shared { shared, admitted, .. } => (admitted.load(Ordering::Acquire) && is_reliable(&shared.cache))
                .then(|| shared.cache.find(&PODS_BY_NODE, &self.node)),
        }
    }

    /// Returns the pods that cannot be decoded, as `namespace/name`. For the shared watch their Node is unknown, so
    /// there are none.
    pub(super) fn unreadable(&self) -> Vec<String> {
        match &self.source {
            Source::Own { cache, .. } => cache.undecodable().iter().map(|object| object.key().to_string()).collect(),
            Source::Shared { .. } => Vec::new(),
        }
    }

    /// Applies the response to a write to the cache.
    pub(super) fn wrote(&self, pod: PodView) {
        self.cache().wrote(pod);
    }

    /// Removes this very pod from the cache, after a delete request.
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

fn is_reliable(cache: &Cache<PodView>) -> bool {
    cache.is_synced() && cache.trust() == Trust::Firm
}

fn of_node(node: &str) -> String {
    format!("spec.nodeName={node}")
}

#[cfg(test)]
mod tests;

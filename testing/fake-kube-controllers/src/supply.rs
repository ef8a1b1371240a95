//! The input of the parts, and which changes wake them.
//!
//! Every kind has a cache, but only kinds that a part reads are listed and watched: a test with only the scheduler must
//! not need StatefulSets on its server.

use std::time::Duration;

use k8s_openapi::api::apps::v1::{DaemonSet, Deployment, ReplicaSet, StatefulSet};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Node, PersistentVolume, PersistentVolumeClaim, Pod};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::storage::v1::{StorageClass, VolumeAttachment};
use kube::Client;
use runtime::cache::{Cache, CacheBuilder, Cached, Caches, Delta, Reflector};
use runtime::{Clock, Key, Queue, Random, Tasks};

use crate::context::Views;
use crate::{node, pod, workload};

/// Where nodes keep their leases.
const LEASE_NAMESPACE: &str = "kube-node-lease";

/// How long a watch lasts, as client-go's informers ask for it: at least this long, and less than twice as long.
const WATCH_AT_LEAST: Duration = Duration::from_mins(5);

/// A cache as the real programs have it.
fn informer<K: Cached>() -> CacheBuilder<K> {
    Cache::builder().with(|settings| {
        settings.watch_at_least = WATCH_AT_LEAST;
        settings.watch_at_most = 2 * WATCH_AT_LEAST;
    })
}

/// One kind: its cache, its feed, and whether a part reads it.
pub(crate) struct Supply<K: Cached> {
    name: &'static str,
    cache: Cache<K>,
    feed: Reflector<K>,
    demand: Demand,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Demand {
    Nobody,
    Somebody,
}

impl<K: Cached> Supply<K> {
    fn new(name: &'static str, (cache, feed): (Cache<K>, Reflector<K>)) -> Self {
        Self { name, cache, feed, demand: Demand::Nobody }
    }

    /// This kind is read.
    pub(crate) fn read(&mut self) {
        self.demand = Demand::Somebody;
    }

    /// Marks this kind as read and calls the handler for its changes.
    pub(crate) fn tell(&mut self, handler: impl Fn(&Key, &Delta<K>) + Send + Sync + 'static) {
        self.read();
        self.feed.on_delta(handler);
    }

    /// This kind is read, and whatever changes is looked at.
    pub(crate) fn wake_itself(&mut self, queue: &Queue<Key>) {
        let queue = queue.clone();
        self.tell(move |key, _| queue.add(key.clone()));
    }

    fn start(self, source: &Source<'_>, caches: &mut Caches) {
        if self.demand == Demand::Somebody {
            caches.add(&self.cache);
            let (clock, random) = (source.clock.clone(), source.random.fork());
            let stop = source.tasks.stopping();
            source.tasks.spawn(self.name, self.feed.run(source.client.clone(), clock, random, stop));
        }
    }
}

/// Where supplies come from.
pub(crate) struct Source<'a> {
    pub(crate) client: &'a Client,
    pub(crate) clock: &'a Clock,
    pub(crate) random: &'a Random,
    pub(crate) tasks: &'a Tasks,
}

/// All kinds.
pub(crate) struct Supplies {
    pub(crate) pods: Supply<Pod>,
    pub(crate) nodes: Supply<Node>,
    pub(crate) leases: Supply<Lease>,
    pub(crate) replica_sets: Supply<ReplicaSet>,
    pub(crate) stateful_sets: Supply<StatefulSet>,
    pub(crate) deployments: Supply<Deployment>,
    pub(crate) daemon_sets: Supply<DaemonSet>,
    pub(crate) budgets: Supply<PodDisruptionBudget>,
    pub(crate) claims: Supply<PersistentVolumeClaim>,
    pub(crate) volumes: Supply<PersistentVolume>,
    pub(crate) classes: Supply<StorageClass>,
    pub(crate) attachments: Supply<VolumeAttachment>,
}

impl Supplies {
    pub(crate) fn new() -> Self {
        let pods = informer().index(pod::BY_NODE).index(pod::BY_CONTROLLER).index(pod::BY_CLAIM);
        Self {
            pods: Supply::new("pods", pods.build()),
            nodes: Supply::new("nodes", informer().ignore_updates(node::differ_in_heartbeats_only).build()),
            leases: Supply::new("leases", informer().namespace(LEASE_NAMESPACE).build()),
            replica_sets: Supply::new("replicasets", informer().index(workload::SETS_BY_CONTROLLER).build()),
            stateful_sets: Supply::new("statefulsets", informer().build()),
            deployments: Supply::new("deployments", informer().build()),
            daemon_sets: Supply::new("daemonsets", informer().build()),
            budgets: Supply::new("poddisruptionbudgets", informer().build()),
            claims: Supply::new("persistentvolumeclaims", informer().build()),
            volumes: Supply::new("persistentvolumes", informer().build()),
            classes: Supply::new("storageclasses", informer().build()),
            attachments: Supply::new("volumeattachments", informer().build()),
        }
    }

    /// The caches, to be read by all parts.
    pub(crate) fn views(&self) -> Views {
        Views {
            pods: self.pods.cache.clone(),
            nodes: self.nodes.cache.clone(),
            leases: self.leases.cache.clone(),
            replica_sets: self.replica_sets.cache.clone(),
            stateful_sets: self.stateful_sets.cache.clone(),
            deployments: self.deployments.cache.clone(),
            daemon_sets: self.daemon_sets.cache.clone(),
            budgets: self.budgets.cache.clone(),
            claims: self.claims.cache.clone(),
            volumes: self.volumes.cache.clone(),
            classes: self.classes.cache.clone(),
            attachments: self.attachments.cache.clone(),
        }
    }

    /// Lists and watches what is read; the gate that opens once all of it is there.
    pub(crate) fn start(self, source: &Source<'_>) -> Caches {
        let mut caches = Caches::new();
        self.pods.start(source, &mut caches);
        self.nodes.start(source, &mut caches);
        self.leases.start(source, &mut caches);
        self.replica_sets.start(source, &mut caches);
        self.stateful_sets.start(source, &mut caches);
        self.deployments.start(source, &mut caches);
        self.daemon_sets.start(source, &mut caches);
        self.budgets.start(source, &mut caches);
        self.claims.start(source, &mut caches);
        self.volumes.start(source, &mut caches);
        self.classes.start(source, &mut caches);
        self.attachments.start(source, &mut caches);
        caches
    }
}

//! What every part stands on: the caches, the client, the time.

use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{DaemonSet, Deployment, ReplicaSet, StatefulSet};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Node, PersistentVolume, PersistentVolumeClaim, Pod};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::storage::v1::{StorageClass, VolumeAttachment};
use kube::Client;
use runtime::cache::Cache;
use runtime::{Clock, Key, Outcome, Queue};

use crate::Policy;
use crate::supply::Supplies;
use crate::write::WriteError;

/// All caches.
pub(crate) struct Views {
    pub(crate) pods: Cache<Pod>,
    pub(crate) nodes: Cache<Node>,
    pub(crate) leases: Cache<Lease>,
    pub(crate) replica_sets: Cache<ReplicaSet>,
    pub(crate) stateful_sets: Cache<StatefulSet>,
    pub(crate) deployments: Cache<Deployment>,
    pub(crate) daemon_sets: Cache<DaemonSet>,
    pub(crate) budgets: Cache<PodDisruptionBudget>,
    pub(crate) claims: Cache<PersistentVolumeClaim>,
    pub(crate) volumes: Cache<PersistentVolume>,
    pub(crate) classes: Cache<StorageClass>,
    pub(crate) attachments: Cache<VolumeAttachment>,
}

/// What every part stands on.
#[derive(Clone)]
pub(crate) struct ControllerContext {
    pub(crate) client: Client,
    pub(crate) clock: Clock,
    pub(crate) policy: Policy,
    pub(crate) views: Arc<Views>,
}

impl ControllerContext {
    pub(crate) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    pub(crate) fn node(&self, name: &str) -> Option<Arc<Node>> {
        self.views.nodes.get(&Key::cluster(name))
    }
}

/// A controller: what wakes it for which key, and what it does with one.
pub(crate) trait Duty: Send + Sync + 'static {
    /// Its name in logs and metrics.
    const NAME: &'static str;
    /// Maximum number of concurrently processed keys.
    const HANDS: usize = 4;

    /// Declares what it reads and what wakes it.
    fn wire(&self, supplies: &mut Supplies, queue: &Queue<Key>);

    /// Looks at one key.
    fn reconcile(&self, key: Key) -> impl Future<Output = Result<Outcome, WriteError>> + Send;
}

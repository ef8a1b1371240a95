//! The drains in progress, and what wakes them.
//!
//! | change | woken drains |
//! | --- | --- |
//! | a pod | the drain of its Node (`pods`) |
//! | a PodDisruptionBudget whose allowed disruptions or misconfiguration change | the drains of the Nodes with pods that it covers |
//! | a VolumeAttachment | the drain of its Node, and the drains that wait for its volume |
//! | the first list of budgets or attachments | all drains |
//! | the response to a request | its drain (`eviction_tasks`) |

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, OnceLock};

use api::view::{PodDisruptionBudgetView, PodView, VolumeAttachmentView};
use api::{Object, Uid};
use jiff::Timestamp;
use parking_lot::Mutex;
use planner::drain::{Found, Memory, Note};
use planner::machine::{Barrier, BarrierFailure};
use runtime::Key;
use runtime::cache::{Cache, Delta};
use runtime::queue::Queue;
use tokio_util::sync::CancellationToken;

use super::pods::PodWatch;
use super::watch::Held;

/// Everything that one drain owns.
pub(super) struct Drain {
    uid: Uid,
    /// When it began in this process.
    pub(super) begun: Timestamp,
    node: OnceLock<String>,
    pods: OnceLock<PodWatch>,
    budgets_and_attachments: OnceLock<BudgetsAndAttachments>,
    memory: Mutex<Memory>,
    barrier_failure: Mutex<Option<BarrierFailure>>,
    /// Number of drains before it, while it waits for the concurrency limit.
    ahead: Mutex<Option<usize>>,
    /// The volumes that it may wait for.
    volumes: Mutex<BTreeSet<String>>,
    stop: CancellationToken,
}

type BudgetsAndAttachments = (Arc<Held<PodDisruptionBudgetView>>, Arc<Held<VolumeAttachmentView>>);

impl Drain {
    fn new(uid: Uid, begun: Timestamp) -> Self {
        Self {
            uid,
            begun,
            node: OnceLock::new(),
            pods: OnceLock::new(),
            budgets_and_attachments: OnceLock::new(),
            memory: Mutex::default(),
            barrier_failure: Mutex::default(),
            ahead: Mutex::default(),
            volumes: Mutex::default(),
            stop: CancellationToken::new(),
        }
    }

    pub(super) fn watch_pods(&self, node: &str, open: impl FnOnce() -> PodWatch) {
        self.node.get_or_init(|| node.to_owned());
        *self.ahead.lock() = None;
        self.pods.get_or_init(open);
    }

    pub(super) fn node(&self) -> Option<&str> {
        self.node.get().map(String::as_str)
    }

    pub(super) fn wait_in_queue(&self, ahead: usize) {
        *self.ahead.lock() = Some(ahead);
    }

    pub(super) fn ahead(&self) -> Option<usize> {
        *self.ahead.lock()
    }

    pub(super) fn watch_budgets_and_attachments(&self, node: &str, open: impl FnOnce() -> BudgetsAndAttachments) {
        self.node.get_or_init(|| node.to_owned());
        self.budgets_and_attachments.get_or_init(open);
    }

    /// Returns the pods of the Node, once they were listed, and the names of those that cannot be decoded.
    pub(super) fn pods(&self) -> Option<(Vec<Arc<PodView>>, Vec<String>)> {
        let watch = self.pods.get()?;
        Some((watch.pods()?, watch.unreadable()))
    }

    /// Applies the response to a deletion to the cache. `left` is the pod, if it still exists.
    pub(super) fn deleted(&self, pod: &Key, uid: &str, left: Option<PodView>) {
        match (self.pods.get(), left) {
            (None, _) => {}
            (Some(watch), Some(left)) => watch.wrote(left),
            (Some(watch), None) => watch.deleted(pod, uid),
        }
    }

    pub(super) fn budgets(&self) -> Option<&Cache<PodDisruptionBudgetView>> {
        self.budgets_and_attachments.get().map(|(budgets, _)| &budgets.cache)
    }

    pub(super) fn attachments(&self) -> Option<&Cache<VolumeAttachmentView>> {
        self.budgets_and_attachments.get().map(|(_, attachments)| &attachments.cache)
    }

    pub(super) fn memory(&self) -> Memory {
        self.memory.lock().clone()
    }

    pub(super) fn note(&self, notes: impl IntoIterator<Item = Note>) {
        let notes: Vec<Note> = notes.into_iter().collect();
        for note in &notes {
            if let Note::ClaimFound { volume: Found::Known(Some(volume)), .. } = note {
                self.volumes.lock().insert(volume.to_string());
            }
        }
        self.memory.lock().take(notes);
    }

    pub(super) fn barrier_failure(&self) -> Option<BarrierFailure> {
        self.barrier_failure.lock().clone()
    }

    pub(super) fn set_barrier_failure(&self, node: &str, barrier: Barrier, failure: Option<String>, now: Timestamp) {
        self.node.get_or_init(|| node.to_owned());
        let mut known = self.barrier_failure.lock();
        match failure {
            Some(why) => *known = Some(BarrierFailure::after(known.as_ref(), barrier, why, now)),
            None if known.as_ref().is_some_and(|known| known.barrier == barrier) => *known = None,
            None => {}
        }
    }

    /// Returns a token that is canceled when the drain ends.
    pub(super) fn stopping(&self) -> CancellationToken {
        self.stop.clone()
    }

    fn is_covered_by(&self, budget: &PodDisruptionBudgetView) -> bool {
        let Some(selector) = &budget.spec.selector else { return false };
        let pods = self.pods().map(|(pods, _)| pods).unwrap_or_default();
        pods.iter()
            .any(|pod| pod.namespace() == budget.namespace() && selector.matches(&pod.metadata.labels).unwrap_or(false))
    }

    fn waits_for(&self, attachment: &VolumeAttachmentView) -> bool {
        let here = self.node.get().is_some_and(|node| attachment.spec.node_name == **node);
        let volume = attachment.spec.source.persistent_volume_name.as_deref();
        here || volume.is_some_and(|volume| self.volumes.lock().contains(volume))
    }
}

impl Drop for Drain {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

/// The drains in progress, by Machine. Clones share all state.
#[derive(Clone)]
pub(super) struct Running {
    drains: Arc<Mutex<BTreeMap<Key, Arc<Drain>>>>,
    queue: Queue<Key>,
}

impl Running {
    pub(super) fn new(queue: Queue<Key>) -> Self {
        Self { drains: Arc::default(), queue }
    }

    /// Returns the drain of this very Machine.
    pub(super) fn of(&self, key: &Key, uid: &Uid) -> Option<Arc<Drain>> {
        self.drains.lock().get(key).filter(|drain| drain.uid == *uid).cloned()
    }

    /// Returns the drain of this very Machine, and begins it if necessary. The drain of an earlier Machine of the same
    /// name ends.
    pub(super) fn begin(&self, key: &Key, uid: &Uid, now: Timestamp) -> Arc<Drain> {
        let mut drains = self.drains.lock();
        let drain = match drains.get(key) {
            Some(drain) if drain.uid == *uid => return drain.clone(),
            _ => Arc::new(Drain::new(uid.clone(), now)),
        };
        let earlier = drains.insert(key.clone(), drain.clone());
        drop(drains);
        drop(earlier);
        drain
    }

    /// Ends a drain. It is dropped outside of the lock, because watches have locks of their own.
    pub(super) fn end(&self, key: &Key) {
        let ended = self.drains.lock().remove(key);
        drop(ended);
    }

    pub(super) fn len(&self) -> usize {
        self.drains.lock().len()
    }

    /// Returns all drains, in the order of their keys.
    pub(super) fn all(&self) -> Vec<(Key, Arc<Drain>)> {
        self.drains.lock().iter().map(|(key, drain)| (key.clone(), drain.clone())).collect()
    }

    pub(super) fn wake_all(&self) {
        self.wake_those(|_| true);
    }

    /// Wakes the drains of the pods that a budget covers, if its allowed disruptions or its misconfiguration changed.
    /// Most other changes are caused by evictions, and do not matter to a drain.
    pub(super) fn wake_by_budget(&self, delta: &Delta<PodDisruptionBudgetView>) {
        let relevant = |budget: &Arc<PodDisruptionBudgetView>| {
            (budget.status.disruptions_allowed.max(0), budget.is_misconfigured(), budget.generation())
        };
        if delta.before().map(relevant) == delta.now().map(relevant) {
            return;
        }
        let versions: Vec<_> = [delta.before(), delta.now()].into_iter().flatten().collect();
        self.wake_those(|drain| versions.iter().any(|budget| drain.is_covered_by(budget)));
    }

    pub(super) fn wake_by_attachment(&self, delta: &Delta<VolumeAttachmentView>) {
        let versions: Vec<_> = [delta.before(), delta.now()].into_iter().flatten().collect();
        self.wake_those(|drain| versions.iter().any(|attachment| drain.waits_for(attachment)));
    }

    fn wake_those(&self, affected: impl Fn(&Drain) -> bool) {
        for (key, drain) in self.all() {
            if affected(&drain) {
                self.queue.add(key);
            }
        }
    }
}

//! The drains that run, and what wakes them.
//!
//! | change | wakes the drains |
//! | --- | --- |
//! | a pod | of its node (`pods`) |
//! | a budget that opens, closes for good, or goes | of the nodes with pods it covers |
//! | a VolumeAttachment | of its node, and those that wait for its volume |
//! | the first list of budgets or attachments | all |
//! | the answer to a request | its own (`eviction tasks`) |

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, OnceLock};

use api::view::{PodDisruptionBudgetView, PodView, VolumeAttachmentView};
use api::{Object, Uid};
use jiff::Timestamp;
use parking_lot::Mutex;
use planner::drain::{Found, Memory, Note};
use planner::machine::{Barrier, Obstruction};
use runtime::Key;
use runtime::cache::{Cache, Delta};
use runtime::queue::Queue;
use tokio_util::sync::CancellationToken;

use super::pods::PodWatch;
use super::watch::Held;

/// All that one drain holds; gone when it is dropped.
pub(super) struct Drain {
    uid: Uid,
    /// When it began, in this process.
    pub(super) begun: Timestamp,
    node: OnceLock<String>,
    pods: OnceLock<PodWatch>,
    surroundings: OnceLock<Surroundings>,
    memory: Mutex<Memory>,
    obstruction: Mutex<Option<Obstruction>>,
    /// How many go before it, while it waits for its turn.
    ahead: Mutex<Option<usize>>,
    /// The volumes it may be waiting for.
    volumes: Mutex<BTreeSet<String>>,
    stop: CancellationToken,
}

type Surroundings = (Arc<Held<PodDisruptionBudgetView>>, Arc<Held<VolumeAttachmentView>>);

impl Drain {
    fn new(uid: Uid, begun: Timestamp) -> Self {
        Self {
            uid,
            begun,
            node: OnceLock::new(),
            pods: OnceLock::new(),
            surroundings: OnceLock::new(),
            memory: Mutex::default(),
            obstruction: Mutex::default(),
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

    pub(super) fn wait_for_turn(&self, ahead: usize) {
        *self.ahead.lock() = Some(ahead);
    }

    pub(super) fn ahead(&self) -> Option<usize> {
        *self.ahead.lock()
    }

    pub(super) fn watch_surroundings(&self, node: &str, open: impl FnOnce() -> Surroundings) {
        self.node.get_or_init(|| node.to_owned());
        self.surroundings.get_or_init(open);
    }

    /// The pods of the node, once they have been read, and the names of those that cannot be.
    pub(super) fn pods(&self) -> Option<(Vec<Arc<PodView>>, Vec<String>)> {
        let watch = self.pods.get()?;
        Some((watch.pods()?, watch.unreadable()))
    }

    /// Takes the answer to a deletion of ours: what is left of the pod, if anything is.
    pub(super) fn deleted(&self, pod: &Key, uid: &str, left: Option<PodView>) {
        match (self.pods.get(), left) {
            (None, _) => {}
            (Some(watch), Some(left)) => watch.wrote(left),
            (Some(watch), None) => watch.deleted(pod, uid),
        }
    }

    pub(super) fn budgets(&self) -> Option<&Cache<PodDisruptionBudgetView>> {
        self.surroundings.get().map(|(budgets, _)| &budgets.cache)
    }

    pub(super) fn attachments(&self) -> Option<&Cache<VolumeAttachmentView>> {
        self.surroundings.get().map(|(_, attachments)| &attachments.cache)
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

    pub(super) fn obstruction(&self) -> Option<Obstruction> {
        self.obstruction.lock().clone()
    }

    pub(super) fn obstruct(&self, node: &str, part: Barrier, obstacle: Option<String>, now: Timestamp) {
        self.node.get_or_init(|| node.to_owned());
        let mut known = self.obstruction.lock();
        match obstacle {
            Some(why) => *known = Some(Obstruction::after(known.as_ref(), part, why, now)),
            None if known.as_ref().is_some_and(|known| known.part == part) => *known = None,
            None => {}
        }
    }

    /// Cancelled when the drain is over.
    pub(super) fn stopping(&self) -> CancellationToken {
        self.stop.clone()
    }

    fn is_covered_by(&self, budget: &PodDisruptionBudgetView) -> bool {
        let Some(selector) = &budget.spec.selector else { return false };
        let pods = self.pods().map(|(pods, _)| pods).unwrap_or_default();
        pods.iter()
            .any(|pod| pod.namespace() == budget.namespace() && selector.matches(&pod.metadata.labels).unwrap_or(false))
    }

    fn awaits(&self, attachment: &VolumeAttachmentView) -> bool {
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

/// The drains that run, by machine. Clones are the same.
#[derive(Clone)]
pub(super) struct Running {
    drains: Arc<Mutex<BTreeMap<Key, Arc<Drain>>>>,
    queue: Queue<Key>,
}

impl Running {
    pub(super) fn new(queue: Queue<Key>) -> Self {
        Self { drains: Arc::default(), queue }
    }

    /// The drain of this very machine.
    pub(super) fn of(&self, key: &Key, uid: &Uid) -> Option<Arc<Drain>> {
        self.drains.lock().get(key).filter(|drain| drain.uid == *uid).cloned()
    }

    /// The drain of this very machine, which begins now if it does not run. One of an earlier machine of that name ends.
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

    /// Ends a drain. What it holds is let go of outside of the lock: watches have locks of their own.
    pub(super) fn end(&self, key: &Key) {
        let ended = self.drains.lock().remove(key);
        drop(ended);
    }

    pub(super) fn len(&self) -> usize {
        self.drains.lock().len()
    }

    /// All of them, in the order of their keys.
    pub(super) fn all(&self) -> Vec<(Key, Arc<Drain>)> {
        self.drains.lock().iter().map(|(key, drain)| (key.clone(), drain.clone())).collect()
    }

    pub(super) fn wake_all(&self) {
        self.wake_those(|_| true);
    }

    /// A budget wakes drains when it lets somebody go or shows that it never will. Every eviction changes a budget; most of those
    /// changes are nobody's news.
    pub(super) fn wake_by_budget(&self, delta: &Delta<PodDisruptionBudgetView>) {
        let gist = |budget: &Arc<PodDisruptionBudgetView>| {
            (budget.status.disruptions_allowed.max(0), budget.is_misconfigured(), budget.generation())
        };
        if delta.before().map(gist) == delta.now().map(gist) {
            return;
        }
        let sides: Vec<_> = [delta.before(), delta.now()].into_iter().flatten().collect();
        self.wake_those(|drain| sides.iter().any(|budget| drain.is_covered_by(budget)));
    }

    pub(super) fn wake_by_attachment(&self, delta: &Delta<VolumeAttachmentView>) {
        let sides: Vec<_> = [delta.before(), delta.now()].into_iter().flatten().collect();
        self.wake_those(|drain| sides.iter().any(|attachment| drain.awaits(attachment)));
    }

    fn wake_those(&self, concerned: impl Fn(&Drain) -> bool) {
        for (key, drain) in self.all() {
            if concerned(&drain) {
                self.queue.add(key);
            }
        }
    }
}

//! Limits the number of concurrent drains.
//!
//! A drain requests admission in every reconcile until it is admitted. All drains are evaluated together under one
//! lock, so that two workers cannot use the same capacity. A drain that ends wakes those that wait.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use planner::drain::concurrency::{Admission, Candidate, Caps, QueueState, admissions};
use runtime::Key;
use runtime::queue::Queue;

/// The drains that run or wait. Clones share all state.
#[derive(Clone)]
pub(super) struct ConcurrencyLimit {
    caps: Caps,
    drains: Arc<Mutex<BTreeMap<Key, DrainEntry>>>,
    queue: Queue<Key>,
}

struct DrainEntry {
    deployment: Option<String>,
    standing: QueueState,
}

impl ConcurrencyLimit {
    pub(super) fn new(caps: Caps, queue: Queue<Key>) -> Self {
        Self { caps, drains: Arc::default(), queue }
    }

    /// Returns whether this Machine's drain may begin. A drain that has begun is always admitted.
    pub(super) fn admit(&self, machine: &Key, deployment: Option<&str>, standing: QueueState) -> Admission {
        if self.caps == Caps::default() {
            return Admission::Now;
        }
        let mut drains = self.drains.lock();
        let running = drains.get(machine).is_some_and(|drain| drain.standing == QueueState::Running);
        if !running {
            drains.insert(machine.clone(), DrainEntry { deployment: deployment.map(str::to_owned), standing });
        }
        let names: BTreeMap<String, &DrainEntry> = drains.iter().map(|(key, drain)| (key.to_string(), drain)).collect();
        let contenders = names
            .iter()
            .map(|(name, drain)| {
                let deployment = drain.deployment.as_deref();
                (name.as_str(), Candidate { deployment, state: drain.standing })
            })
            .collect();
        let admission =
            admissions(&contenders, self.caps).get(machine.to_string().as_str()).copied().unwrap_or(Admission::Now);
        if let (Admission::Now, Some(drain)) = (admission, drains.get_mut(machine)) {
            drain.standing = QueueState::Running;
        }
        admission
    }

    /// Removes the drain of this Machine, and wakes those that wait.
    pub(super) fn release(&self, machine: &Key) {
        let mut drains = self.drains.lock();
        if drains.remove(machine).is_some_and(|drain| drain.standing == QueueState::Running) {
            for key in drains.iter().filter(|(_, drain)| drain.standing != QueueState::Running).map(|(key, _)| key) {
                self.queue.add(key.clone());
            }
        }
    }
}

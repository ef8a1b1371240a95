//! Locks that allow one replacement decision per MachineDeployment at a time.
//!
//! Whether one more Machine of a MachineDeployment may be marked Failed depends on the number of the others, so two Machines must not
//! decide concurrently. No worker waits for a lock: a Machine that finds it held leaves its key, and the release requeues these keys.
//! A lock exists only while it is held.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use parking_lot::Mutex;
use runtime::Key;
use runtime::queue::Queue;

/// Replacement locks of one cluster. Clones share the locks.
#[derive(Clone)]
pub struct ReplacementLocks {
    held: Arc<Mutex<BTreeMap<String, Held>>>,
    queue: Queue<Key>,
}

struct Held {
    by: Key,
    waiting: BTreeSet<Key>,
}

/// Lock of one MachineDeployment. It is released when it is dropped.
pub struct ReplacementLock {
    deployment: String,
    replacement_locks: ReplacementLocks,
    end: End,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Release,
    Keep,
}

impl ReplacementLocks {
    /// Creates the locks. Waiting keys are added to `queue` when a lock is released.
    pub fn new(queue: Queue<Key>) -> Self {
        Self { held: Arc::default(), queue }
    }

    /// Returns the lock of a MachineDeployment, also if `key` has [kept](ReplacementLock::keep) it. If another key holds the lock, `key`
    /// is queued when it is released.
    #[must_use]
    pub fn claim(&self, deployment: &str, key: &Key) -> Option<ReplacementLock> {
        let mut held = self.held.lock();
        let entry =
            held.entry(deployment.to_owned()).or_insert_with(|| Held { by: key.clone(), waiting: BTreeSet::new() });
        if entry.by != *key {
            entry.waiting.insert(key.clone());
            return None;
        }
        Some(ReplacementLock { deployment: deployment.to_owned(), replacement_locks: self.clone(), end: End::Release })
    }

    /// Releases the locks that `key` has kept.
    pub fn release_kept(&self, key: &Key) {
        let kept: Vec<String> = {
            let held = self.held.lock();
            held.iter().filter(|(_, held)| held.by == *key).map(|(deployment, _)| deployment.clone()).collect()
        };
        for deployment in kept {
            self.release(&deployment);
        }
    }

    fn release(&self, deployment: &str) {
        let done = self.held.lock().remove(deployment);
        for key in done.into_iter().flat_map(|held| held.waiting) {
            self.queue.add(key);
        }
    }
}

impl ReplacementLock {
    /// Keeps the lock after this reconcile: the result of the write is unknown, and until the cache shows it, no other Machine may decide.
    /// The next reconcile of the holder claims the lock again or [releases](ReplacementLocks::release_kept) it.
    pub fn keep(mut self) {
        self.end = End::Keep;
    }
}

impl Drop for ReplacementLock {
    fn drop(&mut self) {
        if self.end == End::Release {
            self.replacement_locks.release(&self.deployment);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use runtime::queue::RetryPolicy;
    use runtime::{Metrics, Random};

    fn replacement_locks() -> ReplacementLocks {
        let metrics = Metrics::new().unwrap();
        ReplacementLocks::new(Queue::new("test", RetryPolicy::default(), &metrics, &Random::seeded(1)))
    }

    /// Shows MC-W58, MC-W59.
    #[test]
    fn waiting_keys_are_queued_when_the_lock_is_released() {
        let replacement_locks = replacement_locks();
        let (a, b) = (Key::new("ns", "a"), Key::new("ns", "b"));
        let held = replacement_locks.claim("pool", &a);
        assert!(held.is_some());
        assert!(replacement_locks.claim("pool", &b).is_none() && replacement_locks.claim("pool", &b).is_none());
        assert!(replacement_locks.claim("other", &b).is_some(), "another MachineDeployment has its own lock");
        assert!(replacement_locks.queue.is_empty(), "no key is queued while the lock is held");
        drop(held);
        assert_eq!(replacement_locks.queue.len(), 1);
        assert!(replacement_locks.held.lock().is_empty(), "a released lock is removed");
        assert!(replacement_locks.claim("pool", &b).is_some());
    }

    /// Shows MC-W58.
    #[test]
    fn kept_lock_is_held_until_its_holder_releases_it() {
        let replacement_locks = replacement_locks();
        let (a, b) = (Key::new("ns", "a"), Key::new("ns", "b"));
        replacement_locks.claim("pool", &a).unwrap().keep();
        assert!(replacement_locks.claim("pool", &b).is_none(), "the lock is kept");
        replacement_locks.claim("pool", &a).expect("the holder claims it again").keep();
        assert!(replacement_locks.queue.is_empty());
        replacement_locks.release_kept(&b);
        assert!(replacement_locks.claim("pool", &b).is_none(), "another key cannot release it");
        replacement_locks.release_kept(&a);
        assert_eq!(replacement_locks.queue.len(), 1);
        assert!(replacement_locks.claim("pool", &b).is_some());
    }

    /// Shows MC-W58.
    #[test]
    fn lock_is_released_when_its_holder_panics() {
        let replacement_locks = replacement_locks();
        let key = Key::new("ns", "a");
        let held = replacement_locks.claim("pool", &key);
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(move || {
            let _held = held;
            panic!("expected by the test");
        }));
        assert!(panicked.is_err());
        assert!(replacement_locks.claim("pool", &key).is_some());
    }
}

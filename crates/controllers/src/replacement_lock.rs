//! Who decides for a whole deployment.
//!
//! Whether one more machine of a deployment may be marked Failed is judged by counting the others, so no two may judge and act at the
//! same time. Nobody waits for a lock with a worker in hand: who finds it taken leaves its key, and the holder, when it is done
//! in whatever way, puts the keys it finds back into the queue. A lock exists only while it is held, so there is nothing to
//! tidy up.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use parking_lot::Mutex;
use runtime::Key;
use runtime::queue::Queue;

/// The replacement locks of one cluster. Clones are the same.
#[derive(Clone)]
pub struct ReplacementLocks {
    held: Arc<Mutex<BTreeMap<String, Held>>>,
    queue: Queue<Key>,
}

struct Held {
    by: Key,
    waiting: BTreeSet<Key>,
}

/// The right to decide for one deployment, until it is dropped.
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
    /// None is held. Whoever has to wait comes back through `queue`.
    pub fn new(queue: Queue<Key>) -> Self {
        Self { held: Arc::default(), queue }
    }

    /// The lock for a deployment, also if `key` has [kept](ReplacementLock::keep) it; if somebody else has it, `key` is queued when that
    /// one is done.
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

    /// Gives back what `key` has kept, if anything: it is now known what became of it.
    pub fn settle(&self, key: &Key) {
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
    /// Leaves the lock with its holder beyond this reconcile: what the API server made of its write is not known, and until the
    /// cache shows it nobody else may count. The holder's next reconcile claims it again or [settles](ReplacementLocks::settle) it.
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
    fn one_holds_it_and_the_others_come_back_when_it_is_done() {
        let replacement_locks = replacement_locks();
        let (a, b) = (Key::new("ns", "a"), Key::new("ns", "b"));
        let held = replacement_locks.claim("pool", &a);
        assert!(held.is_some());
        assert!(replacement_locks.claim("pool", &b).is_none() && replacement_locks.claim("pool", &b).is_none());
        assert!(replacement_locks.claim("other", &b).is_some(), "another deployment is another matter");
        assert!(replacement_locks.queue.is_empty(), "nobody comes back while it is held");
        drop(held);
        assert_eq!(replacement_locks.queue.len(), 1);
        assert!(replacement_locks.held.lock().is_empty(), "and nothing is left of it");
        assert!(replacement_locks.claim("pool", &b).is_some());
    }

    /// Shows MC-W58.
    #[test]
    fn one_who_does_not_know_what_became_of_its_write_keeps_it_until_it_does() {
        let replacement_locks = replacement_locks();
        let (a, b) = (Key::new("ns", "a"), Key::new("ns", "b"));
        replacement_locks.claim("pool", &a).unwrap().keep();
        assert!(replacement_locks.claim("pool", &b).is_none(), "nobody may count while that is open");
        replacement_locks.claim("pool", &a).expect("it comes back to its holder").keep();
        assert!(replacement_locks.queue.is_empty());
        replacement_locks.settle(&b);
        assert!(replacement_locks.claim("pool", &b).is_none(), "nobody settles for somebody else");
        replacement_locks.settle(&a);
        assert_eq!(replacement_locks.queue.len(), 1);
        assert!(replacement_locks.claim("pool", &b).is_some());
    }

    /// Shows MC-W58.
    #[test]
    fn a_holder_that_panics_gives_it_back() {
        let replacement_locks = replacement_locks();
        let key = Key::new("ns", "a");
        let held = replacement_locks.claim("pool", &key);
        let fell = std::panic::catch_unwind(std::panic::AssertUnwindSafe(move || {
            let _held = held;
            panic!("on purpose");
        }));
        assert!(fell.is_err());
        assert!(replacement_locks.claim("pool", &key).is_some());
    }
}

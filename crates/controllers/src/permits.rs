//! Who decides for a whole deployment.
//!
//! Whether one more machine of a deployment may be given up is judged by counting the others, so no two may judge and act at the
//! same time. Nobody waits for a permit with a worker in hand: who finds it taken leaves its key, and the holder, when it is done
//! in whatever way, puts the keys it finds back into the queue. A permit exists only while it is held, so there is nothing to
//! tidy up.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use parking_lot::Mutex;
use runtime::Key;
use runtime::queue::Queue;

/// The permits of one cluster. Clones are the same.
#[derive(Clone)]
pub struct Permits {
    held: Arc<Mutex<BTreeMap<String, BTreeSet<Key>>>>,
    queue: Queue<Key>,
}

/// The right to decide for one deployment, until it is dropped.
pub struct Permit {
    deployment: String,
    permits: Permits,
}

impl Permits {
    /// None is held. Whoever has to wait comes back through `queue`.
    pub fn new(queue: Queue<Key>) -> Self {
        Self { held: Arc::default(), queue }
    }

    /// The permit for a deployment; if somebody has it, `key` is queued when that one is done.
    #[must_use]
    pub fn claim(&self, deployment: &str, key: &Key) -> Option<Permit> {
        let mut held = self.held.lock();
        if let Some(waiting) = held.get_mut(deployment) {
            waiting.insert(key.clone());
            return None;
        }
        held.insert(deployment.to_owned(), BTreeSet::new());
        Some(Permit { deployment: deployment.to_owned(), permits: self.clone() })
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let waiting = self.permits.held.lock().remove(&self.deployment);
        for key in waiting.unwrap_or_default() {
            self.permits.queue.add(key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use runtime::queue::RetryPolicy;
    use runtime::{Metrics, Random};

    fn permits() -> Permits {
        let metrics = Metrics::new().unwrap();
        Permits::new(Queue::new("test", RetryPolicy::default(), &metrics, &Random::seeded(1)))
    }

    #[test]
    fn one_holds_it_and_the_others_come_back_when_it_is_done() {
        let permits = permits();
        let (a, b) = (Key::new("ns", "a"), Key::new("ns", "b"));
        let held = permits.claim("pool", &a);
        assert!(held.is_some());
        assert!(permits.claim("pool", &b).is_none() && permits.claim("pool", &b).is_none());
        assert!(permits.claim("other", &b).is_some(), "another deployment is another matter");
        assert!(permits.queue.is_empty(), "nobody comes back while it is held");
        drop(held);
        assert_eq!(permits.queue.len(), 1);
        assert!(permits.held.lock().is_empty(), "and nothing is left of it");
        assert!(permits.claim("pool", &b).is_some());
    }

    #[test]
    fn a_holder_that_panics_gives_it_back() {
        let permits = permits();
        let key = Key::new("ns", "a");
        let held = permits.claim("pool", &key);
        let fell = std::panic::catch_unwind(std::panic::AssertUnwindSafe(move || {
            let _held = held;
            panic!("on purpose");
        }));
        assert!(fell.is_err());
        assert!(permits.claim("pool", &key).is_some());
    }
}

//! One of us at a time on an object.
//!
//! Several of our controllers write to the same objects: to a Node the machine's own reconcile, its drain, the roll-out of its deployment and the check for unmanaged nodes; to
//! a Machine its own reconcile, its set and its deployment; to a set its own reconcile, its deployment and the overshoot safety. What is written
//! is guarded by the version that was decided on, so side by side they would refuse each other's writes. So whoever writes takes a turn, and
//! finds out without a request whether somebody was faster: then the decision is made again, on what there is now. What other programs write
//! in between, our own other component in a process of its own among them, is still the API server's to refuse.
//!
//! The overshoot safety takes its turn and does not look: it writes once in a long while, and is planned afresh when it is refused.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::Object;
use parking_lot::Mutex;
use runtime::Key;
use runtime::cache::{Cache, Cached};
use tokio::sync::OwnedMutexGuard;

type Queues = Arc<Mutex<BTreeMap<String, Arc<tokio::sync::Mutex<()>>>>>;

/// Who writes to which object of one kind, by name: a cluster's objects are in one namespace, or in none. Clones share it.
#[derive(Clone, Default)]
pub struct WriteLocks(Queues);

/// The right to write to one object until it is dropped. A turn lasts for a request or two, and those have deadlines.
pub(crate) struct WriteLock {
    queues: Queues,
    name: String,
    held: Option<OwnedMutexGuard<()>>,
}

impl WriteLocks {
    /// Waits until nobody else of us writes to this object.
    pub(crate) async fn take(&self, name: &str) -> WriteLock {
        let queue = self.0.lock().entry(name.to_owned()).or_default().clone();
        WriteLock { queues: self.0.clone(), name: name.to_owned(), held: Some(queue.lock_owned().await) }
    }
}

impl Drop for WriteLock {
    fn drop(&mut self) {
        let mut queues = self.queues.lock();
        self.held = None;
        // Whoever waits holds it as well.
        if queues.get(&self.name).is_some_and(|queue| Arc::strong_count(queue) == 1) {
            queues.remove(&self.name);
        }
    }
}

/// Whether this very object is known in another version than the one that was decided on.
pub(crate) fn is_outdated<T: Object + Cached>(cache: &Cache<T>, key: &Key, uid: &str, version: &str) -> bool {
    let known = cache.get(key);
    known.is_some_and(|object| object.uid().as_str() == uid && object.resource_version() != version)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use futures::FutureExt;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn two_who_write_to_one_object_take_write_locks_and_nobody_else_waits() {
        let write_locks = WriteLocks::default();
        let first = write_locks.take("a").await;
        assert!(write_locks.take("b").now_or_never().is_some());
        let mut second = Box::pin(write_locks.take("a"));
        assert!(tokio::time::timeout(Duration::from_secs(1), &mut second).await.is_err());
        drop(first);
        drop(second.await);
        assert!(write_locks.0.lock().is_empty(), "nothing is kept of objects to which nobody writes");
    }
}

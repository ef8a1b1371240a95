//! Locks that allow one writer of this process per object.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::OwnedMutexGuard;

type Queues = Arc<Mutex<BTreeMap<String, Arc<tokio::sync::Mutex<()>>>>>;

/// Write locks of the objects of one kind, by name: all objects are in one namespace, or in none. Clones share the locks.
#[derive(Clone, Default)]
pub(super) struct WriteLocks(Queues);

/// Write lock of one object. It is released when it is dropped.
pub(super) struct WriteLock {
    queues: Queues,
    name: String,
    held: Option<OwnedMutexGuard<()>>,
}

impl WriteLocks {
    /// Waits until no other task writes the object.
    pub(super) async fn take(&self, name: &str) -> WriteLock {
        let queue = self.0.lock().entry(name.to_owned()).or_default().clone();
        WriteLock { queues: self.0.clone(), name: name.to_owned(), held: Some(queue.lock_owned().await) }
    }
}

impl Drop for WriteLock {
    fn drop(&mut self) {
        let mut queues = self.queues.lock();
        self.held = None;
        // Each waiting task has a clone of the queue.
        if queues.get(&self.name).is_some_and(|queue| Arc::strong_count(queue) == 1) {
            queues.remove(&self.name);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use futures::FutureExt;

    use super::*;

    /// Shows THR-6b.
    #[tokio::test(start_paused = true)]
    async fn only_writers_of_the_same_object_wait_for_each_other() {
        let write_locks = WriteLocks::default();
        let first = write_locks.take("a").await;
        assert!(write_locks.take("b").now_or_never().is_some());
        let mut second = Box::pin(write_locks.take("a"));
        assert!(tokio::time::timeout(Duration::from_secs(1), &mut second).await.is_err());
        drop(first);
        drop(second.await);
        assert!(write_locks.0.lock().is_empty(), "locks of idle objects are dropped");
    }
}

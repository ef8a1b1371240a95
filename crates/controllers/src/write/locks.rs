//! One of us at a time on an object.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::OwnedMutexGuard;

type Queues = Arc<Mutex<BTreeMap<String, Arc<tokio::sync::Mutex<()>>>>>;

/// Who writes to which object of one kind, by name: a cluster's objects are in one namespace, or in none. Clones share it.
#[derive(Clone, Default)]
pub(super) struct WriteLocks(Queues);

/// The right to write to one object until it is dropped.
pub(super) struct WriteLock {
    queues: Queues,
    name: String,
    held: Option<OwnedMutexGuard<()>>,
}

impl WriteLocks {
    /// Waits until nobody else of us writes to this object.
    pub(super) async fn take(&self, name: &str) -> WriteLock {
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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use futures::FutureExt;

    use super::*;

    /// Shows THR-6b.
    #[tokio::test(start_paused = true)]
    async fn two_writers_of_one_object_wait_for_each_other_and_nobody_else_waits() {
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

//! Progress of a cache, and the tasks that wait for it.
//!
//! Waiting tasks are woken in the order in which they started to wait. tokio's `watch` wakes them in random order, so
//! two components that wait for the same cache would send their requests in different orders with the same seed
//! (`docs/contributing/invariants.md`).

use parking_lot::Mutex;
use tokio::sync::Notify;

use super::status::Trust;

/// The milestones that tasks wait for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Progress {
    pub(super) synced: bool,
    /// The last refresh that a quorum list has completed. The list started after the refresh was requested.
    pub(super) refreshed: u64,
    pub(super) trust: Trust,
    pub(super) stopped: bool,
}

/// The progress of one cache.
#[derive(Default)]
pub(super) struct Milestones {
    progress: Mutex<Progress>,
    changed: Notify,
}

impl Milestones {
    pub(super) fn now(&self) -> Progress {
        *self.progress.lock()
    }

    pub(super) fn change(&self, change: impl FnOnce(&mut Progress)) {
        change(&mut self.progress.lock());
        self.changed.notify_waiters();
    }

    /// Waits until `holds` returns true or the reflector has stopped, and returns the progress.
    pub(super) async fn wait_for(&self, holds: impl Fn(&Progress) -> bool) -> Progress {
        loop {
            // Register before the check, so that a change between the two also wakes this task.
            let changed = self.changed.notified();
            let progress = self.now();
            if holds(&progress) || progress.stopped {
                return progress;
            }
            changed.await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[tokio::test]
    async fn waiters_are_woken_in_order() {
        let (milestones, order) = (Arc::new(Milestones::default()), Arc::new(Mutex::new(Vec::new())));
        let mut waits = tokio::task::JoinSet::new();
        for number in 0..20 {
            let (milestones, order) = (milestones.clone(), order.clone());
            waits.spawn(async move {
                milestones.wait_for(|progress| progress.synced).await;
                order.lock().push(number);
            });
        }
        tokio::task::yield_now().await;
        milestones.change(|progress| progress.refreshed = 1);
        tokio::task::yield_now().await;
        milestones.change(|progress| progress.synced = true);
        waits.join_all().await;
        assert_eq!(*order.lock(), (0..20).collect::<Vec<_>>());
    }
}

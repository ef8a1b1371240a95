//! Tasks with an owner.
//!
//! A task that nobody waits for outlives the thing it works for: it writes after the lease is lost, or dies without anyone
//! noticing. Every task of ours therefore belongs to a [`Tasks`] group, which can ask all of them to stop, wait until they
//! have, and tell when one died of a panic.

use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::time::Duration;

use futures::FutureExt;
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;

use crate::Watchdog;

/// A group of tasks that stop together. Clones refer to the same group.
#[derive(Clone, Debug, Default)]
pub struct Tasks {
    tracker: TaskTracker,
    stop: CancellationToken,
    watchdog: Watchdog,
}

/// How the end of a group went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// Every task has ended.
    Clean,
    /// This many tasks were still running when patience ran out; they were left behind.
    LeftBehind(usize),
}

impl Tasks {
    /// An empty group.
    pub fn new() -> Self {
        Self::default()
    }

    /// A group of its own that also stops when this one does.
    #[must_use]
    pub fn child(&self) -> Self {
        Self { tracker: TaskTracker::new(), stop: self.stop.child_token(), watchdog: self.watchdog.clone() }
    }

    /// A group that neither stops with this one nor stops it, and is watched together with it: for what works until the very end.
    #[must_use]
    pub fn beside(&self) -> Self {
        Self { watchdog: self.watchdog.clone(), ..Self::default() }
    }

    /// Whether the loops of this group still move.
    pub fn watchdog(&self) -> &Watchdog {
        &self.watchdog
    }

    /// Cancelled when the group is asked to stop. Tasks watch it and end by themselves.
    pub fn stopping(&self) -> CancellationToken {
        self.stop.clone()
    }

    /// Stops the group when the guard is dropped; for tests and scopes that may unwind.
    pub fn stop_on_drop(&self) -> DropGuard {
        self.stop.clone().drop_guard()
    }

    /// Runs `work` as a member of the group. A panic stops the whole group: half a controller is worse than none.
    pub fn spawn(&self, name: &'static str, work: impl Future<Output = ()> + Send + 'static) {
        let stop = self.stop.clone();
        self.tracker.spawn(async move {
            if AssertUnwindSafe(work).catch_unwind().await.is_err() {
                tracing::error!(task = name, "task panicked; stopping everything that works with it");
                stop.cancel();
            }
        });
    }

    /// Asks every task to stop, without waiting.
    pub fn stop(&self) {
        self.stop.cancel();
    }

    /// Asks every task to stop and waits for them, at most `patience`.
    pub async fn shut_down(&self, patience: Duration) -> Ended {
        self.stop.cancel();
        self.tracker.close();
        match tokio::time::timeout(patience, self.tracker.wait()).await {
            Ok(()) => Ended::Clean,
            Err(_) => Ended::LeftBehind(self.tracker.len()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Shows EVT-6.
    #[tokio::test(start_paused = true)]
    async fn a_panic_stops_the_others() {
        let tasks = Tasks::new();
        let stopping = tasks.stopping();
        tasks.spawn("steady", async move { stopping.cancelled().await });
        tasks.spawn("shaky", async { panic!("on purpose") });
        tasks.stopping().cancelled().await;
        assert_eq!(tasks.shut_down(Duration::from_secs(1)).await, Ended::Clean);
    }

    /// Shows EVT-6.
    #[tokio::test(start_paused = true)]
    async fn a_task_that_does_not_listen_is_counted_not_waited_for_without_end() {
        let tasks = Tasks::new();
        tasks.spawn("deaf", std::future::pending());
        assert_eq!(tasks.shut_down(Duration::from_secs(5)).await, Ended::LeftBehind(1));
    }
}

//! Groups of tasks that stop together.
//!
//! A detached task could write after the lease is lost, or panic without being noticed. Therefore every task belongs to a
//! [`Tasks`] group, which stops its tasks, waits for them, and stops if one of them panics.

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

/// Result of [`Tasks::shut_down`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// All tasks have ended.
    Clean,
    /// The timeout expired while this many tasks were running.
    TimedOut(usize),
}

impl Tasks {
    /// Creates an empty group.
    pub fn new() -> Self {
        Self::default()
    }

    /// Creates a group that also stops when this one stops.
    #[must_use]
    pub fn child(&self) -> Self {
        Self { tracker: TaskTracker::new(), stop: self.stop.child_token(), watchdog: self.watchdog.clone() }
    }

    /// Creates an independent group with the same watchdog, for tasks that run until the end of the process.
    #[must_use]
    pub fn independent(&self) -> Self {
        Self { watchdog: self.watchdog.clone(), ..Self::default() }
    }

    /// Returns the watchdog of the tasks.
    pub fn watchdog(&self) -> &Watchdog {
        &self.watchdog
    }

    /// Returns the token that is cancelled when the group is stopped. Tasks must end when it is cancelled.
    pub fn stopping(&self) -> CancellationToken {
        self.stop.clone()
    }

    /// Stops the group when the guard is dropped. For tests.
    pub fn stop_on_drop(&self) -> DropGuard {
        self.stop.clone().drop_guard()
    }

    /// Runs `work` as a task of the group. A panic stops the whole group, so that no controller runs incompletely.
    pub fn spawn(&self, name: &'static str, work: impl Future<Output = ()> + Send + 'static) {
        let stop = self.stop.clone();
        self.tracker.spawn(async move {
            if AssertUnwindSafe(work).catch_unwind().await.is_err() {
                tracing::error!(task = name, "task panicked; stopping its group");
                stop.cancel();
            }
        });
    }

    /// Stops all tasks, without waiting.
    pub fn stop(&self) {
        self.stop.cancel();
    }

    /// Stops all tasks and waits for them, at most `timeout`.
    pub async fn shut_down(&self, timeout: Duration) -> Ended {
        self.stop.cancel();
        self.tracker.close();
        match tokio::time::timeout(timeout, self.tracker.wait()).await {
            Ok(()) => Ended::Clean,
            Err(_) => Ended::TimedOut(self.tracker.len()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Shows EVT-6.
    #[tokio::test(start_paused = true)]
    async fn panic_stops_the_group() {
        let tasks = Tasks::new();
        let stopping = tasks.stopping();
        tasks.spawn("steady", async move { stopping.cancelled().await });
        tasks.spawn("panics", async { panic!("on purpose") });
        tasks.stopping().cancelled().await;
        assert_eq!(tasks.shut_down(Duration::from_secs(1)).await, Ended::Clean);
    }

    /// Shows EVT-6.
    #[tokio::test(start_paused = true)]
    async fn shutdown_times_out_when_a_task_does_not_stop() {
        let tasks = Tasks::new();
        tasks.spawn("hangs", std::future::pending());
        assert_eq!(tasks.shut_down(Duration::from_secs(5)).await, Ended::TimedOut(1));
    }
}

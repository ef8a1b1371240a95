//! The loop that takes keys from a queue and runs the handler.
//!
//! One task takes keys, each reconcile runs in its own task, and a semaphore limits their number. Therefore an idle queue costs
//! one task for any concurrency, and reconciles of different keys can use all cores.

use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Weak};
use std::time::Duration;

use futures::FutureExt;
use tokio::sync::Semaphore;
use tokio::time::Instant;

use super::{Outcome, Queue, QueueKey, Shared, Work};
use crate::Tasks;
use crate::watchdog::{LoopState, STUCK_AFTER, Stuck};

/// Workers of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Workers {
    /// Maximum number of keys that are processed at the same time; at least one.
    pub concurrency: usize,
    /// Time without a poll after which work is stuck ([`crate::watchdog`]).
    pub stuck_after: Duration,
}

impl From<usize> for Workers {
    /// Workers with this concurrency and the default time for stuck work.
    fn from(concurrency: usize) -> Self {
        Self { concurrency: concurrency.max(1), stuck_after: STUCK_AFTER }
    }
}

/// Processes the keys of `queue` until `tasks` is stopped. After that no key is taken; reconciles in progress continue, and
/// [`Tasks::shut_down`] waits for them.
///
/// A panic in `handler` is logged and counted, and the key is retried with backoff. [`Tasks::watchdog`] reports stuck reconciles
/// and keys that are not taken.
pub fn spawn_workers<T, H, F>(tasks: &Tasks, queue: Queue<T>, workers: impl Into<Workers>, handler: H)
where
    T: QueueKey,
    H: Fn(T) -> F + Send + Sync + 'static,
    F: Future<Output = Outcome> + Send + 'static,
{
    let handler = Arc::new(handler);
    let workers = workers.into();
    let free = Arc::new(Semaphore::new(workers.concurrency.max(1)));
    let owner = tasks.clone();
    let (watched, over) = (Arc::downgrade(&queue.shared), tasks.stopping());
    tasks
        .watchdog()
        .watch(move |now| if over.is_cancelled() { LoopState::Ended } else { check(&watched, workers, now) });
    tasks.spawn(queue.name(), async move {
        let stopping = owner.stopping();
        loop {
            // A free worker first, then a key, so that no key is taken without a worker.
            let next = async { (Arc::clone(&free).acquire_owned().await, queue.next().await) };
            let (worker, work) = tokio::select! {
                biased;
                () = stopping.cancelled() => break,
                next = next => next,
            };
            let handler = Arc::clone(&handler);
            owner.spawn(queue.name(), async move {
                handle(work, handler).await;
                drop(worker);
            });
        }
    });
}

/// Returns whether the queue makes progress.
pub(super) fn check<T: QueueKey>(queue: &Weak<Shared<T>>, workers: Workers, now: Instant) -> LoopState {
    let Some(queue) = queue.upgrade() else { return LoopState::Ended };
    let backlog = queue.backlog.lock();
    if let Some((key, silent_for)) =
        backlog.most_silent(now).filter(|(_, silent_for)| *silent_for > workers.stuck_after)
    {
        return LoopState::Stuck(Stuck { what: format!("reconcile of {key} in queue {}", queue.name), silent_for });
    }
    let (untaken_for, idle) = (backlog.untaken_for(now), backlog.running() < workers.concurrency);
    if idle && untaken_for > workers.stuck_after {
        return LoopState::Stuck(Stuck { what: format!("queue {}", queue.name), silent_for: untaken_for });
    }
    LoopState::Running
}

async fn handle<T, H, F>(work: Work<T>, handler: Arc<H>)
where
    T: QueueKey,
    H: Fn(T) -> F,
    F: Future<Output = Outcome>,
{
    let key = work.key().clone();
    // Called inside the future, to catch panics before the first await as well.
    let reconcile = async { handler(key).await };
    let outcome = AssertUnwindSafe(work.heartbeat.of(reconcile)).catch_unwind().await.unwrap_or_else(|_| {
        work.queue.shared.recorder.panicked();
        tracing::error!(
            queue = work.queue.name(),
            key = %work.key(),
            "caught a panic; the key is retried with backoff"
        );
        Outcome::Failed
    });
    work.finish(outcome);
}

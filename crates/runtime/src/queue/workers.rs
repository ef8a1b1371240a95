//! The loop that takes keys from a queue and runs the work.
//!
//! One task hands out keys, each piece of work is a task of its own, and a semaphore bounds how many run at once. So an idle
//! queue costs one sleeping task whatever its concurrency, and work on different keys can use all cores.

use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Weak};
use std::time::Duration;

use futures::FutureExt;
use tokio::sync::Semaphore;
use tokio::time::Instant;

use super::{Outcome, Queue, QueueKey, Shared, Work};
use crate::Tasks;
use crate::watchdog::{Look, PATIENCE, Stuck};

/// Who works on the keys of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Workers {
    /// How many keys are worked on at once; at least one.
    pub size: usize,
    /// For how long work may be silent before it counts as stuck ([`crate::watchdog`]).
    pub patience: Duration,
}

impl From<usize> for Workers {
    /// So many, whose longest wait is a request.
    fn from(size: usize) -> Self {
        Self { size: size.max(1), patience: PATIENCE }
    }
}

/// Works on the keys of `queue` with this workers until `tasks` is asked to stop. No key is
/// taken after that; work that has begun goes on, and [`Tasks::shut_down`] waits for it.
///
/// A panic in `handler` costs one reconcile of one key: it is logged, counted, and the key comes back as after any failure. Work that
/// hangs and keys that nobody takes show in the [`Tasks::watchdog`].
pub fn spawn_workers<T, H, F>(tasks: &Tasks, queue: Queue<T>, workers: impl Into<Workers>, handler: H)
where
    T: QueueKey,
    H: Fn(T) -> F + Send + Sync + 'static,
    F: Future<Output = Outcome> + Send + 'static,
{
    let handler = Arc::new(handler);
    let workers = workers.into();
    let free = Arc::new(Semaphore::new(workers.size.max(1)));
    let owner = tasks.clone();
    let (watched, over) = (Arc::downgrade(&queue.shared), tasks.stopping());
    tasks.watchdog().watch(move |now| if over.is_cancelled() { Look::Over } else { look(&watched, workers, now) });
    tasks.spawn(queue.name(), async move {
        let stopping = owner.stopping();
        loop {
            // A free worker first, then a key: a key is never taken off the queue to wait elsewhere.
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

/// Whether the work on a queue still moves.
pub(super) fn look<T: QueueKey>(queue: &Weak<Shared<T>>, workers: Workers, now: Instant) -> Look {
    let Some(queue) = queue.upgrade() else { return Look::Over };
    let backlog = queue.backlog.lock();
    if let Some((key, silent_for)) = backlog.most_silent(now).filter(|(_, silent_for)| *silent_for > workers.patience) {
        return Look::Stuck(Stuck { what: format!("the work on {key} (queue {})", queue.name), silent_for });
    }
    let (untaken_for, idle) = (backlog.untaken_for(now), backlog.running() < workers.size);
    if idle && untaken_for > workers.patience {
        return Look::Stuck(Stuck { what: format!("the queue {}", queue.name), silent_for: untaken_for });
    }
    Look::Moving
}

async fn handle<T, H, F>(work: Work<T>, handler: Arc<H>)
where
    T: QueueKey,
    H: Fn(T) -> F,
    F: Future<Output = Outcome>,
{
    let key = work.key().clone();
    // Called inside the future, so that a handler that panics before its first await is caught too.
    let pass = async { handler(key).await };
    let outcome = AssertUnwindSafe(work.heartbeat.of(pass)).catch_unwind().await.unwrap_or_else(|_| {
        work.queue.shared.recorder.panicked();
        tracing::error!(
            queue = work.queue.name(),
            key = %work.key(),
            "work panicked; the key comes back after a pause"
        );
        Outcome::Failed
    });
    work.finish(outcome);
}

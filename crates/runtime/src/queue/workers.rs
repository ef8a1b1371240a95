//! The loop that takes keys from a queue and runs the work.
//!
//! One task hands out keys, each piece of work is a task of its own, and a semaphore bounds how many run at once. So an idle
//! queue costs one sleeping task whatever its concurrency, and work on different keys can use all cores.

use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures::FutureExt;
use tokio::sync::Semaphore;

use super::{Outcome, Queue, QueueKey, Work};
use crate::Tasks;

/// Works on the keys of `queue`, at most `concurrency` at once (at least one), until `tasks` is asked to stop. No key is
/// taken after that; work that has begun goes on, and [`Tasks::shut_down`] waits for it.
///
/// A panic in `handler` costs one pass of one key: it is logged, counted, and the key comes back as after any failure.
pub fn spawn_workers<T, H, F>(tasks: &Tasks, queue: Queue<T>, concurrency: usize, handler: H)
where
    T: QueueKey,
    H: Fn(T) -> F + Send + Sync + 'static,
    F: Future<Output = Outcome> + Send + 'static,
{
    let handler = Arc::new(handler);
    let free = Arc::new(Semaphore::new(concurrency.max(1)));
    let owner = tasks.clone();
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

async fn handle<T, H, F>(work: Work<T>, handler: Arc<H>)
where
    T: QueueKey,
    H: Fn(T) -> F,
    F: Future<Output = Outcome>,
{
    let key = work.key().clone();
    // Called inside the future, so that a handler that panics before its first await is caught too.
    let pass = async { handler(key).await };
    let outcome = AssertUnwindSafe(pass).catch_unwind().await.unwrap_or_else(|_| {
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

//! The work queue between event handlers and workers.
//!
//! The queue contains keys only, so repeated adds of a key are merged. It holds each key at most once, returns keys in the order
//! in which they were added, and never gives a key to two workers: a key that is added while it is being processed is returned
//! after that. Therefore the reconcilers of one object need no locks.
//!
//! A failed key is retried with exponential backoff, and retries of the whole queue are rate limited (both as in client-go). It
//! is retried forever. MCM drops a key after 15 attempts and ignores the object until another event.
//!
//! | file | content |
//! | --- | --- |
//! | `backlog` | ready, running and delayed keys: a data structure without I/O, with time as a parameter |
//! | `backoff` | backoff of a failed key |
//! | `busy` | number of reconciles of one key |
//! | `workers` | the loop that takes keys, runs the handler, and catches panics |
//! | `coalesce` | limits how often frequent events add a key |

mod backlog;
mod backoff;
mod busy;
mod coalesce;
mod state;
mod workers;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;

pub use backoff::RetryPolicy;
pub use coalesce::Coalesced;
pub use state::{Failing, QueueState, Ready, Running, Waiting};
pub use workers::{Workers, spawn_workers};

use crate::metrics::{Hook, Metrics, QueueRecorder};
use crate::watchdog::Heartbeat;
use crate::{Random, TokenBucket};
use backlog::{Added, Backlog};

/// A key of a queue: cheap to clone, ordered (so that runs are reproducible), and printable.
pub trait QueueKey: Clone + Ord + fmt::Display + Send + Sync + 'static {}

impl<T: Clone + Ord + fmt::Display + Send + Sync + 'static> QueueKey for T {}

/// Result of processing a key: when it is processed again. Events may add it earlier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Nothing to do until the next event.
    Done,
    /// Requeue after this time, at the latest.
    Again {
        /// Time from now.
        after: Duration,
    },
    /// Requeue at this instant, at the latest.
    At(Instant),
    /// Failed: retry with exponential backoff.
    Failed,
    /// Throttled by a server: retry with exponential backoff, but not earlier than requested.
    Throttled {
        /// Minimum wait.
        at_least: Duration,
    },
}

/// A first-in, first-out queue that holds each key once. Cheap to clone; clones share the queue.
pub struct Queue<T> {
    shared: Arc<Shared<T>>,
}

struct Shared<T> {
    name: &'static str,
    backlog: Mutex<Backlog<T>>,
    changed: Notify,
    policy: RetryPolicy,
    bucket: TokenBucket,
    random: Random,
    recorder: QueueRecorder,
}

impl<T: QueueKey> Queue<T> {
    /// Creates an empty queue; `name` is its label in metrics and logs.
    pub fn new(name: &'static str, policy: RetryPolicy, metrics: &Metrics, random: &Random) -> Self {
        let recorder = metrics.queues.recorder(name);
        let shared = Arc::new(Shared {
            name,
            backlog: Mutex::new(Backlog::default()),
            changed: Notify::new(),
            bucket: TokenBucket::new(policy.qps, policy.burst),
            policy,
            random: random.fork(),
            recorder,
        });
        let seen = Arc::downgrade(&shared);
        metrics.before_scrape(move || match seen.upgrade() {
            Some(queue) => {
                let now = Instant::now();
                let mut backlog = queue.backlog.lock();
                let (total, longest) = backlog.in_progress(now);
                queue.recorder.in_progress(total, longest);
                queue.recorder.busiest(backlog.busiest(now));
                Hook::Keep
            }
            None => Hook::Remove,
        });
        Self { shared }
    }

    /// Closes the queue: it drops all keys until [`Queue::open`] is called.
    ///
    /// A standby receives all events and has no workers. If it queued the keys, the queue would grow with every object that was
    /// created and deleted since the process started.
    #[must_use]
    pub fn closed(self) -> Self {
        self.shared.backlog.lock().close();
        self
    }

    /// Accepts keys from now on. Events that arrived before are not replayed: the caller adds the keys of all cached objects
    /// afterwards.
    pub fn open(&self) {
        self.shared.backlog.lock().open();
    }

    /// Returns the name of the queue.
    pub fn name(&self) -> &'static str {
        self.shared.name
    }

    /// Adds `key`, to be processed when a worker is free. A delayed add of the key remains.
    pub fn add(&self, key: T) {
        let mut backlog = self.shared.backlog.lock();
        let added = backlog.add(key, Instant::now());
        self.announce(&backlog, added);
    }

    /// Adds `key` after `delay`. If the key is already delayed, the earlier time is kept.
    pub fn add_after(&self, key: T, delay: Duration) {
        let now = Instant::now();
        self.add_at(key, now.checked_add(delay).unwrap_or(now + FAR_FUTURE));
    }

    /// Adds `key` at `due`. If the key is already delayed, the earlier time is kept.
    pub fn add_at(&self, key: T, due: Instant) {
        let now = Instant::now();
        let mut backlog = self.shared.backlog.lock();
        if backlog.is_closed() {
            return;
        }
        self.shared.recorder.retried();
        if due <= now {
            let added = backlog.add(key, now);
            self.announce(&backlog, added);
        } else {
            backlog.add_at(key, due);
            self.shared.changed.notify_one();
        }
    }

    /// Adds `key` after a failure, with exponential backoff and the rate limit of the queue.
    pub fn add_rate_limited(&self, key: T) {
        let delay = self.backoff_of(&key);
        self.add_after(key, delay);
    }

    /// Counts a failure of `key` and returns its backoff.
    fn backoff_of(&self, key: &T) -> Duration {
        let failures = self.shared.backlog.lock().failed(key);
        self.shared.policy.backoff(failures, &self.shared.random).max(self.shared.bucket.reserve())
    }

    /// Resets the failure count of `key`.
    pub fn forget(&self, key: &T) {
        self.shared.backlog.lock().forget(key);
    }

    /// Waits for the next key. It is not given to another worker until the returned [`Work`] is finished or dropped.
    /// Cancel-safe: no key is lost if the future is dropped.
    pub async fn next(&self) -> Work<T> {
        loop {
            let due = {
                let mut backlog = self.shared.backlog.lock();
                let now = Instant::now();
                for added in backlog.wake(now) {
                    self.announce(&backlog, added);
                }
                if let Some((key, waited, heartbeat)) = backlog.take(now) {
                    self.shared.recorder.started(waited, backlog.depth());
                    if !backlog.is_quiet() {
                        // Another waiter may have an outdated due time of the next key.
                        self.shared.changed.notify_one();
                    }
                    drop(backlog);
                    return Work { queue: self.clone(), key, heartbeat, outcome: Outcome::Failed };
                }
                backlog.next_due()
            };
            let is_due = async {
                match due {
                    Some(due) => tokio::time::sleep_until(due).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                () = self.shared.changed.notified() => {}
                () = is_due => {}
            }
        }
    }

    /// Counts and logs a panic in a task that worked for `key` outside of a worker.
    pub fn panicked(&self, key: &T, task: &'static str) {
        self.shared.recorder.panicked();
        tracing::error!(queue = self.name(), %key, task, "caught a panic; the key is retried with backoff");
    }

    /// Returns the number of keys that wait for a worker. Delayed keys do not count.
    pub fn len(&self) -> usize {
        self.shared.backlog.lock().depth()
    }

    /// Returns whether no key waits for a worker.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the state of all keys, for `/debug/state`.
    pub fn state(&self) -> QueueState {
        self.shared.backlog.lock().state(self.shared.name, Instant::now())
    }

    fn finish(&self, key: T, outcome: Outcome) {
        let now = Instant::now();
        {
            let mut backlog = self.shared.backlog.lock();
            let took = backlog.finish(&key, now);
            self.shared.recorder.finished(took);
            if !matches!(outcome, Outcome::Failed | Outcome::Throttled { .. }) {
                backlog.forget(&key);
            }
            if backlog.depth() > 0 {
                self.shared.changed.notify_one();
            }
        }
        match outcome {
            Outcome::Done => {}
            Outcome::Again { after } => self.add_after(key, after),
            Outcome::At(due) => self.add_at(key, due),
            Outcome::Failed => self.add_rate_limited(key),
            Outcome::Throttled { at_least } => {
                let delay = self.backoff_of(&key).max(at_least);
                self.add_after(key, delay);
            }
        }
    }

    fn announce(&self, backlog: &Backlog<T>, added: Added) {
        if added == Added::New {
            self.shared.recorder.added(backlog.depth());
            self.shared.changed.notify_one();
        }
    }
}

/// Replacement for delays that overflow.
const FAR_FUTURE: Duration = Duration::from_hours(24 * 365);

impl<T> Clone for Queue<T> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared) }
    }
}

impl<T> fmt::Debug for Queue<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Queue").field("name", &self.shared.name).finish_non_exhaustive()
    }
}

/// A key that is being processed. Dropping it without [`Work::finish`] counts as a failure, so that cancelled or panicked work
/// is retried.
#[must_use = "dropping it counts as a failure"]
pub struct Work<T: QueueKey> {
    queue: Queue<T>,
    key: T,
    heartbeat: Heartbeat,
    outcome: Outcome,
}

impl<T: QueueKey> Work<T> {
    /// Returns the key.
    pub fn key(&self) -> &T {
        &self.key
    }

    /// Ends the processing of the key.
    pub fn finish(mut self, outcome: Outcome) {
        self.outcome = outcome;
    }
}

impl<T: QueueKey> Drop for Work<T> {
    fn drop(&mut self) {
        self.queue.finish(self.key.clone(), self.outcome);
    }
}

#[cfg(test)]
mod tests;

//! The work queue between events and workers.
//!
//! Events say *look at this key*; they carry nothing else, so any number of them for one key is as good as one. The queue
//! keeps each key at most once, hands keys out in the order they came, and never gives one key to two workers: a key that is
//! wanted again while it is being worked on comes back when that work is done. This is what lets creation, health and
//! deletion of one object be written as if nothing else were running.
//!
//! Failed work comes back after a pause that doubles with each failure of that key, and no faster than the whole queue may
//! retry (both as in client-go). It comes back for ever: the reference drops a key after 15 attempts and then forgets the
//! object until something else changes.
//!
//! | file | idea |
//! | --- | --- |
//! | `backlog` | which keys are ready, running, waiting: a plain data structure, time is a parameter |
//! | `backoff` | how long a failed key waits |
//! | `busy` | how often one key is worked on |
//! | `workers` | the loop that takes keys and runs the work, panics included |
//! | `coalesce` | busy sources: the first event at once, then at most one every so often |

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

/// What a queue can hold: cheap to clone, ordered (so that ties break the same way in every run), printable.
pub trait QueueKey: Clone + Ord + fmt::Display + Send + Sync + 'static {}

impl<T: Clone + Ord + fmt::Display + Send + Sync + 'static> QueueKey for T {}

/// What the work on a key came to, and so when the key is looked at again. Events bring it back earlier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Nothing more to do until something changes.
    Done,
    /// Look again after this time, at the latest.
    Again {
        /// From now.
        after: Duration,
    },
    /// Look again at this instant, at the latest.
    At(Instant),
    /// It did not work; try again after a pause that grows with each failure.
    Failed,
    /// The same, of a server that is to be left alone for a while: the pause is no shorter than that.
    Throttled {
        /// What the server asked for, or what it takes until it may answer otherwise.
        at_least: Duration,
    },
}

/// A first-in, first-out queue that holds each key once. Cheap to clone; clones are the same queue.
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
    /// An empty queue; `name` is its label in metrics and logs.
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

    /// The same queue, which drops every key until [`Queue::open`] is called.
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

    /// The name it was made with.
    pub fn name(&self) -> &'static str {
        self.shared.name
    }

    /// Wants `key` looked at as soon as a worker is free. A later time it was already due at stays.
    pub fn add(&self, key: T) {
        let mut backlog = self.shared.backlog.lock();
        let added = backlog.add(key, Instant::now());
        self.announce(&backlog, added);
    }

    /// Wants `key` looked at after `delay`. A key that is already waiting keeps the earlier of the two times.
    pub fn add_after(&self, key: T, delay: Duration) {
        let now = Instant::now();
        self.add_at(key, now.checked_add(delay).unwrap_or(now + FAR_FUTURE));
    }

    /// Wants `key` looked at at `due`. A key that is already waiting keeps the earlier of the two times.
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

    /// Wants `key` looked at again after a failure: after its own growing pause, and not before the queue's bucket allows.
    pub fn add_rate_limited(&self, key: T) {
        let pause = self.pause_of(&key);
        self.add_after(key, pause);
    }

    /// The pause after one more failure of `key`.
    fn pause_of(&self, key: &T) -> Duration {
        let failures = self.shared.backlog.lock().failed(key);
        self.shared.policy.pause(failures, &self.shared.random).max(self.shared.bucket.reserve())
    }

    /// Forgets the failures of `key`: its next one is its first.
    pub fn forget(&self, key: &T) {
        self.shared.backlog.lock().forget(key);
    }

    /// The next key, once one is ready. It is the caller's alone until the returned [`Work`] is finished or dropped.
    /// Cancel-safe: a caller that stops waiting takes nothing with it.
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
                        // Someone else who waits may hold an older idea of when the next key is due.
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

    /// How many keys wait for a worker now; delayed ones do not count.
    pub fn len(&self) -> usize {
        self.shared.backlog.lock().depth()
    }

    /// Whether no key waits for a worker now.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// What waits, until when, and what runs, since when: for `/debug/state`.
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
                let pause = self.pause_of(&key).max(at_least);
                self.add_after(key, pause);
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

/// Longer than any wait means anything, shorter than what clocks can add.
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

/// A key that is being worked on. Dropping it without [`Work::finish`] counts as a failure, so that work which was cancelled
/// or unwound half-way is looked at again.
#[must_use = "dropping it counts as a failure"]
pub struct Work<T: QueueKey> {
    queue: Queue<T>,
    key: T,
    heartbeat: Heartbeat,
    outcome: Outcome,
}

impl<T: QueueKey> Work<T> {
    /// The key to work on.
    pub fn key(&self) -> &T {
        &self.key
    }

    /// Ends the work; the key may now be given to another worker.
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

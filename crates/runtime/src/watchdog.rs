//! Detects loops of this process that are stuck.
//!
//! A failing liveness probe causes a restart, so it must fail only if a restart helps. It does not help against an unreachable
//! API server, a slow cloud, or a lease that another process holds; these waits end without it. It helps against a loop that is
//! stuck: a wait that never ends, or a blocked thread.
//!
//! Every wait has a deadline, so a healthy task is polled within minutes: its request times out or its backoff ends. A
//! [`Heartbeat`] records each poll. Work that was not polled for much longer than its longest deadline is stuck. Its total
//! duration does not matter: five thousand writes during an outage may take a day. Idle loops are never stuck.

use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

/// Default period without a poll after which work is stuck: ten times the timeout of a request.
pub const STUCK_AFTER: Duration = Duration::from_mins(10);

/// Records when work was last polled. Cheap to clone; clones share their state.
#[derive(Clone, Debug)]
pub struct Heartbeat {
    beats: Arc<Beats>,
}

#[derive(Debug)]
struct Beats {
    begun: Instant,
    /// Microseconds after `begun`, or [`IDLE`].
    last: AtomicU64,
}

const IDLE: u64 = u64::MAX;

impl Default for Heartbeat {
    /// Creates an idle heartbeat.
    fn default() -> Self {
        Self { beats: Arc::new(Beats { begun: Instant::now(), last: AtomicU64::new(IDLE) }) }
    }
}

impl Heartbeat {
    /// Runs `work` and records each poll. Afterwards the heartbeat is idle.
    pub async fn of<F: Future>(&self, work: F) -> F::Output {
        let _idle_afterwards = IdleOnDrop(&self.beats);
        let mut work = pin!(work);
        poll_fn(|context| {
            // Before the poll, because work that blocks its thread does not return from it.
            self.beats.beat();
            work.as_mut().poll(context)
        })
        .await
    }

    /// Returns the time since the last poll; `None` while idle.
    pub fn silent_for(&self, now: Instant) -> Option<Duration> {
        self.beats.silent_for(now)
    }
}

impl Beats {
    fn beat(&self) {
        let passed = u64::try_from(self.begun.elapsed().as_micros()).unwrap_or(IDLE - 1);
        self.last.store(passed, Ordering::Relaxed);
    }

    fn silent_for(&self, now: Instant) -> Option<Duration> {
        let last = self.last.load(Ordering::Relaxed);
        (last != IDLE).then(|| now.saturating_duration_since(self.begun + Duration::from_micros(last)))
    }
}

struct IdleOnDrop<'a>(&'a Beats);

impl Drop for IdleOnDrop<'_> {
    fn drop(&mut self) {
        self.0.last.store(IDLE, Ordering::Relaxed);
    }
}

/// A loop that is stuck.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stuck {
    /// Description of the loop.
    pub what: String,
    /// Time since it was last polled.
    pub silent_for: Duration,
}

impl fmt::Display for Stuck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} is stuck: no progress for {} s", self.what, self.silent_for.as_secs())
    }
}

/// State of a loop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LoopState {
    /// It makes progress or is idle.
    Running,
    /// It is stuck.
    Stuck(Stuck),
    /// It has ended and need not be checked again.
    Ended,
}

type Check = Box<dyn Fn(Instant) -> LoopState + Send + Sync>;

/// The loops of one process. Cheap to clone; clones share their state.
#[derive(Clone, Default)]
pub struct Watchdog {
    watched: Arc<Mutex<Watched>>,
}

#[derive(Default)]
struct Watched {
    all: Vec<Check>,
    /// Ended loops are removed when there are this many, so that the list stays short without calls of [`Watchdog::stuck`].
    sweep_at: usize,
}

const MIN_SWEEP: usize = 64;

impl Watchdog {
    /// Adds a loop. `check` returns its state and must not block.
    pub fn watch(&self, check: impl Fn(Instant) -> LoopState + Send + Sync + 'static) {
        let mut watched = self.watched.lock();
        if watched.all.len() >= watched.sweep_at {
            let now = Instant::now();
            watched.all.retain(|check| check(now) != LoopState::Ended);
            watched.sweep_at = (watched.all.len() * 2).max(MIN_SWEEP);
        }
        watched.all.push(Box::new(check));
    }

    /// Creates a heartbeat that is watched until it is dropped. Its work is stuck if it was not polled for `limit`.
    pub fn heartbeat(&self, what: impl Into<String>, limit: Duration) -> Heartbeat {
        let (heartbeat, what) = (Heartbeat::default(), what.into());
        let beats = Arc::downgrade(&heartbeat.beats);
        self.watch(move |now| check(&beats, &what, limit, now));
        heartbeat
    }

    /// Runs `work` and watches it until it ends.
    pub async fn follow<F: Future>(&self, what: impl Into<String>, limit: Duration, work: F) -> F::Output {
        self.heartbeat(what, limit).of(work).await
    }

    /// Returns the loops that are stuck.
    pub fn stuck(&self) -> Vec<Stuck> {
        let now = Instant::now();
        let mut stuck = Vec::new();
        self.watched.lock().all.retain(|check| match check(now) {
            LoopState::Running => true,
            LoopState::Stuck(found) => {
                stuck.push(found);
                true
            }
            LoopState::Ended => false,
        });
        stuck
    }
}

fn check(beats: &Weak<Beats>, what: &str, limit: Duration, now: Instant) -> LoopState {
    let Some(beats) = beats.upgrade() else { return LoopState::Ended };
    match beats.silent_for(now) {
        Some(silent_for) if silent_for > limit => LoopState::Stuck(Stuck { what: what.to_owned(), silent_for }),
        _ => LoopState::Running,
    }
}

impl fmt::Debug for Watchdog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watchdog").field("loops", &self.watched.lock().all.len()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::FutureExt;
    use tokio::time::{advance, sleep};

    const MINUTE: Duration = Duration::from_mins(1);

    /// Shows HTT-1.
    #[tokio::test(start_paused = true)]
    async fn endless_wait_is_stuck() {
        let watchdog = Watchdog::default();
        let mut endless = Box::pin(watchdog.follow("the drain of m-1", STUCK_AFTER, std::future::pending::<()>()));
        assert_eq!((&mut endless).now_or_never(), None);
        advance(STUCK_AFTER).await;
        assert_eq!(watchdog.stuck(), []);
        advance(Duration::from_secs(1)).await;
        let stuck = watchdog.stuck();
        assert_eq!(stuck.len(), 1);
        assert_eq!(stuck[0].to_string(), "the drain of m-1 is stuck: no progress for 601 s");
        drop(endless);
        assert_eq!(watchdog.stuck(), [], "a dropped loop is not watched");
    }

    /// Shows HTT-2.
    #[tokio::test(start_paused = true)]
    async fn long_work_that_is_polled_is_not_stuck() {
        let watchdog = Watchdog::default();
        let long = watchdog.follow("long work", STUCK_AFTER, async {
            for _ in 0..24 * 60 {
                sleep(MINUTE).await;
                assert_eq!(watchdog.stuck(), []);
            }
        });
        long.await;
    }

    #[tokio::test(start_paused = true)]
    async fn idle_loop_is_never_stuck() {
        let watchdog = Watchdog::default();
        let heartbeat = watchdog.heartbeat("events", MINUTE);
        heartbeat.of(async {}).await;
        advance(600 * MINUTE).await;
        assert_eq!(watchdog.stuck(), []);
        assert_eq!(heartbeat.silent_for(Instant::now()), None);
    }

    #[tokio::test(start_paused = true)]
    async fn ended_loops_are_removed() {
        let watchdog = Watchdog::default();
        for _ in 0..10_000 {
            watchdog.follow("a reconcile", MINUTE, async {}).await;
        }
        assert!(watchdog.watched.lock().all.len() <= MIN_SWEEP, "{watchdog:?}");
    }
}

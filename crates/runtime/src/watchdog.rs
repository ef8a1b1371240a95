//! Whether our own loops still move.
//!
//! A liveness probe ends in a restart, so it must fail for one reason only: that a restart is what helps. An API server that is away,
//! a cloud that is slow, a lease that somebody else holds are none; each of them is a wait that ends by itself, and restarting into
//! an outage makes it worse. What a restart does cure is a loop of ours that has stopped: a wait that nothing will ever end, a
//! thread that never comes back.
//!
//! The two are told apart by *silence*. Whatever we wait for has a deadline, so a healthy wait stirs within minutes: its request
//! times out, its pause ends. A [`Heartbeat`] notes every time the work behind it stirs (is polled), and work that has not done so for
//! much longer than its longest deadline is stuck. How long the work lasts in all does not matter: five thousand writes into an
//! outage may take a day and stir all the time. Work that waits for something to do rests, and is never late.

use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

/// How long work may be silent unless it has longer deadlines: ten times the deadline of a request.
pub const PATIENCE: Duration = Duration::from_mins(10);

/// When some piece of work last stirred. Cheap to clone; clones are the same heartbeat.
#[derive(Clone, Debug)]
pub struct Heartbeat {
    beats: Arc<Beats>,
}

#[derive(Debug)]
struct Beats {
    begun: Instant,
    /// Microseconds after the beginning, or [`RESTING`].
    last: AtomicU64,
}

const RESTING: u64 = u64::MAX;

impl Default for Heartbeat {
    /// The heartbeat of something that has nothing to do yet.
    fn default() -> Self {
        Self { beats: Arc::new(Beats { begun: Instant::now(), last: AtomicU64::new(RESTING) }) }
    }
}

impl Heartbeat {
    /// Does `work`, noting whenever it stirs. Before and after it the heartbeat rests.
    pub async fn of<F: Future>(&self, work: F) -> F::Output {
        let _rests_afterwards = Rest(&self.beats);
        let mut work = pin!(work);
        poll_fn(|context| {
            // Before, not after: work that never gives its thread back has stirred when it got it.
            self.beats.beat();
            work.as_mut().poll(context)
        })
        .await
    }

    /// For how long it has been silent; `None` while there is nothing to do.
    pub fn silent_for(&self, now: Instant) -> Option<Duration> {
        self.beats.silent_for(now)
    }
}

impl Beats {
    fn beat(&self) {
        let passed = u64::try_from(self.begun.elapsed().as_micros()).unwrap_or(RESTING - 1);
        self.last.store(passed, Ordering::Relaxed);
    }

    fn silent_for(&self, now: Instant) -> Option<Duration> {
        let last = self.last.load(Ordering::Relaxed);
        (last != RESTING).then(|| now.saturating_duration_since(self.begun + Duration::from_micros(last)))
    }
}

struct Rest<'a>(&'a Beats);

impl Drop for Rest<'_> {
    fn drop(&mut self) {
        self.0.last.store(RESTING, Ordering::Relaxed);
    }
}

/// A loop that has stopped moving.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stuck {
    /// Which one, in words.
    pub what: String,
    /// For how long it has been silent.
    pub silent_for: Duration,
}

impl fmt::Display for Stuck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} has not moved for {} s", self.what, self.silent_for.as_secs())
    }
}

/// What a look at a loop shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Look {
    /// It moves, or has nothing to do.
    Moving,
    /// It does not.
    Stuck(Stuck),
    /// It has ended, and need not be looked at again.
    Over,
}

type Looker = Box<dyn Fn(Instant) -> Look + Send + Sync>;

/// The loops of one process. Cheap to clone; clones are the same collection.
#[derive(Clone, Default)]
pub struct Watchdog {
    watched: Arc<Mutex<Watched>>,
}

#[derive(Default)]
struct Watched {
    all: Vec<Looker>,
    /// Loops that are over are dropped when there are this many, so that nobody has to look for the list to stay short.
    sweep_at: usize,
}

const SMALLEST_SWEEP: usize = 64;

impl Watchdog {
    /// Looks at a loop by this means whenever somebody asks. It must not wait.
    pub fn watch(&self, look: impl Fn(Instant) -> Look + Send + Sync + 'static) {
        let mut watched = self.watched.lock();
        if watched.all.len() >= watched.sweep_at {
            let now = Instant::now();
            watched.all.retain(|look| look(now) != Look::Over);
            watched.sweep_at = (watched.all.len() * 2).max(SMALLEST_SWEEP);
        }
        watched.all.push(Box::new(look));
    }

    /// A heartbeat that is watched as long as it exists; its work counts as stuck when it is silent for longer than `patience`.
    pub fn heartbeat(&self, what: impl Into<String>, patience: Duration) -> Heartbeat {
        let (heartbeat, what) = (Heartbeat::default(), what.into());
        let beats = Arc::downgrade(&heartbeat.beats);
        self.watch(move |now| look(&beats, &what, patience, now));
        heartbeat
    }

    /// Does `work`, watched from its beginning to its end.
    pub async fn follow<F: Future>(&self, what: impl Into<String>, patience: Duration, work: F) -> F::Output {
        self.heartbeat(what, patience).of(work).await
    }

    /// The loops that have stopped moving.
    pub fn stuck(&self) -> Vec<Stuck> {
        let now = Instant::now();
        let mut stuck = Vec::new();
        self.watched.lock().all.retain(|look| match look(now) {
            Look::Moving => true,
            Look::Stuck(found) => {
                stuck.push(found);
                true
            }
            Look::Over => false,
        });
        stuck
    }
}

fn look(beats: &Weak<Beats>, what: &str, patience: Duration, now: Instant) -> Look {
    let Some(beats) = beats.upgrade() else { return Look::Over };
    match beats.silent_for(now) {
        Some(silent_for) if silent_for > patience => Look::Stuck(Stuck { what: what.to_owned(), silent_for }),
        _ => Look::Moving,
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
    async fn a_wait_that_nothing_ends_is_stuck_and_names_itself() {
        let watchdog = Watchdog::default();
        let mut endless = Box::pin(watchdog.follow("the drain of m-1", PATIENCE, std::future::pending::<()>()));
        assert_eq!((&mut endless).now_or_never(), None);
        advance(PATIENCE).await;
        assert_eq!(watchdog.stuck(), []);
        advance(Duration::from_secs(1)).await;
        let stuck = watchdog.stuck();
        assert_eq!(stuck.len(), 1);
        assert_eq!(stuck[0].to_string(), "the drain of m-1 has not moved for 601 s");
        drop(endless);
        assert_eq!(watchdog.stuck(), [], "what was abandoned is not waited for");
    }

    /// Shows HTT-2.
    #[tokio::test(start_paused = true)]
    async fn work_that_lasts_a_day_but_stirs_is_not_stuck() {
        let watchdog = Watchdog::default();
        let long = watchdog.follow("a long way", PATIENCE, async {
            for _ in 0..24 * 60 {
                sleep(MINUTE).await;
                assert_eq!(watchdog.stuck(), []);
            }
        });
        long.await;
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_has_nothing_to_do_is_never_late() {
        let watchdog = Watchdog::default();
        let heartbeat = watchdog.heartbeat("events", MINUTE);
        heartbeat.of(async {}).await;
        advance(600 * MINUTE).await;
        assert_eq!(watchdog.stuck(), []);
        assert_eq!(heartbeat.silent_for(Instant::now()), None);
    }

    #[tokio::test(start_paused = true)]
    async fn loops_that_ended_are_forgotten_even_if_nobody_looks() {
        let watchdog = Watchdog::default();
        for _ in 0..10_000 {
            watchdog.follow("a reconcile", MINUTE, async {}).await;
        }
        assert!(watchdog.watched.lock().all.len() <= SMALLEST_SWEEP, "{watchdog:?}");
    }
}

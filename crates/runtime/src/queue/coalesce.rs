//! Limits how often frequent events add a key.
//!
//! If a hundred Machines of one MachineSet become ready within a second, one reconcile of the MachineSet is sufficient. The first
//! event adds the key immediately; during further events the key is added once per interval. A trailing debounce could delay
//! the key forever. No event is lost: after each event the key is added once more.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use super::{Queue, QueueKey};

/// Adds keys to a queue, each at most once per interval. Cheap to clone; clones share their state.
#[derive(Clone, Debug)]
pub struct Coalesced<T> {
    queue: Queue<T>,
    schedule: Arc<Mutex<Schedule<T>>>,
}

#[derive(Debug)]
struct Schedule<T> {
    interval: Duration,
    /// When each key was last added, or will be.
    last: BTreeMap<T, Instant>,
    /// Old entries are removed when the map has grown to this size, so that the cost per event is constant.
    sweep_at: usize,
}

const MIN_SWEEP: usize = 64;

impl<T: QueueKey> Coalesced<T> {
    /// Creates a wrapper that adds each key to `queue` at most once per `interval`.
    pub fn new(queue: Queue<T>, interval: Duration) -> Self {
        let schedule = Schedule { interval, last: BTreeMap::new(), sweep_at: MIN_SWEEP };
        Self { queue, schedule: Arc::new(Mutex::new(schedule)) }
    }

    /// Adds `key` because of an event.
    pub fn add(&self, key: T) {
        let now = Instant::now();
        let at = self.schedule.lock().next(&key, now);
        if at <= now {
            self.queue.add(key);
        } else {
            // Also if the key was already scheduled for that time: a retry may have moved its due time forward, and it may have
            // been processed before this event.
            self.queue.add_at(key, at);
        }
    }
}

impl<T: Clone + Ord> Schedule<T> {
    /// Returns when to add the key because of an event now.
    fn next(&mut self, key: &T, now: Instant) -> Instant {
        let at = match self.last.get(key) {
            Some(last) if *last > now => return *last,
            Some(last) => (*last + self.interval).max(now),
            None => now,
        };
        self.last.insert(key.clone(), at);
        if self.last.len() >= self.sweep_at {
            let interval = self.interval;
            self.last.retain(|_, last| *last + interval > now);
            self.sweep_at = (self.last.len() * 2).max(MIN_SWEEP);
        }
        at
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Outcome, RetryPolicy};
    use super::*;
    use proptest::prelude::*;

    const INTERVAL: Duration = Duration::from_millis(100);

    fn schedule() -> Schedule<u32> {
        Schedule { interval: INTERVAL, last: BTreeMap::new(), sweep_at: MIN_SWEEP }
    }

    #[test]
    fn first_event_adds_immediately_and_others_once_per_interval() {
        let (mut schedule, start) = (schedule(), Instant::now());
        let mut seen: Vec<_> = (0..30)
            .map(|i| schedule.next(&1, start + i * Duration::from_millis(10)))
            .map(|at| at.duration_since(start).as_millis())
            .collect();
        seen.dedup();
        assert_eq!(seen, [0, 100, 200, 300]);
    }

    #[test]
    fn idle_keys_are_removed() {
        let (mut schedule, start) = (schedule(), Instant::now());
        for i in 0..10_000 {
            schedule.next(&i, start + i * INTERVAL);
        }
        assert!(schedule.last.len() < MIN_SWEEP, "{}", schedule.last.len());
    }

    #[tokio::test(start_paused = true)]
    async fn event_after_an_early_retry_is_not_lost() {
        let random = crate::Random::seeded(1);
        let queue = Queue::new("test", RetryPolicy::default(), &crate::Metrics::new().unwrap(), &random);
        let busy = Coalesced::new(queue.clone(), INTERVAL);
        busy.add(1);
        queue.next().await.finish(Outcome::Done); // the first event
        busy.add(1); // the second one, after the interval
        queue.add_after(1, Duration::from_millis(10)); // a retry moves it forward
        queue.next().await.finish(Outcome::Done);
        busy.add(1); // the third one
        let result = tokio::time::timeout(INTERVAL * 2, queue.next()).await;
        assert!(result.is_ok(), "the third event was lost");
    }

    proptest! {
        #[test]
        fn each_event_is_followed_by_an_add_within_the_interval(
            gaps in prop::collection::vec(0u64..250, 1..60),
        ) {
            let (mut state, mut now) = (schedule(), Instant::now());
            let (mut events, mut seen) = (Vec::new(), Vec::new());
            for gap in gaps {
                now += Duration::from_millis(gap);
                events.push(now);
                seen.push(state.next(&1, now));
            }
            seen.dedup();
            for event in events {
                prop_assert!(seen.iter().any(|at| *at >= event && *at <= event + INTERVAL));
            }
            for pair in seen.windows(2) {
                prop_assert!(pair[1] >= pair[0] + INTERVAL);
            }
        }
    }
}

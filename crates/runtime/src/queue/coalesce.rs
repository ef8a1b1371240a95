//! Busy sources: the first event at once, then at most one every so often.
//!
//! A hundred machines of one set becoming ready within a second are a hundred reasons to look at the set, and one look would
//! do. Waiting for the stream to fall silent (a trailing debounce) would hide a busy object for ever; so the first event goes
//! through at once, and while events flow the key is looked at once per interval. The last event is never lost: it is
//! covered by a look that happens after it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use super::{Queue, QueueKey};

/// Adds keys to a queue, each at most once per interval. Cheap to clone; clones share what they have let through.
#[derive(Clone, Debug)]
pub struct Coalesced<T> {
    queue: Queue<T>,
    looks: Arc<Mutex<Looks<T>>>,
}

#[derive(Debug)]
struct Looks<T> {
    every: Duration,
    /// When each key was last let through, or will be.
    last: BTreeMap<T, Instant>,
    /// Old entries are swept when the map has grown to this, so that the cost of sweeping stays constant per event.
    sweep_at: usize,
}

const SMALLEST_SWEEP: usize = 64;

impl<T: QueueKey> Coalesced<T> {
    /// Lets each key through to `queue` at most once per `every`.
    pub fn new(queue: Queue<T>, every: Duration) -> Self {
        let looks = Looks { every, last: BTreeMap::new(), sweep_at: SMALLEST_SWEEP };
        Self { queue, looks: Arc::new(Mutex::new(looks)) }
    }

    /// An event happened to `key`.
    pub fn add(&self, key: T) {
        let now = Instant::now();
        let at = self.looks.lock().look(&key, now);
        if at <= now {
            self.queue.add(key);
        } else {
            // Also when a look at that time was asked for before: a key has one due time, and a retry may have moved it
            // forward and used it up before this event.
            self.queue.add_at(key, at);
        }
    }
}

impl<T: Clone + Ord> Looks<T> {
    /// When to look because of an event now.
    fn look(&mut self, key: &T, now: Instant) -> Instant {
        let at = match self.last.get(key) {
            Some(last) if *last > now => return *last,
            Some(last) => (*last + self.every).max(now),
            None => now,
        };
        self.last.insert(key.clone(), at);
        if self.last.len() >= self.sweep_at {
            let every = self.every;
            self.last.retain(|_, last| *last + every > now);
            self.sweep_at = (self.last.len() * 2).max(SMALLEST_SWEEP);
        }
        at
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Outcome, RetryPolicy};
    use super::*;
    use proptest::prelude::*;

    const EVERY: Duration = Duration::from_millis(100);

    fn looks() -> Looks<u32> {
        Looks { every: EVERY, last: BTreeMap::new(), sweep_at: SMALLEST_SWEEP }
    }

    #[test]
    fn the_first_event_goes_at_once_and_a_stream_once_per_interval() {
        let (mut looks, start) = (looks(), Instant::now());
        let mut seen: Vec<_> = (0..30)
            .map(|i| looks.look(&1, start + i * Duration::from_millis(10)))
            .map(|at| at.duration_since(start).as_millis())
            .collect();
        seen.dedup();
        assert_eq!(seen, [0, 100, 200, 300]);
    }

    #[test]
    fn keys_that_fell_silent_are_forgotten() {
        let (mut looks, start) = (looks(), Instant::now());
        for i in 0..10_000 {
            looks.look(&i, start + i * EVERY);
        }
        assert!(looks.last.len() < SMALLEST_SWEEP, "{}", looks.last.len());
    }

    #[tokio::test(start_paused = true)]
    async fn an_event_after_a_retry_that_used_up_the_look_is_not_lost() {
        let random = crate::Random::seeded(1);
        let queue = Queue::new("test", RetryPolicy::default(), &crate::Metrics::new().unwrap(), &random);
        let busy = Coalesced::new(queue.clone(), EVERY);
        busy.add(1);
        queue.next().await.finish(Outcome::Done); // the first event, at once
        busy.add(1); // the second one, to be looked at after the interval
        queue.add_after(1, Duration::from_millis(10)); // a retry of the first look moves that forward
        queue.next().await.finish(Outcome::Done);
        busy.add(1); // the third one
        let looked = tokio::time::timeout(EVERY * 2, queue.next()).await;
        assert!(looked.is_ok(), "the third event was lost");
    }

    proptest! {
        #[test]
        fn every_event_is_covered_by_a_look_not_before_it_and_looks_keep_their_distance(
            gaps in prop::collection::vec(0u64..250, 1..60),
        ) {
            let (mut state, mut now) = (looks(), Instant::now());
            let (mut events, mut seen) = (Vec::new(), Vec::new());
            for gap in gaps {
                now += Duration::from_millis(gap);
                events.push(now);
                seen.push(state.look(&1, now));
            }
            seen.dedup();
            for event in events {
                prop_assert!(seen.iter().any(|at| *at >= event && *at <= event + EVERY));
            }
            for pair in seen.windows(2) {
                prop_assert!(pair[1] >= pair[0] + EVERY);
            }
        }
    }
}

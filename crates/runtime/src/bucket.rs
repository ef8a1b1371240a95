//! A token bucket on tokio's clock.
//!
//! client-go limits every client and every queue by such a bucket: `burst` calls may go at once, then `qps` a second. A call
//! that finds the bucket empty books the next free place in line instead of polling for one, so calls go in the order they
//! came and each knows at once how long it waits. Ready-made limiters read the system's clock, which stands still relative
//! to a simulation; this one follows tokio's, paused or not.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

/// A bucket of tokens that fills at a steady rate. Clones share the tokens.
#[derive(Clone, Debug)]
pub struct TokenBucket {
    rate: Rate,
    level: Arc<Mutex<Level>>,
}

#[derive(Clone, Copy, Debug)]
enum Rate {
    Unlimited,
    PerSecond { qps: f64, burst: f64 },
}

/// How full the bucket was at an instant. Below zero it counts the places already booked in line.
#[derive(Debug)]
struct Level {
    tokens: f64,
    /// `None` until first used: a bucket may be made before the runtime whose clock it follows.
    at: Option<Instant>,
    /// The due time of the last place in line.
    last_due: Option<Instant>,
}

impl TokenBucket {
    /// A full bucket of `burst` tokens (at least one) that gains `qps` a second.
    ///
    /// As in client-go a rate that is not above zero means *no limit*; the caller who wants a default decides on it before.
    pub fn new(qps: f32, burst: u32) -> Self {
        let burst = f64::from(burst.max(1));
        let rate = if qps > 0.0 { Rate::PerSecond { qps: f64::from(qps), burst } } else { Rate::Unlimited };
        Self { rate, level: Arc::new(Mutex::new(Level { tokens: burst, at: None, last_due: None })) }
    }

    /// Waits for a token and takes it. Callers are served in the order of their first poll; one that gives up while it is
    /// last in line leaves its place to the next.
    pub async fn take(&self) {
        let due = self.book(Instant::now());
        let mut place = Place { bucket: self, due, used: false };
        tokio::time::sleep_until(due).await;
        place.used = true;
    }

    /// Takes a token if one is there now.
    pub fn try_take(&self) -> bool {
        let Rate::PerSecond { qps, burst } = self.rate else { return true };
        let mut level = self.level.lock();
        level.fill(Instant::now(), qps, burst);
        let there = level.tokens >= 1.0;
        if there {
            level.tokens -= 1.0;
        }
        there
    }

    /// Takes the next token, also one that is not there yet, and says how long the caller has to wait before acting on it.
    #[must_use = "the token is taken; ignoring the wait breaks the limit"]
    pub fn reserve(&self) -> Duration {
        let now = Instant::now();
        self.book(now).saturating_duration_since(now)
    }

    fn book(&self, now: Instant) -> Instant {
        let Rate::PerSecond { qps, burst } = self.rate else { return now };
        let mut level = self.level.lock();
        level.fill(now, qps, burst);
        level.tokens -= 1.0;
        let wait = Duration::try_from_secs_f64((-level.tokens / qps).max(0.0)).unwrap_or(Duration::MAX);
        let due = now.checked_add(wait).unwrap_or(now);
        level.last_due = Some(due);
        due
    }

    /// Gives a booked token back, but only the last one: those behind it keep their times, and a token returned in front of
    /// them would let two calls go at the same instant.
    fn give_back(&self, due: Instant) {
        let Rate::PerSecond { burst, .. } = self.rate else { return };
        let mut level = self.level.lock();
        if level.last_due == Some(due) {
            level.tokens = (level.tokens + 1.0).min(burst);
            level.last_due = None;
        }
    }
}

impl Level {
    fn fill(&mut self, now: Instant, qps: f64, burst: f64) {
        let elapsed = self.at.map_or(Duration::ZERO, |at| now.saturating_duration_since(at));
        self.tokens = (self.tokens + elapsed.as_secs_f64() * qps).min(burst);
        self.at = Some(now);
    }
}

/// A place in line that goes back to the bucket when its caller is cancelled before its turn.
struct Place<'a> {
    bucket: &'a TokenBucket,
    due: Instant,
    used: bool,
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        if !self.used {
            self.bucket.give_back(self.due);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[tokio::test(start_paused = true)]
    async fn a_burst_goes_at_once_and_then_the_rate_holds() {
        let bucket = TokenBucket::new(10.0, 3);
        let start = Instant::now();
        for _ in 0..3 {
            bucket.take().await;
        }
        assert_eq!(start.elapsed(), Duration::ZERO);
        for _ in 0..10 {
            bucket.take().await;
        }
        assert_eq!(start.elapsed(), Duration::from_secs(1));
    }

    #[tokio::test(start_paused = true)]
    async fn reservations_line_up_behind_each_other() {
        let bucket = TokenBucket::new(10.0, 1);
        let waits: Vec<_> = (0..3).map(|_| bucket.reserve().as_millis()).collect();
        assert_eq!(waits, [0, 100, 200]);
    }

    #[tokio::test(start_paused = true)]
    async fn an_empty_bucket_refuses_until_it_has_filled_again() {
        let bucket = TokenBucket::new(1.0, 1);
        assert!(bucket.try_take());
        assert!(!bucket.try_take());
        tokio::time::advance(Duration::from_secs(1)).await;
        assert!(bucket.try_take());
    }

    #[tokio::test(start_paused = true)]
    async fn a_caller_that_gives_up_does_not_cost_the_next_one_a_token() {
        let bucket = TokenBucket::new(1.0, 1);
        bucket.take().await;
        let start = Instant::now();
        assert!(tokio::time::timeout(Duration::from_millis(10), bucket.take()).await.is_err());
        bucket.take().await;
        assert_eq!(start.elapsed(), Duration::from_secs(1));
    }

    #[tokio::test(start_paused = true)]
    async fn a_rate_of_zero_is_no_limit() {
        let bucket = TokenBucket::new(0.0, 1);
        assert!((0..1000).all(|_| bucket.try_take() && bucket.reserve() == Duration::ZERO));
    }

    proptest! {
        /// Shows CLI-5.
        #[test]
        fn no_window_ever_sees_more_than_burst_plus_rate(
            qps in 1u16..50, burst in 1u32..20, steps in prop::collection::vec((0u64..400, any::<bool>()), 1..60),
        ) {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
            let went = runtime.block_on(async {
                let bucket = TokenBucket::new(f32::from(qps), burst);
                let start = Instant::now();
                let mut went = Vec::new();
                for (pause, patient) in steps {
                    tokio::time::advance(Duration::from_millis(pause)).await;
                    if patient {
                        went.push(start.elapsed() + bucket.reserve());
                    } else if bucket.try_take() {
                        went.push(start.elapsed());
                    }
                }
                went
            });
            for (i, from) in went.iter().enumerate() {
                for (calls, to) in (1u32..).zip(went.iter().skip(i)) {
                    let window = to.saturating_sub(*from);
                    let allowed = f64::from(burst) + window.as_secs_f64() * f64::from(qps) + 1e-6;
                    prop_assert!(f64::from(calls) <= allowed, "{calls} calls in {window:?}");
                }
            }
        }
    }
}

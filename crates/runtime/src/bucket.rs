//! A token bucket rate limiter that uses the clock of tokio.
//!
//! client-go limits clients and queues in this way: a burst of `burst` calls, then `qps` calls per second. If the bucket is
//! empty, a call reserves the next token, so calls are served in order and the wait is known immediately. Existing rate
//! limiters use the clock of the system; this one also works with the paused clock of tokio in simulations.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

/// A token bucket. Clones share the tokens.
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

/// Number of tokens at an instant. Negative if tokens are reserved in advance.
#[derive(Debug)]
struct Level {
    tokens: f64,
    /// `None` until first used: the bucket may be created before the tokio runtime.
    at: Option<Instant>,
    /// Due time of the last reservation.
    last_due: Option<Instant>,
}

impl TokenBucket {
    /// Creates a full bucket of `burst` tokens (at least one) that gains `qps` tokens per second.
    ///
    /// As in client-go, a rate of zero or below means *no limit*.
    pub fn new(qps: f32, burst: u32) -> Self {
        let burst = f64::from(burst.max(1));
        let rate = if qps > 0.0 { Rate::PerSecond { qps: f64::from(qps), burst } } else { Rate::Unlimited };
        Self { rate, level: Arc::new(Mutex::new(Level { tokens: burst, at: None, last_due: None })) }
    }

    /// Waits for a token and takes it. Callers are served in the order of their first poll. The reservation of a cancelled
    /// caller is returned if it is the last one.
    pub async fn take(&self) {
        let due = self.reserve_at(Instant::now());
        let mut reservation = Reservation { bucket: self, due, used: false };
        tokio::time::sleep_until(due).await;
        reservation.used = true;
    }

    /// Takes a token if one is available now.
    pub fn try_take(&self) -> bool {
        let Rate::PerSecond { qps, burst } = self.rate else { return true };
        let mut level = self.level.lock();
        level.fill(Instant::now(), qps, burst);
        let available = level.tokens >= 1.0;
        if available {
            level.tokens -= 1.0;
        }
        available
    }

    /// Reserves the next token and returns how long the caller must wait before using it.
    #[must_use = "the token is taken; ignoring the wait breaks the limit"]
    pub fn reserve(&self) -> Duration {
        let now = Instant::now();
        self.reserve_at(now).saturating_duration_since(now)
    }

    fn reserve_at(&self, now: Instant) -> Instant {
        let Rate::PerSecond { qps, burst } = self.rate else { return now };
        let mut level = self.level.lock();
        level.fill(now, qps, burst);
        level.tokens -= 1.0;
        let wait = Duration::try_from_secs_f64((-level.tokens / qps).max(0.0)).unwrap_or(Duration::MAX);
        let due = now.checked_add(wait).unwrap_or(now);
        level.last_due = Some(due);
        due
    }

    /// Returns a reserved token if it is the last one. Later reservations keep their times, so returning an earlier token
    /// would allow two calls at the same instant.
    fn cancel(&self, due: Instant) {
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

/// A reservation that is returned to the bucket if its caller is cancelled.
struct Reservation<'a> {
    bucket: &'a TokenBucket,
    due: Instant,
    used: bool,
}

impl Drop for Reservation<'_> {
    fn drop(&mut self) {
        if !self.used {
            self.bucket.cancel(self.due);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[tokio::test(start_paused = true)]
    async fn rate_applies_after_a_burst() {
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
    async fn reservations_are_queued() {
        let bucket = TokenBucket::new(10.0, 1);
        let waits: Vec<_> = (0..3).map(|_| bucket.reserve().as_millis()).collect();
        assert_eq!(waits, [0, 100, 200]);
    }

    #[tokio::test(start_paused = true)]
    async fn empty_bucket_rejects_until_refilled() {
        let bucket = TokenBucket::new(1.0, 1);
        assert!(bucket.try_take());
        assert!(!bucket.try_take());
        tokio::time::advance(Duration::from_secs(1)).await;
        assert!(bucket.try_take());
    }

    #[tokio::test(start_paused = true)]
    async fn cancelled_caller_returns_its_token() {
        let bucket = TokenBucket::new(1.0, 1);
        bucket.take().await;
        let start = Instant::now();
        assert!(tokio::time::timeout(Duration::from_millis(10), bucket.take()).await.is_err());
        bucket.take().await;
        assert_eq!(start.elapsed(), Duration::from_secs(1));
    }

    #[tokio::test(start_paused = true)]
    async fn rate_of_zero_is_no_limit() {
        let bucket = TokenBucket::new(0.0, 1);
        assert!((0..1000).all(|_| bucket.try_take() && bucket.reserve() == Duration::ZERO));
    }

    proptest! {
        /// Shows CLI-5.
        #[test]
        fn no_window_exceeds_burst_plus_rate(
            qps in 1u16..50, burst in 1u32..20, steps in prop::collection::vec((0u64..400, any::<bool>()), 1..60),
        ) {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
            let calls_at = runtime.block_on(async {
                let bucket = TokenBucket::new(f32::from(qps), burst);
                let start = Instant::now();
                let mut calls_at = Vec::new();
                for (pause, waits) in steps {
                    tokio::time::advance(Duration::from_millis(pause)).await;
                    if waits {
                        calls_at.push(start.elapsed() + bucket.reserve());
                    } else if bucket.try_take() {
                        calls_at.push(start.elapsed());
                    }
                }
                calls_at
            });
            for (i, from) in calls_at.iter().enumerate() {
                for (calls, to) in (1u32..).zip(calls_at.iter().skip(i)) {
                    let window = to.saturating_sub(*from);
                    let allowed = f64::from(burst) + window.as_secs_f64() * f64::from(qps) + 1e-6;
                    prop_assert!(f64::from(calls) <= allowed, "{calls} calls in {window:?}");
                }
            }
        }
    }
}

//! The clock, as a parameter.
//!
//! There are two kinds of time. *Wall time* ([`Clock::now`]) is written into objects and compared with timestamps of other
//! writers; it may jump. *Monotonic time* ([`Clock::instant`], the clock of tokio) is used for waits, lease checks and backoff.
//! With the paused clock of tokio, tests control it. In a simulation wall time is derived from monotonic time, so a virtual day
//! takes milliseconds.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use jiff::{SignedDuration, Timestamp};
use tokio::time::Instant;

/// Source of wall time and monotonic time. Cheap to clone; clones share their state.
#[derive(Clone, Debug)]
pub struct Clock {
    source: Source,
}

#[derive(Clone, Debug)]
enum Source {
    System,
    Derived { start: Timestamp, origin: Instant, stepped_millis: Arc<AtomicI64> },
}

impl Clock {
    /// Returns the clock of the system.
    pub fn system() -> Self {
        Self { source: Source::System }
    }

    /// Returns a clock whose wall time is `start` now and follows the clock of tokio, which may be paused.
    pub fn starting_at(start: Timestamp) -> Self {
        Self { source: Source::Derived { start, origin: Instant::now(), stepped_millis: Arc::default() } }
    }

    /// Returns the wall time, for timestamps in objects.
    #[allow(clippy::disallowed_methods, reason = "the only place that reads the clock of the system")]
    pub fn now(&self) -> Timestamp {
        match &self.source {
            Source::System => Timestamp::now(),
            Source::Derived { start, origin, stepped_millis } => {
                let elapsed = SignedDuration::try_from(origin.elapsed()).unwrap_or(SignedDuration::MAX);
                let stepped = SignedDuration::from_millis(stepped_millis.load(Ordering::Relaxed));
                start.checked_add(elapsed.saturating_add(stepped)).unwrap_or(Timestamp::MAX)
            }
        }
    }

    /// Moves the wall time of a derived clock forward or, if negative, backward. Monotonic time does not change. For tests; no
    /// effect on the clock of the system.
    pub fn step(&self, by: SignedDuration) {
        if let Source::Derived { stepped_millis, .. } = &self.source {
            stepped_millis.fetch_add(i64::try_from(by.as_millis()).unwrap_or_default(), Ordering::Relaxed);
        }
    }

    /// Returns the monotonic time, for waits and deadlines in this process.
    pub fn instant(&self) -> Instant {
        Instant::now()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    /// Shows EVT-7.
    #[tokio::test(start_paused = true)]
    async fn derived_clock_follows_the_paused_clock() {
        let start: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        let clock = Clock::starting_at(start);
        tokio::time::sleep(Duration::from_hours(24)).await;
        assert_eq!(clock.now().to_string(), "2026-01-02T00:00:00Z");
        let before = clock.instant();
        clock.clone().step(SignedDuration::from_hours(-1));
        assert_eq!((clock.now().to_string().as_str(), clock.instant()), ("2026-01-01T23:00:00Z", before));
    }
}

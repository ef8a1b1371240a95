//! Time, as something that is handed in.
//!
//! Two kinds of time are told apart. *Wall time* ([`Clock::now`]) is written into objects and compared with timestamps that
//! others wrote; it may jump. *Elapsed time* ([`Clock::instant`], tokio's clock) drives every wait, lease check and back-off;
//! it only moves forward, and under tokio's paused clock it moves when the test says so. In a simulation wall time is derived
//! from elapsed time, so that a virtual day costs milliseconds and both agree.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use jiff::{SignedDuration, Timestamp};
use tokio::time::Instant;

/// Where the time comes from. Cheap to clone; all clones agree.
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
    /// The machine's own clock.
    pub fn system() -> Self {
        Self { source: Source::System }
    }

    /// A clock that shows `start` now and then follows tokio's clock, paused or not.
    pub fn starting_at(start: Timestamp) -> Self {
        Self { source: Source::Derived { start, origin: Instant::now(), stepped_millis: Arc::default() } }
    }

    /// Wall time, for timestamps in objects.
    #[allow(clippy::disallowed_methods, reason = "this is the one place that asks the system for the time")]
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

    /// Sets the wall time of a derived clock forward or, if negative, backward. The elapsed time does not change. For tests; the
    /// system's clock is not set.
    pub fn step(&self, by: SignedDuration) {
        if let Source::Derived { stepped_millis, .. } = &self.source {
            stepped_millis.fetch_add(i64::try_from(by.as_millis()).unwrap_or_default(), Ordering::Relaxed);
        }
    }

    /// Elapsed time, for waits and deadlines of this process.
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
    async fn a_derived_clock_moves_with_the_paused_one() {
        let start: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        let clock = Clock::starting_at(start);
        tokio::time::sleep(Duration::from_hours(24)).await;
        assert_eq!(clock.now().to_string(), "2026-01-02T00:00:00Z");
        let before = clock.instant();
        clock.clone().step(SignedDuration::from_hours(-1));
        assert_eq!((clock.now().to_string().as_str(), clock.instant()), ("2026-01-01T23:00:00Z", before));
    }
}

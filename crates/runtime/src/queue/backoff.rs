//! Backoff of failed keys.

use std::time::Duration;

use backoff::{Exponential, shortened};

use crate::Random;

/// Backoff and rate limit of retries. The defaults are those of client-go, except the maximum backoff, which is 1000 s there: keys
/// that failed while an API server was unreachable would be delayed by a quarter of an hour.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RetryPolicy {
    /// Backoff after the first failure. It doubles with each further one.
    pub initial_backoff: Duration,
    /// Maximum backoff of a key.
    pub max_backoff: Duration,
    /// Jitter: the maximum factor by which a backoff is shortened.
    pub jitter: f64,
    /// Retries per second of the whole queue after the burst.
    pub qps: f32,
    /// Number of retries of the queue in a burst.
    pub burst: u32,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self {
            initial_backoff: Duration::from_millis(5),
            max_backoff: Duration::from_mins(2),
            jitter: 0.1,
            qps: 10.0,
            burst: 100,
        }
    }
}

impl RetryPolicy {
    /// Returns the backoff of a key that had failed `failures` times before this failure.
    pub(super) fn backoff(&self, failures: u32, random: &Random) -> Duration {
        let backoff = Exponential::new(self.initial_backoff, self.max_backoff).after(failures.saturating_add(1));
        // Shortened, not extended, so that the maximum is not exceeded.
        shortened(backoff, self.jitter, random.fraction())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    #[rstest]
    #[case(0, 5)]
    #[case(1, 10)]
    #[case(10, 5_120)]
    #[case(14, 81_920)]
    #[case(15, 120_000)]
    #[case(40, 120_000)]
    #[case(u32::MAX, 120_000)]
    fn backoff_doubles_up_to_the_maximum(#[case] failures: u32, #[case] millis: u64) {
        let policy = RetryPolicy { jitter: 0.0, ..RetryPolicy::default() };
        assert_eq!(policy.backoff(failures, &Random::seeded(1)), Duration::from_millis(millis));
    }

    #[test]
    fn jitter_shortens_the_backoff_by_at_most_ten_percent() {
        let random = Random::seeded(3);
        let backoffs: Vec<_> = (0..100).map(|_| RetryPolicy::default().backoff(30, &random)).collect();
        assert!(backoffs.iter().all(|backoff| (108..=120).contains(&backoff.as_secs())), "{backoffs:?}");
        assert!(backoffs.iter().any(|backoff| *backoff != backoffs[0]));
    }
}

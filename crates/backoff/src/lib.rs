//! Exponential backoff with jitter, as pure functions.
//!
//! The backoff doubles up to a maximum. Jitter extends or shortens it, so that clients that failed together do not retry
//! together. This crate neither sleeps nor generates random numbers: the caller sleeps for the returned [`Duration`] or
//! records it, and passes a random number. Therefore planners can use it, and simulations are reproducible (ADR 0061).

use std::time::Duration;

/// Backoff that doubles from an initial value up to a maximum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exponential {
    initial: Duration,
    max: Duration,
}

impl Exponential {
    /// Creates a backoff with this initial value and maximum.
    #[must_use]
    pub const fn new(initial: Duration, max: Duration) -> Self {
        Self { initial, max }
    }

    /// Returns the backoff after this many consecutive failures: the initial value after one (and after none).
    #[must_use]
    pub fn after(self, failures: u32) -> Duration {
        let factor = 1_u32.checked_shl(failures.saturating_sub(1));
        let backoff = factor.and_then(|factor| self.initial.checked_mul(factor));
        backoff.map_or(self.max, |backoff| backoff.min(self.max))
    }
}

/// Counts consecutive failures of a retried operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backoff {
    policy: Exponential,
    failures: u32,
}

impl Backoff {
    /// Creates a backoff without failures.
    #[must_use]
    pub const fn new(policy: Exponential) -> Self {
        Self { policy, failures: 0 }
    }

    /// Counts a failure and returns the backoff.
    #[must_use]
    pub fn failed(&mut self) -> Duration {
        self.failures = self.failures.saturating_add(1);
        self.policy.after(self.failures)
    }

    /// Resets the count after a success.
    pub fn reset(&mut self) {
        self.failures = 0;
    }

    /// Returns the number of consecutive failures.
    #[must_use]
    pub const fn failures(&self) -> u32 {
        self.failures
    }
}

/// Returns a duration extended by a factor of up to `max` (0.5 = up to 50 % longer). `random` is from zero to one.
#[must_use]
pub fn stretched(duration: Duration, max: f64, random: f64) -> Duration {
    duration.mul_f64(1.0 + random.clamp(0.0, 1.0) * max.max(0.0))
}

/// Returns a duration shortened by a factor of up to `max`, so that a maximum is not exceeded. `random` is from zero to one.
#[must_use]
pub fn shortened(duration: Duration, max: f64, random: f64) -> Duration {
    duration.mul_f64(1.0 - random.clamp(0.0, 1.0) * max.clamp(0.0, 1.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use rstest::rstest;

    const POLICY: Exponential = Exponential::new(Duration::from_millis(5), Duration::from_secs(1000));

    #[rstest]
    #[case(0, 5)]
    #[case(1, 5)]
    #[case(2, 10)]
    #[case(11, 5_120)]
    #[case(18, 655_360)]
    #[case(19, 1_000_000)]
    #[case(41, 1_000_000)]
    #[case(u32::MAX, 1_000_000)]
    fn backoff_doubles_up_to_the_maximum(#[case] failures: u32, #[case] millis: u64) {
        assert_eq!(POLICY.after(failures), Duration::from_millis(millis));
    }

    #[test]
    fn initial_backoff_is_limited_to_the_maximum() {
        let max = Duration::from_secs(1);
        assert_eq!(Exponential::new(2 * max, max).after(1), max);
    }

    #[test]
    fn success_resets_the_backoff() {
        let mut backoff = Backoff::new(POLICY);
        let backoffs: Vec<_> = (0..3).map(|_| backoff.failed().as_millis()).collect();
        assert_eq!((backoffs, backoff.failures()), (vec![5, 10, 20], 3));
        backoff.reset();
        assert_eq!(backoff.failed().as_millis(), 5);
    }

    proptest! {
        #[test]
        fn jitter_is_limited(millis in 0u64..1_000_000, max in 0.0f64..1.0, random in 0.0f64..1.0) {
            let base = Duration::from_millis(millis);
            prop_assert!((base..=base.mul_f64(1.0 + max)).contains(&stretched(base, max, random)));
            prop_assert!((base.mul_f64(1.0 - max)..=base).contains(&shortened(base, max, random)));
        }

        #[test]
        fn backoff_never_decreases(initial in 1u64..10_000, max in 1u64..10_000_000, failures in 0u32..200) {
            let policy = Exponential::new(Duration::from_millis(initial), Duration::from_millis(max));
            prop_assert!(policy.after(failures) <= policy.after(failures.saturating_add(1)));
        }
    }
}

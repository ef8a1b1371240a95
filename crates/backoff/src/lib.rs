//! Exponential back-off: how long to wait before the next attempt.
//!
//! Pauses double up to a longest one. Those who failed together must not come back together, so a pause is stretched or shortened by
//! a share of itself (jitter). Nothing here waits or draws: time is a [`Duration`] that the caller sleeps for or writes down, and
//! chance is a number that the caller brings, from a seed or from a uid. So planners use the same rule as whoever sleeps, and a
//! simulation with the same seed takes the same course (ADR 0061).

use std::time::Duration;

/// Pauses that double from a first one up to a longest one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exponential {
    first: Duration,
    longest: Duration,
}

impl Exponential {
    /// From the first pause up to the longest.
    #[must_use]
    pub const fn new(first: Duration, longest: Duration) -> Self {
        Self { first, longest }
    }

    /// The pause after this many failures in a row: the first one after one (and after none).
    #[must_use]
    pub fn after(self, failures: u32) -> Duration {
        let factor = 1_u32.checked_shl(failures.saturating_sub(1));
        let pause = factor.and_then(|factor| self.first.checked_mul(factor));
        pause.map_or(self.longest, |pause| pause.min(self.longest))
    }
}

/// Counts failures in a row, for whoever tries until it succeeds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backoff {
    pauses: Exponential,
    failures: u32,
}

impl Backoff {
    /// Without a failure yet.
    #[must_use]
    pub const fn new(pauses: Exponential) -> Self {
        Self { pauses, failures: 0 }
    }

    /// Another failure, and the pause after it.
    #[must_use]
    pub fn failed(&mut self) -> Duration {
        self.failures = self.failures.saturating_add(1);
        self.pauses.after(self.failures)
    }

    /// It works again.
    pub fn reset(&mut self) {
        self.failures = 0;
    }

    /// How many attempts in a row have failed.
    #[must_use]
    pub const fn failures(&self) -> u32 {
        self.failures
    }
}

/// A pause, longer by up to `most` of itself (0.5 = up to half as long again). `chance` is from zero to one.
#[must_use]
pub fn stretched(pause: Duration, most: f64, chance: f64) -> Duration {
    pause.mul_f64(1.0 + chance.clamp(0.0, 1.0) * most.max(0.0))
}

/// A pause, shorter by up to `most` of itself, where the longest one is a promise. `chance` is from zero to one.
#[must_use]
pub fn shortened(pause: Duration, most: f64, chance: f64) -> Duration {
    pause.mul_f64(1.0 - chance.clamp(0.0, 1.0) * most.clamp(0.0, 1.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use rstest::rstest;

    const PAUSES: Exponential = Exponential::new(Duration::from_millis(5), Duration::from_secs(1000));

    #[rstest]
    #[case(0, 5)]
    #[case(1, 5)]
    #[case(2, 10)]
    #[case(11, 5_120)]
    #[case(18, 655_360)]
    #[case(19, 1_000_000)]
    #[case(41, 1_000_000)]
    #[case(u32::MAX, 1_000_000)]
    fn a_pause_doubles_up_to_the_longest(#[case] failures: u32, #[case] millis: u64) {
        assert_eq!(PAUSES.after(failures), Duration::from_millis(millis));
    }

    #[test]
    fn a_first_pause_beyond_the_longest_is_cut_to_it() {
        let longest = Duration::from_secs(1);
        assert_eq!(Exponential::new(2 * longest, longest).after(1), longest);
    }

    #[test]
    fn a_success_begins_again_with_the_first_pause() {
        let mut backoff = Backoff::new(PAUSES);
        let pauses: Vec<_> = (0..3).map(|_| backoff.failed().as_millis()).collect();
        assert_eq!((pauses, backoff.failures()), (vec![5, 10, 20], 3));
        backoff.reset();
        assert_eq!(backoff.failed().as_millis(), 5);
    }

    proptest! {
        #[test]
        fn jitter_keeps_to_its_share(millis in 0u64..1_000_000, most in 0.0f64..1.0, chance in 0.0f64..1.0) {
            let pause = Duration::from_millis(millis);
            prop_assert!((pause..=pause.mul_f64(1.0 + most)).contains(&stretched(pause, most, chance)));
            prop_assert!((pause.mul_f64(1.0 - most)..=pause).contains(&shortened(pause, most, chance)));
        }

        #[test]
        fn no_pause_is_shorter_than_the_one_before(first in 1u64..10_000, longest in 1u64..10_000_000, failures in 0u32..200) {
            let pauses = Exponential::new(Duration::from_millis(first), Duration::from_millis(longest));
            prop_assert!(pauses.after(failures) <= pauses.after(failures.saturating_add(1)));
        }
    }
}

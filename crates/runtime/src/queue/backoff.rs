//! How long a failed key waits.

use std::time::Duration;

use backoff::{Exponential, shortened};

use crate::Random;

/// How fast failed work comes back. The defaults are client-go's, but for the longest pause, which there is 1000 s: what failed while an API
/// server was away for some minutes would stand still for a quarter of an hour when it is back.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RetryPolicy {
    /// The pause after the first failure; it doubles with each further one.
    pub first_pause: Duration,
    /// No pause of one key is longer.
    pub longest_pause: Duration,
    /// The share by which a pause may be cut short at random, so that keys that failed together do not come back together.
    pub jitter: f64,
    /// Retries a second of the whole queue, once the burst is used up.
    pub qps: f32,
    /// Retries the queue may make at once.
    pub burst: u32,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self {
            first_pause: Duration::from_millis(5),
            longest_pause: Duration::from_mins(2),
            jitter: 0.1,
            qps: 10.0,
            burst: 100,
        }
    }
}

impl RetryPolicy {
    /// The pause of a key that had failed `failures` times before this failure.
    pub(super) fn pause(&self, failures: u32, random: &Random) -> Duration {
        let pause = Exponential::new(self.first_pause, self.longest_pause).after(failures.saturating_add(1));
        // Shortened, not stretched: the longest pause is a promise.
        shortened(pause, self.jitter, random.fraction())
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
    fn a_pause_doubles_up_to_the_longest(#[case] failures: u32, #[case] millis: u64) {
        let policy = RetryPolicy { jitter: 0.0, ..RetryPolicy::default() };
        assert_eq!(policy.pause(failures, &Random::seeded(1)), Duration::from_millis(millis));
    }

    #[test]
    fn jitter_shortens_a_pause_by_a_tenth_at_most() {
        let random = Random::seeded(3);
        let pauses: Vec<_> = (0..100).map(|_| RetryPolicy::default().pause(30, &random)).collect();
        assert!(pauses.iter().all(|pause| (108..=120).contains(&pause.as_secs())), "{pauses:?}");
        assert!(pauses.iter().any(|pause| *pause != pauses[0]));
    }
}

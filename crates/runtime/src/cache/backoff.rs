//! How long a cache waits before it bothers the API server again.
//!
//! Each cache has its own: a kind we may not read must not delay one that we may.

use std::time::Duration;

use backoff::Exponential;

use crate::Random;

const FIRST: Duration = Duration::from_millis(800);
const LONGEST: Duration = Duration::from_secs(30);
/// Spreads the return of many clients after an outage of the API server.
const JITTER: f64 = 0.5;

#[derive(Debug)]
pub(super) struct Backoff {
    random: Random,
    pauses: backoff::Backoff,
}

impl Backoff {
    pub(super) fn new(random: Random) -> Self {
        Self { random, pauses: backoff::Backoff::new(Exponential::new(FIRST, LONGEST)) }
    }

    /// The wait after a failure: doubling, up to half a minute, stretched by a random share.
    pub(super) fn after_failure(&mut self) -> Duration {
        self.random.stretched(self.pauses.failed(), JITTER)
    }

    /// The wait after something that is normal once and a sign of error when repeated (an expired version, a watch that
    /// ended at once): none the first time, so that one relist is not late.
    pub(super) fn after_surprise(&mut self) -> Duration {
        let first = self.pauses.failures() == 0;
        let wait = self.pauses.failed();
        if first { Duration::ZERO } else { self.random.stretched(wait, JITTER) }
    }

    /// The watch works.
    pub(super) fn reset(&mut self) {
        self.pauses.reset();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_half_a_minute_and_half_as_much_again() {
        let mut backoff = Backoff::new(Random::seeded(1));
        let waits: Vec<_> = (0..12).map(|_| backoff.after_failure()).collect();
        assert!(waits[0] >= FIRST && waits[0] < FIRST.mul_f64(1.5));
        assert!(waits[3] >= FIRST * 8 && waits[3] < FIRST.mul_f64(12.0));
        assert!(waits.iter().all(|wait| *wait <= LONGEST.mul_f64(1.5)));
        assert!(waits[11] >= LONGEST);
    }

    #[test]
    fn one_surprise_costs_nothing_and_the_next_one_does() {
        let mut backoff = Backoff::new(Random::seeded(1));
        assert_eq!(backoff.after_surprise(), Duration::ZERO);
        assert!(backoff.after_surprise() >= FIRST);
        backoff.reset();
        assert_eq!(backoff.after_surprise(), Duration::ZERO);
    }
}

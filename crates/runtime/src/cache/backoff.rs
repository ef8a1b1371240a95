//! Backoff of a cache between failed requests to the API server.
//!
//! Each cache has its own backoff, so that a kind without permission to list does not delay the others.

use std::time::Duration;

use backoff::Exponential;

use crate::Random;

const FIRST: Duration = Duration::from_millis(800);
const LONGEST: Duration = Duration::from_secs(30);
/// Spreads the requests of many clients after an outage of the API server.
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

    /// Returns the wait after a failure: doubled each time, up to 30 s, plus jitter.
    pub(super) fn after_failure(&mut self) -> Duration {
        self.random.stretched(self.pauses.failed(), JITTER)
    }

    /// Returns the wait after an event that is normal once and an error when repeated, for example an expired version
    /// or a watch that ended immediately. The first wait is zero, so that a single relist is not delayed.
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

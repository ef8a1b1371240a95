//! Randomness, as a parameter.
//!
//! Jitter and generated names use one seeded generator, so that a simulation is reproducible. Secrets use
//! [`Entropy`](crate::Entropy) instead.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

/// A seeded random generator. Clones share their state; [`Random::fork`] creates an independent one.
#[derive(Clone, Debug)]
pub struct Random {
    generator: Arc<Mutex<fastrand::Rng>>,
}

impl Random {
    /// Creates a generator whose sequence depends on the seed only.
    pub fn seeded(seed: u64) -> Self {
        Self { generator: Arc::new(Mutex::new(fastrand::Rng::with_seed(seed))) }
    }

    /// Creates a generator with a random seed; for the binary.
    #[allow(clippy::disallowed_methods, reason = "the only place that creates an unseeded generator")]
    pub fn from_entropy() -> Self {
        Self { generator: Arc::new(Mutex::new(fastrand::Rng::new())) }
    }

    /// Creates an independent generator, seeded from this one. Consumers do not affect the sequences of each other.
    #[must_use]
    pub fn fork(&self) -> Self {
        Self { generator: Arc::new(Mutex::new(self.generator.lock().fork())) }
    }

    /// Returns any number.
    pub fn number(&self) -> u64 {
        self.generator.lock().u64(..)
    }

    /// Returns a number below `end`; zero if `end` is zero.
    pub fn below(&self, end: u64) -> u64 {
        if end == 0 { 0 } else { self.generator.lock().u64(..end) }
    }

    /// Returns a number from zero (inclusive) to one (exclusive).
    pub fn fraction(&self) -> f64 {
        self.generator.lock().f64()
    }

    /// Returns `base` extended by a random factor of up to `max` (0.5 = up to 50 % longer).
    pub fn stretched(&self, base: Duration, max: f64) -> Duration {
        backoff::stretched(base, max, self.fraction())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Shows EVT-7.
    #[test]
    fn same_seed_gives_the_same_sequence() {
        let draw = |r: &Random| (0..5).map(|_| r.number()).collect::<Vec<_>>();
        assert_eq!(draw(&Random::seeded(7)), draw(&Random::seeded(7)));
        assert_ne!(draw(&Random::seeded(7)), draw(&Random::seeded(8)));
    }

    #[test]
    fn fork_is_independent_of_its_parent() {
        let (a, b) = (Random::seeded(1), Random::seeded(1));
        let (fork_a, fork_b) = (a.fork(), b.fork());
        a.number();
        assert_eq!(fork_a.number(), fork_b.number());
    }
}

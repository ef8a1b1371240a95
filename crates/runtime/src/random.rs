//! Randomness, as something that is handed in.
//!
//! Jitter and chosen names come from one seeded generator, so that a simulation with the same seed takes the same course. It
//! is *not* for secrets: whoever makes a token asks the operating system.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

/// A seeded source of randomness. Clones share the state; [`Random::fork`] makes an independent one.
#[derive(Clone, Debug)]
pub struct Random {
    generator: Arc<Mutex<fastrand::Rng>>,
}

impl Random {
    /// A generator that always takes the same course for the same seed.
    pub fn seeded(seed: u64) -> Self {
        Self { generator: Arc::new(Mutex::new(fastrand::Rng::with_seed(seed))) }
    }

    /// A generator nobody can predict the course of; for the binary.
    #[allow(clippy::disallowed_methods, reason = "this is the one place that asks for an unseeded generator")]
    pub fn from_entropy() -> Self {
        Self { generator: Arc::new(Mutex::new(fastrand::Rng::new())) }
    }

    /// An independent generator, seeded from this one: what one consumer draws does not shift what another one sees.
    #[must_use]
    pub fn fork(&self) -> Self {
        Self { generator: Arc::new(Mutex::new(self.generator.lock().fork())) }
    }

    /// Any number.
    pub fn number(&self) -> u64 {
        self.generator.lock().u64(..)
    }

    /// A number from zero up to, not including, `end`; zero for an empty range.
    pub fn below(&self, end: u64) -> u64 {
        if end == 0 { 0 } else { self.generator.lock().u64(..end) }
    }

    /// From zero up to, not including, one.
    pub fn fraction(&self) -> f64 {
        self.generator.lock().f64()
    }

    /// `base` stretched by a random share of up to `most` (0.5 = up to half as long again).
    pub fn stretched(&self, base: Duration, most: f64) -> Duration {
        backoff::stretched(base, most, self.fraction())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Shows EVT-7.
    #[test]
    fn the_same_seed_takes_the_same_course() {
        let draw = |r: &Random| (0..5).map(|_| r.number()).collect::<Vec<_>>();
        assert_eq!(draw(&Random::seeded(7)), draw(&Random::seeded(7)));
        assert_ne!(draw(&Random::seeded(7)), draw(&Random::seeded(8)));
    }

    #[test]
    fn a_fork_does_not_see_what_its_parent_draws_later() {
        let (a, b) = (Random::seeded(1), Random::seeded(1));
        let (fork_a, fork_b) = (a.fork(), b.fork());
        a.number();
        assert_eq!(fork_a.number(), fork_b.number());
    }
}

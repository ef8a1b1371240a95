//! Randomness for secrets: nobody may be able to guess it.
//!
//! [`Random`] is for jitter: whoever knows its seed knows its course. A token comes from the operating system instead, and only a
//! test that must know it beforehand hands in a seeded source.

use std::fmt;

use ring::rand::{SecureRandom, SystemRandom};

use crate::Random;

/// Where secrets come from.
#[derive(Clone)]
pub struct Entropy {
    source: Source,
}

#[derive(Clone)]
enum Source {
    System(SystemRandom),
    Seeded(Random),
}

/// The operating system gave no randomness.
#[derive(Debug, thiserror::Error)]
#[error("failed to get randomness from the operating system")]
pub struct NoEntropy;

impl Entropy {
    /// The operating system's.
    pub fn system() -> Self {
        Self { source: Source::System(SystemRandom::new()) }
    }

    /// For tests: the same seed gives the same secrets, which therefore are none.
    pub fn seeded(seed: u64) -> Self {
        Self { source: Source::Seeded(Random::seeded(seed)) }
    }

    /// Fills `bytes`.
    pub fn fill(&self, bytes: &mut [u8]) -> Result<(), NoEntropy> {
        match &self.source {
            Source::System(system) => system.fill(bytes).map_err(|_| NoEntropy),
            Source::Seeded(random) => {
                for byte in bytes {
                    *byte = u8::try_from(random.below(256)).unwrap_or_default();
                }
                Ok(())
            }
        }
    }
}

impl fmt::Debug for Entropy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.source {
            Source::System(_) => "Entropy(system)",
            Source::Seeded(_) => "Entropy(seeded)",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(entropy: &Entropy) -> [u8; 32] {
        let mut bytes = [0; 32];
        entropy.fill(&mut bytes).unwrap();
        bytes
    }

    #[test]
    fn the_system_never_repeats_itself_and_a_seed_always_does() {
        assert_ne!(drawn(&Entropy::system()), drawn(&Entropy::system()));
        assert_eq!(drawn(&Entropy::seeded(1)), drawn(&Entropy::seeded(1)));
    }
}

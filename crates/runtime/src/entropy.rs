//! Cryptographically secure randomness for secrets.
//!
//! [`Random`] is predictable from its seed, so it is used for jitter only. Tokens use the randomness of the operating system.
//! Tests use a seeded source.

use std::fmt;

use ring::rand::{SecureRandom, SystemRandom};

use crate::Random;

/// Source of randomness for secrets.
#[derive(Clone)]
pub struct Entropy {
    source: Source,
}

#[derive(Clone)]
enum Source {
    System(SystemRandom),
    Seeded(Random),
}

/// The operating system failed to provide randomness.
#[derive(Debug, thiserror::Error)]
#[error("failed to get randomness from the operating system")]
pub struct NoEntropy;

impl Entropy {
    /// Returns the source of the operating system.
    pub fn system() -> Self {
        Self { source: Source::System(SystemRandom::new()) }
    }

    /// Returns a source with a predictable sequence. For tests.
    pub fn seeded(seed: u64) -> Self {
        Self { source: Source::Seeded(Random::seeded(seed)) }
    }

    /// Fills `bytes` with random data.
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
    fn system_source_differs_and_seeded_source_repeats() {
        assert_ne!(drawn(&Entropy::system()), drawn(&Entropy::system()));
        assert_eq!(drawn(&Entropy::seeded(1)), drawn(&Entropy::seeded(1)));
    }
}

//! How long until the next attempt.
//!
//! Pauses double up to a longest one and are shortened by up to a quarter, so that fifty objects that were refused together do not
//! come back together. The share is taken from the object's uid and the number of the attempt: scattered, and yet the same for
//! whoever computes it again.

use std::time::Duration;

use api::Uid;
use backoff::{Exponential, shortened};

/// The pause after this many attempts in a row came to nothing.
pub(crate) fn pause(of: &Uid, attempts: u32, first: Duration, longest: Duration) -> Duration {
    let share = u32::try_from(scatter(of.as_str(), attempts) % 256).unwrap_or_default();
    shortened(Exponential::new(first, longest).after(attempts), 0.25, f64::from(share) / 256.0)
}

/// FNV-1a: small, and the same on every machine.
fn scatter(text: &str, salt: u32) -> u64 {
    let bytes = text.bytes().chain(salt.to_le_bytes());
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)) >> 16
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const FIRST: Duration = Duration::from_secs(5);
    const LONGEST: Duration = Duration::from_secs(20);

    proptest! {
        #[test]
        fn pauses_grow_to_the_longest_and_lose_at_most_a_quarter(uid in "[a-f0-9]{8}", attempts in 0u32..100) {
            let whole = match attempts { 0 | 1 => 5, 2 => 10, _ => 20 };
            let whole = Duration::from_secs(whole);
            let pause = pause(&uid.as_str().into(), attempts, FIRST, LONGEST);
            prop_assert!(pause <= whole && pause > whole.mul_f64(0.75), "{pause:?} of {whole:?}");
        }
    }

    /// Shows DR-7.
    #[test]
    fn pods_that_were_refused_together_come_back_apart() {
        let mut pauses: Vec<_> = (0..50).map(|i| pause(&format!("uid-{i}").into(), 3, FIRST, LONGEST)).collect();
        pauses.sort_unstable();
        pauses.dedup();
        assert!(pauses.len() > 30, "{}", pauses.len());
    }
}

//! Backoff between attempts.
//!
//! The pause doubles up to a maximum and is shortened by up to a quarter, so that fifty objects whose requests were
//! rejected together do not retry together. The share is a hash of the object's UID and the attempt number, so repeated
//! calculations agree.

use std::time::Duration;

use api::Uid;
use backoff::{Exponential, shortened};

/// Returns the pause after this many failed attempts in a row.
pub(crate) fn pause(of: &Uid, attempts: u32, first: Duration, longest: Duration) -> Duration {
    let share = u32::try_from(scatter(of.as_str(), attempts) % 256).unwrap_or_default();
    shortened(Exponential::new(first, longest).after(attempts), 0.25, f64::from(share) / 256.0)
}

/// FNV-1a, because it is small and gives the same result on every platform.
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
        fn pauses_grow_to_the_maximum_less_at_most_a_quarter(uid in "[a-f0-9]{8}", attempts in 0u32..100) {
            let whole = match attempts { 0 | 1 => 5, 2 => 10, _ => 20 };
            let whole = Duration::from_secs(whole);
            let pause = pause(&uid.as_str().into(), attempts, FIRST, LONGEST);
            prop_assert!(pause <= whole && pause > whole.mul_f64(0.75), "{pause:?} of {whole:?}");
        }
    }

    /// Shows DR-7.
    #[test]
    fn pods_rejected_together_retry_at_different_times() {
        let mut pauses: Vec<_> = (0..50).map(|i| pause(&format!("uid-{i}").into(), 3, FIRST, LONGEST)).collect();
        pauses.sort_unstable();
        pauses.dedup();
        assert!(pauses.len() > 30, "{}", pauses.len());
    }
}

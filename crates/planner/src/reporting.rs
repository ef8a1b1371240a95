//! When a status that has changed is written.
//!
//! While machines are replaced, the counts of their set and deployment change with every machine that is made, becomes ready,
//! leaves or is gone. On an idle API server many of these fall together and are written as one; on a busy one each comes by itself
//! and would be a write of its own, so that a roll-out asks most of an API server that has least to give. So while more changes are
//! known to be under way, counts are written once a fifth of the machines is counted differently, and after a few seconds at the
//! latest. The last of the changes is written at once, and so is everything that is not a count.
//!
//! Nobody of us waits for such a write: a deployment decides on what its sets have counted, written or not.

use std::time::Duration;

use jiff::Timestamp;

use crate::wake::later;

/// When a status is to be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Due {
    /// Now.
    Now,
    /// When more has changed, and at this time at the latest.
    By(Timestamp),
}

/// Counts that have changed while more changes are under way.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Unreported {
    /// By how much the count has changed that has changed most.
    pub(crate) moved: i32,
    /// How many machines there are to be.
    pub(crate) of: i32,
    /// When the status was last written, if anybody knows.
    pub(crate) written: Option<Timestamp>,
}

impl Unreported {
    pub(crate) fn due(self, delay: Duration, now: Timestamp) -> Due {
        let Self { moved, of, written } = self;
        if moved >= share(of) {
            return Due::Now;
        }
        match written {
            // A time that is yet to come is another clock's; it tells nothing about ours.
            Some(at) if at <= now && later(at, delay) > now => Due::By(later(at, delay)),
            _ => Due::Now,
        }
    }
}

/// A fifth of the machines, at least one: a small set writes every change.
fn share(of: i32) -> i32 {
    let of = of.max(1);
    of / 5 + i32::from(of % 5 > 0)
}

/// The largest difference between two lists of counts.
pub(crate) fn furthest<const N: usize>(before: [i32; N], now: [i32; N]) -> i32 {
    let differences = before.into_iter().zip(now).map(|(before, now)| now.saturating_sub(before).saturating_abs());
    differences.max().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    /// Shows MS-R16.
    #[rstest]
    #[case::a_small_set_writes_every_change(1, 5, Some(100), Due::Now)]
    #[case::less_than_a_fifth_waits(5, 30, Some(100), Due::By(at(105)))]
    #[case::a_fifth_is_written_at_once(6, 30, Some(100), Due::Now)]
    #[case::what_has_waited_long_enough_is_written(1, 30, Some(95), Due::Now)]
    #[case::what_nobody_has_written_yet_is_written(1, 30, None, Due::Now)]
    #[case::what_a_clock_ahead_of_ours_has_written_is_written_again(1, 30, Some(4_000), Due::Now)]
    #[case::no_count_is_too_large(i32::MAX - 1, i32::MAX, Some(100), Due::Now)]
    fn counts_are_written_in_fifths_and_after_a_while(
        #[case] moved: i32,
        #[case] of: i32,
        #[case] written: Option<i64>,
        #[case] due: Due,
    ) {
        let written = written.map(at);
        assert_eq!(Unreported { moved, of, written }.due(Duration::from_secs(5), at(100)), due);
    }

    #[test]
    fn the_count_that_has_changed_most_counts() {
        assert_eq!(furthest([3, 9, 0], [4, 2, 0]), 7);
        assert_eq!(furthest([i32::MIN], [i32::MAX]), i32::MAX);
    }
}

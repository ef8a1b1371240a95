//! When a changed status is written.
//!
//! While Machines are replaced, the counts of their MachineSet and MachineDeployment change with every Machine that is
//! created, becomes ready, or is deleted. If each change were written, a busy API server would receive the most writes.
//! So while more changes are expected, counts are written once a count has changed by a fifth of the Machines, and
//! after `report_delay` at the latest. The last expected change and everything that is not a count are written
//! immediately.
//!
//! No controller waits for such a write: the MachineDeployment controller uses the counts of its MachineSets whether or
//! not they are written.

use std::time::Duration;

use jiff::Timestamp;

use meta::time::later;

/// When to write a status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Due {
    /// Now.
    Now,
    /// When more has changed, but at this time at the latest.
    By(Timestamp),
}

/// Counts that have changed while more changes are expected.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Unreported {
    /// The largest change of a count.
    pub(crate) change: i32,
    /// The desired number of Machines.
    pub(crate) replicas: i32,
    /// When the status was last written, if known.
    pub(crate) written: Option<Timestamp>,
}

impl Unreported {
    pub(crate) fn due(self, delay: Duration, now: Timestamp) -> Due {
        let Self { change, replicas, written } = self;
        if change >= fifth(replicas) {
            return Due::Now;
        }
        match written {
            // A time in the future was written with another clock and is ignored.
            Some(at) if at <= now && later(at, delay) > now => Due::By(later(at, delay)),
            _ => Due::Now,
        }
    }
}

/// A fifth of the Machines, but at least one: a small MachineSet writes every change.
fn fifth(replicas: i32) -> i32 {
    let replicas = replicas.max(1);
    replicas / 5 + i32::from(replicas % 5 > 0)
}

/// Returns the largest difference between two lists of counts.
pub(crate) fn largest_difference<const N: usize>(before: [i32; N], now: [i32; N]) -> i32 {
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
    #[case::small_set_writes_every_change(1, 5, Some(100), Due::Now)]
    #[case::less_than_a_fifth_is_delayed(5, 30, Some(100), Due::By(at(105)))]
    #[case::fifth_is_written_immediately(6, 30, Some(100), Due::Now)]
    #[case::written_after_the_delay(1, 30, Some(95), Due::Now)]
    #[case::first_status_is_written(1, 30, None, Due::Now)]
    #[case::last_write_in_the_future(1, 30, Some(4_000), Due::Now)]
    #[case::largest_counts(i32::MAX - 1, i32::MAX, Some(100), Due::Now)]
    fn counts_are_written_after_a_fifth_or_the_delay(
        #[case] change: i32,
        #[case] replicas: i32,
        #[case] written: Option<i64>,
        #[case] due: Due,
    ) {
        let written = written.map(at);
        assert_eq!(Unreported { change, replicas, written }.due(Duration::from_secs(5), at(100)), due);
    }

    #[test]
    fn largest_difference_is_of_the_count_that_changed_most() {
        assert_eq!(largest_difference([3, 9, 0], [4, 2, 0]), 7);
        assert_eq!(largest_difference([i32::MIN], [i32::MAX]), i32::MAX);
    }
}

//! The settings of the safety planners.

use std::time::Duration;

const MINUTE: Duration = Duration::from_mins(1);

/// Timeouts and limits of the safety planners. The defaults are MCM's where MCM has the setting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SafetyPolicy {
    /// Time without a response of an API server after which the controller freezes
    /// (`--machine-safety-apiserver-statuscheck-timeout`).
    pub freeze_after: Duration,
    /// Interval of probes of an unreachable API server while frozen (`--machine-safety-apiserver-statuscheck-period`).
    pub probe_interval: Duration,
    /// Timeout of a probe (`--machine-safety-apiserver-statuscheck-patience`).
    pub probe_timeout: Duration,
    /// Time for which an API server may respond without returning Machines or Nodes, for example because of a missing
    /// permission (`--machine-safety-refused-watch-timeout`).
    pub refused_after: Duration,
    /// Time after a freeze within which all Machines are reconciled again. A random time of the same length is added,
    /// so that they are not all reconciled at the same time.
    pub recheck_after: Duration,
    /// Difference between the wall clock and the elapsed time above which the wall clock counts as stepped (no flag).
    pub clock_tolerance: Duration,
    /// Maximum difference between the clock of this process and an API server's. Above it nothing new is created and no
    /// timeout expires.
    pub clock_skew: Duration,
    /// Number of Nodes that may disappear at the same time before the controller freezes
    /// (`--machine-safety-vanished-nodes-percentage`).
    pub vanished_nodes: Limit,
    /// Interval of orphan scans (`--machine-safety-orphan-vms-period`).
    pub orphan_period: Duration,
    /// Minimum interval between two orphan scans that an event starts (`--machine-safety-orphan-vms-min-interval`).
    pub orphan_interval: Duration,
    /// Maximum number of VMs that one scan evaluates, over all MachineClasses (no flag).
    pub orphan_list_entries: usize,
    /// Maximum number of bytes of their ids and names (no flag).
    pub orphan_list_bytes: usize,
    /// Maximum number of VMs that one scan deletes (`--machine-safety-orphan-vms-percentage`;
    /// `--machine-safety-orphan-vms-unlimited` removes the limit).
    pub orphan_limit: Limit,
}

/// A limit for a number of objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// The greater of a number and a percentage, so that a small cluster may still lose a few.
    Share {
        /// This many are always allowed.
        at_least: usize,
        /// Percentage of all, rounded down.
        percent: u8,
    },
    /// No limit: an operator has checked.
    Any,
}

impl Limit {
    /// Returns whether `count` of `of` objects exceed the limit.
    #[must_use]
    pub fn is_exceeded(self, count: usize, of: usize) -> bool {
        match self {
            Self::Share { at_least, percent } => count > at_least.max(of * usize::from(percent) / 100),
            Self::Any => false,
        }
    }
}

impl Default for SafetyPolicy {
    fn default() -> Self {
        Self {
            freeze_after: Duration::from_secs(30),
            probe_interval: MINUTE,
            probe_timeout: Duration::from_secs(5),
            refused_after: 5 * MINUTE,
            recheck_after: Duration::from_secs(30),
            clock_tolerance: Duration::from_secs(10),
            clock_skew: 5 * MINUTE,
            vanished_nodes: Limit::Share { at_least: 3, percent: 20 },
            orphan_period: 15 * MINUTE,
            orphan_interval: MINUTE,
            orphan_list_entries: 100_000,
            orphan_list_bytes: 32 << 20,
            orphan_limit: Limit::Share { at_least: 3, percent: 10 },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    #[rstest]
    #[case(3, 3, false)]
    #[case(4, 4, true)]
    #[case(4, 30, true)]
    #[case(10, 100, false)]
    #[case(11, 100, true)]
    #[case(11, 110, false)]
    fn ten_percent_but_at_least_three_are_allowed(#[case] count: usize, #[case] of: usize, #[case] too_many: bool) {
        assert_eq!(SafetyPolicy::default().orphan_limit.is_exceeded(count, of), too_many);
        assert!(!Limit::Any.is_exceeded(count, of));
    }
}

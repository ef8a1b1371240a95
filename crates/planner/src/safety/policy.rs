//! How careful to be.

use std::time::Duration;

const MINUTE: Duration = Duration::from_mins(1);

/// The limits and periods of what keeps mistakes from costing machines. Defaults are the reference's where it has one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SafetyPolicy {
    /// How long an API server may be silent before we call ourselves disconnected (`--machine-safety-apiserver-statuscheck-timeout`).
    pub freeze_after: Duration,
    /// How often a silent API server is asked once we are disconnected (`--machine-safety-apiserver-statuscheck-period`).
    pub probe_every: Duration,
    /// How long one such question may take (`--machine-safety-apiserver-statuscheck-patience`).
    pub ask_patience: Duration,
    /// How long an API server may answer and yet not show us Machines or Nodes, for want of a permission for example
    /// (`--machine-safety-refused-watch-timeout`).
    pub refused_after: Duration,
    /// Until every machine is looked at again after a freeze; up to as long again at random, so that they do not come all at once.
    pub look_again_after: Duration,
    /// Difference between the wall clock and the elapsed time above which the wall clock counts as stepped (no flag).
    pub clock_tolerance: Duration,
    /// Maximum difference between the clock of this process and an API server's. Above it nothing new is created and no timeout
    /// expires.
    pub clock_skew: Duration,
    /// How many Nodes may disappear at once before it is taken for a mistake (`--machine-safety-vanished-nodes-percentage`).
    pub vanished_nodes: Limit,
    /// How often all VMs are listed in search of some without a Machine (`--machine-safety-orphan-vms-period`).
    pub orphan_period: Duration,
    /// How soon after one such scan an event may start the next (`--machine-safety-orphan-vms-min-interval`).
    pub orphan_interval: Duration,
    /// Maximum number of VMs that one scan judges, over all classes (no flag).
    pub orphan_list_entries: usize,
    /// Maximum number of bytes of their ids and names (no flag).
    pub orphan_list_bytes: usize,
    /// How many VMs one scan may delete (`--machine-safety-orphan-vms-percentage`; `--machine-safety-orphan-vms-unlimited` lifts it).
    pub orphan_limit: Limit,
}

/// How many of something may go at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// The greater of a number and a share of all: a small cluster must still be able to lose a few.
    Share {
        /// At least this many are always allowed.
        at_least: usize,
        /// This share of all, rounded down.
        percent: u8,
    },
    /// Any number: an operator has looked and said so.
    Any,
}

impl Limit {
    /// Whether so many, of so many, are too many.
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
            probe_every: MINUTE,
            ask_patience: Duration::from_secs(5),
            refused_after: 5 * MINUTE,
            look_again_after: Duration::from_secs(30),
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
    fn a_tenth_but_at_least_three_may_go(#[case] count: usize, #[case] of: usize, #[case] too_many: bool) {
        assert_eq!(SafetyPolicy::default().orphan_limit.is_exceeded(count, of), too_many);
        assert!(!Limit::Any.is_exceeded(count, of));
    }
}

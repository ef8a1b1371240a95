//! Settings of the MachineSet controller.

use std::time::Duration;

/// Settings of the MachineSet controller. The defaults are those of MCM.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SetPolicy {
    /// Maximum number of Machines that one reconcile creates, deletes or changes.
    pub batch: usize,
    /// Maximum number of concurrent requests of one MachineSet.
    pub requests: usize,
    /// When a terminating Machine is replaced (`--replace-machines-once-gone`).
    pub replacement: Replacement,
    /// Whether `minReadySeconds` has an effect (`--await-min-ready-seconds`).
    pub min_ready: MinReady,
    /// Position of Machines in an in-place update when a MachineSet scales down (`--spare-in-place-updates`).
    pub in_place_rank: InPlaceRank,
    /// A Machine that fails within this time after its creation failed early.
    pub early_failure: Duration,
    /// Number of consecutive replacements of early failures that are not delayed.
    pub undelayed_replacements: u32,
    /// Delay of the next such replacement. Each further delay is twice as long.
    pub replacement_delay: Duration,
    /// Maximum delay of a replacement.
    pub longest_replacement_delay: Duration,
}

impl Default for SetPolicy {
    fn default() -> Self {
        Self {
            batch: 100,
            requests: 20,
            replacement: Replacement::default(),
            min_ready: MinReady::default(),
            in_place_rank: InPlaceRank::default(),
            early_failure: Duration::from_mins(5),
            undelayed_replacements: 2,
            replacement_delay: Duration::from_secs(10),
            longest_replacement_delay: Duration::from_mins(10),
        }
    }
}

/// When a terminating Machine is replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Replacement {
    /// Immediately: its drain may take hours.
    #[default]
    Immediate,
    /// When it is gone, for quotas that do not allow both.
    OnceGone,
}

/// Effect of `minReadySeconds`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum MinReady {
    /// None, as in MCM. Existing manifests contain large values because the field has no effect there.
    #[default]
    Stored,
    /// A Machine is available once it has been ready for that long.
    Awaited,
}

/// Position of Machines in an in-place update when a MachineSet scales down.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum InPlaceRank {
    /// With terminating Machines, as in MCM.
    #[default]
    First,
    /// After all others, so that a started update is not wasted.
    Last,
}

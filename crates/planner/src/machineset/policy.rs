//! How sets keep their machines, where users may choose.

use std::time::Duration;

/// Limits and choices of the MachineSet controller. Defaults are the reference's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SetPolicy {
    /// How many machines one reconcile makes, deletes or changes.
    pub batch: usize,
    /// How many requests of one set are under way at once.
    pub requests: usize,
    /// When a machine that goes is replaced (`--replace-machines-once-gone`).
    pub replacement: Replacement,
    /// Whether `minReadySeconds` are awaited (`--await-min-ready-seconds`).
    pub min_ready: MinReady,
    /// Where machines in an in-place update stand when a set shrinks (`--spare-in-place-updates`).
    pub in_place_rank: InPlaceRank,
    /// A Machine that fails within this time after its creation failed early.
    pub early_failure: Duration,
    /// Number of replacements in a row of early failures that are not delayed.
    pub undelayed_replacements: u32,
    /// Delay of the next such replacement; each further one is delayed twice as long.
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

/// When a machine that goes is replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Replacement {
    /// At once: its drain may take hours, and its place is wanted now.
    #[default]
    AtOnce,
    /// When it is gone, for quotas that have no room for both.
    OnceGone,
}

/// What `minReadySeconds` are worth.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum MinReady {
    /// Stored and shown, as the reference does: manifests in the field carry large values because they have no effect.
    #[default]
    Stored,
    /// A machine is available once it has been ready for that long.
    Awaited,
}

/// Where machines in an in-place update stand when a set shrinks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum InPlaceRank {
    /// With those that are being deleted, as in the reference.
    #[default]
    First,
    /// After all others: an update that was paid for is not thrown away.
    Last,
}

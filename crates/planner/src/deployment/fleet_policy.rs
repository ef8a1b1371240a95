//! Settings of the half that looks after sets and deployments. Defaults are the reference's.

use std::time::Duration;

/// How deployments roll, and how many machines are too many.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FleetPolicy {
    /// Whether the autoscaler is kept away from rolling nodes (`--autoscaler-scaledown-annotation-during-rollout`).
    pub autoscaler_guard: AutoscalerGuard,
    /// How many nodes of a deployment are written in one builder, so that a large one does not hold up the others.
    pub nodes_per_reconcile: usize,
    /// Maximum number of Machines named for deletion that one reconcile looks up one by one. For more, the Machines are listed once.
    pub lookups_per_reconcile: usize,
    /// So many machines beyond what a set may have at most freeze it (`--safety-up`).
    pub safety_up: i32,
    /// So many below that limit it thaws (`--safety-down`).
    pub safety_down: i32,
    /// Machines are counted at least this often (`--machine-safety-overshooting-period`).
    pub overshooting_period: Duration,
    /// Which machines are counted, and when (`--overshoot-ignores-deleting-machines`).
    pub overshoot_count: OvershootCount,
}

/// Which machines the overshoot safety counts, and when.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum OvershootCount {
    /// All of them, those that are being deleted too, whenever a machine is added and once in each period: as the reference does. A
    /// rapid scale-down can freeze a set for as long as the cloud takes to delete its machines.
    #[default]
    All,
    /// Those that nobody deletes, whenever something has changed that matters, and only once the controllers have acted on it.
    NotDeleting,
}

/// Whether the cluster autoscaler is kept away from nodes while a deployment rolls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AutoscalerGuard {
    /// Their nodes are annotated, and the annotation goes with the roll-out.
    On,
    /// Nothing is annotated, and nothing removed.
    Off,
}

impl Default for FleetPolicy {
    fn default() -> Self {
        Self {
            autoscaler_guard: AutoscalerGuard::On,
            nodes_per_reconcile: 100,
            lookups_per_reconcile: 10,
            safety_up: 2,
            safety_down: 1,
            overshooting_period: Duration::from_mins(1),
            overshoot_count: OvershootCount::default(),
        }
    }
}

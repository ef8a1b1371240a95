//! Settings of the MachineDeployment controller. The defaults are those of MCM.

use std::time::Duration;

/// Settings of rollouts and of the overshoot protection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeploymentPolicy {
    /// Whether scale-down by the cluster-autoscaler is disabled during rollouts
    /// (`--autoscaler-scaledown-annotation-during-rollout`).
    pub autoscaler_guard: AutoscalerGuard,
    /// Maximum number of Nodes of a MachineDeployment that are written in one reconcile.
    pub nodes_per_reconcile: usize,
    /// Maximum number of Machines named for deletion that one reconcile looks up individually. For more, the Machines
    /// are listed once.
    pub lookups_per_reconcile: usize,
    /// Number of Machines above the maximum at which a MachineSet is frozen (`--safety-up`).
    pub safety_up: i32,
    /// Number of Machines below that limit at which it is unfrozen (`--safety-down`).
    pub safety_down: i32,
    /// Maximum interval between counts of the Machines (`--machine-safety-overshooting-period`).
    pub overshooting_period: Duration,
    /// Which Machines are counted, and when (`--overshoot-ignores-deleting-machines`).
    pub overshoot_count: OvershootCount,
}

/// Which Machines the overshoot protection counts, and when.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum OvershootCount {
    /// All Machines including those that are being deleted, whenever a Machine is created and once per period, as in
    /// MCM. A rapid scale-down may freeze a MachineSet until the cloud has deleted its Machines.
    #[default]
    All,
    /// Machines that are not being deleted, after every relevant change, and only once the controllers have processed
    /// it.
    NotDeleting,
}

/// Whether scale-down by the cluster-autoscaler is disabled during rollouts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AutoscalerGuard {
    /// The Nodes are annotated during a rollout.
    On,
    /// The annotation is neither set nor removed.
    Off,
}

impl Default for DeploymentPolicy {
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

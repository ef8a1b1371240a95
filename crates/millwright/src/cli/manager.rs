//! Flags of the manager, which manages MachineDeployments and MachineSets.

use clap::Args;

use super::{MachineSetFlags, RolloutFlags};

/// Flags of the manager.
#[derive(Debug, Args)]
pub(crate) struct ManagerFlags {
    #[command(flatten)]
    rollout: RolloutFlags,
    #[command(flatten)]
    sets: MachineSetFlags,
}

impl ManagerFlags {
    /// Returns the policy with these flags applied.
    pub(crate) fn apply(&self, policy: planner::Policy) -> planner::Policy {
        self.rollout.apply(self.sets.apply(policy))
    }
}

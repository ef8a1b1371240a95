//! Flags of the manager: the component that looks after deployments and sets.

use clap::Args;

use super::{Fleet, RolloutFlags};

/// Flags of the manager.
#[derive(Debug, Args)]
pub(crate) struct ManagerFlags {
    #[command(flatten)]
    rollout: RolloutFlags,
    #[command(flatten)]
    fleet: Fleet,
}

impl ManagerFlags {
    /// The policy with what these flags ask for in it.
    pub(crate) fn apply(&self, policy: planner::Policy) -> planner::Policy {
        self.rollout.apply(self.fleet.apply(policy))
    }
}

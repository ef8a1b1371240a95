//! Flags for rollouts and for the limit of excess Machines.

use clap::{ArgAction, Args};
use planner::deployment::{AutoscalerGuard, DeploymentPolicy, OvershootCount};

use super::values::{Count, Span};

/// Flags for rollouts and for the limit of excess Machines.
#[derive(Debug, Args)]
#[command(next_help_heading = "Safety")]
pub(crate) struct RolloutFlags {
    /// Disable cluster-autoscaler scale-down for the Nodes of a MachineDeployment during its rollout.
    #[arg(long, default_value_t = true, action = ArgAction::Set, help_heading = "Rollouts")]
    autoscaler_scaledown_annotation_during_rollout: bool,
    /// Number of Machines above the maximum at which a MachineSet is frozen.
    #[arg(long, value_name = "N", default_value = "2")]
    safety_up: Count,
    /// Number of Machines below the limit of --safety-up at which the MachineSet is unfrozen.
    #[arg(long, value_name = "N", default_value = "1")]
    safety_down: Count,
    /// Maximum interval between two checks for excess Machines.
    #[arg(long, value_name = "DURATION", default_value = "1m")]
    machine_safety_overshooting_period: Span,
    /// Ignore Machines that are being deleted when checking for excess Machines, once the controllers have observed
    /// the last change of the MachineSet. MCM counts all Machines, so that a rapid scale-down can freeze a MachineSet.
    #[arg(long, help_heading = super::NEW)]
    overshoot_ignores_deleting_machines: bool,
}

impl RolloutFlags {
    /// Returns the policy with these flags applied.
    pub(crate) fn apply(&self, policy: planner::Policy) -> planner::Policy {
        let guarded = self.autoscaler_scaledown_annotation_during_rollout;
        let deployment = DeploymentPolicy {
            autoscaler_guard: if guarded { AutoscalerGuard::On } else { AutoscalerGuard::Off },
            safety_up: self.safety_up.signed(),
            safety_down: self.safety_down.signed(),
            overshooting_period: self.machine_safety_overshooting_period.get(),
            overshoot_count: if self.overshoot_ignores_deleting_machines {
                OvershootCount::NotDeleting
            } else {
                OvershootCount::All
            },
            ..policy.deployment
        };
        planner::Policy { deployment, ..policy }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct RolloutCommand {
        #[command(flatten)]
        rollout: RolloutFlags,
    }

    /// Shows MS-R19.
    #[test]
    fn rollout_flags_default_to_mcm_and_change_one_setting_each() {
        let policy = |flags: &[&str]| {
            let command = RolloutCommand::parse_from(["millwright"].iter().chain(flags));
            command.rollout.apply(planner::Policy::default())
        };
        assert_eq!(policy(&[]), planner::Policy::default());
        let off = policy(&["--autoscaler-scaledown-annotation-during-rollout=false"]);
        assert_eq!(off.deployment.autoscaler_guard, AutoscalerGuard::Off);
        assert_eq!(policy(&["--safety-up=5"]).deployment.safety_up, 5);
        assert_eq!(policy(&["--safety-down=3"]).deployment.safety_down, 3);
        let often = policy(&["--machine-safety-overshooting-period=10s"]);
        assert_eq!(often.deployment.overshooting_period, Duration::from_secs(10));
        let calm = policy(&["--overshoot-ignores-deleting-machines"]);
        assert_eq!(calm.deployment.overshoot_count, OvershootCount::NotDeleting);
    }
}

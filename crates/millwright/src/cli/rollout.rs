//! How deployments roll, and how many machines are too many.

use clap::{ArgAction, Args};
use planner::deployment::{AutoscalerGuard, FleetPolicy, OvershootCount};

use super::values::{Count, Span};

/// How deployments roll, and how many machines are too many.
#[derive(Debug, Args)]
#[command(next_help_heading = "Safety")]
pub(crate) struct RolloutFlags {
    /// Keep the cluster autoscaler away from the nodes of a deployment while it rolls.
    #[arg(long, default_value_t = true, action = ArgAction::Set, help_heading = "Rollouts")]
    autoscaler_scaledown_annotation_during_rollout: bool,
    /// So many machines beyond what a set may have at most freeze it.
    #[arg(long, value_name = "N", default_value = "2")]
    safety_up: Count,
    /// So many below that limit it thaws.
    #[arg(long, value_name = "N", default_value = "1")]
    safety_down: Count,
    /// Machines are counted at least this often, whatever else brings it about.
    #[arg(long, value_name = "DURATION", default_value = "1m")]
    machine_safety_overshooting_period: Span,
    /// Count only machines that nobody deletes before a set is frozen, once its controllers have acted on its last change. MCM counts
    /// all, so that a rapid scale-down can freeze a set.
    #[arg(long, help_heading = super::NEW)]
    overshoot_ignores_deleting_machines: bool,
}

impl RolloutFlags {
    /// The policy with these limits in it.
    pub(crate) fn apply(&self, policy: planner::Policy) -> planner::Policy {
        let guarded = self.autoscaler_scaledown_annotation_during_rollout;
        let fleet = FleetPolicy {
            autoscaler_guard: if guarded { AutoscalerGuard::On } else { AutoscalerGuard::Off },
            safety_up: self.safety_up.signed(),
            safety_down: self.safety_down.signed(),
            overshooting_period: self.machine_safety_overshooting_period.get(),
            overshoot_count: if self.overshoot_ignores_deleting_machines {
                OvershootCount::NotDeleting
            } else {
                OvershootCount::All
            },
            ..policy.fleet
        };
        planner::Policy { fleet, ..policy }
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
    fn without_flags_deployments_roll_as_the_reference_does_and_each_flag_changes_one_thing() {
        let policy = |flags: &[&str]| {
            let command = RolloutCommand::parse_from(["millwright"].iter().chain(flags));
            command.rollout.apply(planner::Policy::default())
        };
        assert_eq!(policy(&[]), planner::Policy::default());
        let off = policy(&["--autoscaler-scaledown-annotation-during-rollout=false"]);
        assert_eq!(off.fleet.autoscaler_guard, AutoscalerGuard::Off);
        assert_eq!(policy(&["--safety-up=5"]).fleet.safety_up, 5);
        assert_eq!(policy(&["--safety-down=3"]).fleet.safety_down, 3);
        let often = policy(&["--machine-safety-overshooting-period=10s"]);
        assert_eq!(often.fleet.overshooting_period, Duration::from_secs(10));
        let calm = policy(&["--overshoot-ignores-deleting-machines"]);
        assert_eq!(calm.fleet.overshoot_count, OvershootCount::NotDeleting);
    }
}

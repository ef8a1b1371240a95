//! How deployments roll, and how many machines are too many.

use std::time::Duration;

use clap::Args;
use plan::deployment::{AutoscalerGuard, FleetPolicy};

use super::go_duration;

/// How deployments roll, and how many machines are too many.
#[derive(Debug, Args)]
pub(crate) struct RolloutFlags {
    /// Keep the cluster autoscaler away from the nodes of a deployment while it rolls.
    #[arg(long, value_name = "BOOL", default_value_t = true, default_missing_value = "true", num_args = 0..=1, require_equals = true, action = clap::ArgAction::Set)]
    pub(crate) autoscaler_scaledown_annotation_during_rollout: bool,
    /// So many machines beyond what a set may have at most freeze it.
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(i32).range(0..))]
    pub(crate) safety_up: i32,
    /// So many below that limit it thaws.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(i32).range(0..))]
    pub(crate) safety_down: i32,
    /// Machines are counted at least this often, whatever else brings it about.
    #[arg(long, value_name = "DURATION", default_value = "1m", value_parser = go_duration)]
    pub(crate) machine_safety_overshooting_period: Duration,
}

impl RolloutFlags {
    /// The policy with these limits in it.
    pub(crate) fn apply(&self, policy: plan::Policy) -> plan::Policy {
        let guarded = self.autoscaler_scaledown_annotation_during_rollout;
        let fleet = FleetPolicy {
            autoscaler_guard: if guarded { AutoscalerGuard::On } else { AutoscalerGuard::Off },
            safety_up: self.safety_up,
            safety_down: self.safety_down,
            overshooting_period: self.machine_safety_overshooting_period,
            ..policy.fleet
        };
        plan::Policy { fleet, ..policy }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        rollout: RolloutFlags,
    }

    #[test]
    fn without_flags_deployments_roll_as_the_reference_does_and_each_flag_changes_one_thing() {
        let policy = |flags: &[&str]| {
            let line = Line::parse_from(["millwright"].iter().chain(flags));
            line.rollout.apply(plan::Policy::default())
        };
        assert_eq!(policy(&[]), plan::Policy::default());
        let off = policy(&["--autoscaler-scaledown-annotation-during-rollout=false"]);
        assert_eq!(off.fleet.autoscaler_guard, AutoscalerGuard::Off);
        assert_eq!(policy(&["--safety-up=5"]).fleet.safety_up, 5);
        assert_eq!(policy(&["--safety-down=3"]).fleet.safety_down, 3);
        let often = policy(&["--machine-safety-overshooting-period=10s"]);
        assert_eq!(often.fleet.overshooting_period, Duration::from_secs(10));
    }
}

//! SafetyFlags flags.

use clap::Args;
use planner::Policy;
use planner::safety::{Limit, SafetyPolicy};

use super::NEW;
use super::values::Span;

/// Limits that keep mistakes from deleting Machines.
#[derive(Debug, Args)]
#[command(next_help_heading = "Safety")]
#[allow(
    clippy::struct_field_names,
    reason = "the flags are named after the fields, and existing manifests name the flags"
)]
pub(crate) struct SafetyFlags {
    /// Duration without a response from an API server after which no VM is created and no Machine is marked Failed.
    #[arg(long, value_name = "DURATION", default_value = "30s")]
    machine_safety_apiserver_statuscheck_timeout: Span,
    /// Interval of connectivity checks while the API server is unreachable.
    #[arg(long, value_name = "DURATION", default_value = "1m")]
    machine_safety_apiserver_statuscheck_period: Span,
    /// Timeout for a connectivity check of an API server.
    #[arg(long, value_name = "DURATION", default_value = "5s", help_heading = NEW)]
    machine_safety_apiserver_statuscheck_patience: Span,
    /// Duration for which an API server may respond but refuse watches of Machines or Nodes before it counts as
    /// unreachable.
    #[arg(long, value_name = "DURATION", default_value = "5m", help_heading = NEW)]
    machine_safety_refused_watch_timeout: Span,
    /// Maximum percentage of Nodes that may disappear at the same time (three Nodes are always allowed). Above it, the
    /// disappearance is treated as a mistake.
    #[arg(long, value_name = "PERCENT", default_value_t = 20, value_parser = clap::value_parser!(u8).range(0..=100), help_heading = NEW)]
    machine_safety_vanished_nodes_percentage: u8,
    /// Interval of scans for orphan VMs (VMs without a Machine).
    #[arg(long, value_name = "DURATION", default_value = "15m")]
    machine_safety_orphan_vms_period: Span,
    /// Minimum interval between two scans for orphan VMs that are triggered by events.
    #[arg(long, value_name = "DURATION", default_value = "1m", help_heading = NEW)]
    machine_safety_orphan_vms_min_interval: Span,
    /// Maximum percentage of VMs that may be orphaned at the same time (three VMs are always allowed). Above it, the
    /// finding is treated as a mistake and no VM is deleted.
    #[arg(long, value_name = "PERCENT", default_value_t = 10, value_parser = clap::value_parser!(u8).range(0..=100), help_heading = NEW)]
    machine_safety_orphan_vms_percentage: u8,
    /// Allow one scan to delete any number of orphan VMs.
    #[arg(long, help_heading = NEW)]
    machine_safety_orphan_vms_unlimited: bool,
}

impl SafetyFlags {
    /// Returns the conflict between two flags, if there is one.
    pub(super) fn conflict(&self) -> Option<String> {
        let (period, timeout) =
            (self.machine_safety_apiserver_statuscheck_period, self.machine_safety_apiserver_statuscheck_timeout);
        (period.get() < timeout.get()).then(|| {
            format!(
                "--machine-safety-apiserver-statuscheck-period ({period}) must not be shorter than \
                 --machine-safety-apiserver-statuscheck-timeout ({timeout})"
            )
        })
    }

    /// Returns the policy with these limits applied.
    pub(crate) fn apply(&self, policy: Policy) -> Policy {
        let defaults = SafetyPolicy::default();
        let safety = SafetyPolicy {
            freeze_after: self.machine_safety_apiserver_statuscheck_timeout.get(),
            probe_interval: self.machine_safety_apiserver_statuscheck_period.get(),
            probe_timeout: self.machine_safety_apiserver_statuscheck_patience.get(),
            refused_after: self.machine_safety_refused_watch_timeout.get(),
            vanished_nodes: Limit::Share { at_least: 3, percent: self.machine_safety_vanished_nodes_percentage },
            orphan_period: self.machine_safety_orphan_vms_period.get(),
            orphan_interval: self.machine_safety_orphan_vms_min_interval.get(),
            orphan_limit: if self.machine_safety_orphan_vms_unlimited {
                Limit::Any
            } else {
                Limit::Share { at_least: 3, percent: self.machine_safety_orphan_vms_percentage }
            },
            ..defaults
        };
        Policy { safety, ..policy }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use clap::{Parser, error::ErrorKind};

    #[derive(Debug, Parser)]
    struct SafetyCommand {
        #[command(flatten)]
        safety: SafetyFlags,
    }

    fn policy(flags: &[&str]) -> Result<SafetyPolicy, ErrorKind> {
        let command =
            SafetyCommand::try_parse_from(["millwright"].iter().chain(flags)).map_err(|error| error.kind())?;
        Ok(command.safety.apply(Policy::default()).safety)
    }

    #[test]
    fn safety_flags_default_to_the_default_policy() {
        assert_eq!(policy(&[]), Ok(SafetyPolicy::default()));
    }

    /// Shows MC-W45.
    #[test]
    fn safety_flags_of_existing_manifests_are_accepted() {
        let given = policy(&[
            "--machine-safety-apiserver-statuscheck-timeout=40s",
            "--machine-safety-apiserver-statuscheck-period=2m",
            "--machine-safety-orphan-vms-period=30m",
            "--machine-safety-orphan-vms-unlimited",
        ])
        .unwrap();
        assert_eq!((given.freeze_after, given.probe_interval), (Duration::from_secs(40), Duration::from_mins(2)));
        assert_eq!((given.orphan_period, given.orphan_limit), (Duration::from_mins(30), Limit::Any));
        let share = policy(&["--machine-safety-orphan-vms-percentage=25"]).unwrap().orphan_limit;
        assert_eq!(share, Limit::Share { at_least: 3, percent: 25 });
        assert_eq!(policy(&["--machine-safety-orphan-vms-percentage=101"]), Err(ErrorKind::ValueValidation));
        assert_eq!(policy(&["--machine-safety-vanished-nodes-percentage=101"]), Err(ErrorKind::ValueValidation));
    }
}

//! How careful to be.

use clap::Args;
use planner::Policy;
use planner::safety::{Limit, SafetyPolicy};

use super::NEW;
use super::values::Span;

/// What keeps mistakes from costing machines.
#[derive(Debug, Args)]
#[command(next_help_heading = "Safety")]
#[allow(
    clippy::struct_field_names,
    reason = "the flags are named after the fields, and existing manifests name the flags"
)]
pub(crate) struct Safety {
    /// How long an API server may be silent before nothing new is made and no machine is marked Failed.
    #[arg(long, value_name = "DURATION", default_value = "30s")]
    machine_safety_apiserver_statuscheck_timeout: Span,
    /// How often a silent API server is asked once that is so.
    #[arg(long, value_name = "DURATION", default_value = "1m")]
    machine_safety_apiserver_statuscheck_period: Span,
    /// How long an API server may take to answer when it is asked whether it is there.
    #[arg(long, value_name = "DURATION", default_value = "5s", help_heading = NEW)]
    machine_safety_apiserver_statuscheck_patience: Span,
    /// How long an API server may answer and yet not let us watch Machines or Nodes before it counts as silent.
    #[arg(long, value_name = "DURATION", default_value = "5m", help_heading = NEW)]
    machine_safety_refused_watch_timeout: Span,
    /// The share of all Nodes, and three in any case, that may be gone at once before it is taken for a mistake.
    #[arg(long, value_name = "PERCENT", default_value_t = 20, value_parser = clap::value_parser!(u8).range(0..=100), help_heading = NEW)]
    machine_safety_vanished_nodes_percentage: u8,
    /// How often all VMs are listed in search of some without a Machine.
    #[arg(long, value_name = "DURATION", default_value = "15m")]
    machine_safety_orphan_vms_period: Span,
    /// How soon after a scan for VMs without a Machine an event may start the next.
    #[arg(long, value_name = "DURATION", default_value = "1m", help_heading = NEW)]
    machine_safety_orphan_vms_min_interval: Span,
    /// The share of all VMs, and three in any case, that may be without a Machine at once before it is taken for a mistake and none is
    /// deleted.
    #[arg(long, value_name = "PERCENT", default_value_t = 10, value_parser = clap::value_parser!(u8).range(0..=100), help_heading = NEW)]
    machine_safety_orphan_vms_percentage: u8,
    /// Let one scan delete any number of VMs without a Machine.
    #[arg(long, help_heading = NEW)]
    machine_safety_orphan_vms_unlimited: bool,
}

impl Safety {
    /// What does not go together.
    pub(super) fn contradiction(&self) -> Option<String> {
        let (period, timeout) =
            (self.machine_safety_apiserver_statuscheck_period, self.machine_safety_apiserver_statuscheck_timeout);
        (period.get() < timeout.get()).then(|| {
            format!(
                "--machine-safety-apiserver-statuscheck-period ({period}) must not be shorter than \
                 --machine-safety-apiserver-statuscheck-timeout ({timeout})"
            )
        })
    }

    /// The policy with these limits in it.
    pub(crate) fn apply(&self, policy: Policy) -> Policy {
        let defaults = SafetyPolicy::default();
        let safety = SafetyPolicy {
            freeze_after: self.machine_safety_apiserver_statuscheck_timeout.get(),
            probe_every: self.machine_safety_apiserver_statuscheck_period.get(),
            ask_patience: self.machine_safety_apiserver_statuscheck_patience.get(),
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
        safety: Safety,
    }

    fn policy(flags: &[&str]) -> Result<SafetyPolicy, ErrorKind> {
        let command =
            SafetyCommand::try_parse_from(["millwright"].iter().chain(flags)).map_err(|error| error.kind())?;
        Ok(command.safety.apply(Policy::default()).safety)
    }

    #[test]
    fn without_flags_safety_is_as_careful_as_the_planners_are() {
        assert_eq!(policy(&[]), Ok(SafetyPolicy::default()));
    }

    /// Shows MC-W45.
    #[test]
    fn safety_flags_are_spelled_as_in_existing_manifests() {
        let given = policy(&[
            "--machine-safety-apiserver-statuscheck-timeout=40s",
            "--machine-safety-apiserver-statuscheck-period=2m",
            "--machine-safety-orphan-vms-period=30m",
            "--machine-safety-orphan-vms-unlimited",
        ])
        .unwrap();
        assert_eq!((given.freeze_after, given.probe_every), (Duration::from_secs(40), Duration::from_mins(2)));
        assert_eq!((given.orphan_period, given.orphan_limit), (Duration::from_mins(30), Limit::Any));
        let share = policy(&["--machine-safety-orphan-vms-percentage=25"]).unwrap().orphan_limit;
        assert_eq!(share, Limit::Share { at_least: 3, percent: 25 });
        assert_eq!(policy(&["--machine-safety-orphan-vms-percentage=101"]), Err(ErrorKind::ValueValidation));
        assert_eq!(policy(&["--machine-safety-vanished-nodes-percentage=101"]), Err(ErrorKind::ValueValidation));
    }
}

//! Flags of drains: the reference's, and those for what it does not know.

use api::LabelSelector;
use clap::Args;
use planner::drain::concurrency::Caps;
use planner::drain::{EphemeralVolumes, Force, Limits};

use crate::cli::NEW;
use crate::cli::values::{Count, Span};

#[derive(Debug, Args)]
#[command(next_help_heading = "Drain")]
pub(crate) struct DrainFlags {
    /// How long after it was asked for a drain becomes forceful, unless the machine says otherwise.
    #[arg(long, value_name = "DURATION", default_value = "2h")]
    machine_drain_timeout: Span,
    /// After how many refusals, one every 20 s, a pod is deleted instead of evicted, unless the machine says otherwise.
    #[arg(long, value_name = "N", default_value = "360")]
    machine_max_evict_retries: Count,
    /// How long a volume may take to leave the node after its pod has ended.
    #[arg(long, value_name = "DURATION", default_value = "2m")]
    machine_pv_detach_timeout: Span,
    /// How long it may take to arrive on another node before the next pod goes all the same.
    #[arg(long, value_name = "DURATION", default_value = "90s")]
    machine_pv_reattach_timeout: Span,
    /// Never delete pods because waiting took too long: only the labels `force-deletion` and `force-drain` do. A pod that cannot be
    /// evicted then keeps its node for ever.
    #[arg(long, help_heading = NEW)]
    drain_never_force: bool,
    /// Leave these pods on the node, as for kubectl: `app=agent,tier!=db`. They end with their VM.
    #[arg(long, value_name = "SELECTOR", help_heading = NEW)]
    drain_skip_pods: Option<LabelSelector>,
    /// Let these pods go when all others have gone.
    #[arg(long, value_name = "SELECTOR", help_heading = NEW)]
    drain_last_pods: Option<LabelSelector>,
    /// Also wait until generic ephemeral volumes have left the node.
    #[arg(long, help_heading = NEW)]
    drain_await_ephemeral_volumes: bool,
    /// Drain at most this many nodes at once. Who has waited for half of its timeout is drained all the same.
    #[arg(long, value_name = "N", value_parser = at_least_one, help_heading = NEW)]
    drain_max_concurrent: Option<usize>,
    /// Drain at most this many nodes of one MachineDeployment at once.
    #[arg(long, value_name = "N", value_parser = at_least_one, help_heading = NEW)]
    drain_max_concurrent_per_deployment: Option<usize>,
}

impl DrainFlags {
    /// What they amount to.
    pub(crate) fn limits(&self) -> Limits {
        Limits {
            timeout: self.machine_drain_timeout.get(),
            max_evict_retries: self.machine_max_evict_retries.get().into(),
            detach_timeout: self.machine_pv_detach_timeout.get(),
            reattach_timeout: self.machine_pv_reattach_timeout.get(),
            force: if self.drain_never_force { Force::OnlyWhenAsked } else { Force::WhenOverdue },
            skip: self.drain_skip_pods.clone(),
            last: self.drain_last_pods.clone(),
            ephemeral: if self.drain_await_ephemeral_volumes {
                EphemeralVolumes::Awaited
            } else {
                EphemeralVolumes::Ignored
            },
            caps: Caps { overall: self.drain_max_concurrent, per_deployment: self.drain_max_concurrent_per_deployment },
            ..Limits::default()
        }
    }
}

/// None at all would be a controller that never deletes anything.
fn at_least_one(text: &str) -> Result<usize, String> {
    text.parse().ok().filter(|n| *n > 0).ok_or_else(|| "it must be a whole number above zero".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Debug, Parser)]
    struct DrainCommand {
        #[command(flatten)]
        drain: DrainFlags,
    }

    fn with(flags: &[&str]) -> Result<Limits, clap::Error> {
        DrainCommand::try_parse_from(["x"].iter().chain(flags)).map(|command| command.drain.limits())
    }

    #[test]
    fn without_flags_drains_are_the_reference_s() {
        assert_eq!(with(&[]).unwrap(), Limits::default());
    }

    #[test]
    fn what_is_said_about_drains_is_heard() {
        let limits = with(&[
            "--machine-drain-timeout=1h",
            "--machine-max-evict-retries=10",
            "--machine-pv-detach-timeout=1m",
            "--machine-pv-reattach-timeout=30s",
            "--drain-never-force",
            "--drain-skip-pods=app=agent",
            "--drain-last-pods=tier in (log, mesh)",
            "--drain-await-ephemeral-volumes",
            "--drain-max-concurrent=5",
            "--drain-max-concurrent-per-deployment=1",
        ])
        .unwrap();
        assert_eq!((limits.timeout.as_secs(), limits.max_evict_retries), (3600, 10));
        assert_eq!((limits.detach_timeout.as_secs(), limits.reattach_timeout.as_secs()), (60, 30));
        assert_eq!((limits.force, limits.ephemeral), (Force::OnlyWhenAsked, EphemeralVolumes::Awaited));
        assert!(limits.skip.is_some() && limits.last.is_some());
        assert_eq!(limits.caps, Caps { overall: Some(5), per_deployment: Some(1) });
    }

    #[test]
    fn a_limit_of_no_drains_and_a_selector_of_everybody_are_refused() {
        assert!(with(&["--drain-max-concurrent=0"]).is_err());
        assert!(with(&["--drain-skip-pods="]).is_err());
    }
}

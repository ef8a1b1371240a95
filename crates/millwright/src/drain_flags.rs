//! Drain flags: MCM's and additional ones.

use api::LabelSelector;
use clap::Args;
use planner::drain::concurrency::Caps;
use planner::drain::{EphemeralVolumes, Force, Limits};

use crate::cli::NEW;
use crate::cli::values::{Count, Span};

#[derive(Debug, Args)]
#[command(next_help_heading = "Drain")]
pub(crate) struct DrainFlags {
    /// Time after the start of a drain at which pods are deleted instead of evicted, unless the Machine sets its own
    /// timeout.
    #[arg(long, value_name = "DURATION", default_value = "2h")]
    machine_drain_timeout: Span,
    /// Number of refused evictions, one every 20 s, after which a pod is deleted instead of evicted, unless the
    /// Machine sets its own limit.
    #[arg(long, value_name = "N", default_value = "360")]
    machine_max_evict_retries: Count,
    /// Timeout for a volume to detach from the Node after its pod has ended.
    #[arg(long, value_name = "DURATION", default_value = "2m")]
    machine_pv_detach_timeout: Span,
    /// Timeout for a volume to attach to another Node before the next pod is evicted anyway.
    #[arg(long, value_name = "DURATION", default_value = "90s")]
    machine_pv_reattach_timeout: Span,
    /// Never delete pods because of a timeout, only because of the labels `force-deletion` and `force-drain`. A pod
    /// that cannot be evicted then blocks its drain indefinitely.
    #[arg(long, help_heading = NEW)]
    drain_never_force: bool,
    /// Label selector of pods that are not evicted, as for kubectl: `app=agent,tier!=db`. They end with their VM.
    #[arg(long, value_name = "SELECTOR", help_heading = NEW)]
    drain_skip_pods: Option<LabelSelector>,
    /// Label selector of pods that are evicted after all others.
    #[arg(long, value_name = "SELECTOR", help_heading = NEW)]
    drain_last_pods: Option<LabelSelector>,
    /// Also wait for generic ephemeral volumes to detach.
    #[arg(long, help_heading = NEW)]
    drain_await_ephemeral_volumes: bool,
    /// Maximum number of Nodes that are drained at the same time. A Node that has waited for half of its drain timeout
    /// is drained regardless of the limit.
    #[arg(long, value_name = "N", value_parser = at_least_one, help_heading = NEW)]
    drain_max_concurrent: Option<usize>,
    /// Maximum number of Nodes per MachineDeployment that are drained at the same time.
    #[arg(long, value_name = "N", value_parser = at_least_one, help_heading = NEW)]
    drain_max_concurrent_per_deployment: Option<usize>,
}

impl DrainFlags {
    /// Returns the drain settings.
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

/// Parses a number above zero. A limit of zero would prevent every deletion.
fn at_least_one(text: &str) -> Result<usize, String> {
    text.parse().ok().filter(|n| *n > 0).ok_or_else(|| "must be a whole number above zero".to_owned())
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
    fn drain_flags_default_to_mcm() {
        assert_eq!(with(&[]).unwrap(), Limits::default());
    }

    #[test]
    fn drain_flags_set_the_limits() {
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
    fn zero_drain_limit_and_empty_pod_selector_are_rejected() {
        assert!(with(&["--drain-max-concurrent=0"]).is_err());
        assert!(with(&["--drain-skip-pods="]).is_err());
    }
}

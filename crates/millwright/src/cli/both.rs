//! Flags that both components know, the manager and the machine controller.
//!
//! Where the two components differ in a default, the command that is called decides (`servers`).

use std::net::IpAddr;

use api::GoDuration;
use clap::{ArgAction, Args};
use runtime::lease::Timing;

use super::tracing::Tracing;
use super::values::{Count, Places, Port, Rate, Span, go_duration, go_ip, vmodule};

/// Flags that both components know.
#[derive(Debug, Args)]
pub(crate) struct Common {
    #[command(flatten)]
    pub(crate) clusters: Clusters,
    #[command(flatten)]
    pub(crate) election: Election,
    #[command(flatten)]
    pub(crate) listening: Listening,
    #[command(flatten)]
    pub(crate) log: Log,
    #[command(flatten)]
    pub(crate) tracing: Tracing,
    #[cfg(feature = "inspect")]
    #[command(flatten)]
    pub(crate) web_view: super::web_view::WebViewFlags,
    #[command(flatten)]
    pub(crate) idle: Idle,
}

/// Which clusters to work on, and how hard.
#[derive(Debug, Args)]
#[command(next_help_heading = "Clusters")]
pub(crate) struct Clusters {
    /// Kubeconfig of the cluster that holds the machines; `inClusterConfig` for the pod's own; empty for the same as the target's.
    #[arg(long, value_name = "FILE", default_value = "")]
    pub(crate) control_kubeconfig: String,
    /// Kubeconfig of the cluster that nodes join; empty for the pod's own, `none` to run without one.
    #[arg(long, value_name = "FILE", default_value = "")]
    pub(crate) target_kubeconfig: String,
    /// The only namespace of the control cluster that is looked after.
    #[arg(long, value_name = "NAME", default_value = "default")]
    pub(crate) namespace: String,
    /// How many objects of a kind are worked on at once.
    #[arg(long, value_name = "N")]
    pub(super) concurrent_syncs: Option<Places>,
    /// Requests a second to each API server, in the long run.
    #[arg(long, value_name = "N", default_value = "20")]
    pub(super) kube_api_qps: Rate,
    /// Requests at once, after a rest.
    #[arg(long, value_name = "N", default_value = "30")]
    pub(super) kube_api_burst: Count,
}

impl Clusters {
    /// Requests a second to each API server, and at once after a rest.
    pub(crate) fn limit(&self) -> (f32, u32) {
        (self.kube_api_qps.get(), self.kube_api_burst.get())
    }
}

/// Who acts when there are several.
#[derive(Debug, Args)]
#[command(next_help_heading = "Leader election")]
#[allow(
    clippy::struct_field_names,
    reason = "the flags are named after the fields, and existing manifests name the flags"
)]
pub(crate) struct Election {
    /// Act only while holding the lease.
    #[arg(long, default_value_t = true, action = ArgAction::Set)]
    pub(crate) leader_elect: bool,
    /// How long a candidate waits before it takes over a lease that is not renewed.
    #[arg(long, value_name = "DURATION", default_value = "15s", value_parser = go_duration)]
    pub(super) leader_elect_lease_duration: GoDuration,
    /// How long the leader tries to renew before it gives up.
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = go_duration)]
    pub(super) leader_elect_renew_deadline: GoDuration,
    /// How long to wait between two attempts.
    #[arg(long, value_name = "DURATION", default_value = "2s", value_parser = go_duration)]
    pub(super) leader_elect_retry_period: GoDuration,
    /// What the lock is; only `leases`.
    #[arg(long, value_name = "KIND", default_value = "leases")]
    pub(super) leader_elect_resource_lock: String,
}

impl Election {
    /// The durations of the election.
    pub(crate) fn timing(&self) -> Timing {
        Timing {
            lease_duration: self.leader_elect_lease_duration.to_std(),
            renew_deadline: self.leader_elect_renew_deadline.to_std(),
            retry_period: self.leader_elect_retry_period.to_std(),
        }
    }
}

/// Where metrics and health are told.
#[derive(Debug, Args)]
#[command(next_help_heading = "Metrics and health")]
pub(crate) struct Listening {
    /// The port of metrics and health.
    #[arg(long, value_name = "PORT", default_value = "10259")]
    pub(super) port: Port,
    /// The address to listen on.
    #[arg(long, value_name = "IP", default_value = "0.0.0.0", value_parser = go_ip)]
    pub(super) address: IpAddr,
    /// Serve `/debug/state`: queues, caches, and what everything waits for.
    #[arg(long)]
    pub(crate) profiling: bool,
}

/// What is told while working.
#[derive(Debug, Args)]
#[command(next_help_heading = "Logging")]
pub(crate) struct Log {
    /// Log verbosity: 0 tells what happens, 4 also why, 6 every step.
    #[arg(short, long = "v", value_name = "N", default_value_t = 0)]
    pub(crate) verbosity: i32,
    /// `text` or `json`.
    #[arg(long, value_name = "FORMAT", default_value = "text", help_heading = super::NEW)]
    pub(crate) log_format: runtime::logs::LogFormat,
}

/// Flags that existing manifests may carry and that change nothing.
#[derive(Debug, Args)]
#[command(next_help_heading = super::IDLE)]
#[allow(dead_code, reason = "that they are read and checked is all there is to them")]
pub(crate) struct Idle {
    /// The driver is the cloud provider.
    #[arg(long, value_name = "NAME", default_value = "")]
    cloud_provider: String,
    /// Caches follow watches and are never replayed.
    #[arg(long, value_name = "DURATION", default_value = "12h")]
    min_resync_period: Span,
    /// JSON is always spoken.
    #[arg(long, value_name = "TYPE", default_value = "application/vnd.kubernetes.protobuf")]
    pub(super) kube_api_content_type: String,
    /// Controllers start together.
    #[arg(long, value_name = "DURATION", default_value = "0s")]
    controller_start_interval: Span,
    /// There are no Go profiles. Needs `--profiling`.
    #[arg(long)]
    pub(super) contention_profiling: bool,
    /// `--v` holds for all files.
    #[arg(long, value_name = "FILE=N,…", default_value = "", value_parser = vmodule)]
    vmodule: String,
    /// Each line is written at once.
    #[arg(long, value_name = "DURATION", default_value = "5s", value_parser = go_duration)]
    log_flush_frequency: GoDuration,
}

//! Flags shared by the manager and the machine controller.
//!
//! Where the defaults differ, the command determines the default (see `servers`).

use std::net::IpAddr;

use api::GoDuration;
use clap::{ArgAction, Args};
use runtime::lease::Timing;

use super::tracing::Tracing;
use super::values::{Concurrency, Count, Port, Rate, Span, go_duration, go_ip, vmodule};

/// Flags shared by the manager and the machine controller.
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
    pub(crate) no_effect: NoEffect,
}

/// Clusters to connect to, and limits of the clients.
#[derive(Debug, Args)]
#[command(next_help_heading = "Clusters")]
pub(crate) struct Clusters {
    /// Kubeconfig of the control cluster, which holds the Machines. `inClusterConfig` selects the service account of
    /// the pod. Empty selects the target cluster.
    #[arg(long, value_name = "FILE", default_value = "")]
    pub(crate) control_kubeconfig: String,
    /// Kubeconfig of the target cluster, which the Nodes join. Empty selects the service account of the pod, `none`
    /// disables the target cluster.
    #[arg(long, value_name = "FILE", default_value = "")]
    pub(crate) target_kubeconfig: String,
    /// Namespace of the control cluster in which Machines, MachineSets and MachineDeployments are reconciled.
    #[arg(long, value_name = "NAME", default_value = "default")]
    pub(crate) namespace: String,
    /// Number of concurrent workers per work queue.
    #[arg(long, value_name = "N")]
    pub(super) concurrent_syncs: Option<Concurrency>,
    /// Maximum average number of requests per second to each API server.
    #[arg(long, value_name = "N", default_value = "20")]
    pub(super) kube_api_qps: Rate,
    /// Maximum burst of requests to each API server.
    #[arg(long, value_name = "N", default_value = "30")]
    pub(super) kube_api_burst: Count,
}

impl Clusters {
    /// Returns the average requests per second and the burst for each API server.
    pub(crate) fn limit(&self) -> (f32, u32) {
        (self.kube_api_qps.get(), self.kube_api_burst.get())
    }
}

/// Leader election between replicas.
#[derive(Debug, Args)]
#[command(next_help_heading = "Leader election")]
#[allow(
    clippy::struct_field_names,
    reason = "the flags are named after the fields, and existing manifests name the flags"
)]
pub(crate) struct Election {
    /// Leader election. If enabled, a replica acts only while it holds the Lease.
    #[arg(long, default_value_t = true, action = ArgAction::Set)]
    pub(crate) leader_elect: bool,
    /// Duration after which a candidate takes over a Lease that was not renewed.
    #[arg(long, value_name = "DURATION", default_value = "15s", value_parser = go_duration)]
    pub(super) leader_elect_lease_duration: GoDuration,
    /// Duration for which the leader retries the renewal of its Lease before it stops leading.
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = go_duration)]
    pub(super) leader_elect_renew_deadline: GoDuration,
    /// Interval between two attempts to acquire or renew the Lease.
    #[arg(long, value_name = "DURATION", default_value = "2s", value_parser = go_duration)]
    pub(super) leader_elect_retry_period: GoDuration,
    /// Resource type of the lock. Only `leases` is supported.
    #[arg(long, value_name = "KIND", default_value = "leases")]
    pub(super) leader_elect_resource_lock: String,
}

impl Election {
    /// Returns the durations of the election.
    pub(crate) fn timing(&self) -> Timing {
        Timing {
            lease_duration: self.leader_elect_lease_duration.to_std(),
            renew_deadline: self.leader_elect_renew_deadline.to_std(),
            retry_period: self.leader_elect_retry_period.to_std(),
        }
    }
}

/// Where metrics and health endpoints are served.
#[derive(Debug, Args)]
#[command(next_help_heading = "Metrics and health")]
pub(crate) struct Listening {
    /// Port for metrics and health endpoints.
    #[arg(long, value_name = "PORT", default_value = "10259")]
    pub(super) port: Port,
    /// IP address to listen on.
    #[arg(long, value_name = "IP", default_value = "0.0.0.0", value_parser = go_ip)]
    pub(super) address: IpAddr,
    /// Serve `/debug/state`, which shows work queues, caches and the reason for every pending wait.
    #[arg(long)]
    pub(crate) profiling: bool,
}

/// Logging.
#[derive(Debug, Args)]
#[command(next_help_heading = "Logging")]
pub(crate) struct Log {
    /// Log verbosity. 0 logs actions, 4 adds reasons, 6 adds every step.
    #[arg(short, long = "v", value_name = "N", default_value_t = 0)]
    pub(crate) verbosity: i32,
    /// Log format, `text` or `json`.
    #[arg(long, value_name = "FORMAT", default_value = "text", help_heading = super::NEW)]
    pub(crate) log_format: runtime::logs::LogFormat,
}

/// Flags that existing manifests may contain and that have no effect.
#[derive(Debug, Args)]
#[command(next_help_heading = super::NO_EFFECT)]
#[allow(dead_code, reason = "the flags are parsed and validated only")]
pub(crate) struct NoEffect {
    /// The driver determines the cloud provider.
    #[arg(long, value_name = "NAME", default_value = "")]
    cloud_provider: String,
    /// Caches follow watches and are never resynced.
    #[arg(long, value_name = "DURATION", default_value = "12h")]
    min_resync_period: Span,
    /// The content type of requests is always JSON.
    #[arg(long, value_name = "TYPE", default_value = "application/vnd.kubernetes.protobuf")]
    pub(super) kube_api_content_type: String,
    /// All controllers start at the same time.
    #[arg(long, value_name = "DURATION", default_value = "0s")]
    controller_start_interval: Span,
    /// Go profiles do not exist. Requires `--profiling`.
    #[arg(long)]
    pub(super) contention_profiling: bool,
    /// `--v` applies to all files.
    #[arg(long, value_name = "FILE=N,…", default_value = "", value_parser = vmodule)]
    vmodule: String,
    /// Every log line is written immediately.
    #[arg(long, value_name = "DURATION", default_value = "5s", value_parser = go_duration)]
    log_flush_frequency: GoDuration,
}

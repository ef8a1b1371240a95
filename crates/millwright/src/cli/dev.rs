//! What can be said to the commands of the feature `dev`: those that need no cluster, and the parts they are made of.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use remote_driver::Endpoint;

use super::{Log, Output, ServerTls, endpoint, values};

#[derive(Debug, Subcommand)]
pub(crate) enum DevCommand {
    /// Show a machine's life, from its creation to its deletion, on an embedded API server and an embedded cloud.
    Demo(Demo),
    /// Keep a whole cluster in memory running, with virtual machines, for kubectl: nothing to install, nothing left behind.
    Dev(Dev),
    /// Serve the embedded API server on loopback, for kubectl and for `millwright run`.
    ApiServer(ApiServer),
    /// Live through many bad days of a whole cluster in memory, each from a seed, and check at every event what must hold.
    Sim(Sim),
    /// Run the virtual cloud and its kubelets as a process of their own, for `millwright run --driver-endpoint`.
    VirtualCloud(VirtualCloud),
}

#[derive(Debug, Args)]
pub(crate) struct Demo {
    /// How to print.
    #[arg(short, long, value_enum, default_value_t = Output::Text)]
    pub(crate) output: Output,
    /// Also log to stderr: 4 tells why, 6 every step.
    #[arg(short, long = "v", value_name = "N")]
    pub(crate) verbosity: Option<i32>,
}

#[derive(Debug, Args)]
pub(crate) struct Sim {
    /// How many seeds of each profile.
    #[arg(long, value_name = "N", default_value_t = 100)]
    pub(crate) seeds: u64,
    /// What kind of days: the name of a profile, or `all`.
    #[arg(long, value_name = "NAME", default_value = "all")]
    pub(crate) profile: String,
    /// The first seed; any by default.
    #[arg(long, value_name = "SEED")]
    pub(crate) first_seed: Option<u64>,
    /// Only this seed.
    #[arg(long, value_name = "SEED", conflicts_with_all = ["seeds", "first_seed"])]
    pub(crate) seed: Option<u64>,
    /// Show all that becomes of machines, sets, deployments, nodes and VMs.
    #[arg(long)]
    pub(crate) trace: bool,
    /// How to print.
    #[arg(short, long, value_enum, default_value_t = Output::Text)]
    pub(crate) output: Output,
}

#[derive(Debug, Args)]
pub(crate) struct Dev {
    /// The port on 127.0.0.1; 0 takes a free one.
    #[arg(long, default_value_t = 0)]
    pub(crate) port: u16,
    /// Where to write the kubeconfig, which is removed at the end; in a new directory by default.
    #[arg(long, value_name = "FILE")]
    pub(crate) kubeconfig: Option<PathBuf>,
    /// Also log to stderr: 4 tells why, 6 every step.
    #[arg(short, long = "v", value_name = "N")]
    pub(crate) verbosity: Option<i32>,
}

#[derive(Debug, Args)]
pub(crate) struct ApiServer {
    /// The port on 127.0.0.1; 0 takes a free one.
    #[arg(long, default_value_t = 0)]
    pub(crate) port: u16,
    /// Where to write a kubeconfig for it.
    #[arg(long, value_name = "FILE", default_value = "millwright.kubeconfig")]
    pub(crate) kubeconfig: PathBuf,
}

#[derive(Debug, Args)]
pub(crate) struct VirtualCloud {
    /// Where to listen for controllers: `unix:PATH`, open to the same user only, or `tcp+mtls://HOST:PORT`.
    #[arg(long, value_name = "ENDPOINT", value_parser = endpoint)]
    pub(crate) listen: Endpoint,
    #[command(flatten)]
    pub(crate) tls: ServerTls,
    /// Kubeconfig of the cluster that nodes join; empty for the pod's own, `none` for VMs that never join.
    #[arg(long, value_name = "FILE", default_value = "")]
    pub(crate) kubeconfig: String,
    /// After how long a silent node is `Unknown`; 0s leaves that to a kube-controller-manager.
    #[arg(long, value_name = "DURATION", default_value = "40s", value_parser = values::duration)]
    pub(crate) node_monitor_grace_period: std::time::Duration,
    /// Make a second VM for whoever creates twice, as some clouds do, so that a doubled create shows.
    #[arg(long)]
    pub(crate) allow_doubles: bool,
    #[command(flatten)]
    pub(crate) log: Log,
}

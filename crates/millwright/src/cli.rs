//! What can be said on the command line.

mod both;
mod definition;
#[cfg(feature = "dev")]
mod dev;
mod driver;
mod driver_process;
mod fleet;
mod machine;
mod manager;
mod media_type;
mod notes;
#[cfg(feature = "inspect")]
mod operator;
#[cfg(test)]
mod page;
mod pflag;
#[cfg(test)]
#[cfg(all(feature = "dev", feature = "inspect"))]
mod prose;
mod reading;
#[cfg(test)]
mod reference;
mod rollout;
mod safety;
mod servers;
mod tracing;
mod validation;
pub(crate) mod values;
#[cfg(feature = "inspect")]
mod web_view;

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use driver_remote::{Endpoint, TlsFiles};

pub(crate) use both::Log;
#[cfg(feature = "inspect")]
pub(crate) use definition::definition as commands;
#[cfg(feature = "dev")]
pub(crate) use dev::{ApiServer, Demo, Dev, DevCommand, Down, Sim, Up, UpProvider, VirtualCloud};
pub(crate) use driver::{Check, DriverCommand};
#[cfg(feature = "dev")]
use driver_process::ServerTls;
pub(crate) use driver_process::{DriverProcess, Task};
use fleet::Fleet;
pub(crate) use machine::{DriverFlags, MachineFlags};
pub(crate) use manager::ManagerFlags;
pub(crate) use notes::Notes;
#[cfg(feature = "dev")]
pub(crate) use operator::Plan;
#[cfg(feature = "inspect")]
pub(crate) use operator::{
    ClusterArgs, Explain, Form, OperatorCommand, Rolled, RolloutCommand, RolloutHistory, RolloutStatus, RolloutUndo,
    Status,
};
#[cfg(feature = "inspect")]
pub(crate) use operator::{Completion, ManPages, Preflight};
pub(crate) use reading::{Asked, read};
use rollout::RolloutFlags;
use safety::Safety;
pub(crate) use servers::{MachineController, Manager, Run, Servers};
pub(crate) use tracing::Tracing;
pub(crate) use validation::summary;
#[cfg(feature = "inspect")]
pub(crate) use web_view::WebViewWish;

/// A driver that a program brings along.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BuiltIn<'a> {
    /// What `--provider` calls it.
    pub(crate) name: &'a str,
    /// When it is used.
    pub(crate) choice: Choice,
}

/// When a driver that a program brings along is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Choice {
    /// Unless another is named: it is what the program is for.
    ByDefault,
    /// Only if it is named, and for the classes that name it. Whoever forgot the endpoint of another driver would see every class refused, and not why;
    /// and machines in the virtual cloud vanish with the process.
    #[cfg_attr(
        not(any(test, feature = "aws", feature = "openstack", feature = "dev")),
        allow(dead_code, reason = "no driver is in this build")
    )]
    OnRequest,
}

/// The heading of flags that MCM does not have.
pub(crate) const NEW: &str = "New in Millwright";

/// The heading of flags that are read, checked, and change nothing.
const IDLE: &str = "Without effect";

/// A machine controller manager for Kubernetes.
#[derive(Debug, Parser)]
#[command(name = "millwright", version = crate::build_info::LONG, propagate_version = true)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Look after deployments and sets: one component, as `machine-controller-manager` does.
    Manager(Box<Manager>),
    /// Look after machines, their VMs and their nodes: the other component, as `machine-controller` does.
    MachineController(Box<MachineController>),
    /// Look after everything in one process.
    Run(Box<Run>),
    /// Print the CustomResourceDefinitions, or write them to a directory.
    Crds(Crds),
    /// For authors of drivers.
    #[command(subcommand)]
    Driver(DriverCommand),
    #[cfg(feature = "inspect")]
    #[command(flatten)]
    Operator(OperatorCommand),
    #[cfg(feature = "dev")]
    #[command(flatten)]
    Dev(DevCommand),
}

#[derive(Debug, Args)]
pub(crate) struct Crds {
    /// Write one file a kind into this directory instead of printing them.
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: Option<PathBuf>,
}

/// For people, or for programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Output {
    /// Lines for people.
    Text,
    /// One JSON object a line.
    Json,
}

fn tls_files([authority, certificate, key]: [&Option<PathBuf>; 3]) -> Option<TlsFiles> {
    Some(TlsFiles { authority: authority.clone()?, certificate: certificate.clone()?, key: key.clone()? })
}

fn endpoint(text: &str) -> Result<Endpoint, driver_remote::EndpointError> {
    text.parse()
}

//! The command line.

mod common;
mod definition;
#[cfg(feature = "dev")]
mod dev;
#[cfg(test)]
#[cfg(all(feature = "dev", feature = "inspect"))]
mod documented_flags;
mod driver;
mod driver_process;
#[cfg(test)]
mod flags_page;
#[cfg(feature = "inspect")]
mod inspect;
mod machine;
mod machine_deployment;
mod machine_set;
mod manager;
#[cfg(test)]
mod mcm_compatibility;
mod media_type;
mod notes;
mod parse;
mod pflag;
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

pub(crate) use common::Log;
#[cfg(feature = "inspect")]
pub(crate) use definition::definition as commands;
#[cfg(feature = "dev")]
pub(crate) use dev::{ApiServer, Demo, Dev, DevCommand, Down, Sim, Up, UpProvider, VirtualCloud};
pub(crate) use driver::{Check, DriverCommand};
#[cfg(feature = "dev")]
use driver_process::ServerTls;
pub(crate) use driver_process::{DriverProcess, Task};
#[cfg(feature = "dev")]
pub(crate) use inspect::Plan;
#[cfg(feature = "inspect")]
pub(crate) use inspect::{
    ClusterArgs, DeploymentArgs, Explain, InspectCommand, OutputFormat, RolloutCommand, RolloutHistory, RolloutStatus,
    RolloutUndo, Status,
};
#[cfg(feature = "inspect")]
pub(crate) use inspect::{Completion, ManPages, Preflight};
pub(crate) use machine::{DriverFlags, MachineFlags};
use machine_deployment::RolloutFlags;
use machine_set::MachineSetFlags;
pub(crate) use manager::ManagerFlags;
pub(crate) use notes::Notes;
pub(crate) use parse::{Invocation, parse};
use safety::SafetyFlags;
pub(crate) use servers::{MachineController, Manager, Run, Servers};
pub(crate) use tracing::Tracing;
pub(crate) use validation::summary;
#[cfg(feature = "inspect")]
pub(crate) use web_view::WebViewOptions;

/// A built-in driver.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BuiltIn<'a> {
    /// Name of the driver in `--provider`.
    pub(crate) name: &'a str,
    /// When the driver is used.
    pub(crate) choice: Choice,
}

/// When a built-in driver is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Choice {
    /// Unless another driver is named, because the program is built for this driver.
    ByDefault,
    /// Only if it is named, and only for MachineClasses of its provider. If such a driver were a default, a missing
    /// --driver-endpoint would not be noticed at startup, and Machines of the virtual cloud are lost when the process
    /// exits.
    #[cfg_attr(
        not(any(test, feature = "aws", feature = "openstack", feature = "dev")),
        allow(dead_code, reason = "no driver is in this build")
    )]
    OnRequest,
}

/// Help heading of flags that MCM does not have.
pub(crate) const NEW: &str = "New in Millwright";

/// Help heading of flags that are parsed and validated and have no effect.
const NO_EFFECT: &str = "No effect";

/// Machine controller manager for Kubernetes
#[derive(Debug, Parser)]
#[command(name = "millwright", version = crate::build_info::LONG, propagate_version = true)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run the manager, which manages MachineDeployments and MachineSets, as `machine-controller-manager` does
    Manager(Box<Manager>),
    /// Run the machine controller, which manages Machines, their VMs and their Nodes, as `machine-controller` does
    MachineController(Box<MachineController>),
    /// Run the manager and the machine controller in one process
    Run(Box<Run>),
    /// Print the CustomResourceDefinitions or write them to a directory
    Crds(Crds),
    /// Commands for driver authors
    #[command(subcommand)]
    Driver(DriverCommand),
    #[cfg(feature = "inspect")]
    #[command(flatten)]
    Inspect(InspectCommand),
    #[cfg(feature = "dev")]
    #[command(flatten)]
    Dev(DevCommand),
}

#[derive(Debug, Args)]
pub(crate) struct Crds {
    /// Output directory. One file per CustomResourceDefinition is written instead of printing them.
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: Option<PathBuf>,
}

/// Output format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Output {
    /// Text lines.
    Text,
    /// One JSON object per line.
    Json,
}

fn tls_files([ca, certificate, key]: [&Option<PathBuf>; 3]) -> Option<TlsFiles> {
    Some(TlsFiles { authority: ca.clone()?, certificate: certificate.clone()?, key: key.clone()? })
}

fn endpoint(text: &str) -> Result<Endpoint, driver_remote::EndpointError> {
    text.parse()
}

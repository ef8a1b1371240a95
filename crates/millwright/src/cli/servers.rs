//! The three server commands and what they have in common: [`Servers`].
//!
//! `manager` and `machine-controller` run one component per process, as MCM does; `run` runs both in one process. A
//! flag of both components applies to both in `run`. Where their defaults differ, each component keeps its own default
//! unless the flag is given.

use std::net::SocketAddr;

use clap::Args;
use controllers::wiring::defaults;

use super::common::Common;
use super::values::{Concurrency, Port};
use super::{MachineFlags, ManagerFlags, Notes};

#[derive(Debug, Args)]
pub(crate) struct Manager {
    #[command(flatten)]
    pub(super) common: Common,
    #[command(flatten)]
    manager: ManagerFlags,
}

#[derive(Debug, Args)]
pub(crate) struct MachineController {
    #[command(flatten)]
    pub(super) common: Common,
    #[command(flatten)]
    pub(super) machine: MachineFlags,
}

#[derive(Debug, Args)]
pub(crate) struct Run {
    #[command(flatten)]
    pub(super) common: Common,
    #[command(flatten)]
    manager: ManagerFlags,
    #[command(flatten)]
    pub(super) machine: MachineFlags,
    /// Port for the metrics and health endpoints of the manager. `--port` is the port of the machine controller.
    #[arg(long, value_name = "PORT", default_value = "10258", help_heading = super::NEW)]
    pub(super) manager_port: Port,
}

/// The components of a process: one or both.
#[derive(Debug)]
pub(crate) struct Servers {
    /// Settings of the whole process.
    pub(crate) common: Common,
    /// Log messages about the flags.
    pub(crate) notes: Notes,
    /// The component that manages MachineDeployments and MachineSets.
    pub(crate) manager: Option<ComponentFlags<ManagerFlags>>,
    /// The component that manages Machines.
    pub(crate) machine: Option<ComponentFlags<MachineFlags>>,
}

/// One component, with its flags.
#[derive(Debug)]
pub(crate) struct ComponentFlags<F> {
    /// Flags of the component only.
    pub(crate) flags: F,
    /// Address of its metrics and health endpoints.
    pub(crate) listen: SocketAddr,
    /// Number of concurrent workers per work queue.
    pub(crate) workers: usize,
}

impl Servers {
    /// Returns the components that a command runs, with the log messages about its flags.
    pub(crate) fn new(flags: impl Into<Self>, notes: Notes) -> Self {
        Self { notes, ..flags.into() }
    }

    /// Returns the policy that the flags define.
    pub(crate) fn policy(&self) -> planner::Policy {
        let policy = planner::Policy::default();
        let policy = self.manager.iter().fold(policy, |policy, component| component.flags.apply(policy));
        self.machine.iter().fold(policy, |policy, component| component.flags.apply(policy))
    }

    /// Returns the name of the process in its requests to API servers.
    pub(crate) fn name(&self) -> &'static str {
        match (&self.manager, &self.machine) {
            (Some(_), None) => "machine-controller-manager",
            (None, Some(_)) => "machine-controller",
            _ => "millwright",
        }
    }
}

impl Common {
    fn component<F>(&self, flags: F, port: Port, default_workers: usize) -> ComponentFlags<F> {
        ComponentFlags {
            flags,
            listen: SocketAddr::new(self.listening.address, port.get()),
            workers: self.clusters.concurrent_syncs.map_or(default_workers, Concurrency::get),
        }
    }
}

impl From<Manager> for Servers {
    fn from(Manager { common, manager }: Manager) -> Self {
        let manager = common.component(manager, common.listening.port, defaults::MANAGER_WORKERS);
        Self { manager: Some(manager), machine: None, common, notes: Notes::default() }
    }
}

impl From<MachineController> for Servers {
    fn from(MachineController { common, machine }: MachineController) -> Self {
        let machine = common.component(machine, common.listening.port, defaults::MACHINE_CONTROLLER_WORKERS);
        Self { manager: None, machine: Some(machine), common, notes: Notes::default() }
    }
}

impl From<Run> for Servers {
    fn from(Run { common, manager, machine, manager_port }: Run) -> Self {
        let manager = common.component(manager, manager_port, defaults::MANAGER_WORKERS);
        let machine = common.component(machine, common.listening.port, defaults::MACHINE_CONTROLLER_WORKERS);
        Self { manager: Some(manager), machine: Some(machine), common, notes: Notes::default() }
    }
}

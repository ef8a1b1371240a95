//! The three commands that look after a cluster, and what they have in common: [`Servers`].
//!
//! `manager` and `machine-controller` are the two components in a process each, as MCM ships them; `run` is both in one process. A flag that both components know is
//! given to `run` once and holds for both. Where their defaults differ, each component keeps its own until the flag is given.

use std::net::SocketAddr;

use clap::Args;

use super::both::Common;
use super::values::{Places, Port};
use super::{MachineFlags, ManagerFlags, Notes};

/// How many workers each component has per queue unless told otherwise.
const MANAGER_WORKERS: usize = 10;
const MACHINE_WORKERS: usize = 50;

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
    /// The port of the manager's metrics and health; `--port` is the machine controller's.
    #[arg(long, value_name = "PORT", default_value = "10258", help_heading = super::NEW)]
    pub(super) manager_port: Port,
}

/// What a process was asked to be: one component, or both.
#[derive(Debug)]
pub(crate) struct Servers {
    /// What holds for the whole process.
    pub(crate) common: Common,
    /// What the log is to say about the flags.
    pub(crate) notes: Notes,
    /// The component that looks after deployments and sets.
    pub(crate) manager: Option<Served<ManagerFlags>>,
    /// The component that looks after machines.
    pub(crate) machine: Option<Served<MachineFlags>>,
}

/// One component, as it was asked for.
#[derive(Debug)]
pub(crate) struct Served<F> {
    /// Its own flags.
    pub(crate) flags: F,
    /// Where its metrics and health are told.
    pub(crate) listen: SocketAddr,
    /// How many objects of a kind it works on at once.
    pub(crate) workers: usize,
}

impl Servers {
    /// From the flags of a command, with what is to be said about them.
    pub(crate) fn new(flags: impl Into<Self>, notes: Notes) -> Self {
        Self { notes, ..flags.into() }
    }

    /// The limits and choices that the flags ask for.
    pub(crate) fn policy(&self) -> planner::Policy {
        let policy = planner::Policy::default();
        let policy = self.manager.iter().fold(policy, |policy, component| component.flags.apply(policy));
        self.machine.iter().fold(policy, |policy, component| component.flags.apply(policy))
    }

    /// The name the process goes by towards API servers.
    pub(crate) fn name(&self) -> &'static str {
        match (&self.manager, &self.machine) {
            (Some(_), None) => "machine-controller-manager",
            (None, Some(_)) => "machine-controller",
            _ => "millwright",
        }
    }
}

impl Common {
    fn serve<F>(&self, flags: F, port: Port, default_workers: usize) -> Served<F> {
        Served {
            flags,
            listen: SocketAddr::new(self.listening.address, port.get()),
            workers: self.clusters.concurrent_syncs.map_or(default_workers, Places::get),
        }
    }
}

impl From<Manager> for Servers {
    fn from(Manager { common, manager }: Manager) -> Self {
        let manager = common.serve(manager, common.listening.port, MANAGER_WORKERS);
        Self { manager: Some(manager), machine: None, common, notes: Notes::default() }
    }
}

impl From<MachineController> for Servers {
    fn from(MachineController { common, machine }: MachineController) -> Self {
        let machine = common.serve(machine, common.listening.port, MACHINE_WORKERS);
        Self { manager: None, machine: Some(machine), common, notes: Notes::default() }
    }
}

impl From<Run> for Servers {
    fn from(Run { common, manager, machine, manager_port }: Run) -> Self {
        let manager = common.serve(manager, manager_port, MANAGER_WORKERS);
        let machine = common.serve(machine, common.listening.port, MACHINE_WORKERS);
        Self { manager: Some(manager), machine: Some(machine), common, notes: Notes::default() }
    }
}

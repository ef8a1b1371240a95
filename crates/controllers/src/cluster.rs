//! The controllers of one cluster, as one value with three parts.
//!
//! Both components read [`Shared`]. The machine controller ([`MachineController`]) and the manager ([`Manager`]) each
//! have their own lease, clients, writers, Events and queues. A function gets only the part that it needs, so that code
//! of the manager cannot use the lease or the clients of the machine controller.
//!
//! Nothing is global: a test runs twenty clusters side by side, and a simulation restarts one of them.

use std::sync::Arc;

use api::Machine;
use api::view::NodeView;
use planner::Policy;
use runtime::cache::{Cache, Caches};
use runtime::{Clock, Tasks};

use crate::decision::Journal;
use crate::machine_controller::MachineController;
use crate::manager::Manager;
use crate::safety::ApiConnectivity;

/// The controllers of one cluster.
pub struct Cluster {
    pub(crate) shared: Arc<Shared>,
    /// Also present if this process does not run it; then it never leads.
    pub(crate) machine_controller: Arc<MachineController>,
    /// The manager, if this process runs it.
    pub(crate) manager: Option<Arc<Manager>>,
}

/// What the components of a process share.
pub struct Shared {
    /// The namespace of the control cluster.
    pub(crate) namespace: String,
    /// All Machines of the namespace.
    pub(crate) machines: Cache<Machine>,
    /// All Nodes of the target cluster; `None` without one.
    pub(crate) nodes: Option<Cache<NodeView>>,
    /// All caches of this process.
    pub(crate) caches: Caches,
    /// Connectivity to the API servers.
    pub(crate) connectivity: ApiConnectivity,
    /// Limits and periods.
    pub(crate) policy: Arc<Policy>,
    /// The clock.
    pub(crate) clock: Clock,
    /// The tasks of this cluster.
    pub(crate) tasks: Tasks,
    /// Logs the decisions.
    pub(crate) journal: Journal,
}

impl Cluster {
    /// Returns the cache of all Machines of the namespace.
    pub fn machines(&self) -> &Cache<Machine> {
        &self.shared.machines
    }

    /// Returns the cache of all Nodes of the target cluster; `None` without one.
    pub fn nodes(&self) -> Option<&Cache<NodeView>> {
        self.shared.nodes.as_ref()
    }

    /// Returns the namespace of the control cluster.
    pub fn namespace(&self) -> &str {
        &self.shared.namespace
    }

    /// Returns all caches of this process.
    pub fn caches(&self) -> &Caches {
        &self.shared.caches
    }

    /// Returns the connectivity to the API servers.
    pub fn connectivity(&self) -> &ApiConnectivity {
        &self.shared.connectivity
    }

    /// Returns the tasks of this cluster.
    pub fn tasks(&self) -> &Tasks {
        &self.shared.tasks
    }

    /// Returns the machine controller. If this process does not run it, it never leads.
    pub fn machine_controller(&self) -> &MachineController {
        &self.machine_controller
    }

    /// Returns the manager, if this process runs it.
    pub fn manager(&self) -> Option<&Manager> {
        self.manager.as_deref()
    }
}

//! Everything that one cluster's controllers need, as one value that is passed down, in three parts.
//!
//! [`Shared`] is what both components see and go by. The machine controller ([`MachineController`]) and the manager ([`Fleet`]) have
//! what they act with for themselves: lease, clients, writers, Events and queues. A function takes the part it needs, so that one which
//! works for the manager cannot ask the machine controller's lease or write with its client: it has no way to reach them.
//!
//! Nothing of this is global. A test runs twenty clusters side by side, a simulation restarts one, and one process may one day
//! serve hundreds.

use std::sync::Arc;

use api::Machine;
use api::view::NodeView;
use planner::Policy;
use runtime::cache::{Cache, Caches};
use runtime::{Clock, Tasks};

use crate::decision::Journal;
use crate::fleet::Fleet;
use crate::machine_controller::MachineController;
use crate::safety::ApiConnectivity;

/// The controllers of one cluster.
pub struct Cluster {
    pub(crate) shared: Arc<Shared>,
    /// There also where this process does not run it: then it never leads.
    pub(crate) machine_controller: Arc<MachineController>,
    /// The manager, unless this process runs without it.
    pub(crate) fleet: Option<Arc<Fleet>>,
}

/// What the components of a process share: what they see, and what they go by.
pub struct Shared {
    /// The namespace of the control cluster that is looked after.
    pub(crate) namespace: String,
    /// All Machines of the namespace.
    pub(crate) machines: Cache<Machine>,
    /// All Nodes of the cluster that they join, unless Millwright runs without one.
    pub(crate) nodes: Option<Cache<NodeView>>,
    /// Everything that is cached, whoever needs it.
    pub(crate) caches: Caches,
    /// Whether we see.
    pub(crate) connectivity: ApiConnectivity,
    /// Limits and periods.
    pub(crate) policy: Arc<Policy>,
    /// The time.
    pub(crate) clock: Clock,
    /// The tasks that work for this cluster.
    pub(crate) tasks: Tasks,
    /// Where decisions are told.
    pub(crate) journal: Journal,
}

impl Cluster {
    /// All Machines of the namespace.
    pub fn machines(&self) -> &Cache<Machine> {
        &self.shared.machines
    }

    /// All Nodes of the cluster that they join, unless Millwright runs without one.
    pub fn nodes(&self) -> Option<&Cache<NodeView>> {
        self.shared.nodes.as_ref()
    }

    /// The namespace of the control cluster that is looked after.
    pub fn namespace(&self) -> &str {
        &self.shared.namespace
    }

    /// Everything that is cached, whoever needs it.
    pub fn caches(&self) -> &Caches {
        &self.shared.caches
    }

    /// Whether we see.
    pub fn connectivity(&self) -> &ApiConnectivity {
        &self.shared.connectivity
    }

    /// The tasks that work for this cluster.
    pub fn tasks(&self) -> &Tasks {
        &self.shared.tasks
    }

    /// The machine controller. It never leads where this process does not run it.
    pub fn machine_controller(&self) -> &MachineController {
        &self.machine_controller
    }

    /// The manager, unless this process runs without it.
    pub fn fleet(&self) -> Option<&Fleet> {
        self.fleet.as_deref()
    }
}

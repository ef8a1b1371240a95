//! The manager: the MachineSet and MachineDeployment controllers and the overshoot protection.
//!
//! It shares the caches of Machines and Nodes with the machine controller. Queues, leadership and expectations are its own, so that
//! each component can run in a process without the other (`wiring::Components`).
//!
//! When 100 Machines of a MachineSet become ready within a second, the MachineSet is reconciled once, not 100 times: events pass
//! through [`Coalesced`], which adds the first key immediately and then one per `Policy::coalescing_interval`.

mod setup;

use api::view::NodeView;
use api::{Machine, MachineDeployment, MachineSet};
use runtime::cache::{Cache, Caches};
use runtime::events::EventSink;
use runtime::lease::Leadership;
use runtime::queue::{Coalesced, Queue};
use runtime::{Key, Random};

pub(crate) use setup::{ManagerParts, UnstartedManager};

use crate::deployment::{MachineLookups, Rollouts, StatusWrites};
use crate::machineset::{MachineCounts, SetMemory};
use crate::measure::Replacements;
use crate::write::Writer;

/// Writers of the manager. The write locks are shared with the machine controller.
pub(crate) struct ManagerWriters {
    pub(crate) machines: Writer<Machine>,
    pub(crate) sets: Writer<MachineSet>,
    pub(crate) deployments: Writer<MachineDeployment>,
    /// `None` without a target cluster.
    pub(crate) nodes: Option<Writer<NodeView>>,
}

/// State of the manager.
pub struct Manager {
    /// All MachineSets of the namespace.
    pub(crate) sets: Cache<MachineSet>,
    /// All MachineDeployments of the namespace.
    pub(crate) deployments: Cache<MachineDeployment>,
    /// MachineSets to reconcile.
    pub(crate) set_queue: Queue<Key>,
    /// MachineDeployments to reconcile.
    pub(crate) deployment_queue: Queue<Key>,
    /// Adds to `set_queue`, at a limited rate.
    pub(crate) wake_set: Coalesced<Key>,
    /// Adds to `deployment_queue`, at a limited rate.
    pub(crate) wake_deployment: Coalesced<Key>,
    /// Triggers the overshoot protection.
    pub(crate) overshoot_queue: Queue<Key>,
    /// Adds to `overshoot_queue`, at a limited rate.
    pub(crate) wake_overshoot: Coalesced<Key>,
    /// Number of Machines of each MachineSet.
    pub(crate) counts: MachineCounts,
    /// State of each MachineSet between reconciles.
    pub(crate) memory: SetMemory,
    /// Time of the last status write of each MachineDeployment.
    pub(crate) status_writes: StatusWrites,
    /// Lookups of Machines that the cache does not show.
    pub(crate) lookups: MachineLookups,
    /// MachineSets whose Nodes carry the autoscaler's scale-down annotation.
    pub(crate) rollouts: Rollouts,
    /// Caches that must be synced before the manager acts.
    pub(crate) needed: Caches,
    /// Writers of the manager.
    pub(crate) writers: ManagerWriters,
    /// Whether the manager may act.
    pub(crate) leadership: Leadership,
    /// Sink of Events. `with_component` selects the reporting controller.
    pub(crate) events: EventSink,
    /// Counter of unhealthy Machines that were replaced.
    pub(crate) replacements: Replacements,
    /// Randomness for names.
    pub(crate) random: Random,
}

impl Manager {
    /// All MachineSets of the namespace.
    pub fn sets(&self) -> &Cache<MachineSet> {
        &self.sets
    }

    /// All MachineDeployments of the namespace.
    pub fn deployments(&self) -> &Cache<MachineDeployment> {
        &self.deployments
    }

    /// MachineSets to reconcile.
    pub fn set_queue(&self) -> &Queue<Key> {
        &self.set_queue
    }
}

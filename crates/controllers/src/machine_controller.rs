//! The machine controller: it manages Machines, their MachineClasses and their Nodes.
//!
//! It shares the caches of Machines and Nodes with the manager ([`crate::manager`]). Lease, clients, writers, Events
//! and queues are its own.

use std::sync::Arc;

use api::view::{NodeView, SecretView};
use api::{Machine, MachineClass};
use kube::Client;
use runtime::Key;
use runtime::cache::{Cache, Caches};
use runtime::events::EventSink;
use runtime::lease::Leadership;
use runtime::queue::Queue;

use crate::cluster::Shared;
use crate::credentials::Credentials;
use crate::deployment::Rollouts;
use crate::drain::Drains;
use crate::driver_calls::DriverCalls;
use crate::in_use_protection::InUseProtection;
use crate::machine_memory::MachineMemory;
use crate::measure::LifecycleMetrics;
use crate::replacement_lock::ReplacementLocks;
use crate::safety::Safety;
use crate::tokens::Tokens;
use crate::write::Writer;

/// The component that manages Machines, with everything it uses.
pub struct MachineController {
    /// What both components share.
    pub(crate) shared: Arc<Shared>,
    /// Its client for the control cluster.
    pub(crate) control: Client,
    /// The target cluster; `None` to run without one.
    pub(crate) target: Option<Target>,
    /// Writes Machines.
    pub(crate) machine_writer: Writer<Machine>,
    /// Cache of all MachineClasses of the namespace.
    pub(crate) classes: Cache<MachineClass>,
    /// Cache of the metadata of all Secrets of the namespace.
    pub(crate) secrets: Cache<SecretView>,
    /// The data of the Secrets that MachineClasses refer to.
    pub(crate) credentials: Credentials,
    /// Caches that must be complete before it acts.
    pub(crate) needed: Caches,
    /// What is known of each Machine beyond the objects in the API server.
    pub(crate) memory: MachineMemory,
    /// Calls the drivers.
    pub(crate) driver_calls: DriverCalls,
    /// Creates and removes bootstrap tokens in the target cluster; `None` without one.
    pub(crate) tokens: Option<Tokens>,
    /// Metrics of the lifecycle of Machines.
    pub(crate) lifecycle: LifecycleMetrics,
    /// Keeps finalizers on MachineClasses and Secrets that are in use.
    pub(crate) in_use_protection: Arc<InUseProtection>,
    /// The drains; `None` without a target cluster.
    pub(crate) drains: Option<Drains>,
    /// Locks for decisions that affect a whole MachineDeployment.
    pub(crate) replacement_locks: ReplacementLocks,
    /// Rollouts in progress; `None` if the manager does not run in this process.
    pub(crate) rollouts: Option<Rollouts>,
    /// Machines to reconcile.
    pub(crate) queue: Queue<Key>,
    /// The safety loops.
    pub(crate) safety: Safety,
    /// Whether it leads.
    pub(crate) leadership: Leadership,
    /// Emits its Events.
    pub(crate) events: EventSink,
}

/// The target cluster, as the machine controller uses it.
#[derive(Clone)]
pub(crate) struct Target {
    /// Its client for the target cluster.
    pub(crate) client: Client,
    /// Cache of all Nodes.
    pub(crate) nodes: Cache<NodeView>,
    /// Writes Nodes.
    pub(crate) writer: Writer<NodeView>,
}

impl MachineController {
    /// Returns whether it leads.
    pub fn leadership(&self) -> &Leadership {
        &self.leadership
    }

    /// Returns the cache of all MachineClasses of the namespace.
    pub fn classes(&self) -> &Cache<MachineClass> {
        &self.classes
    }

    /// Returns the queue of Machines to reconcile.
    pub fn queue(&self) -> &Queue<Key> {
        &self.queue
    }

    /// Returns the driver calls.
    pub fn driver_calls(&self) -> &DriverCalls {
        &self.driver_calls
    }

    /// Returns the drains; `None` without a target cluster.
    pub fn drains(&self) -> Option<&Drains> {
        self.drains.as_ref()
    }
}

//! What machines, their classes and their nodes are looked after with.
//!
//! It shares the caches of machines and nodes with the manager ([`crate::fleet`]), and nothing that acts: lease, clients, writers,
//! Events and queues are its own.

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
use crate::deployment::RollOuts;
use crate::drain::Drains;
use crate::in_use_protection::InUseProtection;
use crate::limiter::CallLimiter;
use crate::measure::LifecycleMetrics;
use crate::replacement_lock::ReplacementLocks;
use crate::safety::Safety;
use crate::vm_state::VmStateCache;
use crate::write::Writer;

/// The component that looks after machines.
pub struct MachineController {
    /// What it shares with the manager.
    pub(crate) shared: Arc<Shared>,
    /// Its way to the control cluster.
    pub(crate) control: Client,
    /// The cluster that nodes join, unless Millwright runs without one.
    pub(crate) target: Option<Target>,
    /// Its way to write Machines.
    pub(crate) machine_writer: Writer<Machine>,
    /// All MachineClasses of the namespace.
    pub(crate) classes: Cache<MachineClass>,
    /// The metadata of all Secrets of the namespace.
    pub(crate) secrets: Cache<SecretView>,
    /// The data of those that a class names.
    pub(crate) credentials: Credentials,
    /// What it has to have seen before it acts.
    pub(crate) needed: Caches,
    /// What the cloud has said of each machine's VM.
    pub(crate) vm_states: VmStateCache,
    /// The way to the drivers.
    pub(crate) limiter: CallLimiter,
    /// How long the steps of machines' lives take.
    pub(crate) lifecycle: LifecycleMetrics,
    /// Classes and Secrets that are held on to.
    pub(crate) in_use_protection: Arc<InUseProtection>,
    /// The nodes being emptied; none without a target cluster.
    pub(crate) drains: Option<Drains>,
    /// Who decides for a whole deployment.
    pub(crate) replacement_locks: ReplacementLocks,
    /// Whose nodes are kept from the autoscaler: the manager's memory, where it runs in the same process.
    pub(crate) rollouts: Option<RollOuts>,
    /// Machines to look at.
    pub(crate) queue: Queue<Key>,
    /// The loops that keep mistakes from costing machines.
    pub(crate) safety: Safety,
    /// Whether it may act.
    pub(crate) leadership: Leadership,
    /// Where its Events go.
    pub(crate) events: EventSink,
}

/// The machine controller's part of the cluster that nodes join.
#[derive(Clone)]
pub(crate) struct Target {
    /// Its way there.
    pub(crate) client: Client,
    /// All its Nodes.
    pub(crate) nodes: Cache<NodeView>,
    /// Its way to write them.
    pub(crate) writer: Writer<NodeView>,
}

impl MachineController {
    /// Whether it may act.
    pub fn leadership(&self) -> &Leadership {
        &self.leadership
    }

    /// All MachineClasses of the namespace.
    pub fn classes(&self) -> &Cache<MachineClass> {
        &self.classes
    }

    /// Machines to look at.
    pub fn queue(&self) -> &Queue<Key> {
        &self.queue
    }

    /// The way to the drivers.
    pub fn limiter(&self) -> &CallLimiter {
        &self.limiter
    }

    /// The nodes being emptied; none without a target cluster.
    pub fn drains(&self) -> Option<&Drains> {
        self.drains.as_ref()
    }
}

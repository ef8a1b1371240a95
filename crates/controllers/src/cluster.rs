//! Everything that one cluster's controllers need, as one value that is passed down.
//!
//! Nothing of this is global. A test runs twenty clusters side by side, a simulation restarts one, and one process may one day
//! serve hundreds.

use std::sync::Arc;

use api::view::{NodeView, SecretView};
use api::{Machine, MachineClass};
use kube::Client;
use plan::Policy;
use runtime::cache::{Cache, Caches};
use runtime::events::EventSink;
use runtime::lease::Leadership;
use runtime::queue::Queue;
use runtime::{Clock, Key, Tasks};

use crate::credentials::Credentials;
use crate::decision::Journal;
use crate::drain::Drains;
use crate::fleet::Fleet;
use crate::in_use_protection::InUseProtection;
use crate::limiter::CallLimiter;
use crate::measure::LifecycleMetrics;
use crate::replacement_lock::ReplacementLocks;
use crate::safety::{ApiConnectivity, Safety};
use crate::vm_state::VmStateCache;
use crate::write::Writer;

/// The machine controller's world.
pub struct Cluster {
    /// The namespace of the control cluster that is looked after.
    pub namespace: String,
    /// The machine controller's way to the control cluster.
    pub control: Client,
    /// The cluster that nodes join, unless Millwright runs without one.
    pub target: Option<Target>,
    /// All Machines of the namespace.
    pub machines: Cache<Machine>,
    /// The machine controller's way to write them.
    pub machine_writer: Writer<Machine>,
    /// All MachineClasses of the namespace.
    pub classes: Cache<MachineClass>,
    /// The metadata of all Secrets of the namespace.
    pub secrets: Cache<SecretView>,
    /// The data of those that a class names.
    pub credentials: Credentials,
    /// Everything that is cached, whoever needs it.
    pub caches: Caches,
    /// What the machine controller has to have seen before it acts.
    pub needed: Caches,
    /// The manager's component, unless this process runs without it.
    pub fleet: Option<Arc<Fleet>>,
    /// What the cloud has said of each machine's VM.
    pub vm_states: VmStateCache,
    /// The way to the drivers.
    pub limiter: CallLimiter,
    /// How long the steps of machines' lives take.
    pub(crate) lifecycle: LifecycleMetrics,
    /// Classes and Secrets that are held on to.
    pub in_use_protection: Arc<InUseProtection>,
    /// The nodes being emptied; none without a target cluster.
    pub drains: Option<Drains>,
    /// Who decides for a whole deployment.
    pub replacement_locks: ReplacementLocks,
    /// Machines to look at.
    pub queue: Queue<Key>,
    /// Whether we see.
    pub connectivity: ApiConnectivity,
    /// The loops that keep mistakes from costing machines.
    pub safety: Safety,
    /// Whether the machine controller may act.
    pub leadership: Leadership,
    /// Where the machine controller's Events go.
    pub events: EventSink,
    /// Limits and periods.
    pub policy: Arc<Policy>,
    /// The time.
    pub clock: Clock,
    /// The tasks that work for this cluster.
    pub tasks: Tasks,
    /// Where decisions are told.
    pub journal: Journal,
}

/// The cluster that nodes join.
#[derive(Clone)]
pub struct Target {
    /// The machine controller's way there.
    pub client: Client,
    /// All its Nodes.
    pub nodes: Cache<NodeView>,
    /// The machine controller's way to write them.
    pub writer: Writer<NodeView>,
}

//! The manager's component: sets and deployments, and who wakes them.
//!
//! It shares the caches of machines and nodes with the machine controller's component, and nothing else: queues, leadership and
//! expectations are its own, so that either component can run in a process without the other (`wiring::Components`).
//!
//! A hundred machines of one set becoming ready within a second are a hundred reasons to look at the set, and one look would do. So
//! both queues are fed through [`Coalesced`]: the first event at once, then at most one look per `Policy::fleet_interval`.

mod declare;

use api::view::NodeView;
use api::{Machine, MachineDeployment, MachineSet};
use runtime::cache::{Cache, Caches};
use runtime::events::EventSink;
use runtime::lease::Leadership;
use runtime::queue::{Coalesced, Queue};
use runtime::{Expectations, Key, Random};

pub(crate) use declare::{Declared, FleetParts};

use crate::deployment::{Lookups, Reported, RollOuts};
use crate::machineset::Memory;
use crate::measure::Replacements;
use crate::write::Writer;

/// What the manager writes, each kind in turn with whoever else of us does.
pub(crate) struct FleetWriters {
    pub(crate) machines: Writer<Machine>,
    pub(crate) sets: Writer<MachineSet>,
    pub(crate) deployments: Writer<MachineDeployment>,
    /// None without a target cluster.
    pub(crate) nodes: Option<Writer<NodeView>>,
}

/// What sets and deployments are looked after with.
pub struct Fleet {
    /// All MachineSets of the namespace.
    pub(crate) sets: Cache<MachineSet>,
    /// All MachineDeployments of the namespace.
    pub(crate) deployments: Cache<MachineDeployment>,
    /// Sets to look at.
    pub(crate) set_queue: Queue<Key>,
    /// Deployments to look at.
    pub(crate) deployment_queue: Queue<Key>,
    /// Wants a set looked at, however many ask.
    pub(crate) wake_set: Coalesced<Key>,
    /// Wants a deployment looked at, however many ask.
    pub(crate) wake_deployment: Coalesced<Key>,
    /// Machines to count.
    pub(crate) overshoot_queue: Queue<Key>,
    /// Wants machines counted, however many ask.
    pub(crate) wake_overshoot: Coalesced<Key>,
    /// What sets have done and the cache of machines has not shown yet.
    pub(crate) expectations: Expectations,
    /// What sets remember of requests that did not go through.
    pub(crate) memory: Memory,
    /// When the status of each deployment was last written.
    pub(crate) reported: Reported,
    /// Machines that deployments name and the cache does not show.
    pub(crate) lookups: Lookups,
    /// Whose nodes are kept from the autoscaler.
    pub(crate) rollouts: RollOuts,
    /// What this component has to have seen before it acts.
    pub(crate) needed: Caches,
    /// This component's ways to write.
    pub(crate) writers: FleetWriters,
    /// Whether this component may act.
    pub(crate) leadership: Leadership,
    /// Where Events go; `speaking_as` whoever says something.
    pub(crate) events: EventSink,
    /// Machines that were replaced because they fell ill.
    pub(crate) replacements: Replacements,
    /// Randomness for names.
    pub(crate) random: Random,
}

impl Fleet {
    /// All MachineSets of the namespace.
    pub fn sets(&self) -> &Cache<MachineSet> {
        &self.sets
    }

    /// All MachineDeployments of the namespace.
    pub fn deployments(&self) -> &Cache<MachineDeployment> {
        &self.deployments
    }

    /// Sets to look at.
    pub fn set_queue(&self) -> &Queue<Key> {
        &self.set_queue
    }
}

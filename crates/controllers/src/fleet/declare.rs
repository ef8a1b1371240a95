//! Declaring the caches and queues of the manager's half, and whose changes wake what.

use api::view::NodeView;
use api::{Machine, MachineDeployment, MachineSet};
use plan::Policy;
use runtime::cache::{Cache, Caches, Feed};
use runtime::events::EventSink;
use runtime::lease::Leadership;
use runtime::queue::{Coalesced, Queue, RetryPolicy};
use runtime::{Clock, Expectations, Metrics, Random};

use super::Fleet;
use crate::indexes::{ORPHAN_SETS, SETS_BY_OWNER};
use crate::machineset::Memory;
use crate::{deployment, machineset, overshoot};

/// A fleet whose caches are still to be fed.
pub(crate) struct Declared {
    pub(crate) fleet: Fleet,
    pub(crate) feeds: FleetFeeds,
}

/// What fills the caches of a fleet.
pub(crate) struct FleetFeeds {
    pub(crate) sets: Feed<MachineSet>,
    pub(crate) deployments: Feed<MachineDeployment>,
}

/// What a fleet is made from.
pub(crate) struct FleetParts<'a> {
    pub(crate) namespace: &'a str,
    pub(crate) policy: &'a Policy,
    pub(crate) leadership: Leadership,
    pub(crate) events: EventSink,
    pub(crate) metrics: &'a Metrics,
    pub(crate) clock: &'a Clock,
    pub(crate) random: &'a Random,
}

impl Declared {
    pub(crate) fn of(parts: FleetParts<'_>, caches: &mut Caches) -> Self {
        let FleetParts { namespace, policy, leadership, events, metrics, clock, random } = parts;
        let (sets, set_feed) =
            Cache::<MachineSet>::builder().namespace(namespace).index(SETS_BY_OWNER).index(ORPHAN_SETS).build();
        let (deployments, deployment_feed) = Cache::<MachineDeployment>::builder().namespace(namespace).build();
        caches.add(&sets);
        caches.add(&deployments);
        let set_queue = Queue::new("machineset", RetryPolicy::default(), metrics, random);
        let deployment_queue = Queue::new("machinedeployment", RetryPolicy::default(), metrics, random);
        let overshoot_queue = Queue::new("machinesafetyovershooting", RetryPolicy::default(), metrics, random);
        let fleet = Fleet {
            wake_overshoot: Coalesced::new(overshoot_queue.clone(), policy.fleet_interval),
            wake_set: Coalesced::new(set_queue.clone(), policy.fleet_interval),
            wake_deployment: Coalesced::new(deployment_queue.clone(), policy.fleet_interval),
            expectations: Expectations::with_patience(clock.clone(), policy.expectation_patience),
            memory: Memory::default(),
            random: random.fork(),
            sets,
            deployments,
            set_queue,
            deployment_queue,
            overshoot_queue,
            leadership,
            events,
        };
        Self { fleet, feeds: FleetFeeds { sets: set_feed, deployments: deployment_feed } }
    }

    /// Says whose changes wake sets and deployments.
    pub(crate) fn listen(
        &mut self,
        machines: &Cache<Machine>,
        machine_feed: &mut Feed<Machine>,
        node_feed: Option<&mut Feed<NodeView>>,
    ) {
        let Self { fleet, feeds } = self;
        machineset::wake::on_sets(&mut feeds.sets, fleet);
        machineset::wake::on_machines(machine_feed, fleet);
        deployment::wake::on_deployments(&mut feeds.deployments, fleet);
        deployment::wake::on_sets(&mut feeds.sets, fleet);
        deployment::wake::on_machines(machine_feed, fleet);
        overshoot::on_machines(machine_feed, fleet);
        overshoot::on_sets(&mut feeds.sets, fleet);
        overshoot::on_deployments(&mut feeds.deployments, fleet);
        if let Some(nodes) = node_feed {
            deployment::wake::on_nodes(nodes, machines, fleet);
            machineset::wake::on_nodes(nodes, machines, fleet);
        }
    }
}

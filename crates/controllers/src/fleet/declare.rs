//! Declaring the caches and queues of the manager's component, and whose changes wake what.

use api::view::NodeView;
use api::{Machine, MachineDeployment, MachineSet};
use planner::Policy;
use planner::deployment::OvershootCount;
use runtime::cache::{Cache, Caches, Reflector};
use runtime::client::Api;
use runtime::queue::{Coalesced, Queue, RetryPolicy};
use runtime::{Clock, Expectations, Random};

use super::{Fleet, FleetWriters};
use crate::deployment::{Lookups, Reported, RollOuts};
use crate::indexes::{ORPHAN_SETS, SETS_BY_OWNER};
use crate::machineset::Memory;
use crate::measure::{self, Replacements};
use crate::wiring::Component;
use crate::write::Writer;
use crate::{deployment, machineset, overshoot};

/// A fleet whose caches are still to be fed.
pub(crate) struct Declared {
    pub(crate) fleet: Fleet,
    pub(crate) reflectors: FleetReflectors,
    overshoot_count: OvershootCount,
}

/// What fills the caches of a fleet.
pub(crate) struct FleetReflectors {
    pub(crate) sets: Reflector<MachineSet>,
    pub(crate) deployments: Reflector<MachineDeployment>,
}

/// What a fleet is made from.
#[derive(Clone, Copy)]
pub(crate) struct FleetParts<'a> {
    pub(crate) namespace: &'a str,
    pub(crate) policy: &'a Policy,
    pub(crate) component: &'a Component,
    /// The machine controller's, whose locks are shared.
    pub(crate) machines: &'a Writer<Machine>,
    /// The same for Nodes; none without a target cluster.
    pub(crate) nodes: Option<&'a Writer<NodeView>>,
    pub(crate) clock: &'a Clock,
    pub(crate) random: &'a Random,
}

fn writers(parts: FleetParts<'_>, sets: &Cache<MachineSet>, deployments: &Cache<MachineDeployment>) -> FleetWriters {
    let FleetParts { namespace, component, machines, nodes, .. } = parts;
    let (control, target) = (&component.clients.control, &component.clients.target);
    FleetWriters {
        machines: machines.through(Api::namespaced(control.clone(), namespace)),
        sets: Writer::new(Api::namespaced(control.clone(), namespace), sets),
        deployments: Writer::new(Api::namespaced(control.clone(), namespace), deployments),
        nodes: nodes.zip(target.clone()).map(|(nodes, client)| nodes.through(Api::all(client))),
    }
}

impl Declared {
    /// Adds its own caches to those that are `needed` anyway.
    pub(crate) fn of(parts: FleetParts<'_>, mut needed: Caches) -> Self {
        let FleetParts { namespace, policy, component, clock, random, .. } = parts;
        let metrics = &component.metrics;
        let (sets, set_reflector) =
            Cache::<MachineSet>::builder().namespace(namespace).index(SETS_BY_OWNER).index(ORPHAN_SETS).build();
        let (deployments, deployment_reflector) = Cache::<MachineDeployment>::builder().namespace(namespace).build();
        needed.add(&sets);
        needed.add(&deployments);
        metrics.follow_caches(&needed);
        let set_queue = Queue::new("machineset", RetryPolicy::default(), metrics, random).closed();
        let deployment_queue = Queue::new("machinedeployment", RetryPolicy::default(), metrics, random).closed();
        // One object that cannot be written does not keep the others from being judged once in each period.
        let retries = RetryPolicy { longest_pause: policy.fleet.overshooting_period, ..RetryPolicy::default() };
        let overshoot_queue = Queue::new("machinesafetyovershooting", retries, metrics, random).closed();
        measure::show_fleet(metrics, &sets, &deployments);
        let fleet = Fleet {
            writers: writers(parts, &sets, &deployments),
            replacements: Replacements::register(metrics),
            wake_overshoot: Coalesced::new(overshoot_queue.clone(), policy.fleet_interval),
            wake_set: Coalesced::new(set_queue.clone(), policy.fleet_interval),
            wake_deployment: Coalesced::new(deployment_queue.clone(), policy.fleet_interval),
            expectations: Expectations::with_patience(clock.clone(), policy.expectation_patience),
            memory: Memory::default(),
            reported: Reported::default(),
            lookups: Lookups::default(),
            rollouts: RollOuts::default(),
            random: random.fork(),
            sets,
            deployments,
            set_queue,
            deployment_queue,
            overshoot_queue,
            needed,
            leadership: component.leadership.clone(),
            events: component.events.clone(),
        };
        let reflectors = FleetReflectors { sets: set_reflector, deployments: deployment_reflector };
        Self { fleet, reflectors, overshoot_count: policy.fleet.overshoot_count }
    }

    /// Says whose changes wake sets and deployments.
    pub(crate) fn listen(
        &mut self,
        machines: &Cache<Machine>,
        machine_reflector: &mut Reflector<Machine>,
        node_reflector: Option<&mut Reflector<NodeView>>,
    ) {
        let Self { fleet, reflectors, overshoot_count } = self;
        machineset::wake::on_sets(&mut reflectors.sets, fleet);
        machineset::wake::on_machines(machine_reflector, fleet);
        deployment::wake::on_deployments(&mut reflectors.deployments, fleet);
        deployment::wake::on_sets(&mut reflectors.sets, fleet);
        deployment::wake::on_machines(machine_reflector, fleet);
        overshoot::listen(
            *overshoot_count,
            machine_reflector,
            &mut reflectors.sets,
            &mut reflectors.deployments,
            fleet,
        );
        if let Some(nodes) = node_reflector {
            deployment::wake::on_nodes(nodes, machines, fleet);
            machineset::wake::on_nodes(nodes, machines, fleet);
        }
    }
}

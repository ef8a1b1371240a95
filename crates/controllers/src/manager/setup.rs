//! Creates the caches and queues of the manager and registers the event handlers.

use api::view::NodeView;
use api::{Machine, MachineDeployment, MachineSet};
use planner::Policy;
use planner::deployment::OvershootCount;
use runtime::cache::{Cache, Caches, Reflector};
use runtime::client::Api;
use runtime::queue::{Coalesced, Queue, RetryPolicy};
use runtime::{Clock, Expectations, Random};

use super::{Manager, ManagerWriters};
use crate::deployment::{MachineLookups, Rollouts, StatusWrites};
use crate::indexes::{ORPHAN_SETS, SETS_BY_OWNER};
use crate::machineset::{MachineCounts, SetMemory};
use crate::measure::{self, Replacements};
use crate::wiring::Component;
use crate::write::Writer;
use crate::{deployment, machineset, overshoot};

/// A manager whose reflectors do not run yet.
pub(crate) struct UnstartedManager {
    pub(crate) manager: Manager,
    pub(crate) reflectors: ManagerReflectors,
    overshoot_count: OvershootCount,
}

/// Reflectors of the manager's own caches.
pub(crate) struct ManagerReflectors {
    pub(crate) sets: Reflector<MachineSet>,
    pub(crate) deployments: Reflector<MachineDeployment>,
}

/// Dependencies of the manager.
#[derive(Clone, Copy)]
pub(crate) struct ManagerParts<'a> {
    pub(crate) namespace: &'a str,
    pub(crate) policy: &'a Policy,
    pub(crate) component: &'a Component,
    pub(crate) machines: &'a Cache<Machine>,
    /// The machine controller's writer for Machines, whose locks are shared.
    pub(crate) machine_writer: &'a Writer<Machine>,
    /// The machine controller's writer for Nodes; `None` without a target cluster.
    pub(crate) node_writer: Option<&'a Writer<NodeView>>,
    pub(crate) clock: &'a Clock,
    pub(crate) random: &'a Random,
}

fn writers(
    parts: ManagerParts<'_>,
    sets: &Cache<MachineSet>,
    deployments: &Cache<MachineDeployment>,
) -> ManagerWriters {
    let ManagerParts { namespace, component, machine_writer, node_writer, .. } = parts;
    let (control, target) = (&component.clients.control, &component.clients.target);
    ManagerWriters {
        machines: machine_writer.with_client(Api::namespaced(control.clone(), namespace)),
        sets: Writer::new(Api::namespaced(control.clone(), namespace), sets),
        deployments: Writer::new(Api::namespaced(control.clone(), namespace), deployments),
        nodes: node_writer.zip(target.clone()).map(|(nodes, client)| nodes.with_client(Api::all(client))),
    }
}

impl UnstartedManager {
    /// Creates the manager. Its own caches are added to the `needed` ones.
    pub(crate) fn new(parts: ManagerParts<'_>, mut needed: Caches) -> Self {
        let ManagerParts { namespace, policy, component, machines, clock, random, .. } = parts;
        let metrics = &component.metrics;
        let (sets, set_reflector) =
            Cache::<MachineSet>::builder().namespace(namespace).index(SETS_BY_OWNER).index(ORPHAN_SETS).build();
        let (deployments, deployment_reflector) = Cache::<MachineDeployment>::builder().namespace(namespace).build();
        needed.add(&sets);
        needed.add(&deployments);
        metrics.follow_caches(&needed);
        let set_queue = Queue::new("machineset", RetryPolicy::default(), metrics, random).closed();
        let deployment_queue = Queue::new("machinedeployment", RetryPolicy::default(), metrics, random).closed();
        // If one object cannot be written, the others are still checked once in each period.
        let retries = RetryPolicy { max_backoff: policy.deployment.overshooting_period, ..RetryPolicy::default() };
        let overshoot_queue = Queue::new("machinesafetyovershooting", retries, metrics, random).closed();
        measure::register_manager(metrics, &sets, &deployments);
        let expectations = Expectations::with_timeout(clock.clone(), policy.expectation_patience);
        let manager = Manager {
            writers: writers(parts, &sets, &deployments),
            replacements: Replacements::register(metrics),
            wake_overshoot: Coalesced::new(overshoot_queue.clone(), policy.coalescing_interval),
            wake_set: Coalesced::new(set_queue.clone(), policy.coalescing_interval),
            wake_deployment: Coalesced::new(deployment_queue.clone(), policy.coalescing_interval),
            counts: MachineCounts::new(machines, expectations, clock),
            memory: SetMemory::default(),
            status_writes: StatusWrites::default(),
            lookups: MachineLookups::default(),
            rollouts: Rollouts::default(),
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
        let reflectors = ManagerReflectors { sets: set_reflector, deployments: deployment_reflector };
        Self { manager, reflectors, overshoot_count: policy.deployment.overshoot_count }
    }

    /// Registers the event handlers.
    pub(crate) fn listen(
        &mut self,
        machines: &Cache<Machine>,
        machine_reflector: &mut Reflector<Machine>,
        node_reflector: Option<&mut Reflector<NodeView>>,
    ) {
        let Self { manager, reflectors, overshoot_count } = self;
        machineset::wake::on_sets(&mut reflectors.sets, manager);
        machineset::wake::on_machines(machine_reflector, manager);
        deployment::wake::on_deployments(&mut reflectors.deployments, manager);
        deployment::wake::on_sets(&mut reflectors.sets, manager);
        deployment::wake::on_machines(machine_reflector, manager);
        overshoot::listen(
            *overshoot_count,
            machine_reflector,
            &mut reflectors.sets,
            &mut reflectors.deployments,
            manager,
        );
        if let Some(nodes) = node_reflector {
            deployment::wake::on_nodes(nodes, machines, manager);
            machineset::wake::on_nodes(nodes, machines, manager);
        }
    }
}

//! From clients to running controllers.
//!
//! Caches are declared first, then each controller says whose changes wake it (`machine::wake`), then the caches are fed; workers
//! start once all of them have synced and, for a leader, have been read afresh after it won.
//!
//! There are two components, as in the reference: the machine controller, and the manager of sets and deployments ([`Components`]). A process
//! that runs both shares the caches of machines and nodes between them, and nothing else: each begins when it leads.

mod begin;
mod component;
mod driver_changes;
mod reflectors;

use std::sync::Arc;

use api::view::{NodeView, SecretView};
use api::{Machine, MachineClass};
use kube::Client;
use planner::Policy;
use runtime::cache::{Cache, Caches, Reflector, RetrySignal};
use runtime::client::Api;
use runtime::metrics::MetricsError;
use runtime::queue::{Queue, RetryPolicy};
use runtime::{Clock, Entropy, Key, Random, Tasks};
use tokio::sync::watch;

use crate::cluster::{Cluster, Shared};
use crate::credentials::Credentials;
use crate::decision::Journal;
use crate::drain::{Drains, DrainsParts};
use crate::fleet::{Declared, Fleet, FleetParts};
use crate::in_use_protection::{self, InUseProtection};
use crate::indexes::{
    CLASSES_BY_SECRET, MACHINES_BY_CLASS, MACHINES_BY_DEPLOYMENT, MACHINES_BY_NODE, MACHINES_BY_OWNER, MACHINES_BY_VM,
    NODES_BY_MACHINE, ORPHAN_MACHINES, WAITING_BY_DEPLOYMENT,
};
use crate::limiter::{CallLimiter, LimiterParts};
use crate::machine_controller::{MachineController, Target};
use crate::measure::{self, LifecycleMetrics};
use crate::replacement_lock::ReplacementLocks;
use crate::safety::{ApiConnectivity, Safety};
use crate::tokens::Tokens;
use crate::vm_state::VmStateCache;
use crate::write::Writer;
use crate::{Drivers, Listener, machine};
pub(crate) use begin::open;
pub use component::{Clients, Component, Components};
use reflectors::Reflectors;

/// What the controllers of one cluster are made from.
pub struct Parts {
    /// The namespace of the control cluster to look after.
    pub namespace: String,
    /// Who acts, and with what.
    pub components: Components,
    /// How the caches are filled.
    pub watches: Clients,
    /// The drivers at hand.
    pub drivers: Drivers,
    /// Limits and periods.
    pub policy: Policy,
    /// How many driver calls run at once for one credential.
    pub driver_places: usize,
    /// The time.
    pub clock: Clock,
    /// Randomness for jitter.
    pub random: Random,
    /// The owner of everything that is started.
    pub tasks: Tasks,
    /// Who is told of every decision.
    pub listener: Option<Listener>,
}

/// Starts the controllers. They list and watch at once, and act as soon as they lead and have seen everything.
pub fn start(parts: Parts) -> Result<Arc<Cluster>, MetricsError> {
    let reflectors = Reflectors {
        clock: parts.clock.clone(),
        random: parts.random.clone(),
        tasks: parts.tasks.clone(),
        retry_signal: RetrySignal::default(),
    };
    let (runs_machines, component) = (parts.components.machines().is_some(), parts.components.machines_or_idle()?);
    let queue = Queue::new("machine", RetryPolicy::default(), &component.metrics, &parts.random).closed();
    let vm_states = VmStateCache::default();
    let safety = Safety::new(&parts.policy.safety, &component.metrics, &parts.clock, &parts.random);
    safety.watch_clocks(&parts.watches.server_times);
    let mut needed = Caches::new();

    let (machines, mut machine_reflector) = machine_cache(&parts.namespace);
    let (classes, mut class_reflector) = class_cache(&parts.namespace);
    let (secrets, mut secret_reflector) = secret_cache(&parts.namespace);
    needed.add(&machines);
    let mut nodes = parts.watches.target.clone().map(|watch| {
        let (nodes, reflector) = node_cache();
        needed.add(&nodes);
        (target(&component, &watch, nodes), reflector, watch)
    });
    let machine_writer = Writer::new(Api::namespaced(component.clients.control.clone(), &parts.namespace), &machines);
    let needed_by_fleet = needed.clone();
    if runs_machines {
        needed.add(&classes);
        needed.add(&secrets);
    }
    let mut declared = parts.components.fleet().map(|component| {
        let Parts { namespace, policy, clock, random, .. } = &parts;
        let (machines, nodes) = (&machine_writer, nodes.as_ref().map(|(target, ..)| &target.writer));
        Declared::of(FleetParts { namespace, policy, component, machines, nodes, clock, random }, needed_by_fleet)
    });
    let credentials = credentials(&parts, &component, &secrets);

    let (policy, connectivity) = (Arc::new(parts.policy.clone()), &safety.connectivity);
    let lifecycle = LifecycleMetrics::new(runs_machines.then_some(&component.metrics), &parts.clock);
    if runs_machines {
        measure::show_machines(&component.metrics, &machines, &classes, &lifecycle, policy.measurements_kept);
    }
    let seen = CallInputs { machines: &machines, classes: &classes, credentials: &credentials, connectivity };
    let journal = Journal::new(parts.listener.clone(), &parts.clock);
    let limiter = limiter(&parts, &component, &policy, seen, &vm_states, &queue, (&lifecycle, &journal));
    let in_use_protection = in_use_protection(&parts, &component, &classes, &secrets);
    if runs_machines {
        in_use_protection::wake::on_machines(&mut machine_reflector, &in_use_protection, &classes);
        in_use_protection::wake::on_classes(&mut class_reflector, &in_use_protection, &secrets);
        in_use_protection::wake::on_secrets(&mut secret_reflector, &in_use_protection, &classes);
        machine::wake::on_machines(&mut machine_reflector, &queue, &machines, &limiter);
        wake_for_class((&mut class_reflector, &mut secret_reflector), seen, &queue, &vm_states, &limiter);
        if let Some((_, reflector, _)) = &mut nodes {
            machine::wake::on_nodes(reflector, &queue, &machines, &parts.namespace);
        }
        safety.listen(&mut machine_reflector, nodes.as_mut().map(|(_, reflector, _)| reflector));
        reflectors.spawn("machineclasses", class_reflector, parts.watches.control.clone());
        reflectors.spawn("secrets", secret_reflector, parts.watches.control_core.clone());
        component.metrics.follow_caches(&needed);
    }
    if let Some(declared) = &mut declared {
        declared.listen(&machines, &mut machine_reflector, nodes.as_mut().map(|(_, reflector, _)| reflector));
    }
    let fleet = declared.map(|declared| spawn_fleet(&reflectors, declared, &parts.watches.control));
    let target = nodes.map(|nodes| spawn_nodes(&reflectors, nodes));
    reflectors.spawn("machines", machine_reflector, parts.watches.control.clone());

    let drained = target.as_ref().filter(|_| runs_machines);
    let drains = drained.map(|target| drains(target, &limiter, &component, &lifecycle, &queue, &policy, &reflectors));
    let shared = Arc::new(Shared {
        namespace: parts.namespace,
        machines,
        nodes: target.as_ref().map(|target| target.nodes.clone()),
        caches: fleet.as_ref().map_or_else(|| needed.clone(), |fleet| needed.with(&fleet.needed)),
        connectivity: safety.connectivity.clone(),
        policy,
        clock: parts.clock,
        tasks: parts.tasks,
        journal,
    });
    let machine_controller = Arc::new(MachineController {
        shared: shared.clone(),
        control: component.clients.control,
        target,
        machine_writer,
        classes,
        secrets,
        credentials,
        needed,
        vm_states,
        limiter,
        lifecycle,
        in_use_protection,
        drains,
        replacement_locks: ReplacementLocks::new(queue.clone()),
        rollouts: fleet.as_ref().map(|fleet| fleet.rollouts.clone()),
        queue,
        safety,
        leadership: component.leadership,
        events: component.events,
    });
    let cluster = Cluster { shared, machine_controller, fleet };
    spawn_components(&cluster, &parts.drivers, &parts.components, &parts.random);
    Ok(Arc::new(cluster))
}

/// Starts each component that this process runs.
fn spawn_components(cluster: &Cluster, drivers: &Drivers, components: &Components, random: &Random) {
    let Cluster { shared, machine_controller, fleet } = cluster;
    if let Some(component) = components.machines() {
        drivers.changes().for_each(|changes| follow_driver(machine_controller, changes, random.fork()));
        shared.tasks.spawn("machine controller", begin::machines(machine_controller.clone(), component.concurrency));
    }
    if let (Some(fleet), Some(component)) = (fleet, components.fleet()) {
        shared.tasks.spawn("manager", begin::fleet(shared.clone(), fleet.clone(), component.concurrency));
    }
}

fn spawn_fleet(reflectors: &Reflectors, declared: Declared, watch: &Client) -> Arc<Fleet> {
    reflectors.spawn("machinesets", declared.reflectors.sets, watch.clone());
    reflectors.spawn("machinedeployments", declared.reflectors.deployments, watch.clone());
    Arc::new(declared.fleet)
}

fn spawn_nodes(reflectors: &Reflectors, (target, reflector, watch): (Target, Reflector<NodeView>, Client)) -> Target {
    reflectors.spawn("nodes", reflector, watch);
    target
}

fn credentials(parts: &Parts, component: &Component, secrets: &Cache<SecretView>) -> Credentials {
    let core = component.clients.control_core.clone();
    Credentials::new(core, secrets.clone(), &parts.clock, &component.metrics, &parts.random)
}

fn in_use_protection(
    parts: &Parts,
    component: &Component,
    classes: &Cache<MachineClass>,
    secrets: &Cache<SecretView>,
) -> Arc<InUseProtection> {
    let Clients { control, control_core, .. } = &component.clients;
    let class_writer = Writer::new(Api::namespaced(control.clone(), &parts.namespace), classes);
    let secret_writer = Writer::new(Api::namespaced(control_core.clone(), &parts.namespace), secrets);
    Arc::new(InUseProtection::new(class_writer, secret_writer, &component.metrics, &parts.random))
}

/// A class and its Secrets wake the machines that need them.
fn wake_for_class(
    (classes, secrets): (&mut Reflector<MachineClass>, &mut Reflector<SecretView>),
    seen: CallInputs<'_>,
    queue: &Queue<Key>,
    vm_states: &VmStateCache,
    limiter: &CallLimiter,
) {
    machine::wake::on_classes(classes, queue, seen.machines, limiter);
    machine::wake::on_lists(classes, queue, vm_states);
    machine::wake::on_lists(secrets, queue, vm_states);
    machine::wake::on_secrets(secrets, queue, seen.machines, seen.classes, seen.credentials);
}

/// Another driver than before may do what the last one could not.
fn follow_driver(controller: &MachineController, changes: watch::Receiver<u64>, random: Random) {
    let (limiter, queue, stopping) =
        (controller.limiter.clone(), controller.queue.clone(), controller.shared.tasks.stopping());
    controller.shared.tasks.spawn("driver changes", async move {
        let retry = || limiter.try_all_again().into_iter().for_each(|machine| queue.add(machine));
        stopping.run_until_cancelled(driver_changes::follow(changes, random, retry)).await;
    });
}

/// What a driver call is put together from.
#[derive(Clone, Copy)]
struct CallInputs<'a> {
    machines: &'a Cache<Machine>,
    classes: &'a Cache<MachineClass>,
    credentials: &'a Credentials,
    connectivity: &'a ApiConnectivity,
}

fn limiter(
    parts: &Parts,
    component: &Component,
    policy: &Arc<Policy>,
    seen: CallInputs<'_>,
    vm_states: &VmStateCache,
    queue: &Queue<Key>,
    (lifecycle, journal): (&LifecycleMetrics, &Journal),
) -> CallLimiter {
    let tokens = |client: &Client| Tokens::new(client.clone(), Entropy::system(), parts.clock.clone());
    CallLimiter::new(LimiterParts {
        drivers: parts.drivers.clone(),
        places: parts.driver_places,
        policy: policy.clone(),
        machines: seen.machines.clone(),
        classes: seen.classes.clone(),
        credentials: seen.credentials.clone(),
        tokens: component.clients.target.as_ref().map(tokens),
        connectivity: seen.connectivity.clone(),
        vm_states: vm_states.clone(),
        leadership: component.leadership.clone(),
        queue: queue.clone(),
        journal: journal.clone(),
        metrics: component.metrics.clone(),
        lifecycle: lifecycle.clone(),
        clock: parts.clock.clone(),
        random: parts.random.clone(),
        tasks: parts.tasks.clone(),
    })
}

fn target(component: &Component, watch: &Client, nodes: Cache<NodeView>) -> Target {
    let client = component.clients.target.as_ref().unwrap_or(watch).clone();
    Target { writer: Writer::new(Api::all(client.clone()), &nodes), client, nodes }
}

fn node_cache() -> (Cache<NodeView>, Reflector<NodeView>) {
    Cache::<NodeView>::builder().index(NODES_BY_MACHINE).ignore_updates(NodeView::differs_only_in_heartbeats).build()
}

fn drains(
    target: &Target,
    limiter: &CallLimiter,
    component: &Component,
    lifecycle: &LifecycleMetrics,
    queue: &Queue<Key>,
    policy: &Policy,
    reflectors: &Reflectors,
) -> Drains {
    Drains::new(DrainsParts {
        client: target.client.clone(),
        limiter: limiter.clone(),
        leadership: component.leadership.clone(),
        queue: queue.clone(),
        caps: policy.drain.caps,
        metrics: &component.metrics,
        lifecycle,
        clock: reflectors.clock.clone(),
        random: reflectors.random.clone(),
        tasks: reflectors.tasks.clone(),
        retry_signal: reflectors.retry_signal.clone(),
    })
}

fn machine_cache(namespace: &str) -> (Cache<Machine>, Reflector<Machine>) {
    Cache::<Machine>::builder()
        .namespace(namespace)
        .index(MACHINES_BY_NODE)
        .index(MACHINES_BY_VM)
        .index(MACHINES_BY_CLASS)
        .index(MACHINES_BY_OWNER)
        .index(ORPHAN_MACHINES)
        .index(MACHINES_BY_DEPLOYMENT)
        .index(WAITING_BY_DEPLOYMENT)
        .build()
}

fn class_cache(namespace: &str) -> (Cache<MachineClass>, Reflector<MachineClass>) {
    Cache::<MachineClass>::builder().namespace(namespace).index(CLASSES_BY_SECRET).build()
}

fn secret_cache(namespace: &str) -> (Cache<SecretView>, Reflector<SecretView>) {
    Cache::<SecretView>::builder().namespace(namespace).metadata_only().build()
}

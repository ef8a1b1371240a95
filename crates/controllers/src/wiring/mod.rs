//! Builds and starts the controllers of one cluster.
//!
//! The caches are unstarted first. Then each controller registers its handlers (`machine::wake`), and then the
//! reflectors start to fill the caches. The workers start once all caches are complete and, after a leader election,
//! were read again with quorum.
//!
//! There are two components, as in MCM: the machine controller, and the manager of MachineSets and MachineDeployments
//! ([`Components`]). A process that runs both shares the caches of Machines and Nodes between them, and nothing else.
//! Each component starts when it leads.

mod begin;
mod caches;
mod component;
pub mod defaults;
mod driver_changes;
mod reflectors;

use std::sync::Arc;

use api::MachineClass;
use api::view::SecretView;
use planner::Policy;
use runtime::cache::{Cache, RetrySignal};
use runtime::client::Api;
use runtime::metrics::MetricsError;
use runtime::queue::{Queue, RetryPolicy};
use runtime::{Clock, Entropy, Key, Random, Tasks};
use tokio::sync::watch;

use crate::cluster::{Cluster, Shared};
use crate::credentials::Credentials;
use crate::decision::Journal;
use crate::drain::{Drains, DrainsParts};
use crate::driver_calls::{CallMetrics, Context, DriverCalls, Limiter, OpenCalls, RequestBuilder};
use crate::in_use_protection::{self, InUseProtection};
use crate::machine_controller::MachineController;
use crate::machine_memory::MachineMemory;
use crate::manager::{Manager, ManagerParts, UnstartedManager};
use crate::measure::{self, LifecycleMetrics};
use crate::replacement_lock::ReplacementLocks;
use crate::safety::Safety;
use crate::tokens::Tokens;
use crate::write::Writer;
use crate::{Drivers, Listener, machine};
pub(crate) use begin::open;
use caches::{ControllerCaches, ControllerReflectors};
pub use component::{Clients, Component, Components};
use reflectors::ReflectorTasks;

/// What the controllers of one cluster are built from.
pub struct Parts {
    /// The namespace of the control cluster.
    pub namespace: String,
    /// The components that this process runs.
    pub components: Components,
    /// The clients that fill the caches.
    pub watches: Clients,
    /// The drivers of this process.
    pub drivers: Drivers,
    /// Limits and periods.
    pub policy: Policy,
    /// Maximum number of concurrent driver calls per credential.
    pub driver_calls_per_credential: usize,
    /// The clock.
    pub clock: Clock,
    /// Randomness for jitter.
    pub random: Random,
    /// The owner of all tasks that are started.
    pub tasks: Tasks,
    /// Receives every decision.
    pub listener: Option<Listener>,
}

/// Starts the controllers. Their caches list and watch immediately. A component acts once it leads and its caches are
/// complete.
#[allow(clippy::needless_pass_by_value, reason = "the parts of a cluster are used once")]
pub fn start(parts: Parts) -> Result<Arc<Cluster>, MetricsError> {
    let component = parts.components.machines_or_idle()?;
    let queue = Queue::new("machine", RetryPolicy::default(), &component.metrics, &parts.random).closed();
    let safety = Safety::new(&parts.policy.safety, &component.metrics, &parts.clock, &parts.random);
    safety.watch_clocks(&parts.watches.server_times);

    let (caches, mut reflectors) = caches::declare(&parts, &component);
    let mut manager = declare_manager(&parts, &caches);
    let shared = Arc::new(shared(&parts, &caches, manager.as_ref(), &safety));
    let rollouts = manager.as_ref().map(|unstarted| unstarted.manager.rollouts.clone());
    let controller = machine_controller(&parts, &component, &shared, caches, safety, queue);
    let controller = MachineController { rollouts, ..controller };

    if parts.components.machines().is_some() {
        register_handlers(&controller, &mut reflectors);
    }
    if let Some(manager) = &mut manager {
        manager.listen(&shared.machines, &mut reflectors.machines, reflectors.nodes.as_mut());
    }
    let reflector_tasks = ReflectorTasks {
        clock: parts.clock.clone(),
        random: parts.random.clone(),
        tasks: parts.tasks.clone(),
        retry_signal: RetrySignal::default(),
    };
    let manager = start_reflectors(&parts, &component, &controller, &reflector_tasks, reflectors, manager);
    let drains = drains(&parts, &component, &controller, reflector_tasks.retry_signal);
    let machine_controller = Arc::new(MachineController { drains, ..controller });

    let cluster = Cluster { shared, machine_controller, manager };
    start_components(&cluster, &parts);
    Ok(Arc::new(cluster))
}

/// Declares the manager, if this process runs it.
fn declare_manager(parts: &Parts, caches: &ControllerCaches) -> Option<UnstartedManager> {
    let Parts { namespace, policy, clock, random, components, .. } = parts;
    let component = components.manager()?;
    let (machines, machine_writer) = (&caches.machines, &caches.machine_writer);
    let node_writer = caches.target.as_ref().map(|target| &target.writer);
    let parts = ManagerParts { namespace, policy, component, machines, machine_writer, node_writer, clock, random };
    Some(UnstartedManager::new(parts, caches.shared.clone()))
}

/// Returns what both components share.
fn shared(parts: &Parts, caches: &ControllerCaches, manager: Option<&UnstartedManager>, safety: &Safety) -> Shared {
    let needed = &caches.needed;
    Shared {
        namespace: parts.namespace.clone(),
        machines: caches.machines.clone(),
        nodes: caches.target.as_ref().map(|target| target.nodes.clone()),
        caches: manager.map_or_else(|| needed.clone(), |unstarted| needed.with(&unstarted.manager.needed)),
        connectivity: safety.connectivity.clone(),
        policy: Arc::new(parts.policy.clone()),
        clock: parts.clock.clone(),
        tasks: parts.tasks.clone(),
        journal: Journal::new(parts.listener.clone(), &parts.clock),
    }
}

/// Builds the machine controller, still without drains and without the rollouts of the manager.
fn machine_controller(
    parts: &Parts,
    component: &Component,
    shared: &Arc<Shared>,
    caches: ControllerCaches,
    safety: Safety,
    queue: Queue<Key>,
) -> MachineController {
    let ControllerCaches { machine_writer, classes, secrets, target, needed, .. } = caches;
    let Clients { control, control_core, target: target_client, .. } = &component.clients;
    let credentials =
        Credentials::new(control_core.clone(), secrets.clone(), &parts.clock, &component.metrics, &parts.random);
    let lifecycle = lifecycle_metrics(parts, shared, &classes);
    let memory = MachineMemory::default();
    let tokens =
        target_client.as_ref().map(|client| Tokens::new(client.clone(), Entropy::system(), parts.clock.clone()));
    let requests = RequestBuilder {
        shared: shared.clone(),
        classes: classes.clone(),
        credentials: credentials.clone(),
        memory: memory.clone(),
        tokens: tokens.clone(),
    };
    let driver_calls = driver_calls(parts, component, &queue, requests, lifecycle.clone());
    MachineController {
        shared: shared.clone(),
        control: control.clone(),
        target,
        machine_writer,
        in_use_protection: in_use_protection(parts, component, &classes, &secrets),
        classes,
        secrets,
        credentials,
        needed,
        memory,
        tokens,
        driver_calls,
        lifecycle,
        drains: None,
        replacement_locks: ReplacementLocks::new(queue.clone()),
        rollouts: None,
        queue,
        safety,
        leadership: component.leadership.clone(),
        events: component.events.clone(),
    }
}

/// Registers the metrics of Machines, if this process runs the machine controller.
fn lifecycle_metrics(parts: &Parts, shared: &Shared, classes: &Cache<MachineClass>) -> LifecycleMetrics {
    let metrics = parts.components.machines().map(|component| &component.metrics);
    let lifecycle = LifecycleMetrics::new(metrics, &parts.clock);
    if let Some(metrics) = metrics {
        measure::register_machine_controller(
            metrics,
            &shared.machines,
            classes,
            &lifecycle,
            shared.policy.measurements_kept,
        );
    }
    lifecycle
}

fn driver_calls(
    parts: &Parts,
    component: &Component,
    queue: &Queue<Key>,
    requests: RequestBuilder,
    lifecycle: LifecycleMetrics,
) -> DriverCalls {
    let shared = requests.shared.clone();
    let limiter = Limiter::start(parts.driver_calls_per_credential, &shared, queue, &parts.random);
    DriverCalls::new(Context {
        drivers: parts.drivers.clone(),
        metrics: CallMetrics::register(&component.metrics, &limiter),
        limiter,
        open_calls: OpenCalls::new(requests.memory.clone(), queue.clone(), parts.clock.clone()),
        requests,
        lifecycle,
        leadership: component.leadership.clone(),
        shared,
    })
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

/// Registers the handlers through which changes wake the machine controller.
fn register_handlers(controller: &MachineController, reflectors: &mut ControllerReflectors) {
    let MachineController { in_use_protection, classes, secrets, queue, driver_calls, memory, .. } = controller;
    let machines = &controller.shared.machines;
    in_use_protection::wake::on_machines(&mut reflectors.machines, in_use_protection, classes);
    in_use_protection::wake::on_classes(&mut reflectors.classes, in_use_protection, secrets);
    in_use_protection::wake::on_secrets(&mut reflectors.secrets, in_use_protection, classes);
    machine::wake::on_machines(&mut reflectors.machines, queue, machines, driver_calls);
    machine::wake::on_classes(&mut reflectors.classes, queue, machines, driver_calls);
    machine::wake::on_lists(&mut reflectors.classes, queue, memory);
    machine::wake::on_lists(&mut reflectors.secrets, queue, memory);
    machine::wake::on_secrets(&mut reflectors.secrets, queue, machines, classes, &controller.credentials);
    if let Some(nodes) = &mut reflectors.nodes {
        machine::wake::on_nodes(nodes, queue, machines, &controller.shared.namespace);
    }
    controller.safety.listen(&mut reflectors.machines, reflectors.nodes.as_mut());
}

/// Starts the reflectors of the components that this process runs. Returns the manager, if it is one of them.
fn start_reflectors(
    parts: &Parts,
    component: &Component,
    controller: &MachineController,
    tasks: &ReflectorTasks,
    reflectors: ControllerReflectors,
    manager: Option<UnstartedManager>,
) -> Option<Arc<Manager>> {
    let Clients { control, control_core, target, .. } = &parts.watches;
    if parts.components.machines().is_some() {
        tasks.spawn("machineclasses", reflectors.classes, control.clone());
        tasks.spawn("secrets", reflectors.secrets, control_core.clone());
        component.metrics.follow_caches(&controller.needed);
    }
    let manager = manager.map(|unstarted| {
        tasks.spawn("machinesets", unstarted.reflectors.sets, control.clone());
        tasks.spawn("machinedeployments", unstarted.reflectors.deployments, control.clone());
        Arc::new(unstarted.manager)
    });
    if let (Some(nodes), Some(client)) = (reflectors.nodes, target) {
        tasks.spawn("nodes", nodes, client.clone());
    }
    tasks.spawn("machines", reflectors.machines, control.clone());
    manager
}

/// Returns the drains, if this process runs the machine controller with a target cluster.
fn drains(
    parts: &Parts,
    component: &Component,
    controller: &MachineController,
    retry_signal: RetrySignal,
) -> Option<Drains> {
    let target = controller.target.as_ref().filter(|_| parts.components.machines().is_some())?;
    Some(Drains::new(DrainsParts {
        client: target.client.clone(),
        driver_calls: controller.driver_calls.clone(),
        leadership: component.leadership.clone(),
        queue: controller.queue.clone(),
        caps: parts.policy.drain.caps,
        metrics: &component.metrics,
        lifecycle: &controller.lifecycle,
        clock: parts.clock.clone(),
        random: parts.random.clone(),
        tasks: parts.tasks.clone(),
        retry_signal,
    }))
}

/// Starts each component that this process runs.
fn start_components(cluster: &Cluster, parts: &Parts) {
    let Cluster { shared, machine_controller, manager } = cluster;
    if let Some(component) = parts.components.machines() {
        parts.drivers.changes().for_each(|changes| follow_driver(machine_controller, changes, parts.random.fork()));
        shared.tasks.spawn("machine controller", begin::machines(machine_controller.clone(), component.concurrency));
    }
    if let (Some(manager), Some(component)) = (manager, parts.components.manager()) {
        shared.tasks.spawn("manager", begin::manager(shared.clone(), manager.clone(), component.concurrency));
    }
}

/// Retries failed calls when the version of a driver changes: the new version may succeed.
fn follow_driver(controller: &MachineController, changes: watch::Receiver<u64>, random: Random) {
    let (driver_calls, queue, stopping) =
        (controller.driver_calls.clone(), controller.queue.clone(), controller.shared.tasks.stopping());
    controller.shared.tasks.spawn("driver changes", async move {
        let retry = || driver_calls.reset_all_backoffs().into_iter().for_each(|machine| queue.add(machine));
        stopping.run_until_cancelled(driver_changes::follow(changes, random, retry)).await;
    });
}

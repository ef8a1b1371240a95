//! The safety loops: they limit the damage of outages and mistakes. Their decisions are made in `planner::safety`.
//!
//! | file | loop | key |
//! | --- | --- | --- |
//! | `api_servers` | freezes the machine controller while the API servers are unreachable | one |
//! | `orphans` | deletes orphan VMs | one |
//! | `unmanaged_nodes` | marks Nodes without a Machine | a Node |
//!
//! A loop with one key always returns when it runs next, so that it never ends.

mod api_servers;
mod cluster_events;
mod connectivity;
mod metrics;
mod orphans;
mod unmanaged_nodes;

use std::sync::Arc;

use api::names::labels;
use api::view::NodeView;
use api::{Machine, Object};
use planner::safety::SafetyPolicy;
use runtime::cache::{Delta, Reflector, Signal, Trust};
use runtime::client::ServerTime;
use runtime::queue::{Queue, QueueState, RetryPolicy, Workers, spawn_workers};
use runtime::{Clock, Key, Metrics, Random};

use crate::cluster::Shared;
use crate::machine_controller::MachineController;
pub use connectivity::ApiConnectivity;
use connectivity::ClockCheck;
use metrics::SafetyMetrics;
use orphans::Memory;

/// The key of the loops that have only one.
const ALL: &str = "all";

/// The safety loops. Clones share all state.
#[derive(Clone)]
pub struct Safety {
    /// Connectivity to the API servers.
    pub connectivity: ApiConnectivity,
    api_servers: Queue<&'static str>,
    vms: Queue<&'static str>,
    nodes: Queue<Key>,
    memory: Memory,
    metrics: SafetyMetrics,
    policy: SafetyPolicy,
    clock: Clock,
    random: Random,
}

impl Safety {
    /// Creates the loops, not started.
    pub(crate) fn new(policy: &SafetyPolicy, metrics: &Metrics, clock: &Clock, random: &Random) -> Self {
        let retries = RetryPolicy::default();
        Self {
            connectivity: ApiConnectivity::new(policy, clock),
            api_servers: Queue::new("machinesafetyapiserver", retries, metrics, random).closed(),
            vms: Queue::new("machinesafetyorphanvms", retries, metrics, random).closed(),
            nodes: Queue::new("node", retries, metrics, random).closed(),
            memory: Memory::default(),
            metrics: SafetyMetrics::register(metrics),
            policy: policy.clone(),
            clock: clock.clone(),
            random: random.fork(),
        }
    }

    /// Compares the clock of this process with those of the API servers whenever the connectivity is read.
    pub(crate) fn watch_clocks(&self, servers: &[ServerTime]) {
        let queue = self.api_servers.clone();
        let (servers, clock, limit) = (servers.to_vec(), self.clock.clone(), self.policy.clock_skew);
        self.connectivity.watch_clocks(ClockCheck {
            servers,
            clock,
            limit,
            exceeded: Box::new(move || queue.add(ALL)),
        });
    }

    /// Registers the handlers that wake the loops.
    pub(crate) fn listen(&self, machines: &mut Reflector<Machine>, nodes: Option<&mut Reflector<NodeView>>) {
        let loops = self.clone();
        machines.on_delta(move |key, delta| loops.machine_changed(key, delta));
        let loops = self.clone();
        machines.on_signal(move |signal| loops.watch_changed(signal));
        let Some(nodes) = nodes else { return };
        let unmanaged = self.nodes.clone();
        nodes.on_delta(move |key, delta| {
            if delta.now().is_some() {
                unmanaged.add(key.clone());
            }
        });
        let loops = self.clone();
        nodes.on_signal(move |signal| {
            if let Signal::Listed(tally) = signal {
                loops.connectivity.nodes_disappeared(tally.gone, tally.before, &loops.policy, loops.clock.now());
            }
            loops.watch_changed(signal);
        });
    }

    /// Returns the state of the queues.
    pub(crate) fn queues(&self) -> [QueueState; 3] {
        [self.api_servers.state(), self.vms.state(), self.nodes.state()]
    }

    fn watch_changed(&self, signal: &Signal) {
        match signal {
            Signal::Disconnected | Signal::Recovered => self.api_servers.add(ALL),
            Signal::Listed(tally) if tally.gone > 0 => self.api_servers.add(ALL),
            Signal::Listed(_) => {}
        }
    }

    fn machine_changed(&self, key: &Key, delta: &Delta<Machine>) {
        if orphans::is_reason_to_scan(&self.memory, key, delta) {
            self.vms.add(ALL);
        }
        let [before, now] =
            [delta.before(), delta.now()].map(|machine| machine.and_then(|machine| machine.label(labels::NODE)));
        if before != now {
            for node in [before, now].into_iter().flatten() {
                self.nodes.add(Key::cluster(node));
            }
        }
    }
}

/// Runs the first checks, then starts the loops. The workers of Machines start after this.
pub(crate) async fn begin(controller: &Arc<MachineController>) {
    controller.safety.memory.restore_and_publish(controller);
    api_servers::check_nodes(controller);
    api_servers::reconcile(controller.clone()).await;
    let (safety, tasks) = (&controller.safety, &controller.shared.tasks);
    safety.api_servers.open();
    safety.vms.open();
    let worker = controller.clone();
    spawn_workers(tasks, safety.api_servers.clone(), 1, move |_| api_servers::reconcile(worker.clone()));
    let worker = controller.clone();
    // A scan waits for driver calls. Each may wait in the queue for the timeout of a call.
    let stuck_after = runtime::watchdog::STUCK_AFTER + controller.shared.policy.driver_call_timeout.saturating_mul(2);
    spawn_workers(tasks, safety.vms.clone(), Workers { concurrency: 1, stuck_after }, move |_| {
        orphans::reconcile(worker.clone())
    });
    if let Some(target) = &controller.target {
        crate::wiring::open(&safety.nodes, &target.nodes);
        let worker = controller.clone();
        spawn_workers(tasks, safety.nodes.clone(), NODE_WORKERS, move |key| {
            unmanaged_nodes::reconcile(worker.clone(), key)
        });
    }
    safety.api_servers.add(ALL);
    safety.vms.add(ALL);
}

/// Number of workers for unmanaged Nodes. Each key costs at most one write.
const NODE_WORKERS: usize = 5;

/// Returns whether no decision may be based on the caches.
fn is_disconnected(shared: &Shared) -> bool {
    shared.connectivity.now() == planner::machine::Connectivity::Frozen || shared.caches.trust() == Trust::Doubtful
}

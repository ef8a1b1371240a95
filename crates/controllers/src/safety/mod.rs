//! The loops that keep a mistake of ours from costing machines; what they decide is in `planner::safety`.
//!
//! | file | loop | key |
//! | --- | --- | --- |
//! | `api_servers` | do we see? | one |
//! | `orphans` | which VMs belong to nobody? | one |
//! | `unmanaged_nodes` | which Nodes are none of our business? | a Node |
//!
//! A loop with one key never finishes without saying when it runs next, so that none can be lost.

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

/// The key of a loop that has but one.
const ALL: &str = "all";

/// What the loops work with. Clones are the same.
#[derive(Clone)]
pub struct Safety {
    /// Whether we see.
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
    /// Loops that have not begun.
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

    /// Compares the own clock with those of the API servers, whenever it is asked whether decisions may rest on what is seen.
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

    /// Whose changes wake the loops.
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

    /// What the loops wait for.
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
        if orphans::is_reason_to_look(&self.memory, key, delta) {
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

/// Takes a first look, then starts the loops. Whoever decides about machines starts after this.
pub(crate) async fn begin(controller: &Arc<MachineController>) {
    controller.safety.memory.hand_over(controller);
    api_servers::take_first_look(controller);
    api_servers::reconcile(controller.clone()).await;
    let (safety, tasks) = (&controller.safety, &controller.shared.tasks);
    safety.api_servers.open();
    safety.vms.open();
    let worker = controller.clone();
    spawn_workers(tasks, safety.api_servers.clone(), 1, move |_| api_servers::reconcile(worker.clone()));
    let worker = controller.clone();
    // A scan waits for driver calls: each may stand in line for as long as it may take.
    let patience = runtime::watchdog::PATIENCE + controller.shared.policy.driver_call_timeout.saturating_mul(2);
    spawn_workers(tasks, safety.vms.clone(), Workers { size: 1, patience }, move |_| {
        orphans::reconcile(worker.clone())
    });
    if let Some(target) = &controller.target {
        crate::wiring::open(&safety.nodes, &target.nodes);
        let worker = controller.clone();
        spawn_workers(tasks, safety.nodes.clone(), UNMANAGED_AT_ONCE, move |key| {
            unmanaged_nodes::reconcile(worker.clone(), key)
        });
    }
    safety.api_servers.add(ALL);
    safety.vms.add(ALL);
}

/// Each is at most one write, and nobody waits for them.
const UNMANAGED_AT_ONCE: usize = 5;

/// Whether nothing may be concluded from what the caches show.
fn is_disconnected(shared: &Shared) -> bool {
    shared.connectivity.now() == planner::machine::Connectivity::Frozen || shared.caches.trust() == Trust::Doubtful
}

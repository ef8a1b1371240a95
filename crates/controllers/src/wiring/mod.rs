//! From clients to running controllers.
//!
//! Caches are declared first, then each controller says whose changes wake it (`machine::wake`), then the caches are fed; workers
//! start once all of them have synced and, for a leader, have been read afresh after it won.
//!
//! There are two halves, as in the reference: the machine controller, and the manager of sets and deployments. One process runs
//! both unless told otherwise ([`Scope`]), and then they share the caches of machines and nodes.

mod feeds;
mod scope;

use std::sync::Arc;
use std::time::Duration;

use api::view::{NodeView, SecretView};
use api::{Machine, MachineClass};
use kube::Client;
use plan::Policy;
use runtime::cache::{Cache, Caches, Feed};
use runtime::events::EventSink;
use runtime::lease::Leadership;
use runtime::metrics::Metrics;
use runtime::queue::{Queue, RetryPolicy, spawn_workers};
use runtime::{Clock, Entropy, Key, Random, Tasks};

use crate::cluster::{Cluster, Target};
use crate::credentials::Credentials;
use crate::custody::{self, Custody};
use crate::decision::Journal;
use crate::drain::{Drains, DrainsParts};
use crate::fleet::{Declared, FleetParts};
use crate::gate::{Gate, GateParts};
use crate::indexes::{
    CLASSES_BY_SECRET, MACHINES_BY_CLASS, MACHINES_BY_DEPLOYMENT, MACHINES_BY_NODE, MACHINES_BY_OWNER,
    NODES_BY_MACHINE, ORPHAN_MACHINES,
};
use crate::knowledge::Knowledge;
use crate::permits::Permits;
use crate::safety::{self, Safety, Sight};
use crate::tokens::Tokens;
use crate::{Drivers, Listener, deployment, machine, machineset, overshoot};
use feeds::Feeder;
pub use scope::Scope;

/// What a machine controller is made from.
pub struct Parts {
    /// The namespace of the control cluster to look after.
    pub namespace: String,
    /// The control cluster, for our own kinds.
    pub control: Client,
    /// The control cluster, for Secrets: with a bucket of its own, so that reading them never holds up a Machine.
    pub control_core: Client,
    /// The cluster that nodes join; `None` to run without one.
    pub target: Option<Client>,
    /// The drivers at hand.
    pub drivers: Drivers,
    /// Whether we may act.
    pub leadership: Leadership,
    /// Where Events go.
    pub events: EventSink,
    /// Limits and periods.
    pub policy: Policy,
    /// How many machines are worked on at once (`--concurrent-syncs`).
    pub concurrency: usize,
    /// How many driver calls run at once for one credential.
    pub driver_places: usize,
    /// Where measurements go.
    pub metrics: Metrics,
    /// The time.
    pub clock: Clock,
    /// Randomness for jitter.
    pub random: Random,
    /// The owner of everything that is started.
    pub tasks: Tasks,
    /// Who is told of every decision.
    pub listener: Option<Listener>,
}

impl Parts {
    fn for_the_fleet(&self) -> FleetParts<'_> {
        FleetParts {
            namespace: &self.namespace,
            policy: &self.policy,
            leadership: self.leadership.clone(),
            events: self.events.clone(),
            metrics: &self.metrics,
            clock: &self.clock,
            random: &self.random,
        }
    }
}

/// Starts all controllers. They list and watch at once, and act as soon as they lead and have seen everything.
pub fn start(parts: Parts) -> Arc<Cluster> {
    start_scope(parts, Scope::Everything)
}

/// Starts the controllers of this scope.
pub fn start_scope(parts: Parts, scope: Scope) -> Arc<Cluster> {
    let feeder = Feeder { clock: parts.clock.clone(), random: parts.random.clone(), tasks: parts.tasks.clone() };
    let queue = Queue::new("machine", RetryPolicy::default(), &parts.metrics, &parts.random);
    let knowledge = Knowledge::default();
    let safety = Safety::new(&parts.policy.safety, &parts.metrics, &parts.clock, &parts.random);
    let mut caches = Caches::new();

    let (machines, mut machine_feed) = machine_cache(&parts.namespace);
    let (classes, mut class_feed) =
        Cache::<MachineClass>::builder().namespace(&parts.namespace).index(CLASSES_BY_SECRET).build();
    let (secrets, mut secret_feed) = Cache::<SecretView>::builder().namespace(&parts.namespace).metadata_only().build();
    caches.add(&machines);
    if scope.has_machines() {
        caches.add(&classes);
        caches.add(&secrets);
    }
    let mut declared = scope.has_fleet().then(|| Declared::of(parts.for_the_fleet(), &mut caches));
    let credentials = Credentials::new(parts.control_core.clone(), secrets.clone());

    let policy = Arc::new(parts.policy.clone());
    let seen = Seen { machines: &machines, classes: &classes, credentials: &credentials, sight: &safety.sight };
    let journal = Journal::new(parts.listener.clone(), &parts.clock);
    let gate = gate(&parts, &policy, seen, &knowledge, &queue, &journal);
    let mut joined = parts.target.map(|client| {
        let (nodes, feed) = node_cache();
        caches.add(&nodes);
        (Target { client, nodes }, feed)
    });
    let custody = Arc::new(Custody::new(parts.control_core.clone(), &parts.metrics, &parts.random));
    if scope.has_machines() {
        custody::wake::on_machines(&mut machine_feed, &custody, &classes);
        custody::wake::on_classes(&mut class_feed, &custody, &secrets);
        custody::wake::on_secrets(&mut secret_feed, &custody, &classes);
        machine::wake::on_machines(&mut machine_feed, &queue, &machines, &gate);
        machine::wake::on_classes(&mut class_feed, &queue, &machines);
        machine::wake::on_secrets(&mut secret_feed, &queue, &machines, &classes, &credentials);
        if let Some((_, feed)) = &mut joined {
            machine::wake::on_nodes(feed, &queue, &machines, &parts.namespace);
        }
        safety.listen(&mut machine_feed, joined.as_mut().map(|(_, feed)| feed));
        feeder.feed("machineclasses", class_feed, parts.control.clone());
        feeder.feed("secrets", secret_feed, parts.control_core.clone());
    }
    if let Some(declared) = &mut declared {
        declared.listen(&machines, &mut machine_feed, joined.as_mut().map(|(_, feed)| feed));
    }
    let fleet = declared.map(|declared| {
        feeder.feed("machinesets", declared.feeds.sets, parts.control.clone());
        feeder.feed("machinedeployments", declared.feeds.deployments, parts.control.clone());
        Arc::new(declared.fleet)
    });
    let target = joined.map(|(target, feed)| {
        feeder.feed("nodes", feed, target.client.clone());
        target
    });
    feeder.feed("machines", machine_feed, parts.control.clone());

    parts.metrics.follow_caches(&caches);
    let drained = target.as_ref().filter(|_| scope.has_machines());
    let drains =
        drained.map(|target| drains(target, &gate, &parts.leadership, &queue, &policy, &parts.metrics, &feeder));
    let cluster = Arc::new(Cluster {
        namespace: parts.namespace,
        control: parts.control,
        target,
        machines,
        classes,
        secrets,
        credentials,
        caches,
        fleet,
        knowledge,
        gate,
        custody,
        drains,
        permits: Permits::new(queue.clone()),
        queue,
        sight: safety.sight.clone(),
        safety,
        leadership: parts.leadership,
        events: parts.events,
        policy,
        clock: parts.clock,
        tasks: parts.tasks,
        journal,
    });
    cluster.tasks.spawn("machine controller", begin(cluster.clone(), scope, parts.concurrency));
    cluster
}

/// What a driver call is put together from.
#[derive(Clone, Copy)]
struct Seen<'a> {
    machines: &'a Cache<Machine>,
    classes: &'a Cache<MachineClass>,
    credentials: &'a Credentials,
    sight: &'a Sight,
}

fn gate(
    parts: &Parts,
    policy: &Arc<Policy>,
    seen: Seen<'_>,
    knowledge: &Knowledge,
    queue: &Queue<Key>,
    journal: &Journal,
) -> Gate {
    let tokens = |client: &Client| Tokens::new(client.clone(), Entropy::system(), parts.clock.clone());
    Gate::new(GateParts {
        drivers: parts.drivers.clone(),
        places: parts.driver_places,
        policy: policy.clone(),
        machines: seen.machines.clone(),
        classes: seen.classes.clone(),
        credentials: seen.credentials.clone(),
        tokens: parts.target.as_ref().map(tokens),
        sight: seen.sight.clone(),
        knowledge: knowledge.clone(),
        leadership: parts.leadership.clone(),
        queue: queue.clone(),
        journal: journal.clone(),
        metrics: parts.metrics.clone(),
        clock: parts.clock.clone(),
        random: parts.random.clone(),
        tasks: parts.tasks.clone(),
    })
}

fn node_cache() -> (Cache<NodeView>, Feed<NodeView>) {
    Cache::<NodeView>::builder().index(NODES_BY_MACHINE).quiet(NodeView::differs_only_in_heartbeats).build()
}

fn drains(
    target: &Target,
    gate: &Gate,
    leadership: &Leadership,
    queue: &Queue<Key>,
    policy: &Policy,
    metrics: &Metrics,
    feeder: &Feeder,
) -> Drains {
    Drains::new(DrainsParts {
        client: target.client.clone(),
        gate: gate.clone(),
        leadership: leadership.clone(),
        queue: queue.clone(),
        caps: policy.drain.caps,
        metrics,
        clock: feeder.clock.clone(),
        random: feeder.random.clone(),
        tasks: feeder.tasks.clone(),
    })
}

fn machine_cache(namespace: &str) -> (Cache<Machine>, Feed<Machine>) {
    Cache::<Machine>::builder()
        .namespace(namespace)
        .index(MACHINES_BY_NODE)
        .index(MACHINES_BY_CLASS)
        .index(MACHINES_BY_OWNER)
        .index(ORPHAN_MACHINES)
        .index(MACHINES_BY_DEPLOYMENT)
        .build()
}

/// Waits until acting is safe, then works until asked to stop.
async fn begin(cluster: Arc<Cluster>, scope: Scope, concurrency: usize) {
    let ready = async {
        report_while_waiting(&cluster, cluster.caches.all_synced()).await?;
        if cluster.leadership.wait_until_leading().await.is_err() {
            return Ok(false);
        }
        // The caches of a standby may lag behind the last writes of the leader before us.
        cluster.caches.refresh_all().await?;
        Ok::<_, runtime::cache::Stopped>(true)
    };
    let stopping = cluster.tasks.stopping();
    let ready = tokio::select! {
        biased;
        () = stopping.cancelled() => return,
        ready = ready => ready,
    };
    if !matches!(ready, Ok(true)) {
        return;
    }
    tracing::info!(namespace = %cluster.namespace, machines = cluster.machines.len(), "all caches are up to date; beginning to work");
    let tasks = &cluster.tasks;
    if scope.has_machines() {
        safety::begin(&cluster).await;
        let worker = cluster.clone();
        spawn_workers(tasks, cluster.queue.clone(), concurrency, move |key| machine::pass(worker.clone(), key));
        // There are few of these, and nobody waits long for them.
        let worker = cluster.clone();
        spawn_workers(tasks, cluster.custody.classes.clone(), 2, move |key| custody::pass_class(worker.clone(), key));
        let worker = cluster.clone();
        spawn_workers(tasks, cluster.custody.secrets.clone(), 2, move |key| custody::pass_secret(worker.clone(), key));
    }
    if let Some(fleet) = &cluster.fleet {
        let (worker, manager) = (cluster.clone(), fleet.clone());
        spawn_workers(tasks, fleet.set_queue.clone(), concurrency, move |key| {
            machineset::pass(worker.clone(), manager.clone(), key)
        });
        let (worker, manager) = (cluster.clone(), fleet.clone());
        spawn_workers(tasks, fleet.deployment_queue.clone(), concurrency, move |key| {
            deployment::pass(worker.clone(), manager.clone(), key)
        });
        let (worker, manager) = (cluster.clone(), fleet.clone());
        fleet.overshoot_queue.add(overshoot::everything());
        spawn_workers(tasks, fleet.overshoot_queue.clone(), 1, move |key| {
            overshoot::pass(worker.clone(), manager.clone(), key)
        });
    }
}

/// Says, every half minute, what the start is waiting for: a controller that hangs in silence looks like one that works.
async fn report_while_waiting<T>(cluster: &Cluster, work: impl Future<Output = T>) -> T {
    const SAY_AGAIN_AFTER: Duration = Duration::from_secs(30);
    tokio::pin!(work);
    loop {
        tokio::select! {
            biased;
            done = &mut work => return done,
            () = tokio::time::sleep(SAY_AGAIN_AFTER) => {
                for sentence in cluster.caches.waiting_for() {
                    tracing::info!("{sentence}");
                }
            }
        }
    }
}

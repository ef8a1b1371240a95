//! A cluster in memory, on one thread and a paused clock.

use std::sync::Arc;
use std::time::Duration;

use driver_virtual::{Config, Doubles, Monitor, NodeLife, Script, VirtualCloud, VmEvent};
use fake_apiserver::faults::RuleId;
use fake_apiserver::{Observation, Options, Server};
use fake_kube_controllers::{KubeControllers, Part};
use jiff::{SignedDuration, Timestamp};
use parking_lot::Mutex;
use runtime::client::{ClientSpec, UserAgent, in_process};
use runtime::{Clock, Metrics, Random, Tasks};
use tokio::sync::Notify;

use super::draw::Pool;
use super::objects::{NAMESPACE, SECRET, all, policy};
use super::process::{AGENT_PREFIX, Process, SKEW};
use super::profile::{Profile, Strategy, Surroundings, Workload};
use super::record::Record;
use crate::oracle::{Author, Limits, Oracle, VmChange, Write, Writer, WritingComponent};

/// Parts of the simulated controller manager. Parts without work would still open watches.
const PARTS: [Part; 8] = [
    Part::Scheduler,
    Part::ReplicaSets,
    Part::Deployments,
    Part::Disruption,
    Part::Silence,
    Part::Taints,
    Part::Evictions,
    Part::Collection,
];
/// Additional parts for pods with volumes.
const VOLUME_PARTS: [Part; 3] = [Part::StatefulSets, Part::Claims, Part::Attachment];

/// The simulated cluster and the processes of the controllers.
pub(super) struct Environment {
    pub(super) server: Server,
    pub(super) cloud: VirtualCloud,
    pub(super) clock: Clock,
    pub(super) operator: kube::Client,
    pub(super) observer: Observer,
    /// Running processes.
    pub(super) processes: Vec<Process>,
    /// Number of processes that should run.
    pub(super) candidates: usize,
    /// Number of processes started so far.
    pub(super) started: u64,
    /// Start time of the last process.
    pub(super) last_start: Timestamp,
    /// Whether the API server is down for a restore.
    pub(super) is_down: bool,
    /// Active faults of driver calls, with the index of the history entry.
    pub(super) scripts: Vec<(usize, Script)>,
    /// Number of active faults that omit VMs from lists.
    pub(super) omissions: Arc<Mutex<usize>>,
    /// Number of active faults with which the cloud creates two VMs.
    pub(super) doubles: Arc<Mutex<usize>>,
    /// Active faults of requests, with the index of the history entry.
    pub(super) rules: Vec<(usize, RuleId)>,
    pub(super) random: Random,
    pub(super) background: Tasks,
    /// Tasks of the kubelets, the scheduler, the controller manager and the garbage collector.
    cluster: Tasks,
    workload: Workload,
    surroundings: Surroundings,
    metrics: Metrics,
}

/// The oracle and the record of a run. Clones share both.
#[derive(Clone)]
pub(super) struct Observer {
    pub(super) oracle: Arc<Mutex<Oracle>>,
    pub(super) record: Arc<Mutex<Record>>,
    /// Notified when the oracle has found a violation.
    pub(super) found: Arc<Notify>,
}

impl Environment {
    /// Creates the cluster. No controller runs yet.
    pub(super) fn new(profile: &Profile, pools: &[Pool], random: &Random, record: Record) -> Result<Self, String> {
        let began = Timestamp::from_second(1_800_000_000).unwrap_or_default();
        let clock = Clock::starting_at(began);
        let now = {
            let clock = clock.clone();
            Arc::new(move || clock.now())
        };
        let server = Server::new(Options::new(now.clone(), random.number()));
        for object in api::crd::definitions().iter().chain(&all(pools, profile.workload, profile.surroundings)) {
            server.insert(object).map_err(|failure| format!("{failure:?}: {object}"))?;
        }
        let node_life = NodeLife {
            monitor: Monitor::Absent,
            // Renewed rarely; otherwise half of all requests would be renewals.
            lease_period: Duration::from_mins(1),
            lease_duration: Duration::from_secs(80),
            ..NodeLife::default()
        };
        let list_lag = Duration::from_secs(random.below(120));
        let quoted = format!("key={SECRET}");
        let config = Config { doubles: Doubles::Allowed, list_lag, quoted, node_life, ..Config::default() };
        let cloud = VirtualCloud::new(config, now, random.number());
        let metrics = Metrics::new().map_err(|error| error.to_string())?;
        let observer = Observer::new(record, began);
        observer.watch(&server, &cloud, &clock);
        let environment = Self {
            operator: plain_client(&server, "operator", &metrics),
            background: Tasks::new(),
            cluster: Tasks::new(),
            workload: profile.workload,
            surroundings: profile.surroundings,
            random: random.fork(),
            processes: Vec::new(),
            candidates: profile.candidates,
            started: 0,
            last_start: began,
            is_down: false,
            scripts: Vec::new(),
            omissions: Arc::default(),
            doubles: Arc::default(),
            rules: Vec::new(),
            observer,
            metrics,
            server,
            cloud,
            clock,
        };
        environment.start_cluster(Duration::ZERO);
        if pools.iter().any(|pool| pool.strategy == Strategy::InPlace) {
            environment.run_node_agents(plain_client(&environment.server, "node-agents", &environment.metrics));
            environment.run_users();
        }
        if profile.surroundings == Surroundings::Full {
            environment.run_mirror_pods(plain_client(&environment.server, "static-pods", &environment.metrics));
        }
        Ok(environment)
    }

    /// Starts kubelets and garbage collector. Scheduler and controller manager start after `head_start`.
    fn start_cluster(&self, head_start: Duration) {
        let (cloud, stop) = (self.cloud.clone(), self.cluster.stopping());
        let client = plain_client(&self.server, "kubelets", &self.metrics);
        self.cluster.spawn("kubelets", async move { cloud.run_nodes(client, stop).await });
        let (clock, random, stop) = (self.clock.clone(), self.random.fork(), self.cluster.stopping());
        let client = plain_client(&self.server, "kube-controllers", &self.metrics);
        let more = match self.workload {
            Workload::Stateless => [].as_slice(),
            Workload::Stateful => &VOLUME_PARTS,
        };
        let daemons = (self.surroundings == Surroundings::Full).then_some(Part::DaemonSets);
        let parts = PARTS.into_iter().chain(more.iter().copied()).chain(daemons);
        self.cluster.spawn("kube-controllers", async move {
            if !head_start.is_zero() {
                tokio::time::sleep(head_start).await;
            }
            let policy = fake_kube_controllers::Policy {
                node_grace: Duration::from_secs(80),
                ..fake_kube_controllers::Policy::default()
            };
            KubeControllers { policy, ..KubeControllers::only(parts) }.run(client, clock, random, stop).await;
        });
        let (server, stop) = (self.server.clone(), self.cluster.stopping());
        self.cluster.spawn("garbage collector", async move {
            tokio::select! {
                biased;
                () = stop.cancelled() => {}
                never = server.keep_house() => match never {},
            }
        });
    }

    /// Stops all components of the cluster except the API server.
    pub(super) fn stop_cluster(&mut self) {
        self.cluster.stop();
        self.cluster = Tasks::new();
    }

    /// Starts the components again after a restore of the API server: they may not detect it by themselves. The
    /// kubelets start first, so that Nodes are not marked unreachable.
    pub(super) fn restart_cluster(&self) {
        self.start_cluster(Duration::from_secs(10));
    }

    /// Stops all processes and tasks.
    pub(super) fn end(&mut self) {
        self.processes.drain(..).for_each(Process::kill);
        self.cluster.stop();
        self.background.stop();
    }
}

pub(super) fn client_spec(agent: &str) -> ClientSpec {
    ClientSpec::new(UserAgent::new(agent, "0", "sim"))
}

fn plain_client(server: &Server, agent: &str, metrics: &Metrics) -> kube::Client {
    in_process(server.service(), NAMESPACE, &client_spec(agent).within(Duration::from_secs(20)), &metrics.rest)
}

fn signed(duration: Duration) -> SignedDuration {
    SignedDuration::try_from(duration).unwrap_or(SignedDuration::MAX)
}

/// Maximum time for which a VM may exist without a Machine.
pub(super) fn orphan_limit() -> SignedDuration {
    let policy = policy();
    signed(policy.creation_timeout + 2 * policy.safety.orphan_period) + SKEW
}

/// Returns the process and component that a user agent names, for clients that write.
fn by_agent(agent: &str) -> Option<Writer> {
    let name = agent.strip_prefix(AGENT_PREFIX)?.split('/').next()?.rsplit('-').next()?;
    let (number, component) = name.split_at_checked(name.len().checked_sub(1)?)?;
    let component = match component {
        "m" => WritingComponent::Machines,
        "f" => WritingComponent::Manager,
        _ => return None,
    };
    Some(Writer { process: number.parse().ok()?, component })
}

impl Observer {
    fn new(record: Record, began: Timestamp) -> Self {
        let policy = policy();
        let limits = Limits {
            orphan: orphan_limit(),
            drain: signed(policy.drain.timeout) - SKEW,
            // One process may start the wait, and another one with a different clock may end it.
            orphan_wait: signed(policy.creation_timeout) - SKEW - SKEW,
            detach: signed(policy.drain.detach_timeout),
            replacements: 1,
        };
        Self {
            oracle: Arc::new(Mutex::new(Oracle::new(limits, SECRET, began))),
            record: Arc::new(Mutex::new(record)),
            found: Arc::default(),
        }
    }

    /// Reports all writes, watch events, requests and VM changes to the oracle.
    fn watch(&self, server: &Server, cloud: &VirtualCloud, clock: &Clock) {
        let (observer, time) = (self.clone(), clock.clone());
        server.observe(Arc::new(move |observation| observer.observe(time.now(), observation)));
        let (observer, time) = (self.clone(), clock.clone());
        cloud.observe(Arc::new(move |event, vm| {
            let change = match event {
                VmEvent::Given => VmChange::Present,
                VmEvent::Deleted => VmChange::Deleted,
                VmEvent::TakenAway => VmChange::Vanished,
            };
            let machine = vm.machine.as_ref().map(api::MachineName::as_str);
            observer.update(|oracle| oracle.vm(time.now(), change, vm.id.as_str(), machine));
            observer.record.lock().vm(time.now(), change, vm.id.as_str(), machine);
        }));
    }

    fn observe(&self, now: Timestamp, observation: &Observation<'_>) {
        match observation {
            Observation::Written { kind, change, by: by_whom } => {
                let by = match (by_whom.user_agent.starts_with(AGENT_PREFIX), by_whom.subresource.as_str()) {
                    (true, "eviction") => Author::ControllerEviction,
                    (true, _) => Author::Controllers,
                    (false, _) => Author::Others,
                };
                let after = (change.kind == fake_apiserver::ChangeKind::Put).then_some(&*change.after);
                let (before, name) = (change.before.as_deref(), &*change.key.name);
                let writer = by_agent(&by_whom.user_agent);
                let write = Write { kind, name, revision: change.revision, before, after, by, writer };
                self.update(|oracle| oracle.written(now, &write));
                self.record.lock().written(now, &write);
            }
            Observation::Shown { kind, to, revision } if to.starts_with(AGENT_PREFIX) => {
                self.oracle.lock().shown(now, kind, *revision);
            }
            Observation::Shown { .. } => {}
            Observation::Answered(entry) => {
                let request = self.record.lock().request(entry);
                if let Some(request) = request {
                    self.update(|oracle| oracle.requested(now, &request));
                }
            }
        }
    }

    /// Updates the oracle, and notifies `found` if there is a violation.
    pub(super) fn update(&self, with: impl FnOnce(&mut Oracle)) {
        let mut oracle = self.oracle.lock();
        with(&mut oracle);
        if oracle.violation().is_some() {
            self.found.notify_one();
        }
    }
}

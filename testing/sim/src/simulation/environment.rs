//! A whole cluster in memory, on one thread and a clock of its own.

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
use super::process::{OURS, Process, SKEW};
use super::profile::{Profile, Strategy, Surroundings, Workload};
use super::record::Record;
use crate::oracle::{Author, Limits, Oracle, VmChange, Write, Writer, WritingComponent};

/// What the simulated controller manager does. Each part that has nothing to do would still watch.
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
/// What it does besides where there are volumes.
const VOLUME_PARTS: [Part; 3] = [Part::StatefulSets, Part::Claims, Part::Attachment];

/// Everything.
pub(super) struct Environment {
    pub(super) server: Server,
    pub(super) cloud: VirtualCloud,
    pub(super) clock: Clock,
    pub(super) operator: kube::Client,
    pub(super) judged: Judged,
    /// Those that live.
    pub(super) processes: Vec<Process>,
    /// How many there should be.
    pub(super) candidates: usize,
    /// How many there have been.
    pub(super) started: u64,
    /// When the last one began.
    pub(super) last_start: Timestamp,
    /// Whether the API server is being put back.
    pub(super) is_away: bool,
    /// What goes wrong with driver calls now, by the number of the happening.
    pub(super) scripts: Vec<(usize, Script)>,
    /// How many faults leave VMs out of lists now.
    pub(super) omissions: Arc<Mutex<usize>>,
    /// How many faults make the cloud create two VMs now.
    pub(super) doubles: Arc<Mutex<usize>>,
    /// What goes wrong with requests now, by the number of the happening.
    pub(super) rules: Vec<(usize, RuleId)>,
    pub(super) random: Random,
    pub(super) outside: Tasks,
    /// Kubelets, scheduler, controller manager and garbage collector.
    cluster: Tasks,
    workload: Workload,
    surroundings: Surroundings,
    metrics: Metrics,
}

/// The oracle, and what was written down for it. Clones are the same.
#[derive(Clone)]
pub(super) struct Judged {
    pub(super) oracle: Arc<Mutex<Oracle>>,
    pub(super) record: Arc<Mutex<Record>>,
    /// Notified when the oracle has found something.
    pub(super) found: Arc<Notify>,
}

impl Environment {
    /// Sets everything up; no controller runs yet.
    pub(super) fn set(profile: &Profile, pools: &[Pool], random: &Random, record: Record) -> Result<Self, String> {
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
            // Seldom, because half of all requests would be renewals.
            lease_period: Duration::from_mins(1),
            lease_duration: Duration::from_secs(80),
            ..NodeLife::default()
        };
        let list_lag = Duration::from_secs(random.below(120));
        let quoted = format!("key={SECRET}");
        let config = Config { doubles: Doubles::Allowed, list_lag, quoted, node_life, ..Config::default() };
        let cloud = VirtualCloud::new(config, now, random.number());
        let metrics = Metrics::new().map_err(|error| error.to_string())?;
        let judged = Judged::new(record, began);
        judged.watch(&server, &cloud, &clock);
        let environment = Self {
            operator: plain_client(&server, "operator", &metrics),
            outside: Tasks::new(),
            cluster: Tasks::new(),
            workload: profile.workload,
            surroundings: profile.surroundings,
            random: random.fork(),
            processes: Vec::new(),
            candidates: profile.candidates,
            started: 0,
            last_start: began,
            is_away: false,
            scripts: Vec::new(),
            omissions: Arc::default(),
            doubles: Arc::default(),
            rules: Vec::new(),
            judged,
            metrics,
            server,
            cloud,
            clock,
        };
        environment.start_cluster(Duration::ZERO);
        if pools.iter().any(|pool| pool.strategy == Strategy::InPlace) {
            environment.agents(plain_client(&environment.server, "node-agents", &environment.metrics));
            environment.people();
        }
        if profile.surroundings == Surroundings::Full {
            environment.mirror_pods(plain_client(&environment.server, "static-pods", &environment.metrics));
        }
        Ok(environment)
    }

    /// Kubelets, and this much later scheduler and controller manager, and the garbage collector.
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

    /// Ends what a cluster consists of besides its API server.
    pub(super) fn stop_cluster(&mut self) {
        self.cluster.stop();
        self.cluster = Tasks::new();
    }

    /// Begins it again, as is done when an API server is put back: none of it can be trusted to notice. A node that is heard again before
    /// anybody asks is not missed.
    pub(super) fn restart_cluster(&self) {
        self.start_cluster(Duration::from_secs(10));
    }

    /// Ends everything.
    pub(super) fn end(&mut self) {
        self.processes.drain(..).for_each(Process::die);
        self.cluster.stop();
        self.outside.stop();
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

/// How long a VM may be without a Machine.
pub(super) fn unowned_limit() -> SignedDuration {
    let policy = policy();
    signed(policy.creation_timeout + 2 * policy.safety.orphan_period) + SKEW
}

/// Which component of which process a client belongs to, where a component of ours writes.
fn by_agent(agent: &str) -> Option<Writer> {
    let name = agent.strip_prefix(OURS)?.split('/').next()?.rsplit('-').next()?;
    let (number, component) = name.split_at_checked(name.len().checked_sub(1)?)?;
    let component = match component {
        "m" => WritingComponent::Machines,
        "f" => WritingComponent::Fleet,
        _ => return None,
    };
    Some(Writer { process: number.parse().ok()?, component })
}

impl Judged {
    fn new(record: Record, began: Timestamp) -> Self {
        let policy = policy();
        let limits = Limits {
            unowned: unowned_limit(),
            drain: signed(policy.drain.timeout) - SKEW,
            // One process may have begun to wait, and another with another clock ends it.
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

    /// Has the oracle told of everything.
    fn watch(&self, server: &Server, cloud: &VirtualCloud, clock: &Clock) {
        let (judged, time) = (self.clone(), clock.clone());
        server.observe(Arc::new(move |observation| judged.observe(time.now(), observation)));
        let (judged, time) = (self.clone(), clock.clone());
        cloud.observe(Arc::new(move |event, vm| {
            let change = match event {
                VmEvent::Given => VmChange::Given,
                VmEvent::Deleted => VmChange::Deleted,
                VmEvent::TakenAway => VmChange::TakenAway,
            };
            let machine = vm.machine.as_ref().map(api::MachineName::as_str);
            judged.tell(|oracle| oracle.vm(time.now(), change, vm.id.as_str(), machine));
            judged.record.lock().vm(time.now(), change, vm.id.as_str(), machine);
        }));
    }

    fn observe(&self, now: Timestamp, observation: &Observation<'_>) {
        match observation {
            Observation::Written { kind, change, by: by_whom } => {
                let by = match (by_whom.user_agent.starts_with(OURS), by_whom.subresource.as_str()) {
                    (true, "eviction") => Author::OurEviction,
                    (true, _) => Author::Us,
                    (false, _) => Author::Others,
                };
                let after = (change.kind == fake_apiserver::ChangeKind::Put).then_some(&*change.after);
                let (before, name) = (change.before.as_deref(), &*change.key.name);
                let writer = by_agent(&by_whom.user_agent);
                let write = Write { kind, name, revision: change.revision, before, after, by, writer };
                self.tell(|oracle| oracle.written(now, &write));
                self.record.lock().written(now, &write);
            }
            Observation::Shown { kind, to, revision } if to.starts_with(OURS) => {
                self.oracle.lock().shown(now, kind, *revision);
            }
            Observation::Shown { .. } => {}
            Observation::Answered(entry) => {
                let request = self.record.lock().request(entry);
                if let Some(request) = request {
                    self.tell(|oracle| oracle.asked(now, &request));
                }
            }
        }
    }

    /// Tells the oracle something, and everybody if it is wrong.
    pub(super) fn tell(&self, with: impl FnOnce(&mut Oracle)) {
        let mut oracle = self.oracle.lock();
        with(&mut oracle);
        if oracle.violation().is_some() {
            self.found.notify_one();
        }
    }
}

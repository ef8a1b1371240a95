//! A test cluster.

use std::sync::Arc;
use std::time::Duration;

use api::{Machine, MachinePhase};
use controllers::wiring::{Clients, Component, Components, Parts, start};
use controllers::{Cluster, Drivers, Listener};
use driver_virtual::{Config, Doubles, VirtualCloud};
use fake_apiserver::{Options, Server};
use jiff::Timestamp;
use kube::api::{DeleteParams, PostParams};
use planner::Policy;
use runtime::client::Api;
use runtime::client::{ClientSpec, Qps, ServerTime, UserAgent, in_process};
use runtime::events::{EventPolicy, EventSink, EventWriter};
use runtime::lease::{ElectionConfig, Elector, Identity, Leadership, Timing};
use runtime::tasks::Ended;
use runtime::{Clock, Metrics, Random, Tasks};
use serde_json::{Value, json};

pub(crate) const NAMESPACE: &str = "pool";
pub(crate) const CONTROLLER: &str = "machine-controller-under-test";

/// An API server, a cloud, kubelets, and controller processes that are started and stopped.
pub(crate) struct TestCluster {
    pub(crate) server: Server,
    pub(crate) cloud: VirtualCloud,
    pub(crate) clock: Clock,
    pub(crate) policy: Policy,
    pub(crate) metrics: Metrics,
    /// Listener of processes that are started later.
    pub(crate) listener: Option<Listener>,
    /// Clock of the controllers.
    pub(crate) server_time: ServerTime,
    /// Rate limit of clients that are created later.
    pub(crate) limit: Option<Qps>,
    /// Start time.
    pub(crate) began: Timestamp,
    random: Random,
    outside: Tasks,
}

/// Both components as separate processes, with their metrics.
pub(crate) struct Shown {
    pub(crate) manager: Metrics,
    pub(crate) machines: Metrics,
}

/// A running controller process. Dropping it without [`Process::kill`] leaves it running.
pub(crate) struct Process {
    pub(crate) cluster: Arc<Cluster>,
    /// Metrics of the machine controller.
    pub(crate) metrics: Metrics,
    /// Metrics of the manager.
    pub(crate) manager_metrics: Metrics,
    tasks: Tasks,
}

/// Components of a process, with their leadership.
#[derive(Clone, Debug)]
pub(crate) enum Leaders {
    Both(Leadership, Leadership),
    Machines(Leadership),
    Manager(Leadership),
}

/// A candidate for a lease.
pub(crate) struct Candidate {
    pub(crate) leadership: Leadership,
    elector: Elector,
}

impl Candidate {
    /// Starts the election.
    pub(crate) fn begin(self, cluster: &TestCluster) {
        let (elector, stop) = (self.elector, cluster.outside.stopping());
        cluster.outside.spawn("election", async move {
            elector.run(stop).await;
        });
    }
}

impl Process {
    /// Stops the process immediately, like SIGKILL: its memory is lost, and requests in flight continue.
    pub(crate) async fn kill(self) {
        self.tasks.shut_down(Duration::ZERO).await;
    }

    /// Returns whether a task has panicked or requested a stop.
    pub(crate) fn is_stopping(&self) -> bool {
        self.tasks.stopping().is_cancelled()
    }

    /// Requests a shutdown, like SIGTERM, and returns whether it completed within the timeout.
    pub(crate) async fn end(self, timeout: Duration) -> Ended {
        self.tasks.shut_down(timeout).await
    }
}

impl TestCluster {
    /// Creates a cluster with a MachineClass `small` whose VMs boot in 30 s and join 10 s later.
    pub(crate) fn new(seed: u64) -> Self {
        Self::with_cloud(seed, Config { doubles: Doubles::Allowed, ..Config::default() })
    }

    pub(crate) fn with_cloud(seed: u64, config: Config) -> Self {
        let start: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        let clock = Clock::starting_at(start);
        let random = Random::seeded(seed);
        let now = {
            let clock = clock.clone();
            Arc::new(move || clock.now())
        };
        let server = Server::new(Options::new(now.clone(), random.number()));
        for definition in api::crd::definitions() {
            server.insert(&definition).unwrap();
        }
        for object in [
            json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": NAMESPACE } }),
            json!({
                "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "cloud", "namespace": NAMESPACE },
                "stringData": { "userData": "#cloud-config" },
            }),
            class(
                "small",
                &json!({ "createLatency": "2s", "bootLatency": "30s", "deleteLatency": "5s", "join": { "after": "10s" } }),
            ),
        ] {
            server.insert(&object).unwrap();
        }
        let cluster = Self {
            cloud: VirtualCloud::new(config, now, random.number()),
            metrics: Metrics::new().unwrap(),
            policy: Policy::default(),
            listener: None,
            limit: None,
            server_time: ServerTime::default(),
            outside: Tasks::new(),
            began: start,
            server,
            clock,
            random,
        };
        let (cloud, kubelets, stop) = (cluster.cloud.clone(), cluster.client("kubelets"), cluster.outside.stopping());
        cluster.outside.spawn("kubelets", async move { cloud.run_nodes(kubelets, stop).await });
        cluster
    }

    pub(crate) fn client(&self, agent: &str) -> kube::Client {
        self.counted_client(agent, &self.metrics)
    }

    fn counted_client(&self, agent: &str, metrics: &Metrics) -> kube::Client {
        let spec = ClientSpec::new(UserAgent::new(agent, "0", "test")).within(Duration::from_secs(20));
        let spec = ClientSpec { limit: self.limit, ..spec };
        in_process(self.server.service(), NAMESPACE, &spec, &metrics.rest)
    }

    /// Starts the garbage collector.
    pub(crate) fn start_garbage_collector(&self) {
        let (server, stop) = (self.server.clone(), self.outside.stopping());
        self.outside.spawn("house", async move {
            tokio::select! {
                () = stop.cancelled() => {}
                never = server.keep_house() => match never {},
            }
        });
    }

    /// Starts a controller process.
    pub(crate) fn start(&self) -> Process {
        self.start_with(Arc::new(self.cloud.clone()))
    }

    /// Starts a controller process with this driver.
    pub(crate) fn start_with(&self, driver: Arc<dyn driver::Driver>) -> Process {
        self.start_as(CONTROLLER, Some(self.client(CONTROLLER)), always(), Tasks::new(), driver)
    }

    /// Starts a process with another target cluster, or without one.
    pub(crate) fn start_towards(&self, target: Option<kube::Client>) -> Process {
        self.start_towards_with(target, Arc::new(self.cloud.clone()))
    }

    /// Starts a process with another target cluster and with this driver.
    pub(crate) fn start_towards_with(&self, target: Option<kube::Client>, driver: Arc<dyn driver::Driver>) -> Process {
        self.start_as(CONTROLLER, target, always(), Tasks::new(), driver)
    }

    /// Starts a process that runs these components.
    pub(crate) fn start_led_by(&self, leaders: Leaders) -> Process {
        let driver = Arc::new(self.cloud.clone());
        self.start_as(CONTROLLER, Some(self.client(CONTROLLER)), leaders, Tasks::new(), driver)
    }

    /// Creates a candidate for a lease.
    pub(crate) fn candidate(&self, lease: &str) -> Candidate {
        let random = self.random.fork();
        let (elector, leadership) = Elector::new(ElectionConfig {
            client: self.client("election"),
            namespace: NAMESPACE.into(),
            name: lease.into(),
            identity: Identity::of_host("host", &random),
            timing: Timing::default(),
            clock: self.clock.clone(),
            random,
            events: None,
        })
        .unwrap();
        Candidate { leadership, elector }
    }

    /// Starts a replica that acts only while it holds the lease. All its requests have the user agent `agent`.
    pub(crate) fn start_replica(&self, agent: &str) -> Process {
        let random = self.random.fork();
        let (elector, leadership) = Elector::new(ElectionConfig {
            client: self.client(agent),
            namespace: NAMESPACE.into(),
            name: "machine-controller".into(),
            identity: Identity::of_host(agent, &random),
            timing: Timing::default(),
            clock: self.clock.clone(),
            random,
            events: None,
        })
        .unwrap();
        let tasks = Tasks::new();
        let (stop, group) = (tasks.stopping(), tasks.clone());
        tasks.spawn("election", async move {
            elector.run(stop).await;
            group.stop(); // like the program: a process that has lost its lease exits
        });
        let leaders = Leaders::Both(leadership.clone(), leadership);
        self.start_as(agent, Some(self.client(agent)), leaders, tasks, Arc::new(self.cloud.clone()))
    }

    /// Starts both components as two processes.
    pub(crate) fn start_components(&self) -> Shown {
        let start_component = |run: fn(Component) -> Components| {
            let metrics = Metrics::new().unwrap();
            let clients = Clients::one(&self.counted_client(CONTROLLER, &metrics));
            let tasks = Tasks::new();
            let events = self.events(&tasks);
            let leadership = Leadership::unguarded();
            let component =
                Component { clients: clients.clone(), leadership, events, metrics: metrics.clone(), concurrency: 10 };
            self.start_parts(run(component), clients, Arc::new(self.cloud.clone()), tasks);
            metrics
        };
        Shown { manager: start_component(Components::Manager), machines: start_component(Components::Machines) }
    }

    fn start_as(
        &self,
        agent: &str,
        target: Option<kube::Client>,
        leaders: Leaders,
        tasks: Tasks,
        driver: Arc<dyn driver::Driver>,
    ) -> Process {
        let (metrics, manager_metrics) = (Metrics::new().unwrap(), Metrics::new().unwrap());
        let events = self.events(&tasks);
        let clients = Clients::one(&self.client(agent)).with_target(target);
        let clients = Clients { server_times: vec![self.server_time.clone()], ..clients };
        let component = |leadership, metrics: &Metrics| Component {
            clients: clients.clone(),
            leadership,
            events: events.clone(),
            metrics: metrics.clone(),
            concurrency: 10,
        };
        let components = match leaders {
            Leaders::Both(machines, manager) => Components::Both {
                machines: component(machines, &metrics),
                manager: component(manager, &manager_metrics),
            },
            Leaders::Machines(machines) => Components::Machines(component(machines, &metrics)),
            Leaders::Manager(manager) => Components::Manager(component(manager, &manager_metrics)),
        };
        let cluster = self.start_parts(components, clients, driver, tasks.clone());
        Process { cluster, metrics, manager_metrics, tasks }
    }

    fn events(&self, tasks: &Tasks) -> EventSink {
        let (writer, events) = EventWriter::new(
            self.client("events"),
            "machine-controller",
            EventPolicy::default(),
            &self.clock,
            &self.random.fork(),
            &self.metrics,
        );
        let stop = tasks.stopping();
        tasks.spawn("events", async move {
            writer.run(stop).await;
        });
        events
    }

    fn start_parts(
        &self,
        components: Components,
        watches: Clients,
        driver: Arc<dyn driver::Driver>,
        tasks: Tasks,
    ) -> Arc<Cluster> {
        start(Parts {
            namespace: NAMESPACE.into(),
            components,
            watches,
            drivers: Drivers::new().with("virtual", driver),
            policy: self.policy.clone(),
            driver_calls_per_credential: 10,
            clock: self.clock.clone(),
            random: self.random.fork(),
            tasks,
            listener: self.listener.clone(),
        })
        .unwrap()
    }

    pub(crate) fn machines(&self) -> Api<Machine> {
        Api::namespaced(self.client("person"), NAMESPACE)
    }

    pub(crate) async fn create(&self, name: &str) {
        self.create_of_class(name, "small").await;
    }

    pub(crate) async fn create_of_class(&self, name: &str, class: &str) {
        let machine =
            json!({ "metadata": { "name": name }, "spec": { "class": { "kind": "MachineClass", "name": class } } });
        self.create_object(machine).await;
    }

    /// Creates a Machine with the label of the MachineDeployment `pool`.
    pub(crate) async fn create_in_pool(&self, name: &str, pool: &str) {
        let machine = json!({
            "metadata": { "name": name, "labels": { "name": pool } },
            "spec": { "class": { "kind": "MachineClass", "name": "small" } },
        });
        self.create_object(machine).await;
    }

    async fn create_object(&self, machine: Value) {
        let machine = serde_json::from_value(machine).unwrap();
        self.machines().create(&PostParams::default(), &machine).await.unwrap();
    }

    pub(crate) async fn delete(&self, name: &str) {
        self.machines().delete(name, &DeleteParams::default()).await.unwrap();
    }

    /// Returns the Machine in the API server.
    pub(crate) fn machine(&self, name: &str) -> Option<Machine> {
        let object = self.server.object("machines.machine.sapcloud.io", NAMESPACE, name)?;
        Some(serde_json::from_value((*object).clone()).unwrap())
    }

    pub(crate) fn phase(&self, name: &str) -> Option<MachinePhase> {
        self.machine(name).map(|machine| machine.phase().clone())
    }

    pub(crate) fn node(&self, name: &str) -> Option<Value> {
        self.server.object("nodes", "", name).map(|object| (*object).clone())
    }

    /// Returns the bootstrap tokens of the target cluster.
    pub(crate) fn tokens(&self) -> Vec<Value> {
        let secrets = self.server.objects("secrets").into_iter().map(|object| (*object).clone());
        secrets.filter(|secret| secret["type"] == "bootstrap.kubernetes.io/token").collect()
    }

    /// Returns the messages of all Events with this reason.
    pub(crate) fn event_messages(&self, reason: &str) -> Vec<String> {
        let all = self.server.objects("events");
        let ours = all.iter().filter(|event| event["reason"] == reason);
        ours.map(|event| event["message"].as_str().unwrap_or_default().to_owned()).collect()
    }

    /// Waits until a condition holds. Panics after an hour of virtual time.
    pub(crate) async fn until(&self, what: &str, holds: impl Fn(&Self) -> bool) {
        let begin = self.clock.now();
        while !holds(self) {
            tokio::time::sleep(Duration::from_millis(200)).await;
            let waited = self.clock.now().duration_since(begin);
            assert!(
                waited.as_secs() < 3600,
                "waited one hour until {what}: {:#?}",
                self.server.objects("machines.machine.sapcloud.io")
            );
        }
    }

    /// Returns the requests of the controller since the log was last cleared, without watches.
    pub(crate) fn requests(&self) -> Vec<String> {
        self.server
            .requests()
            .into_iter()
            .filter(|entry| entry.tally.user_agent.starts_with(CONTROLLER) && entry.tally.verb != "watch")
            .map(|entry| {
                format!("{} {} {} -> {}", entry.tally.verb, entry.tally.resource, entry.name, entry.tally.code)
            })
            .collect()
    }
}

pub(crate) fn class(name: &str, provider_spec: &Value) -> Value {
    json!({
        "apiVersion": "machine.sapcloud.io/v1alpha1",
        "kind": "MachineClass",
        "metadata": { "name": name, "namespace": NAMESPACE },
        "provider": "virtual",
        "providerSpec": provider_spec,
        "secretRef": { "name": "cloud", "namespace": NAMESPACE },
    })
}

fn always() -> Leaders {
    Leaders::Both(Leadership::unguarded(), Leadership::unguarded())
}

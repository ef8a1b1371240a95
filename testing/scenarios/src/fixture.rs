//! A namespace, a MachineClass, a cloud with its kubelets, and controllers that a scenario starts and stops.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use api::names::events::components;
use api::{Machine, MachineClass, MachinePhase, Object};
use controllers::wiring::{Clients, Component, Components, Parts, start};
use controllers::{Cluster, Drivers};
use driver_virtual::{Config, Doubles, NodeLife, VirtualCloud};
use k8s_openapi::api::core::v1::{Namespace, Node, Secret};
use kube::api::{DeleteParams, DynamicObject, PostParams};
use planner::Policy;
use runtime::client::Api;
use runtime::events::{EventPolicy, EventWriter};
use runtime::lease::{ElectionConfig, Elector, Identity, Leadership, Timing};
use runtime::{Metrics, Tasks};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::result::ensure;
use crate::{Environment, Failure};

/// The class every fixture has.
pub(crate) const CLASS: &str = "small";

/// Environment of one scenario.
pub struct Fixture {
    /// The API server and the pace.
    pub environment: Environment,
    /// Its namespace.
    pub namespace: String,
    /// Its cloud, which creates a second VM for a repeated create request.
    pub cloud: VirtualCloud,
    /// Policy of the controllers. A scenario may change it before it starts one.
    pub policy: Policy,
    user: kube::Client,
    background: Tasks,
    processes: Mutex<Vec<Tasks>>,
}

/// A controller process. It is stopped when this value is dropped. A process that kept running would reconcile the
/// machines of its scenario during every later scenario on the same API server.
pub struct Process {
    /// Its caches and controllers.
    pub cluster: Arc<Cluster>,
    tasks: Tasks,
}

impl Process {
    /// Stops it immediately. Its memory is lost; requests that it has sent may still be processed.
    pub async fn kill(self) {
        self.tasks.shut_down(Duration::ZERO).await;
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.tasks.stop();
    }
}

impl Fixture {
    /// Creates the fixture: namespace, Secret and class exist, kubelets are ready, no controller runs.
    pub async fn new(environment: &Environment, scenario: &str) -> Result<Self, Failure> {
        let namespace = format!("s-{:08x}", environment.random.number() >> 32);
        let now = environment.clock.clone();
        let node_life =
            NodeLife { lease_period: environment.pace.lease, monitor: environment.monitor, ..NodeLife::default() };
        let config = Config { doubles: Doubles::Allowed, node_life, ..Config::default() };
        let cloud = VirtualCloud::new(config, Arc::new(move || now.now()), environment.random.number());
        let fixture = Self {
            user: environment.client("user"),
            policy: environment.pace.policy.clone(),
            background: Tasks::new(),
            processes: Mutex::default(),
            environment: environment.clone(),
            namespace,
            cloud,
        };
        let namespaces: Api<Namespace> = Api::all(fixture.user.clone());
        let namespace = json!({ "metadata": { "name": fixture.namespace, "annotations": { "scenario": scenario } } });
        create(&namespaces, "create the namespace", namespace).await?;
        fixture.create_secret().await?;
        fixture.add_class(CLASS, "virtual", &environment.pace.provider_spec()).await?;
        let (kubelets, stop) = (environment.client("kubelets"), fixture.background.stopping());
        let cloud = fixture.cloud.clone();
        fixture.background.spawn("kubelets", async move { cloud.run_nodes(kubelets, stop).await });
        Ok(fixture)
    }

    /// Stops everything, controllers first. The Nodes of all scenarios share one cluster. A controller of an earlier
    /// scenario would drain and delete a Node of the same name. The namespace is not deleted; it ends with its
    /// server.
    pub async fn clear(&self) {
        let processes = std::mem::take(&mut *self.processes.lock().unwrap_or_else(PoisonError::into_inner));
        for process in processes {
            process.shut_down(Duration::from_secs(5)).await;
        }
        self.background.shut_down(Duration::from_secs(5)).await;
    }

    /// Creates the Secret that the classes reference.
    pub async fn create_secret(&self) -> Result<(), Failure> {
        let secrets: Api<Secret> = Api::namespaced(self.user.clone(), &self.namespace);
        let secret = json!({ "metadata": { "name": "cloud" }, "stringData": { "userData": "#cloud-config" } });
        create(&secrets, "create the Secret", secret).await
    }

    /// Deletes that Secret.
    pub async fn delete_secret(&self) -> Result<(), Failure> {
        let secrets: Api<Secret> = Api::namespaced(self.user.clone(), &self.namespace);
        secrets.delete("cloud", &DeleteParams::default()).await.map(drop).map_err(Failure::api("delete the Secret"))
    }

    /// Creates a class.
    pub async fn add_class(&self, name: &str, provider: &str, provider_spec: &Value) -> Result<(), Failure> {
        let classes: Api<MachineClass> = Api::namespaced(self.user.clone(), &self.namespace);
        let class = json!({
            "metadata": { "name": name },
            "provider": provider,
            "providerSpec": provider_spec,
            "secretRef": { "name": "cloud", "namespace": self.namespace },
        });
        create(&classes, "create the MachineClass", class).await
    }

    /// The name of a machine: nodes are named after it, and nodes of all scenarios share one cluster.
    pub fn machine_name(&self, n: usize) -> String {
        format!("{}-m{n}", self.namespace)
    }

    /// Creates machine number `n`.
    pub async fn create(&self, n: usize) -> Result<(), Failure> {
        self.create_with(n, json!({ "class": { "kind": "MachineClass", "name": CLASS } })).await
    }

    /// Creates machine number `n` with this spec.
    pub async fn create_with(&self, n: usize, spec: Value) -> Result<(), Failure> {
        let machine = json!({ "metadata": { "name": self.machine_name(n) }, "spec": spec });
        create(&self.machines(), "create a Machine", machine).await
    }

    /// Creates machine number `n` with a spec that our own types would reject.
    pub async fn create_unchecked(&self, n: usize, spec: Value) -> Result<(), Failure> {
        let kind = Machine::api_resource();
        let machines: kube::Api<DynamicObject> = kube::Api::namespaced_with(self.user.clone(), &self.namespace, &kind);
        let machine = DynamicObject::new(&self.machine_name(n), &kind).data(json!({ "spec": spec }));
        let created = machines.create(&PostParams::default(), &machine).await;
        created.map(drop).map_err(Failure::api("create a Machine"))
    }

    /// Deletes machine number `n`.
    pub async fn delete(&self, n: usize) -> Result<(), Failure> {
        let name = self.machine_name(n);
        self.machines()
            .delete(&name, &DeleteParams::default())
            .await
            .map(drop)
            .map_err(Failure::api("delete a Machine"))
    }

    /// Returns the Machines of this fixture, with the client of a user.
    pub fn machines(&self) -> Api<Machine> {
        Api::namespaced(self.user.clone(), &self.namespace)
    }

    /// Returns any other kind in the namespace of the fixture, with the client of a user.
    pub fn api<K>(&self) -> Api<K>
    where
        K: Object + DeserializeOwned,
    {
        Api::namespaced(self.user.clone(), &self.namespace)
    }

    /// Returns any cluster-scoped kind, with the client of a user.
    pub fn all<K>(&self) -> Api<K>
    where
        K: Object + DeserializeOwned,
    {
        Api::all(self.user.clone())
    }

    /// Returns Machine number `n` as the API server has it.
    pub async fn machine(&self, n: usize) -> Result<Option<Machine>, Failure> {
        self.machines().get_opt(&self.machine_name(n)).await.map_err(Failure::api("read a Machine"))
    }

    /// The node of machine number `n`.
    pub async fn node(&self, n: usize) -> Result<Option<Node>, Failure> {
        let nodes: Api<Node> = Api::all(self.user.clone());
        nodes.get_opt(&self.machine_name(n)).await.map_err(Failure::api("read a Node"))
    }

    /// Waits until the node of machine number `n` is as wanted. Other writers of the Node can cause a conflict, so
    /// our first patch can succeed shortly after the machine is Running.
    pub async fn until_node(&self, n: usize, what: &str, wanted: impl Fn(&Node) -> bool) -> Result<Node, Failure> {
        let begin = self.environment.clock.instant();
        loop {
            let node = self.node(n).await?;
            if let Some(node) = node.as_ref().filter(|node| wanted(node)) {
                return Ok(node.clone());
            }
            ensure(begin.elapsed() < self.environment.pace.timeout, || {
                let metadata = node.map(|node| format!("{:?}", node.metadata));
                format!("timed out waiting until the node of machine {n} {what}; its metadata is {metadata:?}")
            })?;
            tokio::time::sleep(self.environment.pace.poll_interval).await;
        }
    }

    /// Waits until machine number `n` is as wanted.
    pub async fn until_machine(
        &self,
        n: usize,
        what: &str,
        wanted: impl Fn(&Machine) -> bool,
    ) -> Result<Machine, Failure> {
        let begin = self.environment.clock.instant();
        loop {
            let machine = self.machine(n).await?;
            if let Some(machine) = machine.as_ref().filter(|machine| wanted(machine)) {
                return Ok(machine.clone());
            }
            ensure(begin.elapsed() < self.environment.pace.timeout, || {
                let operation = machine.map(|machine| format!("{:?}", machine.status));
                format!("timed out waiting until machine {n} {what}; its status is {operation:?}")
            })?;
            tokio::time::sleep(self.environment.pace.poll_interval).await;
        }
    }

    /// Waits until machine number `n` is in this phase.
    pub async fn until_phase(&self, n: usize, phase: MachinePhase) -> Result<Machine, Failure> {
        self.until_machine(n, &format!("is {phase}"), |machine| *machine.phase() == phase).await
    }

    /// Waits until machine number `n` is gone, and checks that VM and node are too.
    pub async fn until_gone(&self, n: usize) -> Result<(), Failure> {
        let begin = self.environment.clock.instant();
        while let Some(machine) = self.machine(n).await? {
            ensure(begin.elapsed() < self.environment.pace.timeout, || {
                format!("timed out waiting until machine {n} is gone; its status is {:?}", machine.status)
            })?;
            tokio::time::sleep(self.environment.pace.poll_interval).await;
        }
        ensure(self.cloud.vms_of(&self.machine_name(n)).is_empty(), || {
            format!("the VM of machine {n} is still there")
        })?;
        let node = self.node(n).await?;
        ensure(node.is_none(), || format!("the node of machine {n} is still there"))
    }

    /// Checks that no Machine has two VMs.
    pub fn ensure_single_vms(&self, machines: usize) -> Result<(), Failure> {
        for n in 0..machines {
            let vms = self.cloud.vms_of(&self.machine_name(n)).len();
            ensure(vms <= 1, || format!("machine {n} has {vms} VMs: {:#?}", self.cloud.calls()))?;
        }
        Ok(())
    }

    /// Starts a controller that always leads.
    pub fn start(&self) -> Result<Process, Failure> {
        self.start_with(&self.policy)
    }

    /// Starts a controller with other limits.
    pub fn start_with(&self, policy: &Policy) -> Result<Process, Failure> {
        self.start_as("machine-controller", policy, Leadership::unguarded(), Tasks::new())
    }

    /// Starts a controller that leads only while it holds the lease.
    pub fn start_replica(&self, agent: &str, timing: Timing) -> Result<Process, Failure> {
        let random = self.environment.random.fork();
        let config = ElectionConfig {
            client: self.environment.client(agent),
            namespace: self.namespace.clone(),
            name: api::names::MACHINE_CONTROLLER_LEASE.to_owned(),
            identity: Identity::of_host(agent, &random),
            timing,
            clock: self.environment.clock.clone(),
            random,
            events: None,
        };
        let (elector, leadership) = Elector::new(config).map_err(|error| Failure::Expectation(error.to_string()))?;
        let tasks = Tasks::new();
        let (stop, group) = (tasks.stopping(), tasks.clone());
        tasks.spawn("election", async move {
            elector.run(stop).await;
            group.stop(); // as the binary does: a process that has lost its lease ends
        });
        self.start_as(agent, &self.policy, leadership, tasks)
    }

    fn start_as(&self, agent: &str, policy: &Policy, leadership: Leadership, tasks: Tasks) -> Result<Process, Failure> {
        self.processes.lock().unwrap_or_else(PoisonError::into_inner).push(tasks.clone());
        let Environment { clock, random, .. } = &self.environment;
        let metrics = Metrics::new().map_err(|error| Failure::Expectation(error.to_string()))?;
        let client = self.environment.client(agent);
        let component = components::MACHINE_CONTROLLER;
        let (writer, events) =
            EventWriter::new(client.clone(), component, EventPolicy::default(), clock, random, &metrics);
        let stop = tasks.stopping();
        tasks.spawn("events", async move {
            writer.run(stop).await;
        });
        let component = Component { clients: Clients::one(&client), leadership, events, metrics, concurrency: 10 };
        let cluster = start(Parts {
            namespace: self.namespace.clone(),
            components: Components::Both { machines: component.clone(), manager: component },
            watches: Clients::one(&client),
            drivers: Drivers::new().with(driver_virtual::PROVIDER, Arc::new(self.cloud.clone())),
            policy: policy.clone(),
            driver_calls_per_credential: 10,
            clock: clock.clone(),
            random: random.fork(),
            tasks: tasks.clone(),
            listener: None,
        })
        .map_err(|error| Failure::Expectation(error.to_string()))?;
        Ok(Process { cluster, tasks })
    }
}

/// Creates an object described in JSON.
pub(crate) async fn create<K>(api: &Api<K>, what: &str, object: Value) -> Result<(), Failure>
where
    K: Object + DeserializeOwned + Serialize,
{
    let object: K =
        serde_json::from_value(object).map_err(|error| Failure::Expectation(format!("failed to {what}: {error}")))?;
    api.create(&PostParams::default(), &object).await.map(drop).map_err(Failure::api(what))
}

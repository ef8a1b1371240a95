//! Controllers that share a remote cloud, lose it and are killed.

use std::sync::Arc;
use std::time::Duration;

use api::{Machine, MachinePhase};
use controllers::Drivers;
use controllers::wiring::{Clients, Component, Components, Parts, start};
use driver::Method;
use driver_virtual::{CallEnd, Config, Doubles, Fault, Script, VirtualCloud};
use fake_apiserver::{Options, Server};
use kube::api::PostParams;
use planner::Policy;
use runtime::client::Api;
use runtime::client::{ClientSpec, UserAgent, in_process};
use runtime::events::{EventPolicy, EventWriter};
use runtime::lease::Leadership;
use runtime::{Clock, Metrics, Random, Tasks};
use serde_json::json;

use crate::wire::Process;

const NAMESPACE: &str = "pool";

/// An API server and a cloud in a separate process that creates a second VM for a repeated create.
struct RemoteCloudFixture {
    server: Server,
    cloud: VirtualCloud,
    process: Process,
    clock: Clock,
    metrics: Metrics,
}

impl RemoteCloudFixture {
    fn new() -> Self {
        let clock = Clock::starting_at("2026-01-01T00:00:00Z".parse().unwrap());
        let now = {
            let clock = clock.clone();
            Arc::new(move || clock.now())
        };
        let server = Server::new(Options::new(now.clone(), 1));
        for definition in api::crd::definitions() {
            server.insert(&definition).unwrap();
        }
        let group = "machine.sapcloud.io/v1alpha1";
        for object in [
            json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": NAMESPACE } }),
            json!({ "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "s", "namespace": NAMESPACE }, "stringData": { "userData": "x" } }),
            json!({
                "apiVersion": group, "kind": "MachineClass", "metadata": { "name": "small", "namespace": NAMESPACE },
                "provider": "virtual", "providerSpec": { "createLatency": "2s", "bootLatency": "5s" },
                "secretRef": { "name": "s", "namespace": NAMESPACE },
            }),
        ] {
            server.insert(&object).unwrap();
        }
        let cloud = VirtualCloud::new(Config { doubles: Doubles::Allowed, ..Config::default() }, now, 1);
        let process = Process::start(Arc::new(cloud.clone()));
        let fixture = Self { server, cloud, process, clock, metrics: Metrics::new().unwrap() };
        let (cloud, client, tasks) = (fixture.cloud.clone(), fixture.client("kubelets"), Tasks::new());
        let stop = tasks.stopping();
        tasks.spawn("kubelets", async move { cloud.run_nodes(client, stop).await });
        fixture
    }

    fn client(&self, agent: &str) -> kube::Client {
        let spec = ClientSpec::new(UserAgent::new(agent, "0", "test")).within(Duration::from_secs(20));
        in_process(self.server.service(), NAMESPACE, &spec, &self.metrics.rest)
    }

    /// Starts a controller with its own connection to the cloud. Stopping the tasks kills it.
    async fn replica(&self, seed: u64) -> Tasks {
        let (tasks, random) = (Tasks::new(), Random::seeded(seed));
        let driver = self.process.caller(&tasks);
        driver.wait_until_reached(&tasks.stopping(), |_| {}).await;
        let (_writer, events) = EventWriter::new(
            self.client("events"),
            "machine-controller",
            EventPolicy::default(),
            &self.clock,
            &random,
            &self.metrics,
        );
        let clients = Clients::one(&self.client("controller"));
        let machines = Component {
            clients: clients.clone(),
            leadership: Leadership::unguarded(),
            events,
            metrics: Metrics::new().unwrap(),
            concurrency: 10,
        };
        start(Parts {
            namespace: NAMESPACE.into(),
            components: Components::Machines(machines),
            watches: clients,
            drivers: Drivers::only(Arc::new(driver)),
            policy: Policy::default(),
            driver_calls_per_credential: 10,
            clock: self.clock.clone(),
            random,
            tasks: tasks.clone(),
            listener: None,
        })
        .unwrap();
        tasks
    }

    async fn create(&self, name: &str) {
        let machine =
            json!({ "metadata": { "name": name }, "spec": { "class": { "kind": "MachineClass", "name": "small" } } });
        let machines: Api<Machine> = Api::namespaced(self.client("person"), NAMESPACE);
        machines.create(&PostParams::default(), &serde_json::from_value(machine).unwrap()).await.unwrap();
    }

    fn runs(&self, name: &str) -> bool {
        let object = self.server.object("machines.machine.sapcloud.io", NAMESPACE, name);
        let machine: Option<Machine> = object.map(|object| serde_json::from_value((*object).clone()).unwrap());
        machine.is_some_and(|machine| *machine.phase() == MachinePhase::Running)
    }

    async fn until(&self, what: &str, holds: impl Fn(&Self) -> bool) {
        for _ in 0..18_000 {
            if holds(self) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        panic!("timed out after an hour waiting until {what}: {:#?}", self.cloud.calls());
    }
}

/// Shows REM-4.
#[tokio::test(start_paused = true)]
async fn status_is_requested_first_after_a_lost_create() {
    let fixture = RemoteCloudFixture::new();
    fixture.cloud.inject(Script::next(Method::Create, Fault::HangAfterEffect));
    let _replica = fixture.replica(1).await;
    fixture.create("m").await;
    fixture.until("the VM is being made", |w| w.cloud.count(Method::Create) == 1).await;
    fixture.process.kill();
    tokio::time::sleep(Duration::from_secs(3)).await;
    fixture.process.restart(Arc::new(fixture.cloud.clone()));
    fixture.until("it runs", |w| w.runs("m")).await;

    let calls = fixture.cloud.calls();
    let create = calls.iter().position(|call| call.method == Method::Create).unwrap();
    assert_eq!(calls[create].end, CallEnd::Abandoned);
    assert_eq!(calls[create + 1].method, Method::Status, "{calls:#?}");
    assert_eq!(fixture.cloud.count(Method::Create), 1);
    assert_eq!(fixture.cloud.vms_of("m").len(), 1);
}

/// Shows REM-8.
#[tokio::test(start_paused = true)]
async fn new_replica_finds_the_vms_of_a_killed_one() {
    let fixture = RemoteCloudFixture::new();
    let names: Vec<String> = (0..10).map(|n| format!("m-{n}")).collect();
    for name in &names {
        fixture.create(name).await;
    }
    let first = fixture.replica(1).await;
    fixture.until("some VMs are being made", |w| w.cloud.count(Method::Create) >= 5).await;
    first.stop(); // without grace: its calls are interrupted
    drop(first);
    let _second = fixture.replica(2).await;
    fixture.until("all run", |w| names.iter().all(|name| w.runs(name))).await;
    assert_eq!(fixture.cloud.vms().len(), 10, "{:#?}", fixture.cloud.calls());
}

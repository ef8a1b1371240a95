//! CPU, memory and requests of 5,000 Machines, in one process with all controllers.
//!
//! `fleet` compares the CPU time per Machine of a MachineSet with 5,000 Machines with that of 500, while it is created and deleted. It
//! detects costs that grow with the number of Machines. `steady` measures the requests and the memory of 5,000 Machines while only
//! heartbeats happen.
//!
//! API server, cloud and kubelets run in the same process and are included in the CPU time; their cost per Machine is constant. The memory
//! of the controllers is measured by stopping them.
//!
//! Run with `cargo xtask bench fleet` and `cargo xtask bench steady`; the exit code is 1 if a budget is exceeded. A number as last
//! argument replaces the 5,000, for debug builds.

#![allow(clippy::print_stdout, reason = "a benchmark reports on standard output")]
#![allow(clippy::expect_used, clippy::cast_precision_loss, reason = "a benchmark that fails may panic")]

use std::alloc::System;
use std::collections::BTreeMap;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use api::MachineSet;
use controllers::wiring::{Clients, Component, Components, Parts, start};
use controllers::{Cluster, Drivers};
use driver_virtual::{Config, Monitor, NodeLife, VirtualCloud};
use fake_apiserver::{Options, Server};
use kube::Client;
use kube::api::{Patch, PatchParams, PostParams};
use planner::Policy;
use runtime::client::Api;
use runtime::client::{ClientSpec, UserAgent, in_process};
use runtime::events::{EventPolicy, EventWriter};
use runtime::lease::{ElectionConfig, Elector, Identity, Timing};
use runtime::{Clock, Metrics, Random, Tasks};
use serde_json::{Value, json};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

#[global_allocator]
static MEMORY: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

const NAMESPACE: &str = "pool";
const CONTROLLER: &str = "millwright-under-measure";
const MACHINES: &str = "machines.machine.sapcloud.io";

/// Maximum ratio of the CPU time per Machine, of 5,000 Machines to 500.
const RATIO: f64 = 1.5;
/// Maximum memory of the controllers for 5,000 Machines.
const MEMORY_BUDGET: f64 = 100.0 * 1024.0 * 1024.0;

fn main() -> ExitCode {
    let wishes: Vec<String> = std::env::args().skip(1).filter(|wish| !wish.starts_with("--")).collect();
    let machines = wishes.last().and_then(|wish| wish.parse().ok()).unwrap_or(5000);
    let wants = |subject: &str| wishes.iter().any(|wish| wish == subject);
    let mut kept = true;
    if wants("fleet") {
        kept &= fleet(machines / 10, machines);
    }
    if wants("steady") {
        kept &= paused(steady(machines));
    }
    if kept { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Runs with the paused clock, on this thread, like a simulation.
fn paused<T>(work: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build();
    runtime.expect("a runtime").block_on(work)
}

fn fleet(few: usize, many: usize) -> bool {
    println!("machines   up, ms CPU each   down, ms CPU each   requests each, up   down");
    let small = paused(up_and_down(few));
    let large = paused(up_and_down(many));
    let up = large.up / small.up;
    let down = large.down / small.down;
    println!("{many} against {few}: up {up:.2} times, down {down:.2} times the CPU (budget {RATIO})");
    up <= RATIO && down <= RATIO
}

/// CPU milliseconds per Machine.
struct Cost {
    up: f64,
    down: f64,
}

async fn up_and_down(machines: usize) -> Cost {
    // Without heartbeats, whose cost depends on time.
    let quiet = Duration::from_hours(24);
    let fixture = ScaleFixture::new(NodeLife {
        lease_period: quiet,
        status_period: quiet,
        monitor: Monitor::Absent,
        ..NodeLife::default()
    });
    let controllers = fixture.start();
    fixture.create_set().await;
    tokio::time::sleep(Duration::from_secs(5)).await;

    let (up, up_requests) = fixture.costs(|| fixture.scale(machines, Phase::Running)).await;
    println!("{machines:>8} are up after {up:.0} ms of CPU");
    let (down, down_requests) = fixture.costs(|| fixture.scale(0, Phase::Gone)).await;
    controllers.stop().await;
    let each = |figure: f64| figure / machines as f64;
    let cost = Cost { up: each(up), down: each(down) };
    println!(
        "{machines:>8} {:>17.2} {:>19.2} {:>19.1} {:>6.1}",
        cost.up,
        cost.down,
        each(up_requests),
        each(down_requests)
    );
    cost
}

async fn steady(machines: usize) -> bool {
    let fixture = ScaleFixture::new(NodeLife::default());
    let first = fixture.start();
    fixture.create_set().await;
    fixture.scale(machines, Phase::Running).await;
    first.stop().await;

    // A new process with the same cluster.
    let second = fixture.start();
    tokio::time::sleep(Duration::from_mins(2)).await;
    let begun = cpu();
    fixture.server.forget_requests();
    tokio::time::sleep(Duration::from_mins(10)).await;
    let spent = cpu() - begun;

    let mut asked: BTreeMap<String, u64> = BTreeMap::new();
    let mut heartbeats = 0;
    for (tally, count) in fixture.server.request_counts() {
        if tally.user_agent.starts_with(CONTROLLER) {
            *asked.entry(format!("{} {}", tally.verb, tally.resource)).or_default() += count;
        } else {
            heartbeats += count;
        }
    }
    let running = fixture.count(Phase::Running);
    let resident = resident();
    // The memory that is freed with the controllers is theirs. The history of the API server grows all the time.
    let region = Region::new(MEMORY);
    second.stop().await;
    let change = region.change();
    let held = change.bytes_deallocated as f64 - change.bytes_allocated as f64;
    println!(
        "{running} of {machines} machines run; ten minutes with {heartbeats} heartbeats, {spent:.0} ms of CPU in all"
    );
    println!("requests of the controllers, by kind: {asked:?}");
    let megabytes = |bytes: f64| bytes / 1024.0 / 1024.0;
    let each = held / machines as f64;
    println!("memory of the controllers: {:.1} MB, {each:.0} bytes per Machine (budget 100 MB)", megabytes(held));
    println!("resident, with API server, cloud and kubelets: {:.1} MB", megabytes(resident));
    let needless: u64 = (asked.iter())
        .filter(|(what, _)| !what.contains("leases") && !what.starts_with("watch "))
        .map(|(_, count)| count)
        .sum();
    println!("requests besides leases and watches: {needless} (budget 0)");
    needless == 0 && running == machines && held <= MEMORY_BUDGET
}

/// Target state of the Machines.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    Running,
    Gone,
}

struct ScaleFixture {
    server: Server,
    cloud: VirtualCloud,
    clock: Clock,
    random: Random,
    metrics: Metrics,
    outside: Tasks,
}

/// A process with all controllers.
struct Controllers {
    cluster: Arc<Cluster>,
    tasks: Tasks,
}

impl Controllers {
    async fn stop(self) {
        drop(self.cluster);
        self.tasks.shut_down(Duration::from_secs(30)).await;
    }
}

impl ScaleFixture {
    fn new(node_life: NodeLife) -> Self {
        let clock = Clock::starting_at("2026-01-01T00:00:00Z".parse().expect("a time"));
        let random = Random::seeded(1);
        let now = {
            let clock = clock.clone();
            Arc::new(move || clock.now())
        };
        let server = Server::new(Options::new(now.clone(), random.number()));
        let latencies = json!({ "createLatency": "100ms", "bootLatency": "1s", "deleteLatency": "100ms" });
        let objects = [
            json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": NAMESPACE } }),
            json!({
                "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "cloud", "namespace": NAMESPACE },
                "stringData": { "userData": "#cloud-config" },
            }),
            json!({
                "apiVersion": "machine.sapcloud.io/v1alpha1", "kind": "MachineClass",
                "metadata": { "name": "small", "namespace": NAMESPACE },
                "provider": "virtual", "providerSpec": latencies,
                "secretRef": { "name": "cloud", "namespace": NAMESPACE },
            }),
        ];
        for object in api::crd::definitions().into_iter().chain(objects) {
            server.insert(&object).expect("a new object");
        }
        let cloud = VirtualCloud::new(Config { node_life, ..Config::default() }, now, random.number());
        let metrics = Metrics::new().expect("a registry");
        let fixture = Self { server, cloud, clock, random, metrics, outside: Tasks::new() };
        let (cloud, kubelets, stop) = (fixture.cloud.clone(), fixture.client("kubelets"), fixture.outside.stopping());
        fixture.outside.spawn("kubelets", async move { cloud.run_nodes(kubelets, stop).await });
        fixture
    }

    fn client(&self, agent: &str) -> Client {
        let spec = ClientSpec::new(UserAgent::new(agent, "0", "bench")).within(Duration::from_mins(1));
        in_process(self.server.service(), NAMESPACE, &spec, &self.metrics.rest)
    }

    /// Starts a process with all controllers, with leader election as in production.
    fn start(&self) -> Controllers {
        let (tasks, random, client) = (Tasks::new(), self.random.fork(), self.client(CONTROLLER));
        let metrics = Metrics::new().expect("a registry");
        let candidacy = ElectionConfig {
            client: client.clone(),
            namespace: NAMESPACE.into(),
            name: "machine-controller".into(),
            identity: Identity::of_host("bench", &random),
            timing: Timing::default(),
            clock: self.clock.clone(),
            random: random.fork(),
            events: None,
        };
        let (elector, leadership) = Elector::new(candidacy).expect("a candidate");
        let stop = tasks.stopping();
        tasks.spawn("election", async move {
            elector.run(stop).await;
        });
        let (writer, events) =
            EventWriter::new(self.client("events"), "bench", EventPolicy::default(), &self.clock, &random, &metrics);
        let stop = tasks.stopping();
        tasks.spawn("events", async move {
            writer.run(stop).await;
        });
        let clients = Clients::one(&client);
        let component = Component { clients: clients.clone(), leadership, events, metrics, concurrency: 50 };
        let cluster = start(Parts {
            namespace: NAMESPACE.into(),
            components: Components::Both { machines: component.clone(), manager: component },
            watches: clients,
            drivers: Drivers::new().with("virtual", Arc::new(self.cloud.clone())),
            policy: Policy::default(),
            driver_calls_per_credential: 50,
            clock: self.clock.clone(),
            random,
            tasks: tasks.clone(),
            listener: None,
        });
        Controllers { cluster: cluster.expect("controllers"), tasks }
    }

    fn sets(&self) -> Api<MachineSet> {
        Api::namespaced(self.client("person"), NAMESPACE)
    }

    async fn create_set(&self) {
        let set = json!({
            "metadata": { "name": "crowd" },
            "spec": {
                "replicas": 0,
                "selector": { "matchLabels": { "name": "crowd" } },
                "template": {
                    "metadata": { "labels": { "name": "crowd" } },
                    "spec": { "class": { "kind": "MachineClass", "name": "small" } },
                },
            },
        });
        let set = serde_json::from_value(set).expect("a set");
        self.sets().create(&PostParams::default(), &set).await.expect("a new set");
    }

    /// Scales the MachineSet and waits until the Machines have the state.
    async fn scale(&self, machines: usize, phase: Phase) {
        let change = json!({ "spec": { "replicas": machines } });
        self.sets().patch("crowd", &PatchParams::default(), &Patch::Merge(&change)).await.expect("a set");
        // Counting has a cost, so it is rare. A virtual day without success is a bug.
        for _ in 0..8640 {
            tokio::time::sleep(Duration::from_secs(10)).await;
            if self.server.objects(MACHINES).len() == machines && self.count(phase) == machines {
                return;
            }
        }
        println!("only {} of {machines} Machines have the state after a virtual day", self.count(phase));
        std::process::exit(1);
    }

    fn count(&self, phase: Phase) -> usize {
        let all = self.server.objects(MACHINES);
        let phase_of = |machine: &Value| machine.pointer("/status/currentStatus/phase").cloned();
        match phase {
            Phase::Running => all.iter().filter(|machine| phase_of(machine) == Some(json!("Running"))).count(),
            Phase::Gone => all.len(),
        }
    }

    /// Returns the CPU milliseconds, and the requests of the controllers without watches, leases and Events.
    async fn costs<F: Future<Output = ()>>(&self, work: impl FnOnce() -> F) -> (f64, f64) {
        self.server.forget_requests();
        let begun = cpu();
        work().await;
        let spent = cpu() - begun;
        let counts = self.server.request_counts();
        let ours = counts.iter().filter(|(tally, _)| {
            tally.user_agent.starts_with(CONTROLLER) && tally.verb != "watch" && tally.resource != "leases"
        });
        (spent, ours.map(|(_, count)| *count as f64).sum())
    }
}

/// Returns the CPU time of this thread in milliseconds.
fn cpu() -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").expect("Linux");
    let nanoseconds: f64 = text.split(' ').next().and_then(|number| number.parse().ok()).expect("a number");
    nanoseconds / 1e6
}

/// Returns the resident memory of this process in bytes.
fn resident() -> f64 {
    let text = std::fs::read_to_string("/proc/self/status").expect("Linux");
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("a line for it");
    line.trim().trim_end_matches(" kB").parse::<f64>().expect("a number") * 1024.0
}

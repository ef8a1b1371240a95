//! A cluster in memory with kubelets, scheduler, controller manager and the real controllers.

use std::sync::Arc;
use std::time::Duration;

use api::MachineName;
use api::names::events::components;
use controllers::wiring::{Clients, Component, Components, Parts, defaults, start};
use controllers::{Drivers, Listener};
use driver_virtual::{Config, Monitor, NodeLife, Quotas, Spec, VirtualCloud};
use fake_apiserver::{Options, Server};
use fake_kube_controllers::{KubeControllers, Part};
use jiff::Timestamp;
use kube::Client;
use planner::Policy;
use runtime::client::{ClientSpec, UserAgent, in_process};
use runtime::events::{EventPolicy, EventWriter};
use runtime::lease::Leadership;
use runtime::{Clock, Metrics, Random, Tasks};
use serde_json::Value;

use crate::times::Times;

/// Period of Node leases. Node monitoring is off, so renewals would only slow down a forecast of a thousand Nodes.
const LEASE_PERIOD: Duration = Duration::from_hours(12);

/// The copy. All its tasks stop when it is dropped.
pub(crate) struct Cluster {
    pub(crate) server: Server,
    pub(crate) cloud: VirtualCloud,
    pub(crate) clock: Clock,
    pub(crate) client: Client,
    namespace: String,
    metrics: Metrics,
    random: Random,
    tasks: Tasks,
}

impl Cluster {
    /// Returns an empty cluster without running controllers.
    pub(crate) fn new(namespace: &str, now: Timestamp, times: &Times, quota: Option<usize>) -> Result<Self, String> {
        let (clock, random) = (Clock::starting_at(now), Random::seeded(1));
        let time: driver_virtual::Now = {
            let clock = clock.clone();
            Arc::new(move || clock.now())
        };
        let server = Server::new(Options::new(time.clone(), random.number()));
        for definition in api::crd::definitions() {
            server.insert(&definition).map_err(|failure| format!("{failure:?}"))?;
        }
        let node_life = NodeLife {
            monitor: Monitor::Absent,
            lease_period: LEASE_PERIOD,
            lease_duration: LEASE_PERIOD * 4,
            status_period: LEASE_PERIOD,
            pod_start: times.pod_start.takes,
            pod_rundown: times.pod_end.takes,
            ..NodeLife::default()
        };
        let quotas = Quotas { total: quota, ..Quotas::default() };
        let cloud = VirtualCloud::new(Config { node_life, quotas, ..Config::default() }, time, random.number());
        let metrics = Metrics::new().map_err(|error| error.to_string())?;
        let client = client(&server, namespace, "operator", &metrics);
        let tasks = Tasks::new();
        Ok(Self { server, cloud, clock, client, namespace: namespace.to_owned(), metrics, random, tasks })
    }

    /// Adds the VM of an existing Machine and returns its provider ID.
    pub(crate) fn plant(&self, spec: Spec, machine: &str) -> Option<String> {
        let vm = self.cloud.plant(spec, Some(MachineName::from(machine)))?;
        Some(vm.provider_id.to_string())
    }

    pub(crate) fn copy(&self, object: &Value) -> Result<(), String> {
        self.server.copy(object).map(drop).map_err(|failure| format!("{failure:?}"))
    }

    /// Creates an object unless it exists.
    pub(crate) fn provide(&self, object: &Value) {
        let _already_exists = self.server.insert(object);
    }

    /// Starts kubelets, Kubernetes controllers and Millwright.
    pub(crate) fn start(&self, listener: Listener) -> Result<(), String> {
        let (cloud, stop) = (self.cloud.clone(), self.tasks.stopping());
        let kubelets = self.client_of("kubelets");
        self.tasks.spawn("kubelets", async move { cloud.run_nodes(kubelets, stop).await });
        let (clock, random, stop) = (self.clock.clone(), self.random.fork(), self.tasks.stopping());
        let kubernetes = self.client_of("kube-controllers");
        // Deployments, DaemonSets and other owners of pods are not copied. Pods are not deleted for a missing owner.
        let parts =
            KubeControllers::default().without(Part::Silence).without(Part::Deployments).without(Part::DaemonSets);
        self.tasks.spawn("kube-controllers", async move { parts.run(kubernetes, clock, random, stop).await });
        let controller = self.client_of("millwright");
        let (writer, events) = EventWriter::new(
            self.client_of("events"),
            components::MACHINE_CONTROLLER,
            EventPolicy::default(),
            &self.clock,
            &self.random,
            &self.metrics,
        );
        let stop = self.tasks.stopping();
        self.tasks.spawn("events", async move {
            writer.run(stop).await;
        });
        let component = Component {
            clients: Clients::one(&controller),
            leadership: Leadership::unguarded(),
            events,
            metrics: self.metrics.clone(),
            concurrency: defaults::MACHINE_CONTROLLER_WORKERS,
        };
        start(Parts {
            namespace: self.namespace.clone(),
            components: Components::Both {
                machines: component.clone(),
                manager: Component { concurrency: defaults::MANAGER_WORKERS, ..component },
            },
            watches: Clients::one(&controller),
            drivers: Drivers::new().with(driver_virtual::PROVIDER, Arc::new(self.cloud.clone())),
            policy: Policy::default(),
            driver_calls_per_credential: defaults::DRIVER_CALLS_PER_CREDENTIAL,
            clock: self.clock.clone(),
            random: self.random.clone(),
            tasks: self.tasks.clone(),
            listener: Some(listener),
        })
        .map_err(|error| error.to_string())?;
        Ok(())
    }

    fn client_of(&self, agent: &str) -> Client {
        client(&self.server, &self.namespace, agent, &self.metrics)
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.tasks.stop();
    }
}

fn client(server: &Server, namespace: &str, agent: &str, metrics: &Metrics) -> Client {
    let spec = ClientSpec::new(UserAgent::new(agent, env!("CARGO_PKG_VERSION"), "forecast"));
    in_process(server.service(), namespace, &spec, &metrics.rest)
}

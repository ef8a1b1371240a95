//! Everything the demo runs on, in one process.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use api::names::events::components;
use apiserver::{Options, Server};
use controllers::wiring::{Parts, start};
use controllers::{Cluster, Drivers, Listener};
use plan::Policy;
use runtime::client::{ClientSpec, UserAgent, in_process};
use runtime::events::{EventPolicy, EventWriter};
use runtime::lease::Leadership;
use runtime::{Clock, Metrics, Random, Tasks};
use virtual_cloud::{Config, VirtualCloud};

/// The namespace the demo plays in.
pub(super) const NAMESPACE: &str = "demo";
/// How the controller introduces itself to the API server; its requests are counted by it.
pub(super) const CONTROLLER: &str = "millwright-demo";

/// An API server, a cloud and a controller.
pub(super) struct Stage {
    pub(super) server: Server,
    pub(super) cloud: VirtualCloud,
    pub(super) cluster: Arc<Cluster>,
    /// For the person in front of the stage.
    pub(super) person: kube::Client,
    tasks: Tasks,
}

impl Stage {
    pub(super) fn set(listener: Listener) -> anyhow::Result<Self> {
        let clock = Clock::system();
        let random = Random::from_entropy();
        let metrics = Metrics::new().context("failed to set up metrics")?;
        let tasks = Tasks::new();
        let now = {
            let clock = clock.clone();
            Arc::new(move || clock.now())
        };
        let server = Server::new(Options::new(now.clone(), random.number()));
        let cloud = VirtualCloud::new(Config::default(), now, random.number());
        crate::serve::install_crds(&server)?;

        let client = |agent: &str| {
            let spec = ClientSpec::new(UserAgent::new(agent, env!("CARGO_PKG_VERSION"), "demo"));
            in_process(server.service(), NAMESPACE, &spec, &metrics.rest)
        };
        let controller = client(CONTROLLER);
        let (writer, events) = EventWriter::new(
            client("event-writer"),
            components::MACHINE_CONTROLLER,
            EventPolicy::default(),
            &clock,
            &random,
            &metrics,
        );
        let stop = tasks.stopping();
        tasks.spawn("events", async move {
            writer.run(stop).await;
        });
        let (nodes, kubelets, stop) = (cloud.clone(), client("kubelets"), tasks.stopping());
        tasks.spawn("kubelets", async move { nodes.run_nodes(kubelets, stop).await });

        let person = client("you");
        let cluster = start(Parts {
            namespace: NAMESPACE.into(),
            control: controller.clone(),
            control_core: controller.clone(),
            target: Some(controller),
            drivers: Drivers::new().with(virtual_cloud::PROVIDER, Arc::new(cloud.clone())),
            leadership: Leadership::unguarded(),
            events,
            policy: Policy::default(),
            concurrency: 10,
            driver_places: 10,
            metrics: metrics.clone(),
            clock,
            random,
            tasks: tasks.clone(),
            listener: Some(listener),
        });
        Ok(Self { server: server.clone(), cloud, cluster, person, tasks })
    }

    pub(super) async fn clear(&self) {
        self.tasks.shut_down(Duration::from_secs(5)).await;
    }
}

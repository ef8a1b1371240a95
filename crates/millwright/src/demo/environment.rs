//! Everything the demo and `millwright dev` run on, in one process.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use api::names::events::components;
use controllers::wiring::{Clients, Component, Components, Parts, start};
use controllers::{Cluster, Drivers, Listener};
use driver_virtual::{Config, Monitor, NodeLife, Quotas, Script, VirtualCloud};
use fake_apiserver::{Options, Server};
use fake_kube_controllers::KubeControllers;
use planner::Policy;
use runtime::client::{ClientSpec, UserAgent, in_process};
use runtime::events::{EventPolicy, EventWriter};
use runtime::lease::Leadership;
use runtime::{Clock, Metrics, Random, Tasks};
use tokio::net::TcpListener;

use crate::dev::{DataDir, Kept};
use crate::ui::{self, Access, Timeline, View};

/// The namespace the demo plays in.
pub(super) const NAMESPACE: &str = "demo";
/// How the controller introduces itself to the API server; its requests are counted by it.
pub(super) const CONTROLLER: &str = "millwright-demo";
/// How long a node may be silent. In production 40 s; an audience has less patience.
const NODE_GRACE: Duration = Duration::from_secs(3);
/// How long a machine may be unhealthy. In production ten minutes.
const HEALTH_TIMEOUT: Duration = Duration::from_secs(2);

/// For how long a node must be ill until its pods are no longer asked to leave. In production five minutes.
const ILLNESS: Duration = Duration::from_secs(1);

/// What differs from play to play.
pub(crate) struct Setting {
    /// The namespace that is looked after.
    pub(crate) namespace: &'static str,
    /// Limits and periods.
    pub(crate) policy: Policy,
    /// How long a node may be silent until it counts as lost.
    pub(crate) node_grace: Duration,
    /// What is there from the start.
    pub(crate) before: Option<Kept>,
}

impl Setting {
    /// As the demo wants it.
    pub(crate) fn for_an_audience() -> Self {
        Self { namespace: NAMESPACE, policy: brief_policy(), node_grace: NODE_GRACE, before: None }
    }
}

/// An API server, a cloud, the controllers, and whoever binds and counts pods.
pub(crate) struct Environment {
    pub(crate) server: Server,
    pub(super) cloud: VirtualCloud,
    pub(crate) cluster: Arc<Cluster>,
    /// For the person in front of the environment.
    pub(crate) person: kube::Client,
    tasks: Tasks,
}

impl Environment {
    pub(crate) fn set(setting: Setting, listener: Listener) -> anyhow::Result<Self> {
        let Setting { namespace, policy, node_grace, before } = setting;
        let clock = Clock::system();
        let random = Random::from_entropy();
        let metrics = Metrics::new().context("failed to set up metrics")?;
        let tasks = Tasks::new();
        let now = {
            let clock = clock.clone();
            Arc::new(move || clock.now())
        };
        let server = Server::new(Options::new(now.clone(), random.number()));
        // The simulated kube-controllers notices silent nodes.
        let node_life =
            NodeLife { monitor: Monitor::Absent, lease_period: Duration::from_secs(1), ..NodeLife::default() };
        let cloud = VirtualCloud::new(Config { node_life, ..Config::default() }, now, random.number());
        crate::api_server::install_crds(&server)?;
        // Before anybody looks: controllers that saw machines without VMs would act on it.
        before.map_or(Ok(()), |before| before.put_back(&server, &cloud))?;

        let client = |agent: &str| {
            let spec = ClientSpec::new(UserAgent::new(agent, env!("CARGO_PKG_VERSION"), "demo"));
            in_process(server.service(), namespace, &spec, &metrics.rest)
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
        let (kubernetes, stop) = ((client("kubernetes"), clock.clone(), random.fork()), tasks.stopping());
        tasks.spawn("kubernetes", async move {
            let policy = fake_kube_controllers::Policy { node_grace, ..fake_kube_controllers::Policy::default() };
            KubeControllers { policy, ..KubeControllers::default() }
                .run(kubernetes.0, kubernetes.1, kubernetes.2, stop)
                .await;
        });
        let (house, stop) = (server.clone(), tasks.stopping());
        tasks.spawn("housekeeping", async move {
            tokio::select! {
                biased;
                () = stop.cancelled() => {}
                never = house.keep_house() => match never {},
            }
        });

        let person = client("you");
        let component = Component {
            clients: Clients::one(&controller),
            leadership: Leadership::unguarded(),
            events,
            metrics: metrics.clone(),
            concurrency: 10,
        };
        let cluster = start(Parts {
            namespace: namespace.into(),
            components: Components::Both { machines: component.clone(), fleet: component },
            watches: Clients::one(&controller),
            drivers: Drivers::new().with(driver_virtual::PROVIDER, Arc::new(cloud.clone())),
            policy,
            driver_places: 10,
            clock,
            random,
            tasks: tasks.clone(),
            listener: Some(listener),
        })
        .context("failed to set up metrics")?;
        Ok(Self { server: server.clone(), cloud, cluster, person, tasks })
    }

    /// Gives the cloud room for so many VMs only, and lets calls fail.
    pub(crate) fn restrict(&self, quota: Option<u32>, failures: impl Iterator<Item = Script>) {
        let total = quota.map(|quota| usize::try_from(quota).unwrap_or(usize::MAX));
        self.cloud.set_quotas(Quotas { total, ..Quotas::default() });
        failures.for_each(|script| self.cloud.inject(script));
    }

    /// Serves the web view on this port of loopback; 0 takes a free one.
    pub(crate) async fn show(&self, timeline: Timeline, port: u16) -> anyhow::Result<SocketAddr> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await;
        let listener =
            listener.with_context(|| format!("failed to listen on 127.0.0.1:{port} for the web view (--ui-port)"))?;
        let address = listener.local_addr().context("failed to listen for the web view")?;
        let view = View {
            cluster: self.cluster.clone(),
            timeline,
            leadership: Leadership::unguarded(),
            clock: Clock::system(),
        };
        self.tasks.spawn("web view", ui::serve(listener, view, Access::Loopback, None, self.tasks.clone()));
        Ok(address)
    }

    /// Keeps the state up to date in a folder, until it cannot.
    pub(crate) async fn keep(&self, data: &DataDir) -> anyhow::Result<()> {
        data.keep(&self.server, &self.cloud).await
    }

    /// Keeps the state as it is at the end.
    pub(crate) fn finish(&self, data: &DataDir) -> anyhow::Result<()> {
        data.finish(&self.server, &self.cloud)
    }

    /// Returns when a part of it has broken.
    pub(crate) async fn broken(&self) {
        self.tasks.stopping().cancelled().await;
    }

    pub(crate) async fn clear(&self) {
        self.tasks.shut_down(Duration::from_secs(5)).await;
    }
}

/// The limits of production, except where an audience would fall asleep.
fn brief_policy() -> Policy {
    let mut policy = Policy { health_timeout: HEALTH_TIMEOUT, ..Policy::default() };
    policy.drain.illness = ILLNESS;
    policy
}

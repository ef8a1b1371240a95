//! The cluster of the demo and of `millwright dev`, in one process.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use api::names::events::components;
use controllers::wiring::{Clients, Component, Components, Parts, start as start_controllers};
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

use crate::dev::{DataDir, SavedState};
use crate::ui::{self, Access, Timeline, View};

/// The namespace of the demo.
pub(super) const NAMESPACE: &str = "demo";
/// User agent of the controllers. Their requests are counted by it.
pub(super) const CONTROLLER: &str = "millwright-demo";
/// Time until a Node without heartbeats counts as lost. In production 40 s.
const NODE_GRACE: Duration = Duration::from_secs(3);
/// Health timeout of a Machine. In production ten minutes.
const HEALTH_TIMEOUT: Duration = Duration::from_secs(2);

/// Time after which pods of an unhealthy Node are no longer evicted. In production five minutes.
const UNHEALTHY_PERIOD: Duration = Duration::from_secs(1);

/// Differences between the demo and `dev`.
pub(crate) struct EnvironmentOptions {
    /// Namespace of the Machines.
    pub(crate) namespace: &'static str,
    /// Timeouts and limits.
    pub(crate) policy: Policy,
    /// Time until a Node without heartbeats counts as lost.
    pub(crate) node_grace: Duration,
    /// State of an earlier run.
    pub(crate) saved: Option<SavedState>,
}

impl EnvironmentOptions {
    /// Returns the configuration of the demo.
    pub(crate) fn demo() -> Self {
        Self { namespace: NAMESPACE, policy: demo_policy(), node_grace: NODE_GRACE, saved: None }
    }
}

/// An API server, a cloud, the controllers, and fake kube-controllers.
pub(crate) struct Environment {
    pub(crate) server: Server,
    pub(super) cloud: VirtualCloud,
    pub(crate) cluster: Arc<Cluster>,
    /// Client for the actions of the user.
    pub(crate) user: kube::Client,
    tasks: Tasks,
}

impl Environment {
    pub(crate) fn start(options: EnvironmentOptions, listener: Listener) -> anyhow::Result<Self> {
        let EnvironmentOptions { namespace, policy, node_grace, saved } = options;
        let clock = Clock::system();
        let random = Random::from_entropy();
        let metrics = Metrics::new().context("failed to set up metrics")?;
        let tasks = Tasks::new();
        let now = {
            let clock = clock.clone();
            Arc::new(move || clock.now())
        };
        let server = Server::new(Options::new(now.clone(), random.number()));
        // The fake kube-controllers detect Nodes without heartbeats.
        let node_life =
            NodeLife { monitor: Monitor::Absent, lease_period: Duration::from_secs(1), ..NodeLife::default() };
        let cloud = VirtualCloud::new(Config { node_life, ..Config::default() }, now, random.number());
        crate::api_server::install_crds(&server)?;
        // Before the controllers start, because they would act on Machines without VMs.
        saved.map_or(Ok(()), |saved| saved.restore(&server, &cloud))?;

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
        let (api_server, stop) = (server.clone(), tasks.stopping());
        tasks.spawn("housekeeping", async move {
            tokio::select! {
                biased;
                () = stop.cancelled() => {}
                never = api_server.keep_house() => match never {},
            }
        });

        let user = client("you");
        let component = Component {
            clients: Clients::one(&controller),
            leadership: Leadership::unguarded(),
            events,
            metrics: metrics.clone(),
            concurrency: 10,
        };
        let cluster = start_controllers(Parts {
            namespace: namespace.into(),
            components: Components::Both { machines: component.clone(), manager: component },
            watches: Clients::one(&controller),
            drivers: Drivers::new().with(driver_virtual::PROVIDER, Arc::new(cloud.clone())),
            policy,
            driver_calls_per_credential: 10,
            clock,
            random,
            tasks: tasks.clone(),
            listener: Some(listener),
        })
        .context("failed to set up metrics")?;
        Ok(Self { server: server.clone(), cloud, cluster, user, tasks })
    }

    /// Limits the number of VMs and injects driver errors.
    pub(crate) fn inject_faults(&self, quota: Option<u32>, failures: impl Iterator<Item = Script>) {
        let total = quota.map(|quota| usize::try_from(quota).unwrap_or(usize::MAX));
        self.cloud.set_quotas(Quotas { total, ..Quotas::default() });
        failures.for_each(|script| self.cloud.inject(script));
    }

    /// Serves the web view on this port of the loopback interface. 0 selects a free port.
    pub(crate) async fn serve_web_view(&self, timeline: Timeline, port: u16) -> anyhow::Result<SocketAddr> {
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

    /// Saves the state periodically. Returns only if that fails.
    pub(crate) async fn save_periodically(&self, data: &DataDir) -> anyhow::Result<()> {
        data.save_periodically(&self.server, &self.cloud).await
    }

    /// Saves the final state.
    pub(crate) fn finish(&self, data: &DataDir) -> anyhow::Result<()> {
        data.finish(&self.server, &self.cloud)
    }

    /// Returns when a task has failed.
    pub(crate) async fn failed(&self) {
        self.tasks.stopping().cancelled().await;
    }

    pub(crate) async fn shut_down(&self) {
        self.tasks.shut_down(Duration::from_secs(5)).await;
    }
}

/// Returns the production policy with shorter timeouts.
fn demo_policy() -> Policy {
    let mut policy = Policy { health_timeout: HEALTH_TIMEOUT, ..Policy::default() };
    policy.drain.unhealthy_timeout = UNHEALTHY_PERIOD;
    policy
}

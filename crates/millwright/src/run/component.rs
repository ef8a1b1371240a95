//! One component with its lock, Events, metrics and clients.
//!
//! The names are MCM's, because other programs identify the components by them: Leases exclude replicas of MCM, audit
//! logs contain user agents, Events contain the component.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::Context;
use api::names;
use api::names::events::components;
use controllers::wiring::{Clients, Component};
use runtime::client::{ClientSpec, Connection, UserAgent};
use runtime::events::{EventPolicy, EventSink, EventWriter};
use runtime::lease::{ElectionConfig, Elector, Identity, Leadership};
use runtime::{Clock, Metrics, Random, Tasks};

use super::Connections;
use crate::OtherClusters;
use crate::build_info;
use crate::cli::Servers;
use crate::http::{self, ControllerState, LastDecisions, Served, StatePage};

/// The component.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// Manages Machines, MachineClasses and Nodes.
    MachineController,
    /// Manages MachineSets and MachineDeployments.
    Manager,
}

impl Role {
    /// Returns the name of the Lease that excludes replicas of this component, including those of MCM.
    fn lease(self) -> &'static str {
        match self {
            Self::MachineController => names::MACHINE_CONTROLLER_LEASE,
            Self::Manager => names::MANAGER_LEASE,
        }
    }

    /// Returns the source of its Events, which is also the suffix of its user agent.
    fn component(self) -> &'static str {
        match self {
            Self::MachineController => components::MACHINE_CONTROLLER,
            Self::Manager => components::MANAGER,
        }
    }
}

/// Cluster and resources that a client is used for.
#[derive(Clone, Copy)]
enum ClientPurpose {
    /// Machine API objects in the control cluster.
    Control,
    /// Secrets in the control cluster.
    ControlCore,
    /// Objects in the target cluster.
    Target,
}

/// What all components of a process share.
pub(super) struct ProcessContext<'a> {
    /// User agent of this process.
    agent: UserAgent,
    options: &'a Servers,
    connections: &'a Connections,
    clock: &'a Clock,
    random: &'a Random,
    /// Tasks that must end before a lease is released.
    pub(super) tasks: Tasks,
    /// Tasks that serve HTTP, write Events and carry driver calls. They end after `tasks`.
    pub(super) support_tasks: Tasks,
    /// The last decisions, for `/debug/state`.
    last_decisions: LastDecisions,
}

impl<'a> ProcessContext<'a> {
    pub(super) fn of(options: &'a Servers, connections: &'a Connections, clock: &'a Clock, random: &'a Random) -> Self {
        let agent = UserAgent::new(options.name(), concat!("v", env!("CARGO_PKG_VERSION")), "unknown");
        let (tasks, last_decisions) = (Tasks::new(), LastDecisions::new(clock.clone()));
        let support_tasks = tasks.independent();
        Self { agent, options, connections, clock, random, tasks, support_tasks, last_decisions }
    }

    fn unlimited(&self, suffix: &str) -> ClientSpec {
        ClientSpec::new(self.agent.with_suffix(suffix))
    }

    fn limited(&self, suffix: &str) -> ClientSpec {
        let (qps, burst) = self.options.common.clusters.limit();
        self.unlimited(suffix).limited(qps, burst)
    }

    /// Returns whether `/debug/state` is served (`--profiling`).
    pub(super) fn state_page(&self) -> StatePage {
        if self.options.common.listening.profiling { StatePage::Shown } else { StatePage::Hidden }
    }

    /// Returns the clients for lists and watches. Their requests are counted in this registry.
    pub(super) fn watches(&self, metrics: &Metrics) -> Clients {
        self.clients(metrics, |purpose| {
            self.limited(match purpose {
                ClientPurpose::Control => "control-machine-shared-informers",
                ClientPurpose::ControlCore => "control-core-shared-informers",
                ClientPurpose::Target => "target-core-shared-informers",
            })
        })
    }

    /// Returns the clients for API discovery.
    pub(super) fn discovery(&self, metrics: &Metrics) -> Clients {
        self.clients(metrics, |_| self.limited("controller-discovery"))
    }

    /// Returns clients that each have their own rate limiter, as in MCM.
    fn clients(&self, metrics: &Metrics, spec: impl Fn(ClientPurpose) -> ClientSpec) -> Clients {
        let Connections { control, target } = self.connections;
        Clients {
            control: control.client(&spec(ClientPurpose::Control), &metrics.rest),
            control_core: control.client(&spec(ClientPurpose::ControlCore), &metrics.rest),
            target: target.as_ref().map(|target| target.client(&spec(ClientPurpose::Target), &metrics.rest)),
            server_times: [Some(control), target.as_ref()]
                .into_iter()
                .flatten()
                .map(|connection| connection.server_time().clone())
                .collect(),
        }
    }

    /// Returns the options of the web view, if it is enabled.
    #[cfg(feature = "inspect")]
    pub(super) fn web_view(&self) -> Option<crate::cli::WebViewOptions<'_>> {
        self.options.common.web_view.options()
    }

    /// Returns the client for the access reviews of the web view.
    #[cfg(feature = "inspect")]
    pub(super) fn reviewing(&self, metrics: &Metrics) -> kube::Client {
        self.connections.control.client(&self.limited("web-view"), &metrics.rest)
    }

    /// Returns the clock.
    #[cfg(feature = "inspect")]
    pub(super) fn clock(&self) -> &Clock {
        self.clock
    }

    /// Returns clients for a built-in driver: for the target cluster, if there is one, and for the control cluster.
    pub(super) fn clients_for_driver(&self, agent: &str, metrics: &Metrics) -> (Option<kube::Client>, kube::Client) {
        let client = |connection: &Connection| connection.client(&self.unlimited(agent), &metrics.rest);
        (self.connections.target.as_ref().map(client), client(&self.connections.control))
    }

    /// Returns access to other clusters for a built-in driver.
    pub(super) fn other_clusters(&self, agent: &str, metrics: &Metrics) -> OtherClusters {
        OtherClusters::new(self.unlimited(agent), metrics.rest.clone())
    }
}

/// One component, ready to start after it has acquired its Lease.
pub(super) struct PreparedComponent {
    pub(super) component: Component,
    /// `None` if leader election is disabled.
    pub(super) elector: Option<Elector>,
    /// State that its HTTP endpoints show.
    pub(super) controller_state: ControllerState,
}

impl PreparedComponent {
    /// Prepares the component. From now on its HTTP endpoints are served and its Events are written.
    pub(super) async fn prepare(
        role: Role,
        context: &ProcessContext<'_>,
        listen: SocketAddr,
        concurrency: usize,
    ) -> anyhow::Result<Self> {
        let metrics = Metrics::new().context("failed to set up metrics")?;
        #[cfg(target_os = "linux")]
        metrics.register_process().context("failed to set up metrics")?;
        metrics.register_build(build_info::VERSION, build_info::COMMIT).context("failed to set up metrics")?;
        let controller_state = serve_http(role, context, listen, &metrics).await?;
        let events = event_sink(role, context, &metrics);
        let (leadership, elector) = leader_election(role, context, &metrics, &events)?;
        leadership.register_metric(&metrics).context("failed to set up metrics")?;
        let leadership = leadership.with_shutdown(context.tasks.stopping());
        let clients =
            context.clients(&metrics, |_| context.limited(role.component()).while_leading(leadership.clone()));
        Ok(Self {
            component: Component { clients, leadership, events, metrics, concurrency },
            elector,
            controller_state,
        })
    }
}

/// Starts the HTTP server of the component.
async fn serve_http(
    role: Role,
    context: &ProcessContext<'_>,
    listen: SocketAddr,
    metrics: &Metrics,
) -> anyhow::Result<ControllerState> {
    let flags = match (role, &context.options.machine) {
        (Role::Manager, Some(_)) => "--address, --manager-port",
        _ => "--address, --port",
    };
    let listener = http::listen(listen.ip(), listen.port(), flags).await?;
    let controller_state = ControllerState::new(context.last_decisions.clone());
    let served = Served {
        metrics: metrics.clone(),
        watchdog: context.tasks.watchdog().clone(),
        controller_state: controller_state.clone(),
        state_page: context.state_page(),
        clock: context.clock.clone(),
    };
    context.support_tasks.spawn("http", http::serve(listener, served, context.support_tasks.clone()));
    Ok(controller_state)
}

fn event_sink(role: Role, context: &ProcessContext<'_>, metrics: &Metrics) -> EventSink {
    // The event writer has its own rate limiter and drops Events that exceed it.
    let client = context.connections.control.client(&context.unlimited(role.component()), &metrics.rest);
    let ProcessContext { clock, random, support_tasks, .. } = context;
    let (writer, sink) = EventWriter::new(client, role.component(), EventPolicy::default(), clock, random, metrics);
    let stopping = support_tasks.stopping();
    support_tasks.spawn("events", async move {
        writer.run(stopping).await;
    });
    sink
}

/// Joins the leader election, unless it is disabled.
fn leader_election(
    role: Role,
    context: &ProcessContext<'_>,
    metrics: &Metrics,
    events: &EventSink,
) -> anyhow::Result<(Leadership, Option<Elector>)> {
    let common = &context.options.common;
    if !common.election.leader_elect {
        return Ok((Leadership::unguarded(), None));
    }
    let timing = common.election.timing();
    let host = gethostname::gethostname().to_string_lossy().into_owned();
    let spec = for_leases(context.unlimited("machine-leader-election"), timing.renew_deadline);
    let (elector, leadership) = Elector::new(ElectionConfig {
        client: context.connections.control.client(&spec, &metrics.rest),
        namespace: common.clusters.namespace.clone(),
        name: role.lease().to_owned(),
        identity: Identity::of_host(&host, context.random),
        timing,
        clock: context.clock.clone(),
        random: context.random.clone(),
        events: Some(events.clone()),
    })?;
    Ok((leadership, Some(elector)))
}

/// Returns a client for Leases. It has its own connections, because a renewal that is queued behind lists and writes
/// may lose the lease.
fn for_leases(spec: ClientSpec, renew_deadline: Duration) -> ClientSpec {
    spec.on_own_connections().within(renew_deadline)
}

#[cfg(test)]
mod tests {
    use super::*;
    use runtime::client::ConnectionUse;

    /// Shows CLI-6.
    #[test]
    fn lease_requests_use_own_connections_and_a_deadline() {
        let any = || ClientSpec::new(UserAgent::new("test", "v0", "none"));
        let (spec, deadline) = (for_leases(any(), Duration::from_secs(10)), Duration::from_secs(10));
        assert_eq!((spec.connections, spec.deadline), (ConnectionUse::Own, deadline));
        assert_eq!(any().connections, ConnectionUse::Shared, "the default is shared");
    }
}

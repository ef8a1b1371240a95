//! One component as it is prepared: its lock, its Events, its numbers and its clients.
//!
//! The names are the reference's, because they are how the outside knows the two apart: the Leases exclude Go replicas, audit logs are
//! read by user agent, Events by component.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::Context;
use api::names;
use api::names::events::components;
use controllers::wiring::{Clients, Component};
use runtime::client::{ClientSpec, Connection, UserAgent};
use runtime::events::{EventPolicy, EventSink, EventWriter};
use runtime::lease::{Candidacy, Elector, Identity, Leadership};
use runtime::{Clock, Metrics, Random, Tasks};

use super::Connections;
use crate::OtherClusters;
use crate::build_info;
use crate::cli::Servers;
use crate::http::{self, ControllerState, LastDecisions, Served, StatePage};

/// Which component.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// Machines, their classes and nodes.
    MachineController,
    /// Sets and deployments.
    Manager,
}

impl Role {
    /// The Lease that excludes replicas of this component, ours and Go ones.
    fn lease(self) -> &'static str {
        match self {
            Self::MachineController => names::MACHINE_CONTROLLER_LEASE,
            Self::Manager => names::MANAGER_LEASE,
        }
    }

    /// The source of its Events, and the suffix of its clients' user agent.
    fn component(self) -> &'static str {
        match self {
            Self::MachineController => components::MACHINE_CONTROLLER,
            Self::Manager => components::MANAGER,
        }
    }
}

/// Where a client leads to, and for what.
#[derive(Clone, Copy)]
enum Place {
    /// Our own kinds in the control cluster.
    Control,
    /// Secrets there.
    ControlCore,
    /// Whatever is in the target cluster.
    Target,
}

/// What is the same for all components of a process.
pub(super) struct Setting<'a> {
    /// How this process introduces itself.
    agent: UserAgent,
    options: &'a Servers,
    connections: &'a Connections,
    clock: &'a Clock,
    random: &'a Random,
    /// Whatever has to have ended before a lease is given back.
    pub(super) tasks: Tasks,
    /// Those who tell of it and those who carry its calls to a driver. They end after it.
    pub(super) telling: Tasks,
    /// What was decided, for whoever may ask.
    last_decisions: LastDecisions,
}

impl<'a> Setting<'a> {
    pub(super) fn of(options: &'a Servers, connections: &'a Connections, clock: &'a Clock, random: &'a Random) -> Self {
        let agent = UserAgent::new(options.name(), concat!("v", env!("CARGO_PKG_VERSION")), "unknown");
        let (tasks, last_decisions) = (Tasks::new(), LastDecisions::new(clock.clone()));
        let telling = tasks.beside();
        Self { agent, options, connections, clock, random, tasks, telling, last_decisions }
    }

    fn unlimited(&self, suffix: &str) -> ClientSpec {
        ClientSpec::new(self.agent.with_suffix(suffix))
    }

    fn limited(&self, suffix: &str) -> ClientSpec {
        let (qps, burst) = self.options.common.clusters.limit();
        self.unlimited(suffix).limited(qps, burst)
    }

    /// Whether what was decided is shown (`--profiling`).
    pub(super) fn state_page(&self) -> StatePage {
        if self.options.common.listening.profiling { StatePage::Shown } else { StatePage::Hidden }
    }

    /// Clients that lists and watches go through, counted in this registry.
    pub(super) fn watches(&self, metrics: &Metrics) -> Clients {
        self.clients(metrics, |place| {
            self.limited(match place {
                Place::Control => "control-machine-shared-informers",
                Place::ControlCore => "control-core-shared-informers",
                Place::Target => "target-core-shared-informers",
            })
        })
    }

    /// Clients to find out what the API servers serve.
    pub(super) fn discovery(&self, metrics: &Metrics) -> Clients {
        self.clients(metrics, |_| self.limited("controller-discovery"))
    }

    /// Each with a bucket of its own, as the reference's.
    fn clients(&self, metrics: &Metrics, spec: impl Fn(Place) -> ClientSpec) -> Clients {
        let Connections { control: here, target: there } = self.connections;
        Clients {
            control: here.client(&spec(Place::Control), &metrics.rest),
            control_core: here.client(&spec(Place::ControlCore), &metrics.rest),
            target: there.as_ref().map(|there| there.client(&spec(Place::Target), &metrics.rest)),
            server_times: [Some(here), there.as_ref()]
                .into_iter()
                .flatten()
                .map(|it| it.server_time().clone())
                .collect(),
        }
    }

    /// The web view, if it was asked for.
    #[cfg(feature = "inspect")]
    pub(super) fn web_view(&self) -> Option<crate::cli::WebViewWish<'_>> {
        self.options.common.web_view.wish()
    }

    /// A client with which the API server is asked who may see the web view.
    #[cfg(feature = "inspect")]
    pub(super) fn reviewing(&self, metrics: &Metrics) -> kube::Client {
        self.connections.control.client(&self.limited("web-view"), &metrics.rest)
    }

    /// The time.
    #[cfg(feature = "inspect")]
    pub(super) fn clock(&self) -> &Clock {
        self.clock
    }

    /// Clients for a driver in this process: of the cluster that nodes join, if there is one, and of that of Machines.
    pub(super) fn clients_for_driver(&self, agent: &str, metrics: &Metrics) -> (Option<kube::Client>, kube::Client) {
        let client = |connection: &Connection| connection.client(&self.unlimited(agent), &metrics.rest);
        (self.connections.target.as_ref().map(client), client(&self.connections.control))
    }

    /// How a driver in this process reaches others.
    pub(super) fn other_clusters(&self, agent: &str, metrics: &Metrics) -> OtherClusters {
        OtherClusters::new(self.unlimited(agent), metrics.rest.clone())
    }
}

/// One component, ready to begin when its lease is won.
pub(super) struct PreparedComponent {
    pub(super) component: Component,
    /// `None` without an election.
    pub(super) elector: Option<Elector>,
    /// What its port shows.
    pub(super) controller_state: ControllerState,
}

impl PreparedComponent {
    /// Prepares it: what it tells over HTTP can be asked from now on, and its Events are written.
    pub(super) async fn of(
        role: Role,
        setting: &Setting<'_>,
        listen: SocketAddr,
        concurrency: usize,
    ) -> anyhow::Result<Self> {
        let metrics = Metrics::new().context("failed to set up metrics")?;
        #[cfg(target_os = "linux")]
        metrics.register_process().context("failed to set up metrics")?;
        metrics.register_build(build_info::VERSION, build_info::COMMIT).context("failed to set up metrics")?;
        let controller_state = show(role, setting, listen, &metrics).await?;
        let events = tell(role, setting, &metrics);
        let (leadership, elector) = stand(role, setting, &metrics, &events)?;
        leadership.show(&metrics).context("failed to set up metrics")?;
        let leadership = leadership.retiring_with(setting.tasks.stopping());
        let clients =
            setting.clients(&metrics, |_| setting.limited(role.component()).while_leading(leadership.clone()));
        Ok(Self {
            component: Component { clients, leadership, events, metrics, concurrency },
            elector,
            controller_state,
        })
    }
}

/// Opens its port.
async fn show(
    role: Role,
    setting: &Setting<'_>,
    listen: SocketAddr,
    metrics: &Metrics,
) -> anyhow::Result<ControllerState> {
    let flags = match (role, &setting.options.machine) {
        (Role::Manager, Some(_)) => "--address, --manager-port",
        _ => "--address, --port",
    };
    let listener = http::listen(listen.ip(), listen.port(), flags).await?;
    let controller_state = ControllerState::new(setting.last_decisions.clone());
    let served = Served {
        metrics: metrics.clone(),
        watchdog: setting.tasks.watchdog().clone(),
        controller_state: controller_state.clone(),
        state_page: setting.state_page(),
        clock: setting.clock.clone(),
    };
    setting.telling.spawn("http", http::serve(listener, served, setting.telling.clone()));
    Ok(controller_state)
}

fn tell(role: Role, setting: &Setting<'_>, metrics: &Metrics) -> EventSink {
    // The event writer has a bucket of its own and drops what does not fit.
    let client = setting.connections.control.client(&setting.unlimited(role.component()), &metrics.rest);
    let Setting { clock, random, telling, .. } = setting;
    let (writer, sink) = EventWriter::new(client, role.component(), EventPolicy::default(), clock, random, metrics);
    let stopping = telling.stopping();
    telling.spawn("events", async move {
        writer.run(stopping).await;
    });
    sink
}

/// Stands for election, unless told not to.
fn stand(
    role: Role,
    setting: &Setting<'_>,
    metrics: &Metrics,
    events: &EventSink,
) -> anyhow::Result<(Leadership, Option<Elector>)> {
    let common = &setting.options.common;
    if !common.election.leader_elect {
        return Ok((Leadership::unguarded(), None));
    }
    let timing = common.election.timing();
    let host = gethostname::gethostname().to_string_lossy().into_owned();
    let spec = for_leases(setting.unlimited("machine-leader-election"), timing.renew_deadline);
    let (elector, leadership) = Elector::new(Candidacy {
        client: setting.connections.control.client(&spec, &metrics.rest),
        namespace: common.clusters.namespace.clone(),
        name: role.lease().to_owned(),
        identity: Identity::of_host(&host, setting.random),
        timing,
        clock: setting.clock.clone(),
        random: setting.random.clone(),
        events: Some(events.clone()),
    })?;
    Ok((leadership, Some(elector)))
}

/// A client for Leases: on connections of its own, because a renewal that waits behind lists and writes costs the lease.
fn for_leases(spec: ClientSpec, renew_deadline: Duration) -> ClientSpec {
    spec.on_own_connections().within(renew_deadline)
}

#[cfg(test)]
mod tests {
    use super::*;
    use runtime::client::ConnectionUse;

    /// Shows CLI-6.
    #[test]
    fn leases_travel_on_connections_of_their_own_and_are_given_up_at_their_deadline() {
        let any = || ClientSpec::new(UserAgent::new("test", "v0", "none"));
        let (spec, deadline) = (for_leases(any(), Duration::from_secs(10)), Duration::from_secs(10));
        assert_eq!((spec.connections, spec.deadline), (ConnectionUse::Own, deadline));
        assert_eq!(any().connections, ConnectionUse::Shared, "or it would say nothing");
    }
}

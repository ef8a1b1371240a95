//! One half at its post: under its lock, with its voice, its numbers and its clients.
//!
//! The names are the reference's, because they are how the outside knows the two apart: the Leases exclude Go replicas, audit logs are
//! read by user agent, Events by component.

use anyhow::Context;
use api::names;
use api::names::events::components;
use controllers::wiring::{Clients, Half};
use runtime::client::{ClientSpec, UserAgent};
use runtime::events::{EventPolicy, EventSink, EventWriter};
use runtime::lease::{Candidacy, Elector, Identity, Leadership};
use runtime::{Clock, Metrics, Random, Tasks};

use super::Connections;
use crate::cli::Servers;

/// Which half.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// Machines, their classes and nodes.
    MachineController,
    /// Sets and deployments.
    Manager,
}

impl Role {
    /// The Lease that excludes replicas of this half, ours and Go ones.
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

/// What is the same for all posts of a process.
pub(super) struct Setting<'a> {
    /// How this process introduces itself.
    agent: UserAgent,
    options: &'a Servers,
    connections: &'a Connections,
    clock: &'a Clock,
    random: &'a Random,
}

impl<'a> Setting<'a> {
    pub(super) fn of(options: &'a Servers, connections: &'a Connections, clock: &'a Clock, random: &'a Random) -> Self {
        let agent = UserAgent::new(options.name(), concat!("v", env!("CARGO_PKG_VERSION")), "unknown");
        Self { agent, options, connections, clock, random }
    }

    fn unlimited(&self, suffix: &str) -> ClientSpec {
        ClientSpec::new(self.agent.with_suffix(suffix))
    }

    fn limited(&self, suffix: &str) -> ClientSpec {
        let (qps, burst) = self.options.common.clusters.limit();
        self.unlimited(suffix).limited(qps, burst)
    }

    /// Clients that lists and watches go through, counted in this registry.
    pub(super) fn watches(&self, metrics: &Metrics) -> Clients {
        self.clients(
            metrics,
            ["control-machine-shared-informers", "control-core-shared-informers", "target-core-shared-informers"],
        )
    }

    /// Clients to find out what the API servers serve.
    pub(super) fn discovery(&self, metrics: &Metrics) -> Clients {
        self.clients(metrics, ["controller-discovery"; 3])
    }

    /// Each with a bucket of its own, as the reference's.
    fn clients(&self, metrics: &Metrics, [control, control_core, target]: [&str; 3]) -> Clients {
        let Connections { control: here, target: there } = self.connections;
        Clients {
            control: here.client(&self.limited(control), &metrics.rest),
            control_core: here.client(&self.limited(control_core), &metrics.rest),
            target: there.as_ref().map(|there| there.client(&self.limited(target), &metrics.rest)),
        }
    }

    /// A client for the kubelets of a cloud in this process.
    pub(super) fn kubelets(&self, metrics: &Metrics) -> Option<kube::Client> {
        let target = self.connections.target.as_ref()?;
        Some(target.client(&self.unlimited("virtual-kubelets"), &metrics.rest))
    }
}

/// One half, ready to begin when its lease is won.
pub(super) struct Post {
    pub(super) half: Half,
    /// `None` without an election.
    pub(super) elector: Option<Elector>,
}

impl Post {
    /// Takes up a post. Its Events are written by a task of `telling`.
    pub(super) fn of(role: Role, setting: &Setting<'_>, concurrency: usize, telling: &Tasks) -> anyhow::Result<Self> {
        let metrics = Metrics::new().context("failed to set up metrics")?;
        let events = tell(role, setting, &metrics, telling);
        let (leadership, elector) = stand(role, setting, &metrics, &events)?;
        leadership.show(&metrics).context("failed to set up metrics")?;
        let clients = setting.clients(&metrics, [role.component(); 3]);
        Ok(Self { half: Half { clients, leadership, events, metrics, concurrency }, elector })
    }
}

fn tell(role: Role, setting: &Setting<'_>, metrics: &Metrics, tasks: &Tasks) -> EventSink {
    // The event writer has a bucket of its own and drops what does not fit.
    let client = setting.connections.control.client(&setting.unlimited(role.component()), &metrics.rest);
    let Setting { clock, random, .. } = setting;
    let (writer, sink) = EventWriter::new(client, role.component(), EventPolicy::default(), clock, random, metrics);
    let stopping = tasks.stopping();
    tasks.spawn("events", async move {
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
    let spec = setting.unlimited("machine-leader-election").on_own_lanes().within(timing.renew_deadline);
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

//! The two components of a process.
//!
//! The reference is two processes: the machine controller, which talks to drivers, and the manager of sets and deployments. Either of
//! ours can stand beside the other one of theirs, so nothing that one component needs to be safe may come from the other: each
//! has a lease, clients with limits of its own, a registry and Events. What one process that runs both may share, and does, is what
//! it *sees*: the caches.

use kube::Client;
use runtime::client::ServerTime;
use runtime::events::EventSink;
use runtime::lease::Leadership;
use runtime::metrics::{Metrics, MetricsError};

/// What one component acts with.
#[derive(Clone)]
pub struct Component {
    /// Its ways to the API servers.
    pub clients: Clients,
    /// Whether it may act. It begins when this is won, and everything that acts asks it first.
    pub leadership: Leadership,
    /// Where its Events go.
    pub events: EventSink,
    /// Where its measurements go.
    pub metrics: Metrics,
    /// How many objects of a kind it works on at once (`--concurrent-syncs`).
    pub concurrency: usize,
}

impl Component {
    /// Stands where a component would that this process does not run: never leads, is measured where nobody looks.
    fn that_never_acts(beside: &Self) -> Result<Self, MetricsError> {
        Ok(Self { leadership: Leadership::never(), metrics: Metrics::new()?, ..beside.clone() })
    }
}

/// Ways to the API servers, with the limits of whoever uses them.
#[derive(Clone)]
pub struct Clients {
    /// The control cluster, for our own kinds.
    pub control: Client,
    /// The control cluster, for Secrets: with a bucket of its own, so that reading them never holds up a Machine.
    pub control_core: Client,
    /// The cluster that nodes join; `None` to run without one.
    pub target: Option<Client>,
    /// The clocks of these API servers.
    pub server_times: Vec<ServerTime>,
}

impl Clients {
    /// One client for everything, where control and target are one cluster and nobody is throttled.
    pub fn one(client: &Client) -> Self {
        Self {
            control: client.clone(),
            control_core: client.clone(),
            target: Some(client.clone()),
            server_times: Vec::new(),
        }
    }

    /// The same, with nodes that join elsewhere, or nowhere.
    #[must_use]
    pub fn towards(self, target: Option<Client>) -> Self {
        Self { target, ..self }
    }
}

/// Which components a process runs.
#[derive(Clone)]
#[allow(clippy::large_enum_variant, reason = "there is one in a process")]
pub enum Components {
    /// Machines, their classes and nodes, sets and deployments.
    Both {
        /// The machine controller.
        machines: Component,
        /// The manager.
        fleet: Component,
    },
    /// Machines, their classes and nodes: what talks to a driver.
    Machines(Component),
    /// Sets and deployments.
    Fleet(Component),
}

impl Components {
    /// Each component changed, for whoever has to stand between it and the world.
    #[must_use]
    pub fn map(self, change: impl Fn(Component) -> Component) -> Self {
        match self {
            Self::Both { machines, fleet } => Self::Both { machines: change(machines), fleet: change(fleet) },
            Self::Machines(machines) => Self::Machines(change(machines)),
            Self::Fleet(fleet) => Self::Fleet(change(fleet)),
        }
    }

    /// The machine controller, if it is run here.
    pub(super) fn machines(&self) -> Option<&Component> {
        match self {
            Self::Both { machines, .. } | Self::Machines(machines) => Some(machines),
            Self::Fleet(_) => None,
        }
    }

    /// The machine controller, or what stands in its place.
    pub(super) fn machines_or_idle(&self) -> Result<Component, MetricsError> {
        match self {
            Self::Both { machines, .. } | Self::Machines(machines) => Ok(machines.clone()),
            Self::Fleet(fleet) => Component::that_never_acts(fleet),
        }
    }

    /// The manager, if it is run here.
    pub(super) fn fleet(&self) -> Option<&Component> {
        match self {
            Self::Both { fleet, .. } | Self::Fleet(fleet) => Some(fleet),
            Self::Machines(_) => None,
        }
    }
}

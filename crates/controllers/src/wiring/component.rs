//! The two components of a process.
//!
//! MCM consists of two processes: the machine controller, which calls drivers, and the manager of MachineSets and
//! MachineDeployments. Each component of Millwright also works together with the other component of MCM, so neither
//! depends on the other for its safety: each has its own lease, clients with their own rate limits, metrics registry
//! and Events. A process that runs both shares only the caches.

use kube::Client;
use runtime::client::ServerTime;
use runtime::events::EventSink;
use runtime::lease::Leadership;
use runtime::metrics::{Metrics, MetricsError};

/// A component, with the clients and sinks that it uses.
#[derive(Clone)]
pub struct Component {
    /// Its clients for the API servers.
    pub clients: Clients,
    /// Whether it leads. It starts when it leads, and checks this before each step.
    pub leadership: Leadership,
    /// Emits its Events.
    pub events: EventSink,
    /// Its metrics registry.
    pub metrics: Metrics,
    /// Number of objects of a kind that it reconciles concurrently (`--concurrent-syncs`).
    pub concurrency: usize,
}

impl Component {
    /// Returns a stand-in for a component that this process does not run. It never leads, and its metrics are not
    /// served.
    fn idle(other: &Self) -> Result<Self, MetricsError> {
        Ok(Self { leadership: Leadership::never(), metrics: Metrics::new()?, ..other.clone() })
    }
}

/// Clients for the API servers, with the rate limits of their component.
#[derive(Clone)]
pub struct Clients {
    /// The control cluster, for the Machine API.
    pub control: Client,
    /// The control cluster, for Secrets. It has its own rate limit, so that reads of Secrets do not delay Machines.
    pub control_core: Client,
    /// The target cluster; `None` to run without one.
    pub target: Option<Client>,
    /// The times that these API servers reported.
    pub server_times: Vec<ServerTime>,
}

impl Clients {
    /// Uses one client for everything: control and target are one cluster, and there is no rate limit.
    pub fn one(client: &Client) -> Self {
        Self {
            control: client.clone(),
            control_core: client.clone(),
            target: Some(client.clone()),
            server_times: Vec::new(),
        }
    }

    /// Replaces the target cluster; `None` to run without one.
    #[must_use]
    pub fn with_target(self, target: Option<Client>) -> Self {
        Self { target, ..self }
    }
}

/// The components that a process runs.
#[derive(Clone)]
#[allow(clippy::large_enum_variant, reason = "there is one in a process")]
pub enum Components {
    /// Both components.
    Both {
        /// The machine controller.
        machines: Component,
        /// The manager.
        manager: Component,
    },
    /// The machine controller only: Machines, MachineClasses and Nodes.
    Machines(Component),
    /// The manager only: MachineSets and MachineDeployments.
    Manager(Component),
}

impl Components {
    /// Changes each component.
    #[must_use]
    pub fn map(self, change: impl Fn(Component) -> Component) -> Self {
        match self {
            Self::Both { machines, manager } => Self::Both { machines: change(machines), manager: change(manager) },
            Self::Machines(machines) => Self::Machines(change(machines)),
            Self::Manager(manager) => Self::Manager(change(manager)),
        }
    }

    /// Returns the machine controller, if this process runs it.
    pub(super) fn machines(&self) -> Option<&Component> {
        match self {
            Self::Both { machines, .. } | Self::Machines(machines) => Some(machines),
            Self::Manager(_) => None,
        }
    }

    /// Returns the machine controller, or a stand-in that never leads.
    pub(super) fn machines_or_idle(&self) -> Result<Component, MetricsError> {
        match self {
            Self::Both { machines, .. } | Self::Machines(machines) => Ok(machines.clone()),
            Self::Manager(manager) => Component::idle(manager),
        }
    }

    /// Returns the manager, if this process runs it.
    pub(super) fn manager(&self) -> Option<&Component> {
        match self {
            Self::Both { manager, .. } | Self::Manager(manager) => Some(manager),
            Self::Machines(_) => None,
        }
    }
}

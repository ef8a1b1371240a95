//! Environment in which scenarios run.

use std::path::Path;
use std::sync::Arc;

use driver_virtual::Monitor;
use kube::Client;
use runtime::client::{ClientSpec, Connection, Source, UserAgent};
use runtime::{Clock, Metrics, Random};

use crate::{Failure, Pace};

/// An API server with the CRDs of Millwright, and a pace. Clones are the same environment.
#[derive(Clone)]
pub struct Environment {
    /// The clock, which the API server uses too.
    pub clock: Clock,
    /// Source of random numbers.
    pub random: Random,
    /// Latencies and timeouts.
    pub pace: Pace,
    /// Component that marks unreachable nodes.
    pub monitor: Monitor,
    clients: Arc<dyn Fn(&str) -> Client + Send + Sync>,
}

impl Environment {
    /// Creates an environment. `clients` returns the client for a user agent.
    pub fn new(
        clock: Clock,
        random: Random,
        pace: Pace,
        clients: impl Fn(&str) -> Client + Send + Sync + 'static,
    ) -> Self {
        let monitor = Monitor::Grace(pace.node_grace);
        Self { clock, random, pace, monitor, clients: Arc::new(clients) }
    }

    /// Returns the environment for a cluster in which other controllers bind, replace and count pods and mark
    /// unreachable Nodes. A real control plane does this, and so do the simulated kube-controllers.
    #[must_use]
    pub fn with_kube_controllers(self) -> Self {
        Self { monitor: Monitor::Absent, ..self }
    }

    /// The API server of a kubeconfig, with short latencies and timeouts.
    pub fn real(kubeconfig: &Path) -> Result<Self, Failure> {
        let failure = |error: &dyn std::error::Error| Failure::Expectation(error.to_string());
        let source = Source::Kubeconfig { path: kubeconfig.to_owned(), flag: "--kubeconfig".to_owned() };
        let connection = Connection::load(&source).map_err(|error| failure(&error))?;
        let metrics = Metrics::new().map_err(|error| failure(&error))?;
        Ok(Self::new(Clock::system(), Random::from_entropy(), Pace::fast(), move |agent| {
            let agent = UserAgent::new(agent, env!("CARGO_PKG_VERSION"), "e2e");
            connection.client(&ClientSpec::new(agent), &metrics.rest)
        }))
    }

    /// Returns a client with this user agent.
    pub fn client(&self, agent: &str) -> Client {
        (self.clients)(agent)
    }
}

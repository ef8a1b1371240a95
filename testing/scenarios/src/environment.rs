//! Where scenarios play.

use std::path::Path;
use std::sync::Arc;

use driver_virtual::Monitor;
use kube::Client;
use runtime::client::{ClientSpec, Connection, Source, UserAgent};
use runtime::{Clock, Metrics, Random};

use crate::{Broken, Pace};

/// An API server that serves our kinds, and a pace. Clones are the same environment.
#[derive(Clone)]
pub struct Environment {
    /// The time, which is the API server's too.
    pub clock: Clock,
    /// Where chance comes from.
    pub random: Random,
    /// How fast the world turns.
    pub pace: Pace,
    /// Who notices that a node has fallen silent.
    pub monitor: Monitor,
    clients: Arc<dyn Fn(&str) -> Client + Send + Sync>,
}

impl Environment {
    /// A environment whose clients, by their user agent, come from `clients`.
    pub fn new(
        clock: Clock,
        random: Random,
        pace: Pace,
        clients: impl Fn(&str) -> Client + Send + Sync + 'static,
    ) -> Self {
        let monitor = Monitor::Grace(pace.silence);
        Self { clock, random, pace, monitor, clients: Arc::new(clients) }
    }

    /// The same environment where somebody binds, replaces and counts pods and notices silent nodes: a real control plane does, and so
    /// does the simulated kube-controllers.
    #[must_use]
    pub fn peopled(self) -> Self {
        Self { monitor: Monitor::Absent, ..self }
    }

    /// The API server of a kubeconfig, at a pace that does not bore.
    pub fn real(kubeconfig: &Path) -> Result<Self, Broken> {
        let odd = |error: &dyn std::error::Error| Broken::Promise(error.to_string());
        let source = Source::Kubeconfig { path: kubeconfig.to_owned(), flag: "--kubeconfig".to_owned() };
        let connection = Connection::load(&source).map_err(|error| odd(&error))?;
        let metrics = Metrics::new().map_err(|error| odd(&error))?;
        Ok(Self::new(Clock::system(), Random::from_entropy(), Pace::brisk(), move |agent| {
            let agent = UserAgent::new(agent, env!("CARGO_PKG_VERSION"), "e2e");
            connection.client(&ClientSpec::new(agent), &metrics.rest)
        }))
    }

    /// A client that introduces itself like this.
    pub fn client(&self, agent: &str) -> Client {
        (self.clients)(agent)
    }
}

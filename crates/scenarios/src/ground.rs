//! Where scenarios play.

use std::sync::Arc;

use kube::Client;
use runtime::{Clock, Random};

use crate::Pace;

/// An API server that serves our kinds, and a pace. Clones are the same ground.
#[derive(Clone)]
pub struct Ground {
    /// The time, which is the API server's too.
    pub clock: Clock,
    /// Where chance comes from.
    pub random: Random,
    /// How fast the world turns.
    pub pace: Pace,
    clients: Arc<dyn Fn(&str) -> Client + Send + Sync>,
}

impl Ground {
    /// A ground whose clients, by their user agent, come from `clients`.
    pub fn new(
        clock: Clock,
        random: Random,
        pace: Pace,
        clients: impl Fn(&str) -> Client + Send + Sync + 'static,
    ) -> Self {
        Self { clock, random, pace, clients: Arc::new(clients) }
    }

    /// A client that introduces itself like this.
    pub fn client(&self, agent: &str) -> Client {
        (self.clients)(agent)
    }
}

//! What one client is allowed to do.

use std::sync::Arc;
use std::time::Duration;

use super::agent::UserAgent;
use super::server_time::ServerTime;
use crate::lease::Leadership;

/// One client out of several that share a connection to one API server.
///
/// The reference gives each of its clients a token bucket of its own, so that watching nodes cannot starve the writing of
/// machines; the lease has none, because a leader that is late with it is none.
#[derive(Clone, Debug)]
pub struct ClientSpec {
    /// How it introduces itself.
    pub agent: UserAgent,
    /// `--kube-api-qps` and `--kube-api-burst`, or no limit.
    pub limit: Option<Qps>,
    /// What happens to a request that finds the bucket empty.
    pub when_full: WhenFull,
    /// How long a call may take from being sent to the last byte of its answer; for a watch, to its beginning.
    pub deadline: Duration,
    /// With whom it shares connections.
    pub connections: ConnectionUse,
    /// Whose right its writes depend on.
    pub right: Option<Leadership>,
    /// Where the time that responses show is noted.
    pub server_time: ServerTime,
}

/// A condition that is evaluated after a request has waited for the rate limit, immediately before it is sent. If it no longer
/// holds, the request is not sent and fails with [`Failure::Withdrawn`](super::Failure::Withdrawn).
#[derive(Clone)]
pub struct SendCheck(Arc<dyn Fn() -> bool + Send + Sync>);

impl SendCheck {
    /// Wraps a condition. It must neither block nor wait.
    pub fn new(holds: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        Self(Arc::new(holds))
    }

    pub(crate) fn holds(&self) -> bool {
        (self.0)()
    }
}

/// A rate limit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Qps {
    /// Requests per second, in the long run.
    pub qps: f32,
    /// Requests at once, after a rest.
    pub burst: u32,
}

/// What a client does when its bucket is empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WhenFull {
    /// Requests wait their turn, first come first served.
    Wait,
    /// Requests fail at once and never leave; for what is worth less than the wait, like Events.
    Refuse,
}

/// With whom a client shares its connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnectionUse {
    /// With all clients of the same connection.
    Shared,
    /// With nobody: what it sends never queues behind a large list. For leases.
    Own,
}

impl ClientSpec {
    /// A client without rate limit on shared connections, whose calls may take a minute, as the reference's.
    pub fn new(agent: UserAgent) -> Self {
        Self {
            agent,
            limit: None,
            when_full: WhenFull::Wait,
            deadline: Duration::from_mins(1),
            connections: ConnectionUse::Shared,
            right: None,
            server_time: ServerTime::default(),
        }
    }

    /// With a token bucket of its own.
    #[must_use]
    pub fn limited(self, qps: f32, burst: u32) -> Self {
        Self { limit: Some(Qps { qps, burst }), ..self }
    }

    /// Failing requests at once when the bucket is empty.
    #[must_use]
    pub fn refusing_when_full(self) -> Self {
        Self { when_full: WhenFull::Refuse, ..self }
    }

    /// With another deadline.
    #[must_use]
    pub fn within(self, deadline: Duration) -> Self {
        Self { deadline, ..self }
    }

    /// Writing only while it leads. Asked last, when a request has waited for its turn and is about to leave: who asks before that
    /// may have lost the right in the queue.
    #[must_use]
    pub fn while_leading(self, right: Leadership) -> Self {
        Self { right: Some(right), ..self }
    }

    /// Noting the time that responses show.
    #[must_use]
    pub fn noting(self, server_time: &ServerTime) -> Self {
        Self { server_time: server_time.clone(), ..self }
    }

    /// On connections of its own.
    #[must_use]
    pub fn on_own_connections(self) -> Self {
        Self { connections: ConnectionUse::Own, ..self }
    }
}

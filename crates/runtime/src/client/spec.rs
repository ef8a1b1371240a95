//! Settings of one client.

use std::sync::Arc;
use std::time::Duration;

use super::agent::UserAgent;
use super::server_time::ServerTime;
use crate::lease::Leadership;

/// One of several clients that share a connection to one API server.
///
/// MCM has a separate token bucket for each client, so that Node watches cannot starve writes of Machines. The lease
/// client has none, because a delayed renewal loses the lease.
#[derive(Clone, Debug)]
pub struct ClientSpec {
    /// User agent.
    pub agent: UserAgent,
    /// `--kube-api-qps` and `--kube-api-burst`, or no limit.
    pub limit: Option<Qps>,
    /// How a request is handled if the bucket is empty.
    pub when_full: WhenFull,
    /// Timeout of a call from sending to the last byte of its response; for a watch, to the start of its response.
    pub deadline: Duration,
    /// Which connections it shares.
    pub connections: ConnectionUse,
    /// Leadership that writes require.
    pub right: Option<Leadership>,
    /// Where the time of responses is recorded.
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
    /// Requests per second on average.
    pub qps: f32,
    /// Requests at once after an idle time.
    pub burst: u32,
}

/// What a client does if its bucket is empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WhenFull {
    /// Requests wait, first come first served.
    Wait,
    /// Requests fail immediately and are not sent; for requests that are not worth the wait, such as Events.
    Refuse,
}

/// Which connections a client shares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnectionUse {
    /// Shared with all clients of the same connection.
    Shared,
    /// Not shared: its requests never wait behind a large list. For leases.
    Own,
}

impl ClientSpec {
    /// Returns a client without a rate limit on shared connections, with a timeout of one minute, as in MCM.
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

    /// Sets a separate token bucket.
    #[must_use]
    pub fn limited(self, qps: f32, burst: u32) -> Self {
        Self { limit: Some(Qps { qps, burst }), ..self }
    }

    /// Requests fail immediately if the bucket is empty.
    #[must_use]
    pub fn refusing_when_full(self) -> Self {
        Self { when_full: WhenFull::Refuse, ..self }
    }

    /// Sets another timeout.
    #[must_use]
    pub fn within(self, deadline: Duration) -> Self {
        Self { deadline, ..self }
    }

    /// Allows writes only while leading. The leadership is checked immediately before a request is sent: an earlier
    /// check would miss a loss of the lease during the wait for the rate limit.
    #[must_use]
    pub fn while_leading(self, right: Leadership) -> Self {
        Self { right: Some(right), ..self }
    }

    /// Records the time of responses.
    #[must_use]
    pub fn noting(self, server_time: &ServerTime) -> Self {
        Self { server_time: server_time.clone(), ..self }
    }

    /// Uses separate connections.
    #[must_use]
    pub fn on_own_connections(self) -> Self {
        Self { connections: ConnectionUse::Own, ..self }
    }
}

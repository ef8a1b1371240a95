//! The connection to a driver: at most one, replaced when it is lost.
//!
//! A call without a connection opens one and first requests the driver's description; concurrent calls wait for the
//! result. After a failed attempt, calls fail immediately with its error until the backoff ends, so that a driver that
//! is down costs a thousand machines no connection attempts.

use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use driver::text::printable;
use driver::{Capabilities, Support};
use futures::future::BoxFuture;
use http::Uri;
use http_body_util::Limited;
use hyper::body::Incoming;
use hyper::client::conn::http2;
use hyper_util::rt::{TokioIo, TokioTimer};
use parking_lot::Mutex;
use runtime::{Exponential, Random, Tasks};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::dial::Dial;
use crate::link_error::LinkError;
use crate::messages::DescribeRequest;
use crate::messages::driver_client::DriverClient;

/// Timeout for connecting to a driver, from the first packet to its description.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Backoff after failed attempts.
const BACKOFF: Exponential = Exponential::new(Duration::from_millis(200), Duration::from_secs(10));
/// Spreads the reconnects of many callers after a restart of the driver.
const JITTER: f64 = 0.5;
/// A connection that lasted this long resets the backoff of connections that did not last.
const STABLE_AFTER: Duration = Duration::from_secs(30);
/// Interval of keepalive pings on an idle connection. Go servers close connections of clients that ping more often than
/// every five minutes.
const PING_EVERY: Duration = Duration::from_secs(310);
const PING_ANSWERED_WITHIN: Duration = Duration::from_secs(20);
/// Maximum size of a list, as the protocol specifies, and of a request.
pub(crate) const MAX_LIST: usize = 64 << 20;
/// Maximum size of any other response. Fifty concurrent responses must fit into memory.
pub(crate) const MAX_RESPONSE: usize = 4 << 20;
/// Maximum length of any response, including endless streams.
const MAX_RESPONSE_LENGTH: usize = MAX_LIST + (1 << 20);

/// The caller and its resources.
#[derive(Clone, Debug)]
pub struct Caller {
    /// Program and version, for the driver's log.
    pub name: String,
    /// Randomness for waits.
    pub random: Random,
    /// The owner of the connection.
    pub tasks: Tasks,
}

pub(crate) type Client = DriverClient<Carrier>;

pub(crate) struct DriverConnection {
    dial: Box<dyn Dial>,
    caller: Caller,
    state: tokio::sync::Mutex<State>,
    described: Mutex<Option<Described>>,
    /// Counts how often a different driver has responded.
    changes: watch::Sender<u64>,
}

/// The description of the driver.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Described {
    name: String,
    version: String,
    capabilities: Capabilities,
}

struct State {
    link: Link,
    /// Number of consecutive connections that did not last for [`STABLE_AFTER`].
    short_lived: u32,
}

enum Link {
    Untried,
    Up { client: Client, connection: http2::SendRequest<tonic::body::Body>, since: Instant, next: Instant },
    Down { setbacks: u32, until: Instant, why: Arc<LinkError> },
}

impl State {
    /// Returns the connection, or the number of failed attempts before the next one.
    fn usable(&mut self, place: impl FnOnce() -> String) -> Result<Usable, Arc<LinkError>> {
        match &self.link {
            Link::Untried => Ok(Usable::Attempt { setbacks: 0 }),
            Link::Up { client, connection, .. } if !connection.is_closed() => Ok(Usable::Client(client.clone())),
            Link::Up { next, .. } if Instant::now() < *next => Err(Arc::new(LinkError::Unstable { place: place() })),
            Link::Up { since, .. } => {
                let lasted = Instant::now() >= *since + STABLE_AFTER;
                self.short_lived = if lasted { 0 } else { self.short_lived.saturating_add(1) };
                self.link = Link::Untried;
                Ok(Usable::Attempt { setbacks: 0 })
            }
            Link::Down { until, why, .. } if Instant::now() < *until => Err(why.clone()),
            Link::Down { setbacks, .. } => Ok(Usable::Attempt { setbacks: *setbacks }),
        }
    }
}

enum Usable {
    Client(Client),
    Attempt { setbacks: u32 },
}

impl DriverConnection {
    pub(crate) fn new(dial: Box<dyn Dial>, caller: Caller) -> Self {
        let state = tokio::sync::Mutex::new(State { link: Link::Untried, short_lived: 0 });
        Self { dial, caller, state, described: Mutex::new(None), changes: watch::Sender::default() }
    }

    /// Returns the capabilities of the last description.
    pub(crate) fn capabilities(&self) -> Capabilities {
        self.described.lock().as_ref().map_or(Capabilities::MINIMAL, |described| described.capabilities)
    }

    /// Signals when a different driver responds.
    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// Returns a connection whose driver has described itself.
    pub(crate) async fn client(&self) -> Result<Client, Arc<LinkError>> {
        let mut state = self.state.lock().await;
        let setbacks = match state.usable(|| self.dial.place())? {
            Usable::Client(client) => return Ok(client),
            Usable::Attempt { setbacks } => setbacks,
        };
        match self.reach().await {
            Ok((client, connection)) => {
                let since = Instant::now();
                // The first lost connection is replaced immediately.
                let next = match state.short_lived {
                    0 => since,
                    times => since + self.caller.random.stretched(BACKOFF.after(times), JITTER),
                };
                state.link = Link::Up { client: client.clone(), connection, since, next };
                Ok(client)
            }
            Err(why) => {
                let why = Arc::new(why);
                let wait = BACKOFF.after(setbacks.saturating_add(1));
                let until = Instant::now() + self.caller.random.stretched(wait, JITTER);
                tracing::debug!(why = %why.sentence(), setbacks, "failed to reach the driver");
                state.link = Link::Down { setbacks: setbacks.saturating_add(1), until, why: why.clone() };
                Err(why)
            }
        }
    }

    /// Returns the time of the next attempt.
    pub(crate) async fn next_attempt(&self) -> Instant {
        match self.state.lock().await.link {
            Link::Down { until, .. } => until,
            Link::Up { next, .. } => next.max(Instant::now()),
            Link::Untried => Instant::now(),
        }
    }

    async fn reach(&self) -> Result<(Client, http2::SendRequest<tonic::body::Body>), LinkError> {
        let too_slow = |_| LinkError::Timeout { place: self.dial.place(), after: CONNECT_TIMEOUT };
        tokio::time::timeout(CONNECT_TIMEOUT, self.connect()).await.map_err(too_slow)?
    }

    async fn connect(&self) -> Result<(Client, http2::SendRequest<tonic::body::Body>), LinkError> {
        let io = self.dial.dial().await?;
        let broken = |source| LinkError::Handshake { place: self.dial.place(), source };
        let (send, connection) = http2::Builder::new(EndsWith(self.caller.tasks.clone()))
            .timer(TokioTimer::new())
            .keep_alive_interval(PING_EVERY)
            .keep_alive_timeout(PING_ANSWERED_WITHIN)
            .handshake(TokioIo::new(io))
            .await
            .map_err(|source| broken(Box::new(source)))?;
        self.keep(Box::pin(connection));
        let origin: Uri = self.dial.origin().parse().map_err(|_| LinkError::Name { place: self.dial.place() })?;
        let client = DriverClient::with_origin(Carrier(send.clone()), origin)
            .max_decoding_message_size(MAX_RESPONSE)
            .max_encoding_message_size(MAX_LIST);
        self.describe(client.clone()).await?;
        Ok((client, send))
    }

    /// Keeps a connection until it ends or the tasks are stopped.
    fn keep(&self, connection: BoxFuture<'static, hyper::Result<()>>) {
        let (stopping, place) = (self.caller.tasks.stopping(), self.dial.place());
        self.caller.tasks.spawn("driver connection", async move {
            tokio::select! {
                biased;
                () = stopping.cancelled() => {}
                ended = connection => match ended {
                    Ok(()) => tracing::debug!(%place, "connection to the driver was closed"),
                    Err(error) => {
                        tracing::debug!(%place, error = printable(&error.to_string()), "lost the connection to the driver");
                    }
                }
            }
        });
    }

    async fn describe(&self, mut client: Client) -> Result<(), LinkError> {
        let asked = client.describe(DescribeRequest { client: self.caller.name.clone() }).await;
        let said = asked.map_err(|status| match status.code() {
            tonic::Code::Unimplemented => LinkError::Protocol { place: self.dial.place() },
            _ => LinkError::Describe { place: self.dial.place(), source: Box::new(status) },
        })?;
        let said = said.into_inner();
        let offered = said.capabilities.unwrap_or_default();
        let support = |offered| if offered { Support::Offered } else { Support::NotOffered };
        let capabilities = Capabilities {
            initialize: support(offered.initialize),
            status: support(offered.status),
            list: support(offered.list),
            volume_ids: support(offered.volume_ids),
        };
        tracing::info!(
            place = %self.dial.place(), driver = printable(&said.name), version = printable(&said.version), ?capabilities,
            "connected to the driver"
        );
        let described = Described { name: said.name, version: said.version, capabilities };
        let before = self.described.lock().replace(described.clone());
        if before.is_some_and(|before| before != described) {
            self.changes.send_modify(|changes| *changes += 1);
        }
        Ok(())
    }
}

/// Runs hyper's tasks, including the one that transfers the bytes of a connection, until all tasks end.
#[derive(Clone)]
struct EndsWith(Tasks);

impl<F> hyper::rt::Executor<F> for EndsWith
where
    F: Future<Output: Send + 'static> + Send + 'static,
{
    fn execute(&self, work: F) {
        let stopping = self.0.stopping();
        self.0.spawn("driver protocol", async move {
            tokio::select! {
                biased;
                () = stopping.cancelled() => {}
                _ended = work => {}
            }
        });
    }
}

/// Sends requests over one connection.
#[derive(Clone)]
pub(crate) struct Carrier(http2::SendRequest<tonic::body::Body>);

impl tower::Service<http::Request<tonic::body::Body>> for Carrier {
    type Response = http::Response<Limited<Incoming>>;
    type Error = hyper::Error;
    type Future = BoxFuture<'static, Result<Self::Response, hyper::Error>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), hyper::Error>> {
        self.0.poll_ready(context)
    }

    fn call(&mut self, request: http::Request<tonic::body::Body>) -> Self::Future {
        let answer = self.0.send_request(request);
        Box::pin(async move { Ok(answer.await?.map(|body| Limited::new(body, MAX_RESPONSE_LENGTH))) })
    }
}

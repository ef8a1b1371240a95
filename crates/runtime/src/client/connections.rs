//! Pool of HTTP connections to one API server.
//!
//! Watches and calls never share a connection: a burst of watch events must not delay a write, and a large list must
//! not starve a watch. No connection carries more than 80 streams: API servers allow 100, and a further request does
//! not fail but waits, forever if all 100 streams are watches. Therefore another connection is opened before that, and
//! closed when it was idle for a while. The last connection for each kind of traffic stays open, so that the next write
//! needs no handshake.
//!
//! A stream counts from the request for a connection until its response was read to the end or dropped. If a connection
//! is being opened, further requests wait for it instead of opening another one, and share its failure. If a connection
//! returns a request unwritten, because the server just closed it, the request is sent on the next connection. It was
//! never sent, so nothing is repeated.
//!
//! A connection uses the credentials with which it was opened. After a renewal, new requests do not use it any more.
//! Its open streams continue, and it is closed with the last of them.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::task::{Context, Poll};
use std::time::Duration;

use futures::future::BoxFuture;
use http::{Request, Response};
use hyper::rt::Executor;
use hyper_util::rt::TokioExecutor;
use kube::client::Body;
use parking_lot::Mutex;
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, sleep_until};
use tower::{BoxError, Service};

use super::address;
use super::dial::{Dial, DialError, Protocol};
use super::failure::Failure;
use super::http_connection::{self, MOST_STREAMS, Sender, TrackedBody, Traffic, Undelivered};

/// Maximum idle time of an extra connection.
const IDLE: Duration = Duration::from_secs(90);

/// Number of times a request may be returned unwritten before the server counts as unreachable.
const ATTEMPTS: u32 = 3;

/// The connections to one API server. Cheap to clone; clones share them. The connections are closed with the last clone
/// and the last response body.
#[derive(Clone)]
pub(crate) struct Connections {
    pool: Arc<Pool>,
}

struct Pool {
    dial: Arc<dyn Dial>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    watches: Vec<PooledConnection>,
    calls: Vec<PooledConnection>,
    /// The protocol that the server used last. It determines how many requests may wait for a connection that is being
    /// opened.
    spoken: Option<Protocol>,
    next: u64,
}

struct PooledConnection {
    id: u64,
    /// The generation of the credentials.
    era: u64,
    streams: usize,
    room: Arc<AtomicUsize>,
    phase: Phase,
    idle_since: Option<Instant>,
    /// Notified when the last stream has ended.
    rested: Arc<Notify>,
}

enum Phase {
    Opening(watch::Receiver<Outcome>),
    Open(Sender),
}

/// The result of opening a connection, when it is known.
type Outcome = Option<Result<(), Arc<DialError>>>;

/// A stream slot on a connection, released on drop.
pub(crate) struct Slot {
    pool: Arc<Pool>,
    traffic: Traffic,
    id: u64,
    /// Number of slots taken before this one.
    place: usize,
}

enum Acquired {
    Ready(Slot, Sender),
    Wait(Slot, watch::Receiver<Outcome>),
}

impl Connections {
    pub(crate) fn new(dial: Arc<dyn Dial>) -> Self {
        Self { pool: Arc::new(Pool { dial, state: Mutex::default() }) }
    }

    async fn send(&self, mut request: Request<Body>) -> Result<Response<TrackedBody<Slot>>, Failure> {
        let traffic = if address::is_watch(request.uri()) { Traffic::Watches } else { Traffic::Calls };
        let mut refusal = None;
        for _ in 0..ATTEMPTS {
            let Some((slot, sender)) = self.find(traffic).await? else { continue };
            match sender.send(request).await {
                Ok(answer) => return Ok(answer.map(|body| TrackedBody::new(body, slot))),
                Err(Undelivered::Lost(why)) => return Err(Failure::Lost(why)),
                Err(Undelivered::Returned(returned, why)) => {
                    self.pool.remove(traffic, slot.id);
                    request = *returned;
                    refusal = Some(why);
                }
            }
        }
        Err(Failure::Unsent { attempts: ATTEMPTS, source: refusal })
    }

    /// Returns a slot on an open connection, or `None` if the connection was closed before it could be used.
    async fn find(&self, traffic: Traffic) -> Result<Option<(Slot, Sender)>, Failure> {
        loop {
            let (slot, mut opening) = match self.pool.acquire(traffic) {
                Acquired::Ready(slot, sender) => return Ok(Some((slot, sender))),
                Acquired::Wait(slot, opening) => (slot, opening),
            };
            let outcome = opening.wait_for(Option::is_some).await.map(|outcome| outcome.clone());
            match outcome {
                Ok(Some(Err(why))) => return Err(Failure::Dial(why)),
                Ok(_) => {}
                Err(_) => return Err(Failure::Dial(Arc::new(DialError::Abandoned))),
            }
            match self.pool.sender(traffic, slot.id) {
                None => return Ok(None),
                // The requests waited for a connection that uses HTTP/1.1: the first one gets it, the others retry.
                Some((_, room)) if slot.place >= room => {}
                Some((sender, _)) => return Ok(Some((slot, sender))),
            }
        }
    }
}

impl Pool {
    /// Takes a slot on the oldest connection with a free slot, so that the newer ones become idle, or on a new
    /// connection.
    fn acquire(self: &Arc<Self>, traffic: Traffic) -> Acquired {
        let era = self.dial.era();
        let mut state = self.state.lock();
        // Connections removed from the pool are not closed: their open streams continue.
        state.retain(|connection| connection.era >= era && !connection.is_closed());
        let room_while_opening = if state.spoken == Some(Protocol::Http1) { 1 } else { MOST_STREAMS };
        let connections = state.connections(traffic);
        if let Some(connection) =
            connections.iter_mut().find(|connection| connection.streams < connection.room.load(Ordering::Relaxed))
        {
            let slot = connection.take(self, traffic);
            return match &connection.phase {
                Phase::Open(sender) => Acquired::Ready(slot, sender.clone()),
                Phase::Opening(outcome) => Acquired::Wait(slot, outcome.clone()),
            };
        }
        let (tell, outcome) = watch::channel(None);
        let mut connection = PooledConnection {
            id: state.next,
            era,
            streams: 0,
            room: Arc::new(AtomicUsize::new(room_while_opening)),
            phase: Phase::Opening(outcome.clone()),
            idle_since: None,
            rested: Arc::new(Notify::new()),
        };
        let slot = connection.take(self, traffic);
        let task = ConnectionTask {
            pool: Arc::downgrade(self),
            traffic,
            id: connection.id,
            room: connection.room.clone(),
            rested: connection.rested.clone(),
        };
        state.next += 1;
        state.connections(traffic).push(connection);
        // As hyper does, drive the connection on the executor. The task ends with its connection, and the connection
        // ends when the pool has dropped its sender.
        TokioExecutor::new().execute(task.run(self.dial.clone(), tell));
        Acquired::Wait(slot, outcome)
    }

    fn sender(&self, traffic: Traffic, id: u64) -> Option<(Sender, usize)> {
        let mut state = self.state.lock();
        let connection = state.connections(traffic).iter().find(|connection| connection.id == id)?;
        match &connection.phase {
            Phase::Open(sender) => Some((sender.clone(), connection.room.load(Ordering::Relaxed))),
            Phase::Opening(_) => None,
        }
    }

    fn opened(&self, traffic: Traffic, id: u64, sender: Sender) {
        let mut state = self.state.lock();
        state.spoken = Some(sender.protocol());
        if let Some(connection) = state.connections(traffic).iter_mut().find(|connection| connection.id == id) {
            connection.phase = Phase::Open(sender);
        }
    }

    fn release(&self, traffic: Traffic, id: u64) {
        let mut state = self.state.lock();
        let Some(connection) = state.connections(traffic).iter_mut().find(|connection| connection.id == id) else {
            return;
        };
        connection.streams = connection.streams.saturating_sub(1);
        if connection.streams == 0 {
            connection.idle_since = Some(Instant::now());
            connection.rested.notify_one();
        }
    }

    fn remove(&self, traffic: Traffic, id: u64) {
        self.state.lock().connections(traffic).retain(|connection| connection.id != id);
    }

    /// Removes a connection that was idle for long enough and is not the last one; otherwise returns when to check
    /// again.
    fn retire(&self, traffic: Traffic, id: u64) -> Rest {
        let mut state = self.state.lock();
        let connections = state.connections(traffic);
        let last = connections.len() == 1;
        let Some(connection) = connections.iter().find(|connection| connection.id == id) else { return Rest::Retired };
        match connection.idle_since.map(|since| since + IDLE) {
            Some(until) if until > Instant::now() => Rest::Until(until),
            Some(_) if !last => {
                connections.retain(|connection| connection.id != id);
                Rest::Retired
            }
            _ => Rest::Needed,
        }
    }
}

/// Whether a connection can be closed.
enum Rest {
    /// It carries streams, or it is the last one.
    Needed,
    /// It is idle, but not for long enough.
    Until(Instant),
    /// It was removed from the pool.
    Retired,
}

impl State {
    fn connections(&mut self, traffic: Traffic) -> &mut Vec<PooledConnection> {
        match traffic {
            Traffic::Watches => &mut self.watches,
            Traffic::Calls => &mut self.calls,
        }
    }

    fn retain(&mut self, keep: impl Fn(&PooledConnection) -> bool) {
        self.watches.retain(&keep);
        self.calls.retain(&keep);
    }
}

impl PooledConnection {
    fn take(&mut self, pool: &Arc<Pool>, traffic: Traffic) -> Slot {
        let place = self.streams;
        self.streams += 1;
        self.idle_since = None;
        Slot { pool: pool.clone(), traffic, id: self.id, place }
    }

    fn is_closed(&self) -> bool {
        matches!(&self.phase, Phase::Open(sender) if sender.is_closed())
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.pool.release(self.traffic, self.id);
    }
}

/// One connection from its dial to its end, in its own task: a cancelled request must not close the connection.
struct ConnectionTask {
    pool: Weak<Pool>,
    traffic: Traffic,
    id: u64,
    room: Arc<AtomicUsize>,
    rested: Arc<Notify>,
}

impl ConnectionTask {
    async fn run(self, dial: Arc<dyn Dial>, tell: watch::Sender<Outcome>) {
        let opened = match dial.dial().await {
            Ok(dialed) => http_connection::open(dialed, self.traffic, self.room.clone()).await,
            Err(why) => Err(why),
        };
        match opened {
            Err(why) => {
                // Remove it from the pool before the failure is reported, so that a retry opens a new connection.
                self.leave();
                tell.send_replace(Some(Err(Arc::new(why))));
            }
            Ok((sender, mut drive)) => {
                let Some(pool) = self.pool.upgrade() else { return };
                pool.opened(self.traffic, self.id, sender);
                drop(pool);
                tell.send_replace(Some(Ok(())));
                drop(tell);
                tokio::select! {
                    biased;
                    () = &mut drive => {}
                    () = self.rest() => drive.await,
                }
                self.leave();
            }
        }
    }

    async fn rest(&self) {
        loop {
            let Some(pool) = self.pool.upgrade() else { return };
            let rest = pool.retire(self.traffic, self.id);
            drop(pool);
            match rest {
                Rest::Needed => self.rested.notified().await,
                Rest::Until(until) => sleep_until(until).await,
                Rest::Retired => return,
            }
        }
    }

    fn leave(&self) {
        if let Some(pool) = self.pool.upgrade() {
            pool.remove(self.traffic, self.id);
        }
    }
}

impl Service<Request<Body>> for Connections {
    type Response = Response<TrackedBody<Slot>>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Self::Response, BoxError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let connections = self.clone();
        Box::pin(async move { connections.send(request).await.map_err(BoxError::from) })
    }
}

#[cfg(test)]
mod tests;

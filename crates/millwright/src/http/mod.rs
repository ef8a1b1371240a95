//! HTTP endpoints of a process: health, readiness, metrics and debugging.
//!
//! | path | response |
//! | --- | --- |
//! | `/healthz` | `OK`, or `Unhealthy` if a task is stuck and only a restart helps (`runtime::watchdog`) |
//! | `/readyz` | 200 once all caches are synced; `?verbose` shows the leader, a freeze, and the age of the caches |
//! | `/metrics` | metrics of this component in the text format of Prometheus |
//! | `/configz` | `{}`, as in MCM |
//! | `/debug/state` | with `--profiling`: work queues, caches, driver calls, drains, and what each object waits for |
//!
//! The server starts before everything else, so that the state of a process that waits for its API server can be
//! queried, and it stops last. There are five pages with few parameters, so hyper, which is linked for the client
//! anyway, is sufficient.
//!
//! Clients cannot delay the controllers or each other. A connection carries one request and has a deadline. If there
//! are too many connections, the oldest are closed. Expensive pages are built one at a time, on the blocking threads of
//! the runtime.

mod accept;
mod connection_limit;
mod controller_state;
mod last_decisions;
mod pages;
mod readiness;
mod rebinding;
mod state;

use std::convert::Infallible;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use runtime::{Clock, Metrics, Tasks, Watchdog};
use tokio::net::{TcpListener, TcpStream};

pub(crate) use accept::accept;
pub(crate) use controller_state::ControllerState;
pub(crate) use last_decisions::LastDecisions;
#[cfg(feature = "inspect")]
pub(crate) use rebinding::requested_host;

use pages::Pages;

/// Timeout for the headers of a request.
const HEADER_TIMEOUT: Duration = Duration::from_secs(10);
/// Timeout for a connection.
const CONNECTION_TIMEOUT: Duration = Duration::from_mins(1);
/// Maximum size of the headers of a request. The body is not read.
const MAX_HEADER_SIZE: usize = 16 * 1024;
/// Interval of the timer check of the async runtime, and its timeout.
const TICK: (Duration, Duration) = (Duration::from_secs(1), Duration::from_mins(1));

/// What the endpoints of one port show.
pub(crate) struct Served {
    /// Metrics of this component.
    pub(crate) metrics: Metrics,
    /// Detects stuck tasks.
    pub(crate) watchdog: Watchdog,
    /// State of the controllers, after they have started.
    pub(crate) controller_state: ControllerState,
    /// Whether `/debug/state` is served (`--profiling`).
    pub(crate) state_page: StatePage,
    /// Clock.
    pub(crate) clock: Clock,
}

/// Whether `/debug/state` is served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StatePage {
    /// Served to every client of the port. It contains names of Machines and Nodes, and responses of clouds.
    Shown,
    /// Not served.
    Hidden,
}

/// The port is not available. The process exits with 255, as MCM does.
#[derive(Debug, thiserror::Error)]
#[error("failed to listen on {address} for health and metrics ({flags}): {source}")]
pub(crate) struct ListenError {
    address: SocketAddr,
    flags: &'static str,
    source: io::Error,
}

/// Starts listening. `flags` are the flags that configure the address.
pub(crate) async fn listen(address: IpAddr, port: u16, flags: &'static str) -> Result<TcpListener, ListenError> {
    let address = SocketAddr::new(address, port);
    TcpListener::bind(address).await.map_err(|source| ListenError { address, flags, source })
}

/// Serves requests until `tasks` stops. `tasks` must be a group of its own (`Tasks::beside`), because the server stops
/// last.
pub(crate) async fn serve(listener: TcpListener, served: Served, tasks: Tasks) {
    tasks.spawn("ticker", tick(served.watchdog.clone(), tasks.stopping()));
    let pages = Arc::new(Pages::new(served));
    accept(listener, tasks, "http", move |socket| {
        let attending = tokio::time::timeout(CONNECTION_TIMEOUT, attend(socket, pages.clone()));
        async move { attending.await.unwrap_or_default() }
    })
    .await;
}

/// Serves one connection. Connection errors are ignored.
async fn attend(socket: TcpStream, pages: Arc<Pages>) {
    let answer = service_fn(move |request: Request<Incoming>| {
        let pages = pages.clone();
        async move {
            let answer = pages.answer(request.method(), request.uri(), request.headers()).await;
            Ok::<Response<Full<Bytes>>, Infallible>(answer)
        }
    });
    let mut builder = http1::Builder::new();
    builder
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_TIMEOUT)
        .max_buf_size(MAX_HEADER_SIZE)
        .keep_alive(false);
    let _ignored = builder.serve_connection(TokioIo::new(socket), answer).await;
}

/// Checks that timers fire and tasks run.
async fn tick(watchdog: Watchdog, stopping: tokio_util::sync::CancellationToken) {
    let (every, timeout) = TICK;
    let ticking = watchdog.follow("the async runtime", timeout, async {
        loop {
            tokio::time::sleep(every).await;
        }
    });
    tokio::select! {
        biased;
        () = stopping.cancelled() => {}
        never = ticking => never,
    }
}

#[cfg(test)]
mod tests;

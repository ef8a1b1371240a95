//! What a process tells over HTTP: whether it moves, whether it is ready, its numbers, and why nothing happens.
//!
//! | page | says |
//! | --- | --- |
//! | `/healthz` | `OK`, or `Unhealthy` when a loop of ours has stopped moving and only a restart helps (`runtime::watchdog`) |
//! | `/readyz` | 200 once all caches have been read, as leader or not; `?verbose` says who leads, whether we are frozen, how old our connectivity is |
//! | `/metrics` | the numbers of this component, in the text format of Prometheus |
//! | `/configz` | `{}`, as in the reference |
//! | `/debug/state` | with `--profiling`: queues, caches, driver calls, drains, and what each object waits for |
//!
//! It listens before anything else happens, so that a process that waits for its API server can be asked what it waits for, and it
//! stops last. There are five pages and no parameters worth the name, so hyper, which is linked for the client anyway, is enough
//! and a framework would only be more to keep up to date.
//!
//! Nobody who asks can hold up the controllers or each other: a connection carries one request and ends soon, whoever is slow is
//! dropped when others come, and what takes time to put together is made one at a time, off the threads that work on machines.

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

/// How long a request may take to arrive.
const HEAD_WITHIN: Duration = Duration::from_secs(10);
/// How long a connection may last, from the first byte to the last.
const ALL_WITHIN: Duration = Duration::from_mins(1);
/// The longest head of a request; what follows it is not read.
const LONGEST_HEAD: usize = 16 * 1024;
/// How often the async runtime has to show that its timers work, and how late it may be.
const TICK: (Duration, Duration) = (Duration::from_secs(1), Duration::from_mins(1));

/// What one port tells about.
pub(crate) struct Served {
    /// The numbers of this component.
    pub(crate) metrics: Metrics,
    /// Whether the loops of the process move.
    pub(crate) watchdog: Watchdog,
    /// What there is to see of the controllers, as soon as there is something.
    pub(crate) controller_state: ControllerState,
    /// Whether `/debug/state` is shown (`--profiling`).
    pub(crate) state_page: StatePage,
    /// The time.
    pub(crate) clock: Clock,
}

/// Whether `/debug/state` is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StatePage {
    /// To anyone who can reach the port: it names machines and nodes, and says what clouds answered.
    Shown,
    /// To nobody.
    Hidden,
}

/// The port could not be had. The process ends with 255, as the reference's does.
#[derive(Debug, thiserror::Error)]
#[error("failed to listen on {address} for health and metrics ({flags}): {source}")]
pub(crate) struct ListenError {
    address: SocketAddr,
    flags: &'static str,
    source: io::Error,
}

/// Takes the port; `flags` are the ones that chose it.
pub(crate) async fn listen(address: IpAddr, port: u16, flags: &'static str) -> Result<TcpListener, ListenError> {
    let address = SocketAddr::new(address, port);
    TcpListener::bind(address).await.map_err(|source| ListenError { address, flags, source })
}

/// Answers until `tasks` is asked to stop. Give it a group of its own (`Tasks::beside`): it ends last.
pub(crate) async fn serve(listener: TcpListener, served: Served, tasks: Tasks) {
    tasks.spawn("ticker", tick(served.watchdog.clone(), tasks.stopping()));
    let pages = Arc::new(Pages::new(served));
    accept(listener, tasks, "http", move |socket| {
        let attending = tokio::time::timeout(ALL_WITHIN, attend(socket, pages.clone()));
        async move { attending.await.unwrap_or_default() }
    })
    .await;
}

/// Serves one connection. What goes wrong on it is the client's to notice.
async fn attend(socket: TcpStream, pages: Arc<Pages>) {
    let answer = service_fn(move |request: Request<Incoming>| {
        let pages = pages.clone();
        async move {
            let answer = pages.answer(request.method(), request.uri(), request.headers()).await;
            Ok::<Response<Full<Bytes>>, Infallible>(answer)
        }
    });
    let mut builder = http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(HEAD_WITHIN).max_buf_size(LONGEST_HEAD).keep_alive(false);
    let _ended = builder.serve_connection(TokioIo::new(socket), answer).await;
}

/// Shows that timers still fire and tasks still run.
async fn tick(watchdog: Watchdog, stopping: tokio_util::sync::CancellationToken) {
    let (every, patience) = TICK;
    let ticking = watchdog.follow("the async runtime", patience, async {
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

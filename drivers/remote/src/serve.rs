//! Serves any driver as a process.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use driver::Driver;
use hyper::server::conn::http2;
use hyper_util::rt::{TokioIo, TokioTimer};
use runtime::Tasks;
use tower::Service as _;

use crate::dial::Io;
use crate::listener::Listener;
use crate::messages::driver_server::DriverServer;
use crate::service::Service;

/// Grace period for calls after a stop request.
const GRACE: Duration = Duration::from_secs(2);
/// Maximum number of concurrent calls per caller.
const CALLS: u32 = 1000;
/// Interval of keepalive pings: a disconnected caller would keep its calls forever.
const PING_EVERY: Duration = Duration::from_secs(30);
/// Maximum message size, as the protocol specifies.
const MAX_MESSAGE: usize = 64 << 20;
/// Delay after the system failed to accept a connection.
const ACCEPT_RETRY: Duration = Duration::from_millis(100);

/// Caller name of a probe.
pub const PROBE: &str = "probe";

/// Description of a driver.
#[derive(Clone, Debug)]
pub struct About {
    /// Its name, for logs.
    pub name: String,
    /// Its version, for logs.
    pub version: String,
}

/// Serves a driver to all permitted callers until `tasks` are stopped. A call ends when its caller disconnects.
pub async fn serve(driver: Arc<dyn Driver>, about: About, listener: Listener, tasks: Tasks) {
    let accept = async {
        loop {
            match listener.accept().await {
                Ok(caller) => {
                    let (driver, about, owner) = (driver.clone(), about.clone(), tasks.clone());
                    tasks.spawn("caller", async move {
                        match caller.admit().await {
                            Ok(io) => attend(driver, about, io, owner).await,
                            Err(why) => tracing::warn!(error = &why as &dyn std::error::Error, "rejected caller"),
                        }
                    });
                }
                Err(error) => {
                    tracing::warn!(%error, "failed to accept a connection");
                    tokio::time::sleep(ACCEPT_RETRY).await;
                }
            }
        }
    };
    tasks.stopping().run_until_cancelled(accept).await;
}

/// Serves a driver to one caller over any byte stream until either side ends it.
pub async fn attend(driver: Arc<dyn Driver>, about: About, io: impl Io, tasks: Tasks) {
    let server = DriverServer::new(Service::new(driver, about))
        .max_decoding_message_size(MAX_MESSAGE)
        .max_encoding_message_size(MAX_MESSAGE);
    let service = hyper::service::service_fn(move |request| server.clone().call(request));
    let mut connection = pin!(
        http2::Builder::new(OwnedBy(tasks.clone()))
            .timer(TokioTimer::new())
            .keep_alive_interval(PING_EVERY)
            .max_concurrent_streams(CALLS)
            .serve_connection(TokioIo::new(io), service)
    );
    let stopping = tasks.stopping();
    let ended = tokio::select! {
        biased;
        ended = &mut connection => Some(ended),
        () = stopping.cancelled() => {
            connection.as_mut().graceful_shutdown();
            tokio::time::timeout(GRACE, connection).await.ok()
        }
    };
    if let Some(Err(error)) = ended {
        tracing::debug!(%error, "caller disconnected");
    }
}

/// Runs hyper's tasks, which are calls, in a task owner. They end with their connection, which closes gracefully.
#[derive(Clone)]
struct OwnedBy(Tasks);

impl<F> hyper::rt::Executor<F> for OwnedBy
where
    F: Future<Output: Send + 'static> + Send + 'static,
{
    fn execute(&self, work: F) {
        self.0.spawn("driver protocol", async move {
            work.await;
        });
    }
}

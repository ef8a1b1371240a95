//! Any driver as a process.

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

/// How long calls may go on after the server was asked to stop.
const GRACE: Duration = Duration::from_secs(2);
/// How many calls one caller may have under way.
const CALLS: u32 = 1000;
/// How often a silent caller is asked whether it is alive: one that was cut off would keep its calls for ever.
const PING_EVERY: Duration = Duration::from_secs(30);
/// As the protocol promises.
const LARGEST_MESSAGE: usize = 64 << 20;
/// How long to wait when the system has no room for another connection.
const BREATHER: Duration = Duration::from_millis(100);

/// What a caller calls itself that only wants to know whether the driver answers.
pub const PROBE: &str = "probe";

/// How a driver introduces itself.
#[derive(Clone, Debug)]
pub struct About {
    /// Its name, for logs.
    pub name: String,
    /// Its version, for logs.
    pub version: String,
}

/// Serves a driver to whoever may connect, until `tasks` are asked to stop. Calls end when their callers go away.
pub async fn serve(driver: Arc<dyn Driver>, about: About, listener: Listener, tasks: Tasks) {
    let accept = async {
        loop {
            match listener.accept().await {
                Ok(caller) => {
                    let (driver, about, owner) = (driver.clone(), about.clone(), tasks.clone());
                    tasks.spawn("caller", async move {
                        match caller.admit().await {
                            Ok(io) => attend(driver, about, io, owner).await,
                            Err(why) => tracing::warn!(error = &why as &dyn std::error::Error, "a caller was refused"),
                        }
                    });
                }
                Err(error) => {
                    tracing::warn!(%error, "failed to accept a connection");
                    tokio::time::sleep(BREATHER).await;
                }
            }
        }
    };
    tasks.stopping().run_until_cancelled(accept).await;
}

/// Serves a driver to one caller, over any stream of bytes, until either side ends it.
pub async fn attend(driver: Arc<dyn Driver>, about: About, io: impl Io, tasks: Tasks) {
    let server = DriverServer::new(Service::new(driver, about))
        .max_decoding_message_size(LARGEST_MESSAGE)
        .max_encoding_message_size(LARGEST_MESSAGE);
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
        tracing::debug!(%error, "a caller went away");
    }
}

/// Runs hyper's tasks, which are calls, where they have an owner. They end with their connection, which ends with grace.
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

//! Clients of API servers.
//!
//! kube's default client uses HTTP/1.1 (one connection for every watch and every request in flight), retries after a
//! 429, has no response timeout and no rate limit. A controller needs the opposite of each. Therefore only its upper
//! half is used: [`kube::Client`] with an own stack below.
//!
//! ```text
//! kube::Client ─► update_fallback ─► stack: bucket, user agent, deadline, metrics ─► credentials ─► connections ─► dial: TCP, TLS
//!                                                                         └► any tower service (in_process)
//! ```
//!
//! A [`Connection`] is one API server as a kubeconfig describes it. Each [`ClientSpec`] creates one client of it, with
//! its own rate limit. The clients share a pool of HTTP/2 connections, on which watches and calls are separate.
//! `credentials` reloads credentials and CA certificates when they change on disk: the next request uses them, and open
//! watches continue. [`ApiError`] classifies errors.

mod address;
mod agent;
mod api_error;
mod config_error;
mod connection;
mod connections;
mod credentials;
mod dial;
mod failure;
mod files;
mod http_connection;
mod kubeconfig;
mod objects;
mod ready;
mod server_time;
mod spec;
mod stack;
mod tls;
mod update_fallback;

use bytes::Bytes;
use http::{Request, Response};
use kube::client::Body;
use tower::{BoxError, Service};

pub use agent::UserAgent;
pub use api_error::{ApiError, ErrorClass};
pub use config_error::{ConfigError, ConfigProblem};
pub use connection::Connection;
pub use dial::DialError;
pub use failure::{Effect, Failure};
pub use files::FileError;
pub use kubeconfig::{InCluster, KubeconfigText, Source};
pub use objects::Api;
pub use ready::{Obstacle, Place, RequiredKind, Waited, check_ready, wait_until_ready};
pub use server_time::ServerTime;
pub use spec::{ClientSpec, ConnectionUse, Qps, SendCheck, WhenFull};
pub use tls::TlsError;

use crate::metrics::RestMetrics;
use stack::{ServerName, Stack};
use update_fallback::{Denials, UpdateFallback};

/// Returns a client of any service instead of sockets, with the same rules. For the API server in memory, which uses
/// the paused clock.
pub fn in_process<S, B>(service: S, namespace: &str, spec: &ClientSpec, metrics: &RestMetrics) -> kube::Client
where
    S: Service<Request<Body>, Response = Response<B>> + Clone + Send + 'static,
    S::Future: Send + 'static,
    S::Error: Into<BoxError>,
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    let server = ServerName { base: "https://in-process".to_owned(), host: "in-process".to_owned() };
    let stack = Stack::new(service, spec, metrics, server);
    kube::Client::new(UpdateFallback::new(stack, Denials::default(), metrics.clone()), namespace)
}

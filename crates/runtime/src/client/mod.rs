//! From a kubeconfig to clients of an API server that behave.
//!
//! kube's own client speaks HTTP/1.1 (a connection for every watch and every request in flight), repeats requests that
//! were answered with 429 on its own, waits for an answer without end and knows no rate limit. Each of these is wrong for a
//! controller, so only its upper half is used: [`kube::Client`] over a stack of ours.
//!
//! ```text
//! kube::Client ─► update_fallback ─► stack: bucket, user agent, deadline, metrics ─► credentials ─► connections ─► dial: TCP, TLS
//!                                                                         └► any tower service (in_process)
//! ```
//!
//! A [`Connection`] is one API server as one kubeconfig describes it; each [`ClientSpec`] makes one client of it, with a rate
//! limit of its own. Clients of a connection share its connections (HTTP/2 connections), on which watches and calls never
//! meet. What changes on disk, credentials and authorities, is followed by `credentials`: the next request shows it, and open watches
//! go on. Errors are read with [`ApiError`].

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
pub use api_error::{ApiError, RetryClass};
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

/// A client over any service instead of sockets, under the same rules: for the API server in memory, whose time is the
/// paused clock's.
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

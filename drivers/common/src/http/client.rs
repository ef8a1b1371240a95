//! The HTTP client: hyper's, with a connection pool.

use std::error::Error;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use driver::Call;
use http::{Request, Response, Uri};
use http_body_util::{BodyExt, Full, Limited};
use hyper_rustls::{ConfigBuilderExt, HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use rustls::{ClientConfig, RootCertStore};

use super::{HttpError, Transport};

/// Timeout for establishing a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Timeout for one request.
const REQUEST_TIMEOUT: Duration = Duration::from_mins(1);

/// Idle timeout of pooled connections. Servers close theirs after a minute or less, and a request on a closing
/// connection is lost.
const IDLE: Duration = Duration::from_secs(15);

/// Maximum size of a response. A page of a thousand VMs is 5 MiB.
const MAX_RESPONSE: usize = 32 << 20;

/// Sends requests over HTTPS, and over HTTP to endpoints configured that way. Cloning is cheap; clones share
/// connections.
#[derive(Clone, Debug)]
pub struct Client {
    inner: hyper_util::client::legacy::Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
    timeout: Duration,
    largest: usize,
}

impl Client {
    /// Returns a client that trusts the CA certificates of the system.
    pub fn new() -> Result<Self, std::io::Error> {
        Ok(Self::with_tls(builder().with_native_roots()?.with_no_client_auth()))
    }

    /// Returns a client without CA certificates: every TLS connection fails.
    pub fn without_ca_certificates() -> Self {
        Self::with_tls(builder().with_root_certificates(RootCertStore::empty()).with_no_client_auth())
    }

    /// Returns a client with this TLS configuration.
    pub fn with_tls(tls: ClientConfig) -> Self {
        let mut connector = HttpConnector::new();
        connector.set_connect_timeout(Some(CONNECT_TIMEOUT));
        connector.set_nodelay(true);
        connector.enforce_http(false);
        let connector =
            HttpsConnectorBuilder::new().with_tls_config(tls).https_or_http().enable_http1().wrap_connector(connector);
        let client = hyper_util::client::legacy::Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(IDLE)
            // hyper would retry requests that it considers unsent; the caller decides about retries.
            .retry_canceled_requests(false)
            .build(connector);
        Self { inner: client, timeout: REQUEST_TIMEOUT, largest: MAX_RESPONSE }
    }

    /// Returns the client with another request timeout.
    #[must_use]
    pub fn with_timeout(self, timeout: Duration) -> Self {
        Self { timeout, ..self }
    }

    /// Returns the client with another maximum response size.
    #[must_use]
    pub fn with_max_response_size(self, largest: usize) -> Self {
        Self { largest, ..self }
    }

    async fn exchange(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let host = host(request.uri());
        let answer = self.inner.request(request.map(Full::new)).await.map_err(|error| {
            if error.is_connect() {
                HttpError::of_connect(host.clone(), &error)
            } else {
                HttpError::Broken { host: host.clone(), reason: innermost(&error) }
            }
        })?;
        let (head, body) = answer.into_parts();
        let body = Limited::new(body, self.largest).collect().await.map_err(|error| {
            if error.is::<http_body_util::LengthLimitError>() {
                HttpError::TooLarge { host: host.clone(), limit: self.largest }
            } else {
                HttpError::Broken { host: host.clone(), reason: innermost(error.as_ref()) }
            }
        })?;
        Ok(Response::from_parts(head, body.to_bytes()))
    }
}

/// Ring's cryptography, named here: with another crate's linked in there would be two to choose from.
pub(super) fn builder() -> rustls::ConfigBuilder<ClientConfig, rustls::WantsVerifier> {
    let provider = std::sync::Arc::new(rustls::crypto::ring::default_provider());
    let versions = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    #[allow(clippy::expect_used, reason = "ring supports TLS 1.2 and 1.3; otherwise the first test fails")]
    versions.expect("ring supports TLS 1.2 and 1.3")
}

#[async_trait]
impl Transport for Client {
    async fn send(&self, call: &Call, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let host = host(request.uri());
        let timed = async { Ok(tokio::time::timeout(self.timeout, self.exchange(request)).await) };
        match call.bound(timed).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(_)) => Err(HttpError::TimedOut { host, after: self.timeout }),
            Err(end) => Err(HttpError::Ended(end)),
        }
    }
}

/// Returns host and port, which are not secret.
fn host(uri: &Uri) -> String {
    uri.authority().map(ToString::to_string).unwrap_or_default()
}

fn innermost(error: &(dyn Error + 'static)) -> String {
    let last = std::iter::successors(Some(error), |error| (*error).source()).last();
    last.map(ToString::to_string).unwrap_or_default()
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;

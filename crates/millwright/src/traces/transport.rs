//! Sends one request to the collector: OTLP over HTTP, in binary encoding.

use std::future::Future;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, bail, ensure};
use http::header::CONTENT_TYPE;
use http::{Method, Request, StatusCode, Uri};
use http_body_util::{BodyExt, Full, Limited};
use hyper_rustls::{ConfigBuilderExt, HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use parking_lot::RwLock;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};

/// Maximum size of a response.
const MAX_RESPONSE: usize = 64 * 1024;

/// Sends spans. A trait, so that tests need no sockets.
pub(super) trait Transport: Send + Sync + 'static {
    /// Sends a body and returns the response.
    fn send(&self, body: Vec<u8>) -> impl Future<Output = Result<Vec<u8>, Refusal>> + Send;
}

/// Why the collector did not accept spans.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Refusal {
    /// Temporary error. A retry may succeed.
    #[error("{0}")]
    Later(String),
    /// Permanent error.
    #[error("{0}")]
    Never(String),
}

/// The collector at a URL.
pub(super) struct Collector {
    client: RwLock<Connections>,
    uri: Uri,
    ca_file: Option<PathBuf>,
}

type Connections = Client<HttpsConnector<HttpConnector>, Full<hyper::body::Bytes>>;

impl Collector {
    /// Validates the flags. The connection is opened with the first request.
    pub(super) fn new(endpoint: &str, ca_file: Option<&Path>) -> anyhow::Result<Self> {
        let uri = uri(endpoint)?;
        ensure!(
            ca_file.is_none() || uri.scheme_str() == Some("https"),
            "--tracing-ca-file has no effect for {endpoint}, which has no certificate. Use https://, or remove the flag"
        );
        let client = RwLock::new(connections(&uri, ca_file)?);
        Ok(Self { client, uri, ca_file: ca_file.map(Path::to_owned) })
    }

    /// Returns the reason of a connection error. After a certificate error, the CA file is read again, because it may
    /// have changed.
    fn unreachable(&self, error: &(dyn std::error::Error + 'static)) -> Refusal {
        if !is_about_certificates(error) {
            return Refusal::Later(meta::error_chain(error));
        }
        let reason = match connections(&self.uri, self.ca_file.as_deref()) {
            Ok(fresh) => {
                *self.client.write() = fresh;
                format!("{}. Check that --tracing-ca-file is the CA of its certificate", meta::error_chain(error))
            }
            Err(unreadable) => format!("{}; {unreadable:#}", meta::error_chain(error)),
        };
        Refusal::Later(reason)
    }
}

fn connections(uri: &Uri, ca_file: Option<&Path>) -> anyhow::Result<Connections> {
    let tls = tls(uri, ca_file)?;
    let connector = HttpsConnectorBuilder::new().with_tls_config(tls).https_or_http().enable_http1().build();
    Ok(Client::builder(TokioExecutor::new()).build(connector))
}

/// Parses the endpoint. Adds the path of OTLP unless the endpoint has a path.
fn uri(endpoint: &str) -> anyhow::Result<Uri> {
    let fix = "use a value such as http://collector.example:4318";
    let uri: Uri = endpoint.parse().with_context(|| format!("--tracing-endpoint {endpoint:?} is not a URL: {fix}"))?;
    ensure!(
        matches!(uri.scheme_str(), Some("http" | "https")),
        "--tracing-endpoint {endpoint:?} does not begin with http:// or https://: {fix}"
    );
    ensure!(
        uri.authority().is_some_and(|authority| !authority.as_str().contains('@')),
        "--tracing-endpoint must not contain a password: {fix}"
    );
    if uri.path() != "/" {
        return Ok(uri);
    }
    format!("{}/v1/traces", endpoint.trim_end_matches('/')).parse().context(fix)
}

fn tls(uri: &Uri, ca_file: Option<&Path>) -> anyhow::Result<ClientConfig> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .context("failed to set up TLS for --tracing-endpoint")?;
    let builder = match ca_file {
        Some(path) => builder.with_root_certificates(roots(path)?),
        None if uri.scheme_str() == Some("https") => builder
            .with_native_roots()
            .context("failed to find CA certificates of the system. Set --tracing-ca-file")?,
        None => builder.with_root_certificates(RootCertStore::empty()),
    };
    Ok(builder.with_no_client_auth())
}

fn roots(path: &Path) -> anyhow::Result<RootCertStore> {
    let pem = std::fs::read(path).with_context(|| format!("failed to read --tracing-ca-file {}", path.display()))?;
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(&pem) {
        let certificate =
            certificate.with_context(|| format!("--tracing-ca-file {} is not a PEM file", path.display()))?;
        roots
            .add(certificate)
            .with_context(|| format!("--tracing-ca-file {} contains no usable certificate", path.display()))?;
    }
    if roots.is_empty() {
        bail!("--tracing-ca-file {} contains no certificate", path.display());
    }
    Ok(roots)
}

impl Transport for Collector {
    async fn send(&self, body: Vec<u8>) -> Result<Vec<u8>, Refusal> {
        let request = Request::builder()
            .method(Method::POST)
            .uri(self.uri.clone())
            .header(CONTENT_TYPE, "application/x-protobuf")
            .body(Full::from(body))
            .map_err(|error| Refusal::Never(error.to_string()))?;
        let client = self.client.read().clone();
        let answer = client.request(request).await.map_err(|error| self.unreachable(&error))?;
        let status = answer.status();
        let body = Limited::new(answer.into_body(), MAX_RESPONSE).collect().await;
        match status {
            status if status.is_success() => Ok(body.map(|body| body.to_bytes().to_vec()).unwrap_or_default()),
            StatusCode::TOO_MANY_REQUESTS
            | StatusCode::BAD_GATEWAY
            | StatusCode::SERVICE_UNAVAILABLE
            | StatusCode::GATEWAY_TIMEOUT => {
                Err(Refusal::Later(format!("the collector responded with status {status}")))
            }
            status => Err(Refusal::Never(format!("the collector responded with status {status}"))),
        }
    }
}

/// Reports whether the certificate of the collector was rejected.
fn is_about_certificates(error: &(dyn std::error::Error + 'static)) -> bool {
    let mut cause = Some(error);
    while let Some(why) = cause {
        if matches!(why.downcast_ref(), Some(rustls::Error::InvalidCertificate(_))) {
            return true;
        }
        // An I/O error does not return the wrapped error as its source.
        cause = match why.downcast_ref::<std::io::Error>().and_then(std::io::Error::get_ref) {
            Some(wrapped) => Some(wrapped),
            None => why.source(),
        };
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn otlp_path_is_added_unless_there_is_one() {
        assert_eq!(uri("http://collector:4318").unwrap(), "http://collector:4318/v1/traces");
        assert_eq!(uri("http://collector:4318/").unwrap(), "http://collector:4318/v1/traces");
        assert_eq!(uri("https://collector/otlp/v1/traces").unwrap(), "https://collector/otlp/v1/traces");
    }

    /// Shows TRC-6.
    #[test]
    fn invalid_endpoint_is_reported_without_its_password() {
        for wrong in ["collector:4318", "grpc://collector:4317", "not a url"] {
            let error = format!("{:#}", uri(wrong).unwrap_err());
            assert!(error.contains("http://collector.example:4318"), "{error}");
        }
        let error = uri("http://me:hunter2@collector:4318").unwrap_err().to_string();
        assert!(!error.contains("hunter2") && error.contains("must not contain a password"), "{error}");
    }
}

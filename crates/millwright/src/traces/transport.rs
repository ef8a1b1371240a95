//! One request to the collector: OTLP over HTTP, in binary form.

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

/// More than any sensible answer.
const ANSWER: usize = 64 * 1024;

/// Takes spans away. A trait, so that tests need no sockets.
pub(super) trait Transport: Send + Sync + 'static {
    /// Sends a body, and gives the answer.
    fn send(&self, body: Vec<u8>) -> impl Future<Output = Result<Vec<u8>, Refusal>> + Send;
}

/// Why spans were not taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Refusal {
    /// It may be taken later.
    #[error("{0}")]
    Later(String),
    /// It never will be.
    #[error("{0}")]
    Never(String),
}

/// The collector at the end of a URL.
pub(super) struct Collector {
    client: RwLock<Connections>,
    uri: Uri,
    authority: Option<PathBuf>,
}

type Connections = Client<HttpsConnector<HttpConnector>, Full<hyper::body::Bytes>>;

impl Collector {
    /// Reads the flags; connects with the first request.
    pub(super) fn new(endpoint: &str, authority: Option<&Path>) -> anyhow::Result<Self> {
        let uri = uri(endpoint)?;
        ensure!(
            authority.is_none() || uri.scheme_str() == Some("https"),
            "--tracing-ca-file is of no use to {endpoint}, which has no certificate: write https://, or leave it out"
        );
        let client = RwLock::new(connections(&uri, authority)?);
        Ok(Self { client, uri, authority: authority.map(Path::to_owned) })
    }

    /// Says why nothing was sent. A certificate that nobody vouches for may have a new authority, whose file has changed since it was read.
    fn unreachable(&self, error: &(dyn std::error::Error + 'static)) -> Refusal {
        if !is_about_certificates(error) {
            return Refusal::Later(chain(error));
        }
        let told = match connections(&self.uri, self.authority.as_deref()) {
            Ok(fresh) => {
                *self.client.write() = fresh;
                format!("{}; is --tracing-ca-file the authority that issued its certificate?", chain(error))
            }
            Err(unreadable) => format!("{}; {unreadable:#}", chain(error)),
        };
        Refusal::Later(told)
    }
}

fn connections(uri: &Uri, authority: Option<&Path>) -> anyhow::Result<Connections> {
    let tls = tls(uri, authority)?;
    let connector = HttpsConnectorBuilder::new().with_tls_config(tls).https_or_http().enable_http1().build();
    Ok(Client::builder(TokioExecutor::new()).build(connector))
}

/// The path that collectors listen on is added unless one is given.
fn uri(endpoint: &str) -> anyhow::Result<Uri> {
    let fix = "write --tracing-endpoint like http://collector.example:4318";
    let uri: Uri = endpoint.parse().with_context(|| format!("{endpoint:?} is no URL: {fix}"))?;
    ensure!(
        matches!(uri.scheme_str(), Some("http" | "https")),
        "{endpoint:?} begins with neither http:// nor https://: {fix}"
    );
    ensure!(
        uri.authority().is_some_and(|authority| !authority.as_str().contains('@')),
        "--tracing-endpoint must hold no password: {fix}"
    );
    if uri.path() != "/" {
        return Ok(uri);
    }
    format!("{}/v1/traces", endpoint.trim_end_matches('/')).parse().context(fix)
}

fn tls(uri: &Uri, authority: Option<&Path>) -> anyhow::Result<ClientConfig> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .context("failed to set up TLS for --tracing-endpoint")?;
    let builder = match authority {
        Some(path) => builder.with_root_certificates(roots(path)?),
        None if uri.scheme_str() == Some("https") => builder
            .with_native_roots()
            .context("failed to find certificate authorities of the system; name one with --tracing-ca-file")?,
        None => builder.with_root_certificates(RootCertStore::empty()),
    };
    Ok(builder.with_no_client_auth())
}

fn roots(path: &Path) -> anyhow::Result<RootCertStore> {
    let pem = std::fs::read(path).with_context(|| format!("failed to read --tracing-ca-file {}", path.display()))?;
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(&pem) {
        let certificate =
            certificate.with_context(|| format!("--tracing-ca-file {} is no PEM file", path.display()))?;
        roots
            .add(certificate)
            .with_context(|| format!("--tracing-ca-file {} holds no usable certificate", path.display()))?;
    }
    if roots.is_empty() {
        bail!("--tracing-ca-file {} holds no certificate", path.display());
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
        let body = Limited::new(answer.into_body(), ANSWER).collect().await;
        match status {
            status if status.is_success() => Ok(body.map(|body| body.to_bytes().to_vec()).unwrap_or_default()),
            StatusCode::TOO_MANY_REQUESTS
            | StatusCode::BAD_GATEWAY
            | StatusCode::SERVICE_UNAVAILABLE
            | StatusCode::GATEWAY_TIMEOUT => Err(Refusal::Later(format!("the collector answered {status}"))),
            status => Err(Refusal::Never(format!("the collector answered {status}"))),
        }
    }
}

/// Whether the collector showed a certificate that we do not believe.
fn is_about_certificates(error: &(dyn std::error::Error + 'static)) -> bool {
    let mut cause = Some(error);
    while let Some(why) = cause {
        if matches!(why.downcast_ref(), Some(rustls::Error::InvalidCertificate(_))) {
            return true;
        }
        // An error of input and output does not name what it wraps as its source.
        cause = match why.downcast_ref::<std::io::Error>().and_then(std::io::Error::get_ref) {
            Some(wrapped) => Some(wrapped),
            None => why.source(),
        };
    }
    false
}

/// An error with all its causes: the outermost only says that something failed.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(why) = cause {
        text = format!("{text}: {why}");
        cause = why.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_path_of_the_protocol_is_added_unless_there_is_one() {
        assert_eq!(uri("http://collector:4318").unwrap(), "http://collector:4318/v1/traces");
        assert_eq!(uri("http://collector:4318/").unwrap(), "http://collector:4318/v1/traces");
        assert_eq!(uri("https://collector/otlp/v1/traces").unwrap(), "https://collector/otlp/v1/traces");
    }

    /// Shows TRC-6.
    #[test]
    fn a_wrong_endpoint_is_told_with_its_fix_and_a_password_is_not_repeated() {
        for wrong in ["collector:4318", "grpc://collector:4317", "not a url"] {
            let said = format!("{:#}", uri(wrong).unwrap_err());
            assert!(said.contains("http://collector.example:4318"), "{said}");
        }
        let said = uri("http://me:hunter2@collector:4318").unwrap_err().to_string();
        assert!(!said.contains("hunter2") && said.contains("must hold no password"), "{said}");
    }
}

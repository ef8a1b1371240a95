//! An OTLP endpoint for tests: it receives spans over TLS and keeps them with the raw bodies.
//!
//! The messages are decoded with the official protocol types, so that an encoding error is detected. The HTTP server is
//! minimal: one kind of request, with a content length.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, ensure};
use control_plane::authority::{Authority, Identity};
use opentelemetry_proto::tonic::collector::trace::v1::{ExportTraceServiceRequest, ExportTraceServiceResponse};
use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring::default_provider;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

/// A collector with a certificate of a separate CA. It ends when this value is dropped.
pub(super) struct Collector {
    address: SocketAddr,
    authority: String,
    received: Arc<Mutex<Received>>,
    _open: oneshot::Sender<()>,
}

/// The received requests.
#[derive(Clone, Debug, Default)]
pub(super) struct Received {
    pub(super) spans: Vec<Span>,
    /// Resource attributes of each request.
    pub(super) senders: Vec<Vec<KeyValue>>,
    /// All bodies, unparsed.
    pub(super) bytes: Vec<u8>,
    /// Errors of invalid requests.
    pub(super) strange: Vec<String>,
}

impl Collector {
    /// Starts the collector on a separate thread, because the test blocks in kubectl.
    pub(super) fn open() -> anyhow::Result<Self> {
        let authority = Authority::new("collectors")?;
        let tls = TlsAcceptor::from(Arc::new(tls(&authority.server("collector")?)?));
        let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("failed to open a collector")?;
        listener.set_nonblocking(true).context("failed to open a collector")?;
        let address = listener.local_addr().context("failed to open a collector")?;
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_all().build().context("failed to open a collector")?;
        let (received, (open, closed)) = (Arc::default(), oneshot::channel());
        let kept = Arc::clone(&received);
        std::thread::spawn(move || runtime.block_on(listen(listener, tls, kept, closed)));
        Ok(Self { address, authority: authority.certificate().to_owned(), received, _open: open })
    }

    /// Returns the value of --tracing-endpoint, with a host name.
    pub(super) fn endpoint(&self) -> String {
        format!("https://localhost:{}", self.address.port())
    }

    /// Returns the content of --tracing-ca-file.
    pub(super) fn authority(&self) -> &str {
        &self.authority
    }

    pub(super) fn received(&self) -> Received {
        self.received.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

fn tls(identity: &Identity) -> anyhow::Result<ServerConfig> {
    let certificate = CertificateDer::from_pem_slice(identity.certificate.as_bytes()).context("no certificate")?;
    let key = PrivateKeyDer::from_pem_slice(identity.key.as_bytes()).context("no key")?;
    let builder = ServerConfig::builder_with_provider(Arc::new(default_provider()));
    let builder = builder.with_safe_default_protocol_versions()?.with_no_client_auth();
    builder.with_single_cert(vec![certificate], key).context("failed to set up TLS")
}

async fn listen(
    listener: std::net::TcpListener,
    tls: TlsAcceptor,
    received: Arc<Mutex<Received>>,
    mut closed: oneshot::Receiver<()>,
) {
    let Ok(listener) = TcpListener::from_std(listener) else { return };
    let mut callers = JoinSet::new();
    loop {
        tokio::select! {
            _ = &mut closed => return,
            Ok((caller, _)) = listener.accept() => {
                let (tls, received) = (tls.clone(), Arc::clone(&received));
                callers.spawn(async move {
                    if let Err(error) = serve_connection(caller, &tls, &received).await {
                        let mut received = received.lock().unwrap_or_else(PoisonError::into_inner);
                        received.strange.push(format!("{error:#}"));
                    }
                });
            }
            Some(_) = callers.join_next() => {}
        }
    }
}

/// Serves one connection with any number of requests.
async fn serve_connection(caller: TcpStream, tls: &TlsAcceptor, received: &Mutex<Received>) -> anyhow::Result<()> {
    let mut caller = BufReader::new(tls.accept(caller).await.context("no TLS")?);
    loop {
        let mut head = Vec::new();
        loop {
            let mut line = String::new();
            // A killed client closes the connection without a message, which is no error.
            let Ok(1..) = caller.read_line(&mut line).await else { return Ok(()) };
            if line.trim().is_empty() {
                break;
            }
            head.push(line.trim().to_ascii_lowercase());
        }
        let header = |name: &str| head.iter().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
        ensure!(head.first().is_some_and(|line| line == "post /v1/traces http/1.1"), "{head:?}");
        ensure!(header("content-type") == Some("application/x-protobuf"), "{head:?}");
        let length: usize = header("content-length").and_then(|length| length.parse().ok()).context("no length")?;
        let mut body = vec![0; length];
        caller.read_exact(&mut body).await?;
        let request = ExportTraceServiceRequest::decode(body.as_slice()).context("the body is no request")?;
        {
            let mut received = received.lock().unwrap_or_else(PoisonError::into_inner);
            received.bytes.extend(body);
            for resource in request.resource_spans {
                received.senders.push(resource.resource.map(|sender| sender.attributes).unwrap_or_default());
                received.spans.extend(resource.scope_spans.into_iter().flat_map(|scope| scope.spans));
            }
        }
        let answer = ExportTraceServiceResponse::default().encode_to_vec();
        let head = format!(
            "HTTP/1.1 200 OK\r\nContent-Type: application/x-protobuf\r\nContent-Length: {}\r\n\r\n",
            answer.len()
        );
        caller.write_all(head.as_bytes()).await?;
        caller.write_all(&answer).await?;
        caller.flush().await?;
    }
}

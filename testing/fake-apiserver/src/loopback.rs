//! The server on the network: TLS on 127.0.0.1, for kubectl and for clients in other processes.
//!
//! Each start makes a certificate authority and a token of its own, and they are gone when it stops; the only thing that can
//! be left behind is a kubeconfig that somebody asked for. There is no way to listen on any other address: this is a server
//! without permissions, for tests and demonstrations.

use std::fmt;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use http::Request;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, KeyUsagePurpose};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower::Service as _;

use crate::server::Server;
use crate::service::Service;

/// How many requests one HTTP/2 connection carries at a time, as in the reference.
const STREAMS: u32 = 100;
const HANDSHAKE: Duration = Duration::from_secs(10);
/// How long to wait when the system cannot accept connections, for example because too many files are open.
const BREATHER: Duration = Duration::from_millis(50);

/// How to listen.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The port; 0 takes any that is free.
    pub port: u16,
}

/// Why the server could not be put on the network.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoopbackError {
    /// The port is taken, or sockets are not allowed.
    #[error("failed to listen on 127.0.0.1:{port}")]
    Listen {
        /// The port.
        port: u16,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The certificate could not be made.
    #[error("failed to make a certificate")]
    Certificate(#[source] rcgen::Error),
    /// The certificate could not be used.
    #[error("failed to set up TLS")]
    Tls(#[source] rustls::Error),
    /// The system gave no random bytes.
    #[error("failed to make a token: the system gives no random bytes")]
    Token,
    /// The kubeconfig could not be written.
    #[error("failed to write the kubeconfig")]
    Kubeconfig(#[source] io::Error),
}

/// A server that is on the network. It stays there until it is shut down or this is dropped.
pub struct Running {
    /// Where it listens.
    pub address: SocketAddr,
    /// The certificate authority that clients have to trust.
    pub ca_pem: String,
    /// The token that lets clients in.
    pub token: String,
    stop: CancellationToken,
    tasks: TaskTracker,
}

impl fmt::Debug for Running {
    // Without the token.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Running").field("address", &self.address).finish_non_exhaustive()
    }
}

/// Puts a server on the network.
pub async fn serve(server: Server, options: Options) -> Result<Running, LoopbackError> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let token = token(&provider)?;
    let (ca_pem, acceptor) = certificate(provider)?;
    let port = options.port;
    let listen = |source| LoopbackError::Listen { port, source };
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await.map_err(listen)?;
    let address = listener.local_addr().map_err(listen)?;
    server.grant(&token, "admin");

    let (stop, tasks) = (CancellationToken::new(), TaskTracker::new());
    let face = Face { service: Service::guarded(server), acceptor, stop: stop.clone(), tasks: tasks.clone() };
    tasks.spawn(face.accept(listener));
    Ok(Running { address, ca_pem, token, stop, tasks })
}

impl Running {
    /// A kubeconfig with everything a client needs.
    pub fn kubeconfig(&self) -> String {
        let Self { address, ca_pem, token, .. } = self;
        let ca = STANDARD.encode(ca_pem);
        format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: millwright\n\
             clusters:\n- name: millwright\n  cluster:\n    server: https://{address}\n    certificate-authority-data: {ca}\n\
             users:\n- name: admin\n  user:\n    token: {token}\n\
             contexts:\n- name: millwright\n  context:\n    cluster: millwright\n    user: admin\n    namespace: default\n"
        )
    }

    /// Writes the kubeconfig to a file that only its owner can read.
    pub fn write_kubeconfig(&self, path: impl AsRef<Path>) -> Result<(), LoopbackError> {
        let mut options = std::fs::OpenOptions::new();
        options.write(true).create(true).truncate(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let mut file = options.open(path).map_err(LoopbackError::Kubeconfig)?;
        io::Write::write_all(&mut file, self.kubeconfig().as_bytes()).map_err(LoopbackError::Kubeconfig)
    }

    /// Closes all connections and stops listening.
    pub async fn shutdown(self) {
        self.stop.cancel();
        self.tasks.close();
        self.tasks.wait().await;
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

#[derive(Clone)]
struct Face {
    service: Service,
    acceptor: TlsAcceptor,
    stop: CancellationToken,
    tasks: TaskTracker,
}

impl Face {
    async fn accept(self, listener: TcpListener) {
        let work = async {
            loop {
                match listener.accept().await {
                    Ok((socket, _)) => drop(self.tasks.spawn(self.clone().attend(socket))),
                    Err(_) => tokio::time::sleep(BREATHER).await,
                }
            }
        };
        self.stop.run_until_cancelled(work).await;
    }

    /// Serves one connection until either side ends it. What goes wrong on it is the client's to notice.
    async fn attend(self, socket: TcpStream) {
        let work = async {
            let _best_effort = socket.set_nodelay(true);
            let Ok(Ok(stream)) = tokio::time::timeout(HANDSHAKE, self.acceptor.accept(socket)).await else { return };
            let mut builder = auto::Builder::new(Tracked(self.tasks.clone()));
            builder.http1().timer(TokioTimer::new());
            builder.http2().timer(TokioTimer::new()).max_concurrent_streams(STREAMS);
            let service = service_fn(|request: Request<Incoming>| self.service.clone().call(request));
            let _ended = builder.serve_connection(TokioIo::new(stream), service).await;
        };
        self.stop.run_until_cancelled(work).await;
    }
}

/// Runs hyper's tasks where they are counted.
#[derive(Clone)]
struct Tracked(TaskTracker);

impl<F> hyper::rt::Executor<F> for Tracked
where
    F: Future<Output: Send + 'static> + Send + 'static,
{
    fn execute(&self, work: F) {
        self.0.spawn(work);
    }
}

fn token(provider: &CryptoProvider) -> Result<String, LoopbackError> {
    let mut bytes = [0; 32];
    provider.secure_random.fill(&mut bytes).map_err(|_| LoopbackError::Token)?;
    Ok(URL_SAFE_NO_PAD.encode(bytes))
}

fn certificate(provider: Arc<CryptoProvider>) -> Result<(String, TlsAcceptor), LoopbackError> {
    let (ca_pem, chain, key) = sign().map_err(LoopbackError::Certificate)?;
    let mut config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(LoopbackError::Tls)?
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .map_err(LoopbackError::Tls)?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok((ca_pem, TlsAcceptor::from(Arc::new(config))))
}

type Signed = (String, Vec<rustls::pki_types::CertificateDer<'static>>, PrivateKeyDer<'static>);

fn sign() -> Result<Signed, rcgen::Error> {
    let mut authority = CertificateParams::default();
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    authority.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
    authority.distinguished_name.push(DnType::CommonName, "millwright in-memory api server");
    let authority = CertifiedIssuer::self_signed(authority, KeyPair::generate()?)?;
    let key = KeyPair::generate()?;
    let names = ["127.0.0.1", "localhost", "kubernetes.default.svc"].map(str::to_owned);
    let certificate = CertificateParams::new(names)?.signed_by(&key, &authority)?;
    let key = PrivatePkcs8KeyDer::from(key.serialize_der());
    Ok((authority.pem(), vec![certificate.der().clone()], key.into()))
}

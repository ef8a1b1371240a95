//! A minimal API server on loopback that records its connections, streams and credentials. The in-memory API server does not use
//! sockets.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use http::{Request, Response, Version};
use http_body::Frame;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use parking_lot::Mutex;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use runtime::Tasks;
use runtime::client::{Connection, Source};
use rustls::pki_types::PrivateKeyDer;
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;

pub(crate) type Authority = CertifiedIssuer<'static, KeyPair>;

/// Behaviour of the server.
pub(crate) struct Behaviour {
    pub(crate) protocols: &'static [&'static [u8]],
    /// The accepted token; all if `None`.
    pub(crate) token: Option<String>,
    /// Whether it requires a client certificate of its CA.
    pub(crate) wants_certificate: bool,
}

impl Default for Behaviour {
    fn default() -> Self {
        Self { protocols: &[b"h2", b"http/1.1"], token: None, wants_certificate: false }
    }
}

/// Records of one connection.
#[derive(Clone, Debug, Default)]
pub(crate) struct ConnectionRecord {
    pub(crate) now: usize,
    pub(crate) most: usize,
    pub(crate) watches: usize,
    pub(crate) calls: usize,
    pub(crate) version: Option<Version>,
    /// Client certificate, if any.
    pub(crate) certificate: Option<Vec<u8>>,
    /// Received tokens.
    pub(crate) tokens: BTreeSet<String>,
}

pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    pub(crate) dir: TempDir,
    pub(crate) authority: Arc<Authority>,
    pub(crate) token: Arc<Mutex<Option<String>>>,
    seen: Arc<Mutex<Vec<ConnectionRecord>>>,
    behaviour: Behaviour,
    acceptor: Arc<Mutex<TlsAcceptor>>,
    news: watch::Sender<u64>,
    _tasks: tokio_util::sync::DropGuard,
}

pub(crate) fn authority() -> Authority {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
}

/// A certificate and its key in PEM.
pub(crate) fn issued_by(authority: &Authority, name: &str) -> (String, String) {
    let key = KeyPair::generate().unwrap();
    let params = CertificateParams::new([name.to_owned()]).unwrap();
    (params.signed_by(&key, authority).unwrap().pem(), key.serialize_pem())
}

impl Server {
    pub(crate) async fn start(behaviour: Behaviour) -> Self {
        let authority = Arc::new(authority());
        let acceptor = Arc::new(Mutex::new(tls(&authority, &authority, &behaviour)));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let seen: Arc<Mutex<Vec<ConnectionRecord>>> = Arc::default();
        let token = Arc::new(Mutex::new(behaviour.token.clone()));
        let (news, heard) = watch::channel(0);
        let tasks = Tasks::new();
        let stopping = tasks.stopping();
        let (connections, log, expected, door) = (tasks.clone(), seen.clone(), token.clone(), acceptor.clone());
        tasks.spawn("accept", async move {
            loop {
                let (tcp, _) = tokio::select! {
                    biased;
                    () = stopping.cancelled() => return,
                    accepted = listener.accept() => accepted.unwrap(),
                };
                let (acceptor, log, expected, stopping) =
                    (door.lock().clone(), log.clone(), expected.clone(), stopping.clone());
                let heard = heard.clone();
                connections.spawn("connection", async move {
                    let Ok(stream) = acceptor.accept(tcp).await else { return };
                    let index = {
                        let mut log = log.lock();
                        let shown = stream.get_ref().1.peer_certificates().and_then(|chain| chain.first());
                        log.push(ConnectionRecord {
                            certificate: shown.map(|shown| shown.to_vec()),
                            ..ConnectionRecord::default()
                        });
                        log.len() - 1
                    };
                    let service =
                        service_fn(move |request| answer(log.clone(), index, expected.clone(), heard.clone(), request));
                    let server = auto::Builder::new(TokioExecutor::new());
                    let serving = server.serve_connection(TokioIo::new(stream), service);
                    tokio::select! { biased; () = stopping.cancelled() => {} _ = serving => {} }
                });
            }
        });
        let dir = tempfile::tempdir().unwrap();
        Self { address, dir, authority, token, seen, behaviour, acceptor, news, _tasks: tasks.stop_on_drop() }
    }

    /// Shows a certificate of this authority from now on. Connections that are open stay.
    pub(crate) fn be_certified_by(&self, authority: &Authority) {
        *self.acceptor.lock() = tls(authority, &self.authority, &self.behaviour);
    }

    /// Sends an event to each open watch.
    pub(crate) fn tell_the_news(&self) {
        self.news.send_modify(|version| *version += 1);
    }

    pub(crate) fn seen(&self) -> Vec<ConnectionRecord> {
        self.seen.lock().clone()
    }

    pub(crate) fn file(&self, name: &str, content: &str) -> PathBuf {
        let path = self.dir.path().join(name);
        std::fs::write(&path, content).unwrap();
        path
    }

    /// Returns a kubeconfig with the CA of this server and this user.
    pub(crate) fn kubeconfig(&self, user: &str) -> PathBuf {
        self.file("ca.crt", &self.authority.pem());
        self.kubeconfig_for(&format!("https://localhost:{}", self.address.port()), user)
    }

    pub(crate) fn kubeconfig_for(&self, server: &str, user: &str) -> PathBuf {
        kubeconfig(self.dir.path(), server, user)
    }

    pub(crate) fn connection(&self, user: &str) -> Connection {
        connection(&self.kubeconfig(user))
    }
}

pub(crate) fn kubeconfig(dir: &Path, server: &str, user: &str) -> PathBuf {
    let path = dir.join("kubeconfig");
    let text = format!(
        "current-context: c\ncontexts: [{{name: c, context: {{cluster: c, user: u, namespace: ns}}}}]\n\
         clusters: [{{name: c, cluster: {{server: '{server}', certificate-authority: ca.crt}}}}]\nusers: [{{name: u, user: {{{user}}}}}]\n"
    );
    std::fs::write(&path, text).unwrap();
    path
}

pub(crate) fn connection(kubeconfig: &Path) -> Connection {
    Connection::load(&Source::Kubeconfig { path: kubeconfig.to_owned(), flag: "--kubeconfig".to_owned() }).unwrap()
}

fn tls(authority: &Authority, of_clients: &Authority, behaviour: &Behaviour) -> TlsAcceptor {
    let key = KeyPair::generate().unwrap();
    let certificate = CertificateParams::new(["localhost".to_owned()]).unwrap().signed_by(&key, authority).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ServerConfig::builder_with_provider(provider.clone()).with_safe_default_protocol_versions().unwrap();
    let builder = if behaviour.wants_certificate {
        let mut roots = RootCertStore::empty();
        roots.add(of_clients.der().clone()).unwrap();
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build().unwrap();
        builder.with_client_cert_verifier(verifier)
    } else {
        builder.with_no_client_auth()
    };
    let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
    let mut config = builder.with_single_cert(vec![certificate.der().clone()], key).unwrap();
    config.alpn_protocols = behaviour.protocols.iter().map(|protocol| protocol.to_vec()).collect();
    TlsAcceptor::from(Arc::new(config))
}

/// Counts one stream until it is dropped.
struct Stream {
    log: Arc<Mutex<Vec<ConnectionRecord>>>,
    index: usize,
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.log.lock()[self.index].now -= 1;
    }
}

type Answer = Response<UnsyncBoxBody<Bytes, Infallible>>;

async fn answer(
    log: Arc<Mutex<Vec<ConnectionRecord>>>,
    index: usize,
    token: Arc<Mutex<Option<String>>>,
    news: watch::Receiver<u64>,
    request: Request<Incoming>,
) -> Result<Answer, Infallible> {
    let is_watch = request.uri().query().unwrap_or_default().contains("watch=true");
    let stream = Stream { log: log.clone(), index };
    {
        let mut log = log.lock();
        let seen = &mut log[index];
        seen.now += 1;
        seen.most = seen.most.max(seen.now);
        seen.version = Some(request.version());
        if is_watch { seen.watches += 1 } else { seen.calls += 1 }
    }
    let presented = request.headers().get("authorization").and_then(|value| value.to_str().ok());
    log.lock()[index].tokens.extend(presented.map(str::to_owned));
    let accepted = token.lock().as_ref().is_none_or(|token| presented == Some(&format!("Bearer {token}")));
    if !accepted {
        let status =
            r#"{"kind":"Status","status":"Failure","code":401,"reason":"Unauthorized","message":"Unauthorized"}"#;
        return Ok(Response::builder().status(401).body(Full::from(status).boxed_unsync()).unwrap());
    }
    if request.uri().path().ends_with("/hang") {
        std::future::pending::<()>().await;
    }
    if is_watch {
        // One event immediately, then one for each notification.
        let events = futures::stream::unfold((stream, news, true), |(stream, mut news, first)| async move {
            if !first && news.changed().await.is_err() {
                return None;
            }
            let version = *news.borrow_and_update();
            let event = format!(
                r#"{{"type":"BOOKMARK","object":{{"kind":"ConfigMap","apiVersion":"v1","metadata":{{"resourceVersion":"{version}"}}}}}}"#
            );
            Some((Ok::<_, Infallible>(Frame::data(Bytes::from(format!("{event}\n")))), (stream, news, false)))
        });
        let events: Pin<Box<dyn futures::Stream<Item = _> + Send>> = Box::pin(events);
        return Ok(Response::new(StreamBody::new(events).boxed_unsync()));
    }
    let object = r#"{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"a","namespace":"ns"}}"#;
    Ok(Response::new(Full::from(object).boxed_unsync()))
}

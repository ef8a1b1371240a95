//! Tests against sockets on loopback.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use driver::{Code, DriverError};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::super::Effect;
use super::*;

const ANSWER: &str = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";

/// Behaviour of a test server.
#[derive(Clone, Copy, Debug)]
enum Server {
    Answers(&'static str),
    ClosesAfterReading,
    NeverAnswers,
}

struct Running {
    address: SocketAddr,
    connections: Arc<AtomicUsize>,
    requests: Arc<AtomicUsize>,
    _tasks: JoinSet<()>,
}

async fn start(server: Server) -> Running {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (connections, requests) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (opened, read) = (connections.clone(), requests.clone());
    let mut tasks = JoinSet::new();
    tasks.spawn(async move {
        let mut serving = JoinSet::new();
        while let Ok((stream, _)) = listener.accept().await {
            opened.fetch_add(1, Ordering::SeqCst);
            serving.spawn(serve(server, stream, read.clone()));
        }
    });
    Running { address, connections, requests, _tasks: tasks }
}

async fn serve(server: Server, mut stream: TcpStream, requests: Arc<AtomicUsize>) {
    let mut read = Vec::new();
    let mut piece = [0; 1024];
    loop {
        let Ok(length @ 1..) = stream.read(&mut piece).await else { return };
        read.extend_from_slice(&piece[..length]);
        if read.ends_with(b"body") {
            read.clear();
            requests.fetch_add(1, Ordering::SeqCst);
            match server {
                Server::Answers(answer) => stream.write_all(answer.as_bytes()).await.unwrap(),
                Server::ClosesAfterReading => return,
                Server::NeverAnswers => {}
            }
        }
    }
}

fn client() -> Client {
    Client::without_ca_certificates()
}

fn post(scheme: &str, address: SocketAddr) -> Request<Bytes> {
    Request::post(format!("{scheme}://{address}/")).body(Bytes::from_static(b"body")).unwrap()
}

/// Shows CLD-6.
#[tokio::test]
async fn connection_is_reused() {
    let server = start(Server::Answers(ANSWER)).await;
    let client = client();
    for _ in 0..5 {
        let answer = client.send(&Call::default(), post("http", server.address)).await.unwrap();
        assert_eq!((answer.status().as_u16(), answer.body().as_ref()), (200, &b"ok"[..]));
    }
    assert_eq!(server.connections.load(Ordering::SeqCst), 1);
}

/// Shows CLD-4, AWS-C5.
#[tokio::test]
async fn refused_connection_has_no_effect() {
    let address = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let error = client().send(&Call::default(), post("http", address)).await.unwrap_err();
    assert!(matches!(error, HttpError::Connect { .. }), "{error:?}");
    assert_eq!(error.effect(), Effect::None);
    let told = DriverError::from(error);
    assert_eq!(told.code(), Code::Unavailable);
    assert!(told.message().contains("refused") && told.message().contains("check the endpoint"), "{told}");
}

/// Shows CLD-5.
#[tokio::test]
async fn server_without_tls_is_a_tls_error() {
    let server = start(Server::Answers(ANSWER)).await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let answering = async {
        let (mut stream, _) = listener.accept().await.unwrap();
        let _unheard = stream.write_all(ANSWER.as_bytes()).await;
        let mut rest = Vec::new();
        let _unread = stream.read_to_end(&mut rest).await;
    };
    let (client, call) = (client(), Call::default());
    let (error, ()) = tokio::join!(client.send(&call, post("https", address)), answering);
    let error = error.unwrap_err();
    assert!(matches!(error, HttpError::Tls { .. }), "{error:?}");
    assert_eq!(error.effect(), Effect::None);
    assert_eq!(DriverError::from(error).code(), Code::Unavailable);
    drop(server);
}

/// Shows CLD-5.
#[tokio::test]
async fn untrusted_certificate_is_a_tls_error() {
    let made = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
    let key = rustls::pki_types::PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
    let config = rustls::ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key)
        .unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(config));
    let answering = async {
        let (stream, _) = listener.accept().await.unwrap();
        assert!(acceptor.accept(stream).await.is_err());
    };
    let (client, call) = (client(), Call::default());
    let (error, ()) = tokio::join!(client.send(&call, post("https", address)), answering);
    assert!(matches!(error.unwrap_err(), HttpError::Tls { .. }));
}

/// Shows CLD-4.
#[tokio::test]
async fn lost_connection_may_have_an_effect_and_is_not_retried() {
    let server = start(Server::ClosesAfterReading).await;
    let error = client().send(&Call::default(), post("http", server.address)).await.unwrap_err();
    assert!(matches!(error, HttpError::Broken { .. }), "{error:?}");
    assert_eq!(error.effect(), Effect::Possible);
    assert_eq!(server.requests.load(Ordering::SeqCst), 1, "sent once");
    let told = DriverError::from(error);
    assert_eq!(told.code(), Code::Unavailable);
    assert!(told.message().contains("unknown"), "{told}");
}

/// Shows CLD-4, AWS-C5.
#[tokio::test]
async fn request_to_a_silent_server_times_out() {
    let server = start(Server::NeverAnswers).await;
    let client = client().with_timeout(Duration::from_millis(50));
    let error = client.send(&Call::default(), post("http", server.address)).await.unwrap_err();
    assert!(matches!(error, HttpError::TimedOut { .. }), "{error:?}");
    assert_eq!((error.effect(), DriverError::from(error).code()), (Effect::Possible, Code::Unavailable));
}

/// Shows CLD-4.
#[tokio::test]
async fn request_ends_with_its_call() {
    let server = start(Server::NeverAnswers).await;
    let client = client();
    let late = client.send(&Call::within(Duration::from_millis(50)), post("http", server.address)).await.unwrap_err();
    assert_eq!(DriverError::from(late).code(), Code::DeadlineExceeded);
    let token = CancellationToken::new();
    let call = Call::default().canceled_by(token.clone());
    let (canceled, ()) = tokio::join!(client.send(&call, post("http", server.address)), async {
        tokio::time::sleep(Duration::from_millis(50)).await;
        token.cancel();
    });
    assert_eq!(DriverError::from(canceled.unwrap_err()).code(), Code::Canceled);
}

/// Shows CLD-4.
#[tokio::test]
async fn response_beyond_the_limit_is_not_read() {
    let server = start(Server::Answers("HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\n0123456789")).await;
    let client = client().with_max_response_size(9);
    let error = client.send(&Call::default(), post("http", server.address)).await.unwrap_err();
    assert!(matches!(error, HttpError::TooLarge { limit: 9, .. }), "{error:?}");
}

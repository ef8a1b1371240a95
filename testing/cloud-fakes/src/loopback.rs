//! A server on loopback that answers HTTP until it is dropped.

use std::io;
use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::Instant;

/// What is answered; an error closes the connection without an answer.
pub(crate) type Answered = io::Result<hyper::Response<Full<Bytes>>>;

/// A server that runs until this value is dropped.
#[derive(Debug)]
pub(crate) struct Loopback {
    pub(crate) port: u16,
    _server: JoinSet<()>,
}

impl Loopback {
    /// Starts a server on a free port that answers each request with what `answer` makes of it.
    pub(crate) async fn start<Answer, Answering>(answer: Answer) -> io::Result<Self>
    where
        Answer: Fn(hyper::Request<Incoming>) -> Answering + Clone + Send + 'static,
        Answering: Future<Output = Answered> + Send + 'static,
    {
        Self::attended(move |stream| converse(stream, answer.clone())).await
    }

    /// Starts a server on a free port that does with each connection what `attend` does.
    pub(crate) async fn attended<Attend, Attending>(attend: Attend) -> io::Result<Self>
    where
        Attend: Fn(TcpStream) -> Attending + Send + 'static,
        Attending: Future<Output = ()> + Send + 'static,
    {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let port = listener.local_addr()?.port();
        let mut server = JoinSet::new();
        server.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                connections.spawn(attend(stream));
                while connections.try_join_next().is_some() {}
            }
        });
        Ok(Self { port, _server: server })
    }

    /// Where it is: `http://127.0.0.1:<port>`.
    pub(crate) fn endpoint(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }
}

/// Answers what is asked on one connection.
pub(crate) async fn converse<Answer, Answering>(stream: TcpStream, answer: Answer)
where
    Answer: Fn(hyper::Request<Incoming>) -> Answering + Send + 'static,
    Answering: Future<Output = Answered> + Send + 'static,
{
    // A caller who hangs up is none of our business, and an answer that is an error is meant to close the connection.
    let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service_fn(answer)).await;
}

/// A cloud that its server and its tests look at, and its clock, which is tokio's.
#[derive(Debug)]
pub(crate) struct Shared<Cloud> {
    cloud: Mutex<Cloud>,
    begun: Instant,
}

impl<Cloud> Shared<Cloud> {
    pub(crate) fn new(cloud: Cloud) -> Arc<Self> {
        Arc::new(Self { cloud: Mutex::new(cloud), begun: Instant::now() })
    }

    /// Looks at the cloud, or changes it; what is handed in is the time on its clock.
    pub(crate) fn with<T>(&self, look: impl FnOnce(&mut Cloud, Duration) -> T) -> T {
        // A test that panicked while it held the lock has already failed; the others continue.
        look(&mut self.cloud.lock().unwrap_or_else(PoisonError::into_inner), self.begun.elapsed())
    }
}

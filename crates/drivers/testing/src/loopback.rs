//! A server on loopback that answers HTTP until it is dropped.

use std::convert::Infallible;
use std::io;
use std::net::Ipv4Addr;

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

/// A server that runs until this value is dropped.
#[derive(Debug)]
pub(crate) struct Loopback {
    pub(crate) port: u16,
    _server: JoinSet<()>,
}

impl Loopback {
    /// Starts a server on a free port that answers each request with what `answer` makes of it.
    pub(crate) async fn start<Answer, Answered>(answer: Answer) -> io::Result<Self>
    where
        Answer: Fn(hyper::Request<Incoming>) -> Answered + Clone + Send + 'static,
        Answered: Future<Output = hyper::Response<Full<Bytes>>> + Send + 'static,
    {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let port = listener.local_addr()?.port();
        let mut server = JoinSet::new();
        server.spawn(accept(listener, answer));
        Ok(Self { port, _server: server })
    }

    /// Where it is: `http://127.0.0.1:<port>`.
    pub(crate) fn endpoint(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }
}

async fn accept<Answer, Answered>(listener: TcpListener, answer: Answer)
where
    Answer: Fn(hyper::Request<Incoming>) -> Answered + Clone + Send + 'static,
    Answered: Future<Output = hyper::Response<Full<Bytes>>> + Send + 'static,
{
    let mut connections = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        connections.spawn(attend(stream, answer.clone()));
        while connections.try_join_next().is_some() {}
    }
}

async fn attend<Answer, Answered>(stream: TcpStream, answer: Answer)
where
    Answer: Fn(hyper::Request<Incoming>) -> Answered + Send + 'static,
    Answered: Future<Output = hyper::Response<Full<Bytes>>> + Send + 'static,
{
    let service = service_fn(move |request| {
        let answered = answer(request);
        async move { Ok::<_, Infallible>(answered.await) }
    });
    // A caller who hangs up is none of our business.
    let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
}

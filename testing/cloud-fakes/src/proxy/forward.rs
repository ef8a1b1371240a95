//! A request as it came, sent on to the cloud.

use std::io;
use std::net::SocketAddr;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::task::JoinSet;

/// Sends a request on, on a connection of its own, and reads the whole answer.
pub(super) async fn forward(
    to: SocketAddr,
    request: hyper::Request<Full<Bytes>>,
) -> io::Result<hyper::Response<Full<Bytes>>> {
    let stream = TcpStream::connect(to).await?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(io::Error::other)?;
    let mut connected = JoinSet::new();
    connected.spawn(connection);
    let (head, body) = sender.send_request(request).await.map_err(io::Error::other)?.into_parts();
    let body = body.collect().await.map_err(io::Error::other)?.to_bytes();
    let mut response = hyper::Response::new(Full::new(body));
    *response.status_mut() = head.status;
    *response.headers_mut() = head.headers;
    // How the answer travels is between the two ends of a connection.
    for name in ["connection", "transfer-encoding", "content-length"] {
        response.headers_mut().remove(name);
    }
    Ok(response)
}

//! As much of gRPC as a kubelet needs to call a plug-in: one message in and one out, on a unix socket.

use std::convert::Infallible;
use std::sync::Arc;

use bytes::{BufMut as _, Bytes, BytesMut};
use http::{HeaderMap, HeaderValue, Request, Response, header};
use http_body_util::{BodyExt as _, Full};
use hyper::body::{Body, Incoming};
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::{UnixListener, UnixStream};
use tokio::task::JoinSet;

/// What is done for a method, by its path, and its message.
pub(super) type Answer = dyn Fn(&str, &[u8]) -> Result<Vec<u8>, String> + Send + Sync;

/// Before each message: whether it is compressed, and its length.
const PREFIX: usize = 5;
/// The number of the status `Internal`.
const INTERNAL: HeaderValue = HeaderValue::from_static("13");
const OK: HeaderValue = HeaderValue::from_static("0");

/// Answers until it is dropped.
pub(super) async fn serve(listener: UnixListener, answer: Arc<Answer>) {
    let mut callers = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        callers.spawn(attend(stream, answer.clone()));
        while callers.try_join_next().is_some() {}
    }
}

async fn attend(stream: UnixStream, answer: Arc<Answer>) {
    let service = service_fn(move |request| respond(request, answer.clone()));
    // A kubelet that was killed hangs up.
    let _ = http2::Builder::new(TokioExecutor::new()).serve_connection(TokioIo::new(stream), service).await;
}

async fn respond(
    request: Request<Incoming>,
    answer: Arc<Answer>,
) -> Result<Response<impl Body<Data = Bytes, Error = Infallible>>, hyper::Error> {
    let path = request.uri().path().to_owned();
    let asked = request.into_body().collect().await?.to_bytes();
    let answered = answer(&path, asked.get(PREFIX..).unwrap_or_default());
    let mut trailers = HeaderMap::new();
    let message = match answered {
        Ok(message) => {
            trailers.insert("grpc-status", OK);
            framed(&message)
        }
        Err(why) => {
            trailers.insert("grpc-status", INTERNAL);
            let why = why.replace(|letter: char| !letter.is_ascii_graphic(), " ");
            trailers.extend(
                HeaderValue::try_from(why).ok().map(|why| (http::HeaderName::from_static("grpc-message"), why)),
            );
            Bytes::new()
        }
    };
    let mut response = Response::new(Full::new(message).with_trailers(async { Some(Ok(trailers)) }));
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
    Ok(response)
}

fn framed(message: &[u8]) -> Bytes {
    let mut frame = BytesMut::with_capacity(PREFIX + message.len());
    frame.put_u8(0);
    frame.put_u32(u32::try_from(message.len()).unwrap_or_default());
    frame.put_slice(message);
    frame.freeze()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_follows_its_length() {
        assert_eq!(framed(b"ab").as_ref(), [0, 0, 0, 0, 2, b'a', b'b']);
    }
}

//! One HTTP connection: handshake, driver task and sending.
//!
//! HTTP/2 carries many streams and is checked with pings, so that a dead peer is detected within 45 s instead of at the
//! end of a watch. HTTP/1.1 carries one request at a time; it is supported for proxies without HTTP/2.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures::future::{BoxFuture, poll_fn};
use http::header::HOST;
use http::{HeaderValue, Request, Response};
use http_body::{Frame, SizeHint};
use hyper::body::Incoming;
use hyper::client::conn::{TrySendError, http1, http2};
use hyper_util::rt::{TokioExecutor, TokioTimer};
use kube::client::Body;
use tower::BoxError;

use super::dial::{DialError, Dialed, Protocol};
use super::failure::Failure;

/// Maximum number of streams per connection. API servers allow 100 (some proxies fewer, see [`open`]). A further
/// request would wait inside HTTP/2 until another stream ends, and a watch does not end.
pub(crate) const MOST_STREAMS: usize = 80;

const PING_EVERY: Duration = Duration::from_secs(30);
const PING_TIMEOUT: Duration = Duration::from_secs(15);

/// The kind of traffic on a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Traffic {
    /// Long-lived streams.
    Watches,
    /// Requests with a single response.
    Calls,
}

impl Traffic {
    /// Returns the flow control windows of a stream and a connection. A slow watcher must not block the other streams,
    /// so the connection window has space for 80 stream windows. Calls are read immediately, and their window has space
    /// for a page of a list.
    fn windows(self) -> (u32, u32) {
        match self {
            Self::Watches => (64 << 10, 80 * (64 << 10)),
            Self::Calls => (1 << 20, 16 << 20),
        }
    }
}

/// The sender of an open connection.
#[derive(Clone)]
pub(crate) enum Sender {
    Http2(http2::SendRequest<Body>),
    /// In a lock because it cannot be cloned; the only stream of such a connection uses it alone.
    Http1(Arc<tokio::sync::Mutex<http1::SendRequest<Body>>>),
}

/// A request without a response on this connection.
pub(crate) enum Undelivered {
    /// It was not written, so it may be sent on another connection.
    Returned(Box<Request<Body>>, hyper::Error),
    /// It was written, and its result is unknown.
    Lost(hyper::Error),
}

/// Starts HTTP on a connection. Returns the sender and the future that drives the connection. `room` is kept at the
/// number of streams that the connection may carry, which the peer may lower at any time.
pub(crate) async fn open(
    dialed: Dialed,
    traffic: Traffic,
    room: Arc<AtomicUsize>,
) -> Result<(Sender, BoxFuture<'static, ()>), DialError> {
    match dialed.protocol {
        Protocol::Http2 => {
            let (stream_window, connection_window) = traffic.windows();
            let (sender, connection) = http2::Builder::new(TokioExecutor::new())
                .timer(TokioTimer::new())
                .keep_alive_interval(PING_EVERY)
                .keep_alive_timeout(PING_TIMEOUT)
                .keep_alive_while_idle(true)
                .initial_stream_window_size(stream_window)
                .initial_connection_window_size(connection_window)
                .handshake(dialed.io)
                .await
                .map_err(DialError::Handshake)?;
            room.store(MOST_STREAMS, Ordering::Relaxed);
            let mut connection = Box::pin(connection);
            let drive = poll_fn(move |cx| {
                let ended = connection.as_mut().poll(cx).map(log_end);
                // A fifth is left free: streams that ended here may still count at the peer.
                let allowed = connection.current_max_send_streams();
                room.store((allowed - allowed / 5).clamp(1, MOST_STREAMS), Ordering::Relaxed);
                ended
            });
            Ok((Sender::Http2(sender), Box::pin(drive)))
        }
        Protocol::Http1 => {
            let (sender, connection) =
                http1::Builder::new().handshake(dialed.io).await.map_err(DialError::Handshake)?;
            room.store(1, Ordering::Relaxed);
            let drive = async move { log_end(connection.await) };
            Ok((Sender::Http1(Arc::new(tokio::sync::Mutex::new(sender))), Box::pin(drive)))
        }
    }
}

fn log_end(ended: hyper::Result<()>) {
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection to the API server ended");
    }
}

impl Sender {
    pub(crate) fn is_closed(&self) -> bool {
        match self {
            Self::Http2(sender) => sender.is_closed(),
            Self::Http1(sender) => sender.try_lock().is_ok_and(|sender| sender.is_closed()),
        }
    }

    pub(crate) fn protocol(&self) -> Protocol {
        match self {
            Self::Http2(_) => Protocol::Http2,
            Self::Http1(_) => Protocol::Http1,
        }
    }

    /// Sends a request with an absolute URL.
    pub(crate) async fn send(self, request: Request<Body>) -> Result<Response<Incoming>, Undelivered> {
        match self {
            Self::Http2(mut sender) => sender.try_send_request(request).await.map_err(undelivered),
            Self::Http1(sender) => {
                let mut sender = sender.lock().await;
                if let Err(error) = sender.ready().await {
                    return Err(Undelivered::Returned(Box::new(request), error));
                }
                let absolute = request.uri().clone();
                let sent = sender.try_send_request(in_origin_form(request)).await;
                sent.map_err(|error| match undelivered(error) {
                    Undelivered::Returned(mut request, error) => {
                        *request.uri_mut() = absolute;
                        Undelivered::Returned(request, error)
                    }
                    lost @ Undelivered::Lost(_) => lost,
                })
            }
        }
    }
}

fn undelivered(mut error: TrySendError<Request<Body>>) -> Undelivered {
    match error.take_message() {
        Some(request) => Undelivered::Returned(Box::new(request), error.into_error()),
        None => Undelivered::Lost(error.into_error()),
    }
}

/// HTTP/1.1 sends the server in a header and the path in the request line; HTTP/2 takes both from the URL.
fn in_origin_form(mut request: Request<Body>) -> Request<Body> {
    let host = request.uri().authority().and_then(|authority| HeaderValue::from_str(authority.as_str()).ok());
    if let Some(host) = host {
        request.headers_mut().insert(HOST, host);
    }
    let path = request.uri().path_and_query().cloned();
    *request.uri_mut() = path.map_or_else(http::Uri::default, http::Uri::from);
    request
}

/// The body of a response, which keeps its slot on the connection (`S`) until its end.
pub(crate) struct TrackedBody<S> {
    body: Incoming,
    slot: Option<S>,
}

impl<S> TrackedBody<S> {
    pub(crate) fn new(body: Incoming, slot: S) -> Self {
        use http_body::Body as _;
        let slot = (!body.is_end_stream()).then_some(slot);
        Self { body, slot }
    }
}

impl<S: Unpin> http_body::Body for TrackedBody<S> {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let frame = std::task::ready!(Pin::new(&mut self.body).poll_frame(cx));
        if self.body.is_end_stream() || !matches!(frame, Some(Ok(_))) {
            self.slot = None;
        }
        Poll::Ready(frame.map(|frame| frame.map_err(|error| Failure::Lost(error).into())))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

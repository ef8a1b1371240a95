//! The HTTP server of the web view.

use std::convert::Infallible;
use std::time::Duration;

use bytes::Bytes;
use futures::{FutureExt, StreamExt};
use http::header::{ALLOW, CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderValue, REFERRER_POLICY};
use http::header::{WWW_AUTHENTICATE, X_CONTENT_TYPE_OPTIONS};
use http::{Method, Request, Response, StatusCode, Uri};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use inspect::explain::{self, Explained};
use runtime::Tasks;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

use super::access::Refusal;
use super::{Access, View, assets, events, snapshot};
use crate::http::accept;

const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// Timeout for the headers of a request.
const HEADER_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum size of the headers of a request. The body is not read. Service account tokens have one or two kilobytes.
const MAX_HEADER_SIZE: usize = 32 * 1024;

/// Content-Security-Policy: no resources of other hosts, no inline scripts or styles, no frames.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

type Body = UnsyncBoxBody<Bytes, Infallible>;

/// Serves requests until `tasks` stops.
pub(crate) async fn serve(
    listener: TcpListener,
    view: View,
    access: Access,
    acceptor: Option<TlsAcceptor>,
    tasks: Tasks,
) {
    let handler = Handler { view, access };
    accept(listener, tasks, "web view", move |socket| handler.clone().attend(socket, acceptor.clone())).await;
}

#[derive(Clone)]
pub(super) struct Handler {
    pub(super) view: View,
    pub(super) access: Access,
}

impl Handler {
    async fn attend(self, socket: TcpStream, acceptor: Option<TlsAcceptor>) {
        let Some(acceptor) = acceptor else { return self.serve_connection(socket).await };
        if let Ok(Ok(secured)) = tokio::time::timeout(HANDSHAKE_TIMEOUT, acceptor.accept(socket)).await {
            self.serve_connection(secured).await;
        }
    }

    /// Serves one connection. Connection errors are ignored.
    async fn serve_connection(self, socket: impl AsyncRead + AsyncWrite + Unpin + Send + 'static) {
        let answer = service_fn(move |request: Request<Incoming>| {
            let handler = self.clone();
            async move { Ok::<_, Infallible>(handler.answer(&request).await) }
        });
        let mut builder = http1::Builder::new();
        builder.timer(TokioTimer::new()).header_read_timeout(HEADER_TIMEOUT).max_buf_size(MAX_HEADER_SIZE);
        let _ignored = builder.serve_connection(TokioIo::new(socket), answer).await;
    }

    pub(super) async fn answer<B>(&self, request: &Request<B>) -> Response<Body> {
        let mut answer = self.routed(request).await;
        let headers = answer.headers_mut();
        headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
        headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
        headers.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        answer
    }

    async fn routed<B>(&self, request: &Request<B>) -> Response<Body> {
        if request.method() != Method::GET {
            let mut answer = text(StatusCode::METHOD_NOT_ALLOWED, "Only GET is supported.\n");
            answer.headers_mut().insert(ALLOW, HeaderValue::from_static("GET"));
            return answer;
        }
        let uri = request.uri();
        if let Some(asset) = assets::at(uri.path()) {
            return whole(StatusCode::OK, asset.content_type, asset.text);
        }
        if !matches!(uri.path(), "/events" | "/explain") {
            return text(StatusCode::NOT_FOUND, "Not found. The web view is at /.\n");
        }
        let allowed = match self.access.check(uri, request.headers()).await {
            Ok(allowed) => allowed,
            Err(Refusal { status, why }) => {
                let mut answer = text(status, why);
                if status == StatusCode::UNAUTHORIZED {
                    answer.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
                }
                return answer;
            }
        };
        if uri.path() == "/explain" {
            return self.explained(uri);
        }
        let revoked = self.access.clone().revoked(uri.clone(), request.headers().clone(), allowed);
        streamed(self.view.clone(), revoked)
    }

    fn explained(&self, uri: &Uri) -> Response<Body> {
        let parameter = |wanted: &str| {
            let all = uri.query().unwrap_or_default().split('&').filter_map(|part| part.split_once('='));
            all.into_iter().find(|(name, _)| *name == wanted).map(|(_, value)| value)
        };
        // Names of Machine API objects are DNS names, so they need no unescaping.
        let named = parameter("kind").and_then(Explained::named).zip(parameter("name"));
        let Some((kind, name)) = named else {
            return text(StatusCode::BAD_REQUEST, "The parameters kind and name are required.\n");
        };
        match explain::of(&snapshot::of(&self.view), kind, name).map(|found| serde_json::to_string(&found)) {
            Ok(Ok(found)) => whole(StatusCode::OK, "application/json", found),
            Ok(Err(_)) => text(StatusCode::INTERNAL_SERVER_ERROR, "Failed to serialize the explanation.\n"),
            Err(missing) => text(StatusCode::NOT_FOUND, missing),
        }
    }
}

/// Returns the stream of events. It ends when access is revoked.
fn streamed(view: View, revoked: impl Future<Output = ()> + Send + 'static) -> Response<Body> {
    let frames = events::stream(view).take_until(revoked.boxed()).boxed();
    let mut answer = Response::new(StreamBody::new(frames).boxed_unsync());
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    answer
}

fn text(status: StatusCode, body: impl Into<Bytes>) -> Response<Body> {
    whole(status, "text/plain; charset=utf-8", body)
}

fn whole(status: StatusCode, content_type: &'static str, body: impl Into<Bytes>) -> Response<Body> {
    let mut answer = Response::new(Full::new(body.into()).boxed_unsync());
    *answer.status_mut() = status;
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    answer
}

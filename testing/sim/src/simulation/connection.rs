//! The connection between a process and an API server. It can lag, break, and ends with the process.
//!
//! A killed process sends and receives nothing more. Its tasks may still run for a moment, so the connection is what
//! ends the process immediately.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Buf, Bytes};
use fake_apiserver::{Body, BoxError, ConnectionBroken, Service};
use futures::future::BoxFuture;
use http::{Method, Request, Response};
use http_body::Frame;
use tokio::sync::watch;

/// Time until a request over a broken connection fails.
const FAILURE_DELAY: Duration = Duration::from_millis(500);

/// State of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ConnectionState {
    /// Requests and responses are delivered.
    Open,
    /// Watch events are held back; all else is delivered.
    Lagging,
    /// Requests fail, and open responses end with an error.
    Cut,
    /// The process has ended. Nothing is delivered.
    Dead,
}

/// The connection of one client.
#[derive(Clone)]
pub(super) struct Connection {
    service: Service,
    state: watch::Receiver<ConnectionState>,
    on_delete: DeleteListener,
}

/// Called with the name of the Machine when a request to delete it is sent.
pub(super) type DeleteListener = Arc<dyn Fn(&str) + Send + Sync>;

impl Connection {
    pub(super) fn new(service: Service, state: watch::Receiver<ConnectionState>, on_delete: DeleteListener) -> Self {
        Self { service, state, on_delete }
    }
}

/// Returns the name of the Machine that a request deletes.
fn deleted_machine<B>(request: &Request<B>) -> Option<&str> {
    let (_, name) = request.uri().path().split_once("/machines/")?;
    (request.method() == Method::DELETE && !name.contains('/')).then_some(name)
}

/// Returns when the connection is cut. Never returns if the process has ended.
async fn cut(state: &mut watch::Receiver<ConnectionState>) -> ConnectionBroken {
    if state
        .wait_for(|state| matches!(state, ConnectionState::Cut | ConnectionState::Dead))
        .await
        .is_ok_and(|state| *state == ConnectionState::Cut)
    {
        return ConnectionBroken;
    }
    std::future::pending::<Infallible>().await;
    ConnectionBroken
}

impl<B> tower::Service<Request<B>> for Connection
where
    B: http_body::Body + Send + 'static,
    B::Data: Buf + Send,
    B::Error: Into<BoxError>,
{
    type Response = Response<ConnectionBody>;
    type Error = ConnectionBroken;
    type Future = BoxFuture<'static, Result<Response<ConnectionBody>, ConnectionBroken>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let (mut service, mut state) = (self.service.clone(), self.state.clone());
        if let Some(machine) = deleted_machine(&request) {
            (self.on_delete)(machine);
        }
        Box::pin(async move {
            let is_watch = request.uri().query().is_some_and(|query| query.contains("watch="));
            let answer = tokio::select! {
                biased;
                broken = cut(&mut state) => {
                    tokio::time::sleep(FAILURE_DELAY).await;
                    return Err(broken);
                }
                answer = service.call(request) => answer?,
            };
            Ok(answer.map(|body| ConnectionBody { body, is_watch, changed: changed(state.clone()), state }))
        })
    }
}

/// The body of a response.
pub(super) struct ConnectionBody {
    body: Body,
    is_watch: bool,
    state: watch::Receiver<ConnectionState>,
    changed: BoxFuture<'static, ()>,
}

fn changed(mut state: watch::Receiver<ConnectionState>) -> BoxFuture<'static, ()> {
    state.mark_unchanged();
    Box::pin(async move {
        if state.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    })
}

impl http_body::Body for ConnectionBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        loop {
            let state = *self.state.borrow_and_update();
            match state {
                ConnectionState::Cut => return Poll::Ready(Some(Err(ConnectionBroken.into()))),
                ConnectionState::Lagging if self.is_watch => {}
                ConnectionState::Dead => {}
                ConnectionState::Open | ConnectionState::Lagging => {
                    if let Poll::Ready(frame) = Pin::new(&mut self.body).poll_frame(context) {
                        return Poll::Ready(frame.map(|frame| frame.map_err(Into::into)));
                    }
                }
            }
            ready!(self.changed.as_mut().poll(context));
            let next = changed(self.state.clone());
            self.changed = next;
        }
    }
}

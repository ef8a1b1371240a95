//! The line between a process and an API server: it can be late, be cut, and ends with the process.
//!
//! A process that dies sends nothing more and hears nothing more, whatever its tasks are about to do. So the line, and not the tasks, is
//! what ends: from one moment to the next, in the middle of anything.

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

/// How long it takes to find out that nobody answers.
const REFUSAL: Duration = Duration::from_millis(500);

/// What becomes of what is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LineState {
    /// It arrives.
    Open,
    /// Watches show nothing; all else arrives.
    Late,
    /// Nothing arrives.
    Cut,
    /// Nobody is there any more.
    Dead,
}

/// One client's line.
#[derive(Clone)]
pub(super) struct Line {
    service: Service,
    state: watch::Receiver<LineState>,
    deletes: Deletes,
}

/// Hears of each request to delete a Machine, by its name, when it is sent.
pub(super) type Deletes = Arc<dyn Fn(&str) + Send + Sync>;

impl Line {
    pub(super) fn new(service: Service, state: watch::Receiver<LineState>, deletes: Deletes) -> Self {
        Self { service, state, deletes }
    }
}

/// The Machine that a request deletes.
fn deleted_machine<B>(request: &Request<B>) -> Option<&str> {
    let (_, name) = request.uri().path().split_once("/machines/")?;
    (request.method() == Method::DELETE && !name.contains('/')).then_some(name)
}

/// Returns when the line is cut; never when its process has ended.
async fn cut(state: &mut watch::Receiver<LineState>) -> ConnectionBroken {
    if state
        .wait_for(|state| matches!(state, LineState::Cut | LineState::Dead))
        .await
        .is_ok_and(|state| *state == LineState::Cut)
    {
        return ConnectionBroken;
    }
    std::future::pending::<Infallible>().await;
    ConnectionBroken
}

impl<B> tower::Service<Request<B>> for Line
where
    B: http_body::Body + Send + 'static,
    B::Data: Buf + Send,
    B::Error: Into<BoxError>,
{
    type Response = Response<LineBody>;
    type Error = ConnectionBroken;
    type Future = BoxFuture<'static, Result<Response<LineBody>, ConnectionBroken>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let (mut service, mut state) = (self.service.clone(), self.state.clone());
        if let Some(machine) = deleted_machine(&request) {
            (self.deletes)(machine);
        }
        Box::pin(async move {
            let is_watch = request.uri().query().is_some_and(|query| query.contains("watch="));
            let answer = tokio::select! {
                biased;
                broken = cut(&mut state) => {
                    tokio::time::sleep(REFUSAL).await;
                    return Err(broken);
                }
                answer = service.call(request) => answer?,
            };
            Ok(answer.map(|body| LineBody { body, is_watch, changed: changed(state.clone()), state }))
        })
    }
}

/// What is heard over the line.
pub(super) struct LineBody {
    body: Body,
    is_watch: bool,
    state: watch::Receiver<LineState>,
    changed: BoxFuture<'static, ()>,
}

fn changed(mut state: watch::Receiver<LineState>) -> BoxFuture<'static, ()> {
    state.mark_unchanged();
    Box::pin(async move {
        if state.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    })
}

impl http_body::Body for LineBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        loop {
            let state = *self.state.borrow_and_update();
            match state {
                LineState::Cut => return Poll::Ready(Some(Err(ConnectionBroken.into()))),
                LineState::Late if self.is_watch => {}
                LineState::Dead => {}
                LineState::Open | LineState::Late => {
                    if let Poll::Ready(frame) = Pin::new(&mut self.body).poll_frame(context) {
                        return Poll::Ready(frame.map(|frame| frame.map_err(Into::into)));
                    }
                }
            }
            ready!(self.changed.as_mut().poll(context));
            let again = changed(self.state.clone());
            self.changed = again;
        }
    }
}

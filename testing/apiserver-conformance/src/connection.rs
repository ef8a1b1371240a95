//! A connection to a server that can be cut, as networks do.
//!
//! What a client had open ends in the middle, and what it asks meanwhile fails, while everybody else goes on. No server has to be
//! killed for it, so that it can be had in memory and beside other cases.

use std::task::{Context, Poll};

use bytes::Bytes;
use futures::future::BoxFuture;
use futures::{FutureExt as _, stream};
use http::{Request, Response};
use http_body::Frame;
use http_body_util::{BodyExt as _, StreamBody};
use kube::client::Body;
use tokio::sync::watch;
use tower::{BoxError, Service};

/// Whether anything gets through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Whole,
    Cut,
}

/// Cuts the connection and lets it through again.
pub(crate) struct CuttableConnection {
    state: watch::Sender<State>,
}

impl CuttableConnection {
    /// A connection to the server of this client, and a client at its other end.
    pub(crate) fn to(client: kube::Client) -> (Self, kube::Client) {
        let (state, seen) = watch::channel(State::Whole);
        (Self { state }, kube::Client::new(Wire { client, state: seen }, "default"))
    }

    /// Ends everything that is open, and lets nothing new through.
    pub(crate) fn cut(&self) {
        self.state.send_replace(State::Cut);
    }

    /// Lets new requests through.
    pub(crate) fn mend(&self) {
        self.state.send_replace(State::Whole);
    }
}

#[derive(Clone)]
struct Wire {
    client: kube::Client,
    state: watch::Receiver<State>,
}

type Frames = stream::BoxStream<'static, Result<Frame<Bytes>, BoxError>>;

impl Service<Request<Body>> for Wire {
    type Response = Response<StreamBody<Frames>>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Self::Response, BoxError>>;

    fn poll_ready(&mut self, _context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let Self { client, mut state } = self.clone();
        async move {
            let answer = tokio::select! {
                biased;
                () = cut(&mut state) => return Err("the connection is cut".into()),
                answer = client.send(request) => answer?,
            };
            Ok(answer.map(|body| StreamBody::new(until_cut(body, state))))
        }
        .boxed()
    }
}

fn until_cut(body: Body, state: watch::Receiver<State>) -> Frames {
    Box::pin(stream::unfold(Some((body, state)), |open| async move {
        let (mut body, mut state) = open?;
        tokio::select! {
            biased;
            () = cut(&mut state) => Some((Err("the connection was cut".into()), None)),
            frame = body.frame() => frame.map(|frame| (frame.map_err(Into::into), Some((body, state)))),
        }
    }))
}

async fn cut(state: &mut watch::Receiver<State>) {
    // Whoever held the scissors is gone: nothing will be cut any more.
    if state.wait_for(|state| *state == State::Cut).await.is_err() {
        std::future::pending::<()>().await;
    }
}

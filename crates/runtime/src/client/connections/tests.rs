//! Tests of connections over in-memory pipes to a server of hyper, with the paused clock.

use super::*;
use crate::Tasks;
use crate::client::dial::Dialed;
use bytes::Bytes;
use futures::future::join_all;
use http_body::Frame;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use std::convert::Infallible;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;

/// A server that records the current and the maximum number of streams of each connection.
#[derive(Clone)]
struct Fake {
    protocol: Protocol,
    streams_allowed: u32,
    refuse: Arc<Mutex<bool>>,
    era: Arc<Mutex<u64>>,
    seen: Arc<Mutex<Vec<StreamRecord>>>,
    tasks: Tasks,
}

#[derive(Clone, Default)]
struct StreamRecord {
    now: Arc<Mutex<usize>>,
    most: Arc<Mutex<usize>>,
    paths: Arc<Mutex<Vec<String>>>,
    closed: CancellationToken,
}

/// Counts one stream until it is dropped.
struct Open(StreamRecord);

impl Open {
    fn on(seen: &StreamRecord) -> Self {
        let mut now = seen.now.lock();
        *now += 1;
        let mut most = seen.most.lock();
        *most = (*most).max(*now);
        drop((now, most));
        Self(seen.clone())
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        *self.0.now.lock() -= 1;
    }
}

impl Fake {
    fn speaking(protocol: Protocol) -> Self {
        Self {
            protocol,
            streams_allowed: 100,
            refuse: Arc::default(),
            era: Arc::default(),
            seen: Arc::default(),
            tasks: Tasks::new(),
        }
    }

    fn connections(&self) -> usize {
        self.seen.lock().len()
    }

    fn open_connections(&self) -> usize {
        self.seen.lock().iter().filter(|seen| !seen.closed.is_cancelled()).count()
    }

    fn most_streams(&self) -> Vec<usize> {
        self.seen.lock().iter().map(|seen| *seen.most.lock()).collect()
    }

    fn streams_now(&self) -> usize {
        self.seen.lock().iter().map(|seen| *seen.now.lock()).sum()
    }

    fn close(&self, index: usize) {
        self.seen.lock()[index].closed.cancel();
    }
}

async fn serve(
    seen: StreamRecord,
    request: Request<Incoming>,
) -> Result<Response<UnsyncBoxBody<Bytes, Infallible>>, Infallible> {
    let open = Open::on(&seen);
    seen.paths.lock().push(request.uri().path().to_owned());
    if request.uri().path() == "/hang" {
        std::future::pending::<()>().await;
    }
    if address::is_watch(request.uri()) {
        let quiet = futures::stream::poll_fn(move |_| {
            let _held = &open;
            Poll::<Option<Result<Frame<Bytes>, Infallible>>>::Pending
        });
        return Ok(Response::new(StreamBody::new(quiet).boxed_unsync()));
    }
    tokio::time::sleep(Duration::from_millis(5)).await;
    Ok(Response::new(Full::new(Bytes::from_static(b"ok")).boxed_unsync()))
}

impl Dial for Fake {
    fn era(&self) -> u64 {
        *self.era.lock()
    }

    fn dial(&self) -> BoxFuture<'static, Result<Dialed, DialError>> {
        let fake = self.clone();
        Box::pin(async move {
            tokio::time::sleep(Duration::from_millis(20)).await;
            let seen = StreamRecord::default();
            fake.seen.lock().push(seen.clone());
            if *fake.refuse.lock() {
                seen.closed.cancel();
                let source = std::io::ErrorKind::ConnectionRefused.into();
                return Err(DialError::Connect { server: "fake".to_owned(), source });
            }
            let (ours, theirs) = tokio::io::duplex(1 << 16);
            let closed = seen.closed.clone();
            let ended = seen.closed.clone().drop_guard();
            let service = service_fn(move |request| serve(seen.clone(), request));
            fake.tasks.spawn("server", async move {
                let _ended = ended;
                let io = TokioIo::new(theirs);
                let serving: BoxFuture<'static, ()> = match fake.protocol {
                    Protocol::Http2 => {
                        let mut server = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
                        server.max_concurrent_streams(fake.streams_allowed);
                        let serving = server.serve_connection(io, service);
                        Box::pin(async move { drop(serving.await) })
                    }
                    Protocol::Http1 => {
                        let serving = hyper::server::conn::http1::Builder::new().serve_connection(io, service);
                        Box::pin(async move { drop(serving.await) })
                    }
                };
                tokio::select! { biased; () = closed.cancelled() => {} () = serving => {} }
            });
            Ok(Dialed { io: Box::new(TokioIo::new(ours)), protocol: fake.protocol })
        })
    }
}

fn request(path: &str) -> Request<Body> {
    Request::get(format!("https://fake{path}")).body(Body::empty()).unwrap()
}

async fn call(connections: &Connections) -> Result<(), Failure> {
    let answer = connections.send(request("/api/v1/nodes")).await?;
    assert_eq!(answer.into_body().collect().await.unwrap().to_bytes(), "ok");
    Ok(())
}

async fn watch(connections: &Connections) -> Response<TrackedBody<Slot>> {
    connections.send(request("/api/v1/pods?watch=true")).await.unwrap()
}

/// Runs all ready tasks.
async fn settle() {
    tokio::time::sleep(Duration::from_secs(1)).await;
}

/// Shows CLI-2.
#[tokio::test(start_paused = true)]
async fn watches_are_distributed_over_separate_connections() {
    let fake = Fake::speaking(Protocol::Http2);
    let connections = Connections::new(Arc::new(fake.clone()));
    let watches = join_all((0..200).map(|_| watch(&connections))).await;
    join_all((0..60).map(|_| call(&connections))).await.into_iter().for_each(Result::unwrap);
    assert_eq!(fake.connections(), 4, "three for watches, one for calls");
    assert!(fake.most_streams().iter().all(|most| *most <= MOST_STREAMS), "{:?}", fake.most_streams());
    for seen in fake.seen.lock().iter() {
        let paths = seen.paths.lock();
        assert!(paths.iter().all(|path| *path == paths[0]), "a watch and a call shared a connection");
    }
    drop(watches);
}

/// Shows CLI-2.
#[tokio::test(start_paused = true)]
async fn eighty_first_stream_opens_another_connection() {
    let fake = Fake::speaking(Protocol::Http2);
    let connections = Connections::new(Arc::new(fake.clone()));
    let mut watches = join_all((0..MOST_STREAMS).map(|_| watch(&connections))).await;
    assert_eq!(fake.connections(), 1);
    watches.pop();
    watches.push(watch(&connections).await);
    assert_eq!(fake.connections(), 1, "the slot of a dropped body was not released");
    watches.push(watch(&connections).await);
    assert_eq!(fake.connections(), 2);
}

#[tokio::test(start_paused = true)]
async fn cancelled_request_frees_its_slot_and_stream() {
    let fake = Fake::speaking(Protocol::Http2);
    let connections = Connections::new(Arc::new(fake.clone()));
    for _ in 0..3 * MOST_STREAMS {
        let hung = tokio::time::timeout(Duration::from_millis(50), connections.send(request("/hang"))).await;
        assert!(hung.is_err());
    }
    settle().await;
    assert_eq!((fake.connections(), fake.streams_now()), (1, 0));
}

/// Shows CLI-2.
#[tokio::test(start_paused = true)]
async fn a_server_that_allows_few_streams_gets_more_connections() {
    let fake = Fake { streams_allowed: 10, ..Fake::speaking(Protocol::Http2) };
    let connections = Connections::new(Arc::new(fake.clone()));
    call(&connections).await.unwrap();
    let mut watches = vec![watch(&connections).await];
    settle().await; // its settings have arrived
    for _ in 0..29 {
        watches.push(tokio::time::timeout(Duration::from_secs(5), watch(&connections)).await.expect("the watch hangs"));
    }
    assert!(fake.most_streams().iter().all(|most| *most <= 10), "{:?}", fake.most_streams());
}

#[tokio::test(start_paused = true)]
async fn waiters_share_a_failed_dial_and_the_next_call_retries() {
    let fake = Fake::speaking(Protocol::Http2);
    *fake.refuse.lock() = true;
    let connections = Connections::new(Arc::new(fake.clone()));
    let all = join_all((0..50).map(|_| call(&connections))).await;
    assert!(all.iter().all(|one| matches!(one, Err(Failure::Dial(_)))));
    assert_eq!(fake.connections(), 1, "the failed request was retried");
    *fake.refuse.lock() = false;
    call(&connections).await.unwrap();
    assert_eq!(fake.connections(), 2);
}

#[tokio::test(start_paused = true)]
async fn an_idle_extra_connection_is_closed_and_the_last_one_stays() {
    let fake = Fake::speaking(Protocol::Http2);
    let connections = Connections::new(Arc::new(fake.clone()));
    let watches = join_all((0..200).map(|_| watch(&connections))).await;
    assert_eq!(fake.open_connections(), 3);
    drop(watches);
    tokio::time::sleep(IDLE / 2).await;
    assert_eq!(fake.open_connections(), 3, "closed too early");
    tokio::time::sleep(IDLE).await;
    assert_eq!(fake.open_connections(), 1);
    let _again = watch(&connections).await;
    assert_eq!(fake.connections(), 3, "the remaining connection was not used");
}

#[tokio::test(start_paused = true)]
async fn connection_closed_by_the_server_is_replaced() {
    let fake = Fake::speaking(Protocol::Http2);
    let connections = Connections::new(Arc::new(fake.clone()));
    call(&connections).await.unwrap();
    fake.close(0);
    settle().await;
    call(&connections).await.unwrap();
    assert_eq!(fake.connections(), 2);
}

/// Shows CLI-3.
#[tokio::test(start_paused = true)]
async fn an_answer_cut_off_in_the_middle_is_reported_not_repeated() {
    let fake = Fake::speaking(Protocol::Http2);
    let connections = Connections::new(Arc::new(fake.clone()));
    let hung = connections.clone();
    let cut = async {
        settle().await;
        fake.close(0);
    };
    let (answer, ()) = tokio::join!(async { hung.send(request("/hang")).await.map(|_| ()) }, cut);
    assert!(matches!(answer, Err(Failure::Lost(_))), "{answer:?}");
    assert_eq!(fake.connections(), 1);
}

#[tokio::test(start_paused = true)]
async fn connections_end_with_their_client() {
    let fake = Fake::speaking(Protocol::Http2);
    let connections = Connections::new(Arc::new(fake.clone()));
    call(&connections).await.unwrap();
    let last = watch(&connections).await;
    drop(connections);
    settle().await;
    assert_eq!(fake.open_connections(), 2, "an open watch was closed");
    drop(last);
    settle().await;
    assert_eq!(fake.open_connections(), 0);
}

#[tokio::test(start_paused = true)]
async fn http1_carries_one_exchange_at_a_time_and_is_used_again() {
    let fake = Fake::speaking(Protocol::Http1);
    let connections = Connections::new(Arc::new(fake.clone()));
    join_all((0..5).map(|_| call(&connections))).await.into_iter().for_each(Result::unwrap);
    assert_eq!(fake.connections(), 5);
    let watches = join_all((0..3).map(|_| watch(&connections))).await;
    assert_eq!(fake.connections(), 8);
    for _ in 0..10 {
        call(&connections).await.unwrap();
    }
    assert_eq!(fake.connections(), 8);
    assert!(fake.most_streams().iter().all(|most| *most <= 1));
    drop(watches);
}

/// Shows CLI-9.
#[rstest::rstest]
#[case(Protocol::Http1)]
#[case(Protocol::Http2)]
#[tokio::test(start_paused = true)]
async fn no_request_rides_on_older_credentials_and_open_watches_stay(#[case] protocol: Protocol) {
    let fake = Fake::speaking(protocol);
    let connections = Connections::new(Arc::new(fake.clone()));
    let old = watch(&connections).await;
    call(&connections).await.unwrap();
    assert_eq!(fake.connections(), 2);
    *fake.era.lock() += 1;
    call(&connections).await.unwrap();
    call(&connections).await.unwrap();
    let new = watch(&connections).await;
    assert_eq!(fake.connections(), 4, "one for calls and one for watches, both new");
    settle().await;
    assert_eq!((fake.open_connections(), fake.streams_now()), (3, 2), "the idle old connection is closed");
    drop(old);
    settle().await;
    assert_eq!((fake.open_connections(), fake.streams_now()), (2, 1));
    drop(new);
}

#[tokio::test(start_paused = true)]
async fn outdated_new_connection_is_replaced_for_its_waiters() {
    let fake = Fake::speaking(Protocol::Http2);
    let connections = Connections::new(Arc::new(fake.clone()));
    let renewed = async {
        tokio::time::sleep(Duration::from_millis(5)).await;
        *fake.era.lock() += 1;
        call(&connections).await.unwrap();
    };
    let (early, ()) = tokio::join!(call(&connections), renewed);
    early.unwrap();
    assert_eq!(fake.connections(), 2);
}

#[tokio::test(start_paused = true)]
async fn connections_work_as_a_service() {
    let connections = Connections::new(Arc::new(Fake::speaking(Protocol::Http2)));
    let answer = connections.oneshot(request("/api/v1/nodes")).await.unwrap();
    assert_eq!(answer.status(), 200);
}

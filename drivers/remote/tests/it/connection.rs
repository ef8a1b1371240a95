//! Tests of lost connections, missing drivers and wrong servers.

use std::sync::Arc;
use std::time::Duration;

use driver::{Call, Capabilities, Code, Driver, Method, Support};
use driver_remote::{Dial, Io, LinkError, RemoteDriver};
use driver_virtual::{Config, Fault, Script, VirtualCloud};
use futures::future::BoxFuture;
use hyper_util::rt::{TokioExecutor, TokioIo};
use rstest::rstest;
use runtime::Tasks;
use runtime::client::Waited;
use tokio_util::sync::CancellationToken;

use crate::wire::{Environment, Process, caller, now, request};

/// Shows REM-4.
#[tokio::test(start_paused = true)]
async fn driver_death_in_a_call_leaves_the_outcome_unknown() {
    let environment = Environment::new(Config::default()).await;
    environment.cloud.inject(Script::next(Method::Create, Fault::HangAfterEffect));
    let (call, question) = (Call::default(), request("m"));
    let (answer, ()) = tokio::join!(environment.driver.create(&call, &question), async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        environment.process.kill();
    });
    let error = answer.unwrap_err();
    assert_eq!(error.code(), Code::Unavailable);
    assert!(error.message().contains("whether the request took effect is unknown"), "{error}");
    assert_eq!(environment.cloud.count(Method::Create), 1, "the request is not retried");

    environment.process.restart(Arc::new(environment.cloud.clone()));
    let found = environment.driver.status(&call, &question).await.unwrap();
    assert_eq!(found.provider_id, environment.cloud.vms_of("m")[0].provider_id);
}

/// Shows REM-5.
#[tokio::test(start_paused = true)]
async fn missing_driver_is_reached_with_backoff() {
    let environment = Environment::new(Config::default()).await;
    environment.process.kill();
    tokio::time::sleep(Duration::from_secs(1)).await;
    let before = environment.process.dialed();
    for _ in 0..1000 {
        let error = environment.driver.create(&Call::default(), &request("m")).await.unwrap_err();
        assert_eq!(error.code(), Code::Unavailable);
        assert!(error.message().contains("no driver listens at memory:"), "{error}");
    }
    assert_eq!(environment.process.dialed(), before + 1);
    for _ in 0..60 {
        tokio::time::sleep(Duration::from_secs(1)).await;
        environment.driver.reach().await.unwrap_err();
    }
    let attempts = environment.process.dialed() - before;
    assert!((5..20).contains(&attempts), "{attempts} attempts in a minute");
}

/// Shows REM-13.
#[tokio::test(start_paused = true)]
async fn driver_that_closes_each_connection_is_reached_with_backoff() {
    let environment = Environment::new(Config::default()).await;
    let (process, cloud) = (&environment.process, &environment.cloud);
    // Ten times a second: a call, after which the driver closes the connection and listens again.
    let play = async |calls: usize| {
        let before = process.dialed();
        for _ in 0..calls {
            let _any = environment.driver.status(&Call::default(), &request("m")).await;
            process.kill();
            process.restart(Arc::new(cloud.clone()));
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        process.dialed() - before
    };
    let connects = play(600).await;
    assert!((5..15).contains(&connects), "{connects} connections in a minute");
    let error = environment.driver.status(&Call::default(), &request("m")).await.unwrap_err();
    assert_eq!(error.code(), Code::Unavailable);
    assert!(error.message().contains("closes its connections"), "{error}");

    // The connection lasts for half a minute: the next one that breaks is replaced at once.
    tokio::time::sleep(Duration::from_secs(15)).await;
    environment.driver.reach().await.unwrap();
    tokio::time::sleep(Duration::from_secs(30)).await;
    assert_eq!(play(2).await, 1);
    environment.driver.reach().await.unwrap();
}

/// Shows MC-W22.
#[tokio::test(start_paused = true)]
async fn another_driver_version_is_signaled() {
    let environment = Environment::new(Config::default()).await;
    let changes = environment.driver.changes().unwrap();
    environment.process.kill();
    tokio::time::sleep(Duration::from_secs(1)).await;
    environment.process.restart(Arc::new(environment.cloud.clone()));
    environment.driver.status(&Call::default(), &request("m")).await.unwrap_err();
    assert!(!changes.has_changed().unwrap(), "the same driver is back");
    environment.process.kill();
    tokio::time::sleep(Duration::from_secs(1)).await;
    let older = Config { capabilities: Capabilities::MINIMAL, ..Config::default() };
    environment.process.restart(Arc::new(VirtualCloud::new(older, now(), 1)));
    environment.driver.delete(&Call::default(), &request("m")).await.unwrap();
    assert!(changes.has_changed().unwrap());
}

#[tokio::test(start_paused = true)]
async fn restarted_driver_reports_its_capabilities_again() {
    let environment = Environment::new(Config::default()).await;
    assert_eq!(environment.driver.capabilities().list, Support::Offered);
    environment.process.kill();
    tokio::time::sleep(Duration::from_secs(1)).await;
    let older = Config { capabilities: Capabilities::MINIMAL, ..Config::default() };
    environment.process.restart(Arc::new(VirtualCloud::new(older, now(), 1)));
    let answer = environment.driver.list(&Call::default(), &request("m").class_request()).await;
    assert_eq!(answer.unwrap_err().code(), Code::Unimplemented);
    assert_eq!(environment.driver.capabilities(), Capabilities::MINIMAL);
}

/// Shows REM-5.
#[tokio::test(start_paused = true)]
async fn missing_driver_is_reported_at_intervals() {
    let (cloud, tasks, stop) = (VirtualCloud::new(Config::default(), now(), 1), Tasks::new(), CancellationToken::new());
    let process = Process::start(Arc::new(cloud.clone()));
    process.kill();
    let (driver, mut said) = (process.caller(&tasks), Vec::new());
    let (waited, ()) =
        tokio::join!(driver.wait_until_reached(&stop, |obstacle| said.push(obstacle.to_owned())), async {
            tokio::time::sleep(Duration::from_secs(45)).await;
            process.restart(Arc::new(cloud.clone()));
        });
    assert_eq!(waited, Waited::Ready);
    assert_eq!(said.len(), 2, "at once, and after half a minute: {said:?}");

    process.kill();
    tokio::time::sleep(Duration::from_secs(1)).await;
    stop.cancel();
    assert_eq!(driver.wait_until_reached(&stop, |_| {}).await, Waited::Stopped);
}

/// A gRPC server that returns one status for every call, optionally except Describe.
struct Stranger {
    status: tonic::Code,
    introduces_itself: bool,
}

impl Dial for Stranger {
    fn dial(&self) -> BoxFuture<'static, Result<Box<dyn Io>, LinkError>> {
        let (status, introduces_itself) = (self.status, self.introduces_itself);
        Box::pin(async move {
            let (ours, theirs) = tokio::io::duplex(1 << 16);
            let answer = move |request: http::Request<hyper::body::Incoming>| async move {
                if introduces_itself && request.uri().path().ends_with("/Describe") {
                    // An empty message in an uncompressed frame: nothing is offered that is not mandatory.
                    let body = http_body_util::Full::new(bytes::Bytes::from_static(&[0; 5]));
                    let trailers = http::HeaderMap::from_iter([(
                        http::HeaderName::from_static("grpc-status"),
                        http::HeaderValue::from_static("0"),
                    )]);
                    let body = http_body_util::BodyExt::with_trailers(body, async move { Some(Ok(trailers)) });
                    let response = http::Response::builder().header("content-type", "application/grpc");
                    return Ok::<_, std::convert::Infallible>(response.body(tonic::body::Body::new(body)).unwrap());
                }
                Ok(tonic::Status::new(status, "from a stranger").into_http())
            };
            let service = hyper::service::service_fn(answer);
            let connection = hyper::server::conn::http2::Builder::new(TokioExecutor::new())
                .serve_connection(TokioIo::new(theirs), service);
            Tasks::new().spawn("stranger", async move { drop(connection.await) });
            Ok(Box::new(ours) as Box<dyn Io>)
        })
    }

    fn place(&self) -> String {
        "memory:".to_owned()
    }
}

/// Shows REM-2.
#[tokio::test(start_paused = true)]
async fn service_without_the_protocol_is_named() {
    let dial = Box::new(Stranger { status: tonic::Code::Unimplemented, introduces_itself: false });
    let tasks = Tasks::new();
    let obstacle = RemoteDriver::over(dial, caller(&tasks)).reach().await.unwrap_err();
    assert!(matches!(*obstacle, LinkError::Protocol { .. }), "{obstacle:?}");
    assert!(obstacle.sentence().contains("millwright.driver.v1"), "{}", obstacle.sentence());
}

/// If accepted, NOT_FOUND and UNIMPLEMENTED would mean that there is no VM, and RESOURCE_EXHAUSTED that the quota is
/// exceeded.
/// Shows REM-2.
#[rstest]
#[case(tonic::Code::NotFound)]
#[case(tonic::Code::Unimplemented)]
#[case(tonic::Code::ResourceExhausted)]
#[case(tonic::Code::Cancelled)]
#[case(tonic::Code::Internal)]
#[tokio::test(start_paused = true)]
async fn grpc_status_is_never_a_cloud_error(#[case] status: tonic::Code) {
    let tasks = Tasks::new();
    let driver = RemoteDriver::over(Box::new(Stranger { status, introduces_itself: true }), caller(&tasks));
    let error = driver.delete(&Call::default(), &request("m")).await.unwrap_err();
    assert_eq!(error.code(), Code::Unavailable, "{error}");
}

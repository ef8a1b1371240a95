//! A driver process that sends invalid or excessive data.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::{BufMut, Bytes, BytesMut};
use driver::conformance::hostile::{Attack, Hostile, texts};
use driver::{Call, Code, Driver};
use driver_remote::{Dial, Io, LinkError, RemoteDriver};
use driver_virtual::{Config, VirtualCloud};
use futures::future::BoxFuture;
use futures::stream::{self, BoxStream, StreamExt};
use http_body_util::StreamBody;
use hyper::body::{Frame, Incoming};
use hyper_util::rt::{TokioExecutor, TokioIo};
use runtime::Tasks;

use crate::wire::{Process, caller, now, request};

const MEGABYTE: usize = 1 << 20;

/// The response of a process to every call except `Describe`.
#[derive(Clone, Copy, Debug)]
enum Answer {
    /// A string that is not UTF-8.
    InvalidText,
    /// An endless sequence of small messages.
    Endless,
    /// A message with a declared length of four gigabytes.
    Boast,
}

/// A process that writes gRPC frames directly.
#[derive(Clone)]
struct Raw {
    answer: Answer,
    sent: Arc<AtomicUsize>,
    tasks: Tasks,
}

fn message(payload: &[u8], length: usize) -> Frame<Bytes> {
    let mut frame = BytesMut::new();
    frame.put_u8(0);
    frame.put_u32(u32::try_from(length).unwrap());
    frame.put_slice(payload);
    Frame::data(frame.freeze())
}

fn end() -> Frame<Bytes> {
    let mut trailers = http::HeaderMap::new();
    trailers.insert("grpc-status", "0".parse().unwrap());
    Frame::trailers(trailers)
}

impl Raw {
    fn respond(&self, path: &str) -> BoxStream<'static, Result<Frame<Bytes>, Infallible>> {
        let frames = match self.answer {
            _ if path.ends_with("/Describe") => vec![message(&[], 0), end()],
            // created { vm { provider_id: 0xff } }
            Answer::InvalidText => vec![message(&[0x0a, 5, 0x0a, 3, 0x0a, 1, 0xff], 7), end()],
            Answer::Boast => vec![message(&[0x0a; 64], u32::MAX as usize)],
            Answer::Endless => {
                let sent = self.sent.clone();
                let piece = message(&vec![0x7a; MEGABYTE - 5], MEGABYTE - 5).into_data().unwrap();
                // Endless from the client's view, but the test must end.
                let pieces = stream::repeat(piece).take(200).map(move |piece| {
                    sent.fetch_add(piece.len(), Ordering::SeqCst);
                    Ok(Frame::data(piece))
                });
                return pieces.boxed();
            }
        };
        stream::iter(frames.into_iter().map(Ok)).boxed()
    }
}

impl Dial for Raw {
    fn dial(&self) -> BoxFuture<'static, Result<Box<dyn Io>, LinkError>> {
        let raw = self.clone();
        Box::pin(async move {
            let (ours, theirs) = tokio::io::duplex(1 << 16);
            let answering = raw.clone();
            let service = hyper::service::service_fn(move |request: http::Request<Incoming>| {
                let body = StreamBody::new(answering.respond(request.uri().path()));
                let answer = http::Response::builder().header("content-type", "application/grpc").body(body);
                async move { Ok::<_, Infallible>(answer.unwrap()) }
            });
            let serving = hyper::server::conn::http2::Builder::new(TokioExecutor::new())
                .serve_connection(TokioIo::new(theirs), service);
            raw.tasks.spawn("hostile process", async move {
                let _ended = serving.await;
            });
            Ok(Box::new(ours) as Box<dyn Io>)
        })
    }

    fn place(&self) -> String {
        "memory:".to_owned()
    }
}

async fn create(answer: Answer) -> (driver::DriverError, usize) {
    let tasks = Tasks::new();
    let raw = Raw { answer, sent: Arc::default(), tasks: tasks.clone() };
    let driver = RemoteDriver::over(Box::new(raw.clone()), caller(&tasks));
    let refused = driver.create(&Call::default(), &request("m")).await.unwrap_err();
    (refused, raw.sent.load(Ordering::SeqCst))
}

/// Shows REM-10.
#[tokio::test(start_paused = true)]
async fn non_utf8_text_is_a_lost_response() {
    let (error, _) = create(Answer::InvalidText).await;
    assert_eq!(error.code(), Code::Unavailable, "{error}");
    assert!(error.message().contains("whether the request took effect is unknown"), "{error}");
}

/// Shows REM-10.
#[tokio::test(start_paused = true)]
async fn endless_response_is_not_read_to_its_end() {
    let (error, sent) = create(Answer::Endless).await;
    assert_eq!(error.code(), Code::Unavailable, "{error}");
    assert!(sent < 80 * MEGABYTE, "{} MiB were read", sent / MEGABYTE);
}

/// Shows REM-10.
#[tokio::test(start_paused = true)]
async fn message_with_a_huge_length_is_rejected_before_reading() {
    let (error, _) = create(Answer::Boast).await;
    assert_eq!(error.code(), Code::Unavailable, "{error}");
}

/// Shows DRV-7.
#[tokio::test(start_paused = true)]
async fn malicious_texts_arrive_as_errors() {
    for text in texts() {
        let cloud = Arc::new(VirtualCloud::new(Config::default(), now(), 1));
        let (process, tasks) = (Process::start(Arc::new(Hostile::new(cloud, Attack::Error(text)))), Tasks::new());
        let error = process.caller(&tasks).create(&Call::default(), &request("m")).await.unwrap_err();
        assert!(matches!(error.code(), Code::Internal | Code::Unavailable), "{}", error.code());
        assert!(error.message().len() < 4 * MEGABYTE);
    }
}

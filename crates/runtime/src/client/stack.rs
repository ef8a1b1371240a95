//! The rules for every request of a client, independent of the transport.
//!
//! They apply in this order: rate limit, user agent, leadership, timeout, metrics. The timeout starts after the rate
//! limit, because the wait for the own limit does not indicate a server problem. It includes the body: a server that
//! sends half a list and then stops blocks a caller like one that never responds. A watch has to *start* in time; after
//! that it may last, and keep-alive pings of its connection detect a dead peer.
//!
//! There is no retry here. The caller decides whether a write is repeated, and an eviction that a PodDisruptionBudget
//! rejects must return immediately, not after minutes.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures::future::BoxFuture;
use http::header::{CONTENT_LENGTH, RETRY_AFTER, USER_AGENT};
use http::{HeaderValue, Request, Response, StatusCode};
use http_body::{Frame, SizeHint};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};
use kube::client::Body;
use kube::core::Status;
use kube::core::response::StatusDetails;
use tokio::time::{Instant, Sleep, sleep_until, timeout_at};
use tower::{BoxError, Service, ServiceExt};

use super::address;
use super::failure::{Effect, Failure};
use super::server_time::ServerTime;
use super::spec::{ClientSpec, SendCheck, WhenFull};
use crate::bucket::TokenBucket;
use crate::lease::Leadership;
use crate::metrics::{RestCall, RestMetrics};

/// A service that applies the rules of one client to another service.
#[derive(Clone)]
pub(crate) struct Stack<S> {
    carrier: S,
    rules: Arc<Rules>,
}

struct Rules {
    bucket: Option<TokenBucket>,
    when_full: WhenFull,
    deadline: Duration,
    agent: HeaderValue,
    metrics: RestMetrics,
    server: ServerName,
    right: Option<Leadership>,
    server_time: ServerTime,
}

/// The name of the server in metrics.
#[derive(Clone, Debug)]
pub(crate) struct ServerName {
    /// Scheme, host, port and path prefix.
    pub(crate) base: String,
    /// Host and port.
    pub(crate) host: String,
}

impl<S> Stack<S> {
    pub(crate) fn new(carrier: S, spec: &ClientSpec, metrics: &RestMetrics, server: ServerName) -> Self {
        let rules = Rules {
            bucket: spec.limit.map(|limit| TokenBucket::new(limit.qps, limit.burst)),
            when_full: spec.when_full,
            deadline: spec.deadline,
            agent: spec.agent.header(),
            metrics: metrics.clone(),
            server,
            right: spec.right.clone(),
            server_time: spec.server_time.clone(),
        };
        Self { carrier, rules: Arc::new(rules) }
    }
}

impl<S, B> Service<Request<Body>> for Stack<S>
where
    S: Service<Request<Body>, Response = Response<B>> + Clone + Send + 'static,
    S::Future: Send,
    S::Error: Into<BoxError>,
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    type Response = Response<AnswerBody>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Self::Response, BoxError>>;

    // Always ready: kube's client queues in front of this service, and a request that waits for the rate limit must not
    // block requests that need no token.
    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let (carrier, rules) = (self.carrier.clone(), self.rules.clone());
        Box::pin(async move { rules.carry(carrier, request).await })
    }
}

impl Rules {
    async fn carry<S, B>(&self, carrier: S, mut request: Request<Body>) -> Result<Response<AnswerBody>, BoxError>
    where
        S: Service<Request<Body>, Response = Response<B>> + Send,
        S::Future: Send,
        S::Error: Into<BoxError>,
        B: http_body::Body<Data = Bytes> + Send + 'static,
        B::Error: Into<BoxError>,
    {
        self.admit().await?;
        if request.extensions().get::<SendCheck>().is_some_and(|check| !check.holds()) {
            return Err(Failure::Withdrawn.into());
        }
        request.headers_mut().insert(USER_AGENT, self.agent.clone());
        let is_watch = address::is_watch(request.uri());
        let recorded =
            Recorded { rules: self, method: request.method().clone(), pattern: address::pattern(request.uri()) };

        let sent = Instant::now();
        let deadline = Deadline { at: sent + self.deadline, after: self.deadline };
        let reads = request.method().is_safe();
        let sending = async {
            match timeout_at(deadline.at, carrier.oneshot(request)).await {
                Ok(answer) => answer.map_err(Into::into),
                Err(_) => Err(deadline.missed().into()),
            }
        };
        let answer = match self.right.as_ref().filter(|_| !reads) {
            None => sending.await,
            Some(right) => {
                let not_leading = |effect| move |why| Failure::NotLeading { why, effect };
                right.check().map_err(not_leading(Effect::None))?;
                right.while_leading(sending).await.map_err(not_leading(Effect::Unknown))?
            }
        };
        recorded.record(answer.as_ref().ok().map(|answer| answer.status().as_u16()), sent.elapsed());
        if let Ok(answer) = &answer {
            self.server_time.read(sent, Instant::now(), answer.headers());
        }
        let answer = answer?.map(|body| body.map_err(Into::into).boxed_unsync());

        let answer = if answer.status().is_client_error() || answer.status().is_server_error() {
            match timeout_at(deadline.at, restate_error(answer)).await {
                Ok(restated) => restated?,
                Err(_) => return Err(deadline.missed().into()),
            }
        } else {
            answer
        };
        let limit = (!is_watch).then_some(deadline);
        Ok(answer.map(|body| AnswerBody { body, limit: limit.map(|limit| (Box::pin(sleep_until(limit.at)), limit)) }))
    }

    async fn admit(&self) -> Result<(), Failure> {
        match (&self.bucket, self.when_full) {
            (None, _) => Ok(()),
            (Some(bucket), WhenFull::Wait) => {
                bucket.take().await;
                Ok(())
            }
            (Some(bucket), WhenFull::Refuse) => bucket.try_take().then_some(()).ok_or(Failure::BucketEmpty),
        }
    }
}

struct Recorded<'a> {
    rules: &'a Rules,
    method: http::Method,
    pattern: String,
}

impl Recorded<'_> {
    fn record(&self, code: Option<u16>, latency: Duration) {
        let url = format!("{}{}", self.rules.server.base, self.pattern);
        let host = &self.rules.server.host;
        self.rules.metrics.record(&RestCall { method: self.method.as_str(), host, url: &url, code, latency });
    }
}

#[derive(Clone, Copy, Debug)]
struct Deadline {
    at: Instant,
    after: Duration,
}

impl Deadline {
    fn missed(self) -> Failure {
        Failure::Deadline { after: self.after }
    }
}

/// Returns the Retry-After header of the server, if there is one.
fn retry_after(head: &http::response::Parts) -> u32 {
    const RETRIABLE: [StatusCode; 3] =
        [StatusCode::TOO_MANY_REQUESTS, StatusCode::SERVICE_UNAVAILABLE, StatusCode::GATEWAY_TIMEOUT];
    let seconds = head.headers.get(RETRY_AFTER).and_then(|seconds| seconds.to_str().ok()?.trim().parse().ok());
    if RETRIABLE.contains(&head.status) { seconds.unwrap_or(0) } else { 0 }
}

/// Adds the information of an error's headers to its status object. kube uses the body only: an overloaded API server
/// sends Retry-After only in the headers, and the JSON of a proxy would become an error without a code.
async fn restate_error(
    answer: Response<UnsyncBoxBody<Bytes, BoxError>>,
) -> Result<Response<UnsyncBoxBody<Bytes, BoxError>>, BoxError> {
    let (mut head, body) = answer.into_parts();
    let text = body.collect().await?.to_bytes();
    let code = head.status.as_u16();
    let mut status: Status = serde_json::from_slice(&text)
        .unwrap_or_else(|_| Status::failure(String::from_utf8_lossy(&text).trim(), "").with_code(code));
    if status.code == 0 {
        status.code = code;
    }
    let seconds = retry_after(&head);
    if seconds > 0 {
        let details = status.details.get_or_insert_with(no_details);
        details.retry_after_seconds = details.retry_after_seconds.max(seconds);
    }
    let text = serde_json::to_vec(&status)?;
    head.headers.remove(CONTENT_LENGTH);
    let body = Full::new(Bytes::from(text)).map_err(|never| match never {}).boxed_unsync();
    Ok(Response::from_parts(head, body))
}

fn no_details() -> StatusDetails {
    let nothing = String::new;
    StatusDetails {
        name: nothing(),
        group: nothing(),
        kind: nothing(),
        uid: nothing(),
        causes: Vec::new(),
        retry_after_seconds: 0,
    }
}

/// The body of a response. It fails if the timeout of its call expires before its end.
pub(crate) struct AnswerBody {
    body: UnsyncBoxBody<Bytes, BoxError>,
    limit: Option<(Pin<Box<Sleep>>, Deadline)>,
}

impl AnswerBody {
    /// Returns a body that was already read.
    pub(crate) fn of(text: Bytes) -> Self {
        Self { body: Full::new(text).map_err(|never| match never {}).boxed_unsync(), limit: None }
    }
}

impl http_body::Body for AnswerBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        // Data that has arrived is returned even if the timeout has just expired.
        if let Poll::Ready(frame) = Pin::new(&mut self.body).poll_frame(cx) {
            return Poll::Ready(frame);
        }
        let Some((sleep, deadline)) = &mut self.limit else { return Poll::Pending };
        std::task::ready!(sleep.as_mut().poll(cx));
        Poll::Ready(Some(Err(deadline.missed().into())))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::{ApiError, ErrorClass, UserAgent, in_process};
    use crate::metrics::Metrics;
    use http_body_util::StreamBody;
    use k8s_openapi::api::core::v1::ConfigMap;
    use kube::api::{Api, ListParams, WatchParams};
    use rstest::rstest;
    use std::convert::Infallible;
    use std::future::pending;

    const SECOND: Duration = Duration::from_secs(1);

    fn spec() -> ClientSpec {
        ClientSpec::new(UserAgent::new("test", "v0", "none"))
    }

    fn text(text: &'static str) -> UnsyncBoxBody<Bytes, Infallible> {
        Full::new(Bytes::from_static(text.as_bytes())).boxed_unsync()
    }

    /// The beginning of a response, and then nothing more.
    fn half(text: &'static str) -> UnsyncBoxBody<Bytes, Infallible> {
        use futures::StreamExt;
        let first = futures::stream::iter([Ok(Frame::data(Bytes::from_static(text.as_bytes())))]);
        StreamBody::new(first.chain(futures::stream::pending())).boxed_unsync()
    }

    fn config_maps<F, Fut>(spec: &ClientSpec, metrics: &Metrics, answer: F) -> Api<ConfigMap>
    where
        F: Fn(Request<Body>) -> Fut + Clone + Send + 'static,
        Fut: Future<Output = Response<UnsyncBoxBody<Bytes, Infallible>>> + Send + 'static,
    {
        let service = tower::service_fn(move |request| {
            let answer = answer(request);
            async move { Ok::<_, Infallible>(answer.await) }
        });
        Api::default_namespaced(in_process(service, "ns", spec, &metrics.rest))
    }

    /// Fails a test that would otherwise hang.
    async fn ended<T>(call: impl Future<Output = T>) -> T {
        tokio::time::timeout(3600 * SECOND, call).await.expect("it never ended")
    }

    const EMPTY_LIST: &str = r#"{"kind":"ConfigMapList","apiVersion":"v1","metadata":{},"items":[]}"#;

    /// Shows CLI-4.
    #[tokio::test(start_paused = true)]
    async fn a_server_that_never_answers_is_marked_failed_at_the_deadline() {
        let metrics = Metrics::new().unwrap();
        let api = config_maps(&spec().within(30 * SECOND), &metrics, |_| pending());
        let start = Instant::now();
        let api_error = ApiError::from(ended(api.get("a")).await.unwrap_err());
        assert_eq!((start.elapsed(), api_error.class), (30 * SECOND, ErrorClass::Transient));
        let scraped = metrics.encode().unwrap();
        assert!(scraped.contains(r#"rest_client_requests_total{code="<error>",host="in-process",method="GET"} 1"#));
    }

    /// Shows CLI-4.
    #[tokio::test(start_paused = true)]
    async fn half_a_list_is_marked_failed_at_the_deadline_too() {
        let metrics = Metrics::new().unwrap();
        let api =
            config_maps(&spec().within(30 * SECOND), &metrics, |_| async { Response::new(half(r#"{"items":["#)) });
        let start = Instant::now();
        let api_error = ApiError::from(ended(api.list(&ListParams::default())).await.unwrap_err());
        assert_eq!((start.elapsed(), api_error.class), (30 * SECOND, ErrorClass::Transient));
    }

    /// Shows CLI-4.
    #[tokio::test(start_paused = true)]
    async fn a_watch_must_begin_in_time_but_may_last() {
        use futures::{StreamExt, TryStreamExt};
        let metrics = Metrics::new().unwrap();
        let silent = config_maps(&spec().within(30 * SECOND), &metrics, |_| async { Response::new(half("")) });
        let mut watch = silent.watch(&WatchParams::default(), "0").await.unwrap().boxed();
        assert!(tokio::time::timeout(3600 * SECOND, watch.try_next()).await.is_err(), "a quiet watch was cut off");

        let hung = config_maps(&spec().within(30 * SECOND), &metrics, |_| pending());
        let start = Instant::now();
        assert!(ended(hung.watch(&WatchParams::default(), "0")).await.is_err());
        assert_eq!(start.elapsed(), 30 * SECOND);
    }

    /// Shows LEA-11.
    #[tokio::test(start_paused = true)]
    async fn write_is_not_sent_when_leadership_ends_while_it_waits() {
        use tokio_util::sync::CancellationToken;
        let (metrics, shutdown) = (Metrics::new().unwrap(), CancellationToken::new());
        let right = Leadership::unguarded().with_shutdown(shutdown.clone());
        let spec = spec().limited(1.0, 1).while_leading(right);
        let api = config_maps(&spec, &metrics, |_| async { Response::new(text(r#"{"metadata":{"name":"a"}}"#)) });
        let write = || async {
            let map = ConfigMap {
                metadata: kube::core::ObjectMeta { name: Some("a".into()), ..Default::default() },
                ..Default::default()
            };
            api.create(&kube::api::PostParams::default(), &map).await
        };
        ended(write()).await.unwrap();
        let (second, ()) = tokio::join!(write(), async { shutdown.cancel() });
        let error = second.unwrap_err();
        assert!(matches!(Failure::within(&error), Some(Failure::NotLeading { effect: Effect::None, .. })), "{error:?}");
        assert!(ended(api.get("a")).await.is_ok(), "reading needs no right");
        let sent = metrics.encode().unwrap();
        assert!(sent.contains(r#"rest_client_requests_total{code="200",host="in-process",method="POST"} 1"#), "{sent}");
    }

    /// Shows MS-R24.
    #[tokio::test(start_paused = true)]
    async fn request_is_not_sent_when_its_check_fails_after_the_wait() {
        use std::sync::atomic::{AtomicBool, Ordering};
        let (metrics, wanted) = (Metrics::new().unwrap(), Arc::new(AtomicBool::new(true)));
        let service = tower::service_fn(|_| async { Ok::<_, Infallible>(Response::new(text(r#"{"metadata":{}}"#))) });
        let client = in_process(service, "ns", &spec().limited(1.0, 1), &metrics.rest);
        let check = wanted.clone();
        let machines = crate::client::Api::<::api::Machine>::namespaced(client, "ns")
            .checked(super::super::SendCheck::new(move || check.load(Ordering::Relaxed)));
        let parameters = kube::api::DeleteParams::default();
        ended(machines.delete("a", &parameters)).await.unwrap();
        let (second, ()) =
            tokio::join!(machines.delete("b", &parameters), async { wanted.store(false, Ordering::Relaxed) });
        let error = ApiError::from(second.unwrap_err());
        assert_eq!((error.class, error.class.effect()), (ErrorClass::Withdrawn, Effect::None));
        let sent = metrics.encode().unwrap();
        assert!(
            sent.contains(r#"rest_client_requests_total{code="200",host="in-process",method="DELETE"} 1"#),
            "{sent}"
        );
    }

    /// Shows CLI-5.
    #[tokio::test(start_paused = true)]
    async fn rate_limit_delays_calls_outside_of_their_latency() {
        let metrics = Metrics::new().unwrap();
        let spec = spec().limited(1.0, 2).within(SECOND / 2);
        let api = config_maps(&spec, &metrics, |_| async { Response::new(text(EMPTY_LIST)) });
        let start = Instant::now();
        let all = futures::future::join_all((0..5).map(|_| async { api.list(&ListParams::default()).await })).await;
        assert!(all.iter().all(Result::is_ok));
        assert_eq!(start.elapsed().as_millis() / 100, 30, "two at once, then one a second");
    }

    /// Shows CLI-5.
    #[tokio::test(start_paused = true)]
    async fn client_without_waiting_rejects_calls_over_the_limit() {
        let metrics = Metrics::new().unwrap();
        let spec = spec().limited(1.0, 2).refusing_when_full();
        let api = config_maps(&spec, &metrics, |_| async { Response::new(text(EMPTY_LIST)) });
        let mut classes = Vec::new();
        for _ in 0..3 {
            classes.push(api.list(&ListParams::default()).await.err().map(|error| ApiError::from(error).class));
        }
        assert_eq!(classes, [None, None, Some(ErrorClass::Dropped)]);
    }

    /// Shows CLI-5.
    #[tokio::test(start_paused = true)]
    async fn a_long_watch_costs_one_token() {
        use futures::{StreamExt, TryStreamExt};
        let metrics = Metrics::new().unwrap();
        // Three tokens, and in an hour not half of another.
        let api = config_maps(&spec().limited(0.0001, 3).refusing_when_full(), &metrics, |request| async move {
            Response::new(if address::is_watch(request.uri()) { half("") } else { text(EMPTY_LIST) })
        });
        let mut watch = api.watch(&WatchParams::default(), "0").await.unwrap().boxed();
        assert!(tokio::time::timeout(3600 * SECOND, watch.try_next()).await.is_err(), "a quiet watch was cut off");
        let mut classes = Vec::new();
        for _ in 0..3 {
            classes.push(api.list(&ListParams::default()).await.err().map(|error| ApiError::from(error).class));
        }
        assert_eq!(classes, [None, None, Some(ErrorClass::Dropped)], "of three tokens the watch took one, and no more");
    }

    /// Shows CLI-3.
    #[tokio::test(start_paused = true)]
    async fn a_429_comes_back_at_once_and_only_once() {
        let metrics = Metrics::new().unwrap();
        let api = config_maps(&spec(), &metrics, |_| async {
            let busy = Response::builder().status(429).header(RETRY_AFTER, "7");
            busy.body(text("Too many requests, please try again later.\n")).unwrap()
        });
        let start = Instant::now();
        let api_error = ApiError::from(api.get("a").await.unwrap_err());
        assert_eq!(start.elapsed(), Duration::ZERO);
        assert_eq!(api_error.class, ErrorClass::Throttled { after: Some(7 * SECOND) });
        let scraped = metrics.encode().unwrap();
        assert!(scraped.contains(r#"rest_client_requests_total{code="429",host="in-process",method="GET"} 1"#));
    }

    #[tokio::test(start_paused = true)]
    async fn a_refused_eviction_keeps_what_the_server_said_about_it() {
        let metrics = Metrics::new().unwrap();
        let said = r#"{"kind":"Status","status":"Failure","code":429,"reason":"TooManyRequests","message":"budget",
            "details":{"causes":[{"reason":"DisruptionBudget","message":"needs 1"}]}}"#;
        let api = config_maps(&spec(), &metrics, move |_| async move {
            Response::builder().status(429).header(RETRY_AFTER, "10").body(text(said)).unwrap()
        });
        let Err(kube::Error::Api(status)) = api.get("a").await else { panic!("no status") };
        let details = status.details.unwrap();
        assert_eq!((details.retry_after_seconds, details.causes[0].reason.as_str()), (10, "DisruptionBudget"));
    }

    #[rstest]
    #[case("{}")]
    #[case(r#"{"error":"denied by proxy"}"#)]
    #[case("<html>no</html>")]
    #[tokio::test(start_paused = true)]
    async fn an_error_in_words_of_a_proxy_keeps_its_code(#[case] said: &'static str) {
        let metrics = Metrics::new().unwrap();
        let api = config_maps(&spec(), &metrics, move |_| async move {
            Response::builder().status(401).body(text(said)).unwrap()
        });
        assert_eq!(ApiError::from(api.get("a").await.unwrap_err()).class, ErrorClass::Unauthorized);
    }

    #[tokio::test(start_paused = true)]
    async fn requests_are_signed_and_counted_by_pattern() {
        let metrics = Metrics::new().unwrap();
        let api = config_maps(&spec(), &metrics, |request| async move {
            assert!(request.headers()[USER_AGENT].to_str().unwrap().starts_with("test/v0 ("));
            Response::new(text(EMPTY_LIST))
        });
        api.list(&ListParams::default()).await.unwrap();
        let wanted = r#"url="https://in-process/api/v1/namespaces/%7Bnamespace%7D/configmaps",verb="GET""#;
        assert!(metrics.encode().unwrap().contains(wanted));
    }
}

//! The proxy on loopback.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use tokio::net::TcpStream;

use super::fault::{Asked, Fault, Instead, Rule};
use super::forward::forward;
use crate::loopback::{Answered, Loopback, converse};

/// A proxy that runs until this value is dropped.
#[derive(Debug)]
pub struct Proxy {
    server: Loopback,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    to: SocketAddr,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    rules: Vec<Rule>,
    asked: Vec<Asked>,
    held: usize,
}

impl Proxy {
    /// Starts a proxy of the server on this port of the loopback address.
    pub async fn start(port: u16) -> io::Result<Self> {
        let to = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let shared = Arc::new(Shared { to, state: Mutex::default() });
        let attending = shared.clone();
        let server = Loopback::attended(move |stream| attend(stream, attending.clone())).await?;
        Ok(Self { server, shared })
    }

    /// Where it is: `http://127.0.0.1:<port>`.
    pub fn endpoint(&self) -> String {
        self.server.endpoint()
    }

    /// The port of the loopback address it listens on.
    pub fn port(&self) -> u16 {
        self.server.port
    }

    /// Adds a rule. Rules apply in the order in which they were added, at most one per request.
    pub fn rule(&self, rule: Rule) {
        self.shared.with(|state| state.rules.push(rule));
    }

    /// Lets everything pass again.
    pub fn clear(&self) {
        self.shared.with(|state| state.rules.clear());
    }

    /// Every request that arrived here, whatever came of it.
    pub fn asked(&self) -> Vec<Asked> {
        self.shared.with(|state| state.asked.clone())
    }

    /// How many requests hang by now: before they reached the cloud, or after it has done what they ask.
    pub fn held(&self) -> usize {
        self.shared.with(|state| state.held)
    }

    /// How many requests of an action of AWS arrived here.
    pub fn count(&self, action: &str) -> usize {
        self.shared.with(|state| state.asked.iter().filter(|asked| asked.action() == action).count())
    }
}

impl Shared {
    fn with<T>(&self, look: impl FnOnce(&mut State) -> T) -> T {
        look(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }

    async fn hold<T>(&self) -> T {
        self.with(|state| state.held += 1);
        std::future::pending().await
    }

    /// Writes the request down and says what befalls it.
    fn note(&self, method: &str, path: String, body: &Bytes) -> Option<Fault> {
        let body = String::from_utf8_lossy(body).into_owned();
        self.with(|state| {
            let asked = Asked { method: method.to_owned(), path, body, number: state.asked.len() };
            let fault = state.rules.iter_mut().find_map(|rule| rule.strikes(&asked));
            state.asked.push(asked);
            fault
        })
    }
}

async fn attend(stream: TcpStream, shared: Arc<Shared>) {
    // A second handle to the same socket: hyper has the first one when a rule wants the connection to be reset.
    let Ok(stream) = stream.into_std() else { return };
    let twin = stream.try_clone().and_then(TcpStream::from_std);
    let (Ok(stream), Ok(twin)) = (TcpStream::from_std(stream), twin) else { return };
    let twin = Arc::new(twin);
    converse(stream, move |request| pass(request, shared.clone(), twin.clone())).await;
}

async fn pass(request: hyper::Request<Incoming>, shared: Arc<Shared>, socket: Arc<TcpStream>) -> Answered {
    let (head, body) = request.into_parts();
    let body = body.collect().await.map_err(io::Error::other)?.to_bytes();
    let path = head.uri.path_and_query().map(ToString::to_string).unwrap_or_default();
    let fault = shared.note(head.method.as_str(), path, &body);
    let request = hyper::Request::from_parts(head, Full::new(body));
    match fault {
        None => forward(shared.to, request).await,
        Some(Fault::Delay(delay)) => {
            tokio::time::sleep(delay).await;
            forward(shared.to, request).await
        }
        Some(Fault::ResetBefore) => reset(&socket),
        Some(Fault::HangBefore) => shared.hold().await,
        Some(Fault::AnsweredBefore(instead)) => Ok(answer(instead)),
        Some(Fault::ResetAfter) => {
            forward(shared.to, request).await?;
            reset(&socket)
        }
        Some(Fault::HangAfter) => {
            forward(shared.to, request).await?;
            shared.hold().await
        }
        Some(Fault::AnsweredAfter(instead)) => {
            forward(shared.to, request).await?;
            Ok(answer(instead))
        }
        Some(Fault::CutShort) => {
            let (mut head, body) = forward(shared.to, request).await?.into_parts();
            let body = body.collect().await.map(http_body_util::Collected::to_bytes).unwrap_or_default();
            head.headers.insert(hyper::header::CONNECTION, hyper::header::HeaderValue::from_static("close"));
            Ok(hyper::Response::from_parts(head, Full::new(body.slice(..body.len() / 2))))
        }
    }
}

/// Makes the peer see a reset instead of the end of the connection.
fn reset<T>(socket: &TcpStream) -> io::Result<T> {
    socket.set_zero_linger()?;
    Err(io::ErrorKind::ConnectionReset.into())
}

fn answer(instead: Instead) -> hyper::Response<Full<Bytes>> {
    let mut response = hyper::Response::new(Full::new(Bytes::from(instead.body)));
    *response.status_mut() = hyper::StatusCode::from_u16(instead.status).unwrap_or_default();
    if let Some(seconds) = instead.retry_after {
        response.headers_mut().insert(hyper::header::RETRY_AFTER, seconds.into());
    }
    response
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::Instant;

    use super::*;
    use crate::ec2::{Ec2, Settings};
    use crate::exchange::{self, form};

    const PATIENCE: Duration = Duration::from_millis(200);

    struct Place {
        ec2: Ec2,
        proxy: Proxy,
    }

    impl Place {
        async fn new(fault: Option<Fault>) -> Self {
            let ec2 = Ec2::start(Settings::default()).await.unwrap();
            let proxy = Proxy::start(ec2.port()).await.unwrap();
            if let Some(fault) = fault {
                proxy.rule(Rule::action("RunInstances", fault));
            }
            Self { ec2, proxy }
        }

        async fn launch(&self) -> io::Result<exchange::Answer> {
            let launch =
                [("Action", "RunInstances"), ("ImageId", Settings::IMAGE), ("MinCount", "1"), ("MaxCount", "1")];
            exchange::post(self.proxy.port(), "/", &[], &form(&launch)).await
        }

        fn made(&self) -> usize {
            self.ec2.with(|cloud, _| cloud.instances().len())
        }
    }

    #[tokio::test]
    async fn a_request_that_nothing_befalls_passes_and_is_counted() {
        let place = Place::new(None).await;
        assert_eq!(place.launch().await.unwrap().status, 200);
        assert_eq!((place.made(), place.proxy.count("RunInstances"), place.proxy.asked().len()), (1, 1, 1));
    }

    #[tokio::test]
    async fn reset_before_or_after_the_effect_leaves_none_or_one_instance() {
        for (fault, made) in [(Fault::ResetBefore, 0), (Fault::ResetAfter, 1)] {
            let place = Place::new(Some(fault)).await;
            assert_eq!(place.launch().await.unwrap_err().kind(), io::ErrorKind::ConnectionReset);
            assert_eq!(place.made(), made);
            assert_eq!(place.launch().await.unwrap().status, 200, "the next one passes");
        }
    }

    #[tokio::test]
    async fn another_answer_comes_before_or_after_the_effect() {
        let throttled = Place::new(Some(Fault::AnsweredBefore(Instead::throttled()))).await;
        let answer = throttled.launch().await.unwrap();
        assert!(answer.status == 503 && answer.body.contains("<Code>RequestLimitExceeded</Code>"), "{answer:?}");
        assert_eq!(throttled.made(), 0);
        let lost = Place::new(Some(Fault::AnsweredAfter(Instead::ec2(500, "InternalError")))).await;
        assert_eq!(lost.launch().await.unwrap().status, 500);
        assert_eq!(lost.made(), 1);
    }

    #[tokio::test]
    async fn a_request_hangs_before_or_after_its_effect() {
        for (fault, made) in [(Fault::HangBefore, 0), (Fault::HangAfter, 1)] {
            let place = Place::new(Some(fault)).await;
            assert!(tokio::time::timeout(PATIENCE, place.launch()).await.is_err());
            assert_eq!((place.made(), place.proxy.held()), (made, 1));
        }
    }

    #[tokio::test]
    async fn a_delayed_request_arrives_later() {
        let place = Place::new(Some(Fault::Delay(PATIENCE))).await;
        let begun = Instant::now();
        assert_eq!(place.launch().await.unwrap().status, 200);
        assert!(begun.elapsed() >= PATIENCE);
    }

    #[tokio::test]
    async fn half_an_answer_arrives() {
        let place = Place::new(Some(Fault::CutShort)).await;
        let answer = place.launch().await.unwrap();
        assert!(answer.status == 200 && !answer.body.contains("</RunInstancesResponse>"), "{}", answer.body);
    }

    #[tokio::test]
    async fn a_rule_strikes_as_often_as_it_says_and_only_what_it_matches() {
        let place = Place::new(None).await;
        let second_only = |asked: &Asked| asked.number == 1;
        place.proxy.rule(Rule::next(Fault::AnsweredBefore(Instead::throttled()), second_only).always());
        let mut seen = Vec::new();
        for _ in 0..3 {
            seen.push(place.launch().await.unwrap().status);
        }
        assert_eq!(seen, [200, 503, 200]);
        place.proxy.rule(Rule::action("RunInstances", Fault::AnsweredBefore(Instead::throttled())).times(2));
        place.proxy.clear();
        assert_eq!(place.launch().await.unwrap().status, 200);
    }
}

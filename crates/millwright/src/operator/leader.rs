//! Asks the leader for what is in no object.
//!
//! The way is the API server's proxy to the leader's pod, which the Lease names: so the API server knows who asks and decides whether they may (`get` on
//! `pods/proxy`), and no token leaves for anybody but the API server. A leader that is no pod, or listens elsewhere, is asked at an address that a person
//! names; it is theirs to judge. Whatever comes of it, an explanation is made: what could not be asked is named, with the reason.

use std::time::Duration;

use anyhow::{Context, anyhow, ensure};
use bytes::Bytes;
use http::{Request, StatusCode, header};
use http_body_util::{BodyExt, Empty, Limited};
use hyper_util::rt::TokioIo;
use inspect::explain::Explained;
use inspect::leader::{Component, Lease, Record};
use inspect::process::{Process, State};
use kube::Client;
use runtime::client::{ApiError, RetryClass};
use tokio::net::TcpStream;

/// Where the leader is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Leader {
    /// At its pod, by the API server's proxy; at this port, or where its component listens if nobody says otherwise.
    Pod(Option<u16>),
    /// Here, by HTTP.
    At(String),
    /// Nowhere.
    None,
}

/// The page that tells.
const PAGE: &str = "/debug/state?o=json";
/// A person waits, and can do without.
const PATIENCE: Duration = Duration::from_secs(5);
/// More than a process with tens of thousands of machines tells.
const LONGEST: usize = 64 * 1024 * 1024;

/// Which component looks after a kind.
pub(super) fn component(kind: Explained) -> Component {
    match kind {
        Explained::Machine => Component::MachineController,
        Explained::MachineSet | Explained::MachineDeployment => Component::Manager,
    }
}

/// Asks the leader of the component that looks after `kind`.
pub(super) async fn ask(
    client: &Client,
    namespace: &str,
    leases: &[Lease],
    kind: Explained,
    leader: &Leader,
) -> Process {
    let component = component(kind);
    let told = match leader {
        Leader::None => return Process::NotAsked,
        Leader::At(address) => at(address).await.with_context(|| format!("the leader could not be asked at {address}")),
        Leader::Pod(at) => {
            let lease = leases.iter().find(|lease| lease.component == component).map(|lease| &lease.record);
            match pod(lease) {
                Some(pod) => by_proxy(client, namespace, pod, at.unwrap_or(port(component))).await,
                // That nobody leads, or that it is not known, is told of the lease.
                None => return Process::NotAsked,
            }
        }
    };
    let state = told.and_then(|text| {
        serde_json::from_str::<State>(&text).map_err(|_| anyhow!("what answered is no leader of Millwright"))
    });
    state.map_or_else(|error| Process::Silent(format!("{error:#}")), |state| Process::Told(Box::new(state)))
}

/// The pod of whoever holds a lease: holders are named by their host, which in a pod is its name.
pub(super) fn pod(lease: Option<&Record>) -> Option<&str> {
    let Some(Record::Held { holder, .. }) = lease else { return None };
    let host = holder.rsplit_once('_').map_or(holder.as_str(), |(host, _)| host);
    (!host.is_empty()).then_some(host)
}

/// Where a component listens if nobody says otherwise, as the reference does.
fn port(component: Component) -> u16 {
    match component {
        Component::Manager => 10258,
        Component::MachineController => 10259,
    }
}

async fn by_proxy(client: &Client, namespace: &str, pod: &str, port: u16) -> anyhow::Result<String> {
    let path = format!("/api/v1/namespaces/{namespace}/pods/{pod}:{port}/proxy{PAGE}");
    let request = Request::get(path).body(Vec::new()).context("failed to put a request together")?;
    let asked = tokio::time::timeout(PATIENCE, client.request_text(request)).await;
    let answered =
        asked.map_err(|_| anyhow!("the leader's pod {pod:?} did not answer within {} s", PATIENCE.as_secs()))?;
    answered.map_err(|error| {
        let error = ApiError::of(&error);
        let text = error.to_string();
        match error.class {
            RetryClass::Forbidden => anyhow!(
                "you may not get pods/proxy in namespace {namespace:?}, by which the leader is asked: ask for a role that allows it"
            ),
            RetryClass::NotFound if text.contains("--profiling") => without_page(),
            RetryClass::NotFound => anyhow!(
                "the leader {pod:?} is no pod of namespace {namespace:?}: name its address with --leader, for example that of `kubectl port-forward`"
            ),
            _ => anyhow!("the leader's pod {pod:?} could not be asked at port {port}: {text}"),
        }
    })
}

fn without_page() -> anyhow::Error {
    anyhow!("the leader was started without --profiling, so it does not tell")
}

async fn at(address: &str) -> anyhow::Result<String> {
    tokio::time::timeout(PATIENCE, get(address))
        .await
        .map_err(|_| anyhow!("no answer within {} s", PATIENCE.as_secs()))?
}

async fn get(address: &str) -> anyhow::Result<String> {
    let socket = TcpStream::connect(address).await?;
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(socket)).await?;
    let request = Request::get(PAGE).header(header::HOST, address).body(Empty::<Bytes>::new())?;
    // The sender goes with its answer, and the connection with the sender.
    let conversation = async move {
        let response = sender.send_request(request).await?;
        let status = response.status();
        let body = Limited::new(response.into_body(), LONGEST).collect().await.map_err(|error| anyhow!(error))?;
        let text = String::from_utf8_lossy(&body.to_bytes()).into_owned();
        if status == StatusCode::NOT_FOUND && text.contains("--profiling") {
            return Err(without_page());
        }
        ensure!(status == StatusCode::OK, "it answered {status}");
        Ok(text)
    };
    let (answered, _ended) = tokio::join!(conversation, connection);
    answered
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::Response;
    use kube::client::Body;
    use rstest::rstest;
    use serde_json::json;

    fn leases(holder: &str) -> [Lease; 1] {
        let record = Record::Held { holder: holder.to_owned(), renewed: None, good_for: Duration::from_secs(15) };
        [Lease { component: Component::MachineController, record }]
    }

    /// Asks an API server whose proxy answers this.
    async fn asked(holder: &str, status: u16, body: String) -> (Process, Vec<String>) {
        let paths = std::sync::Arc::new(parking_lot::Mutex::new(Vec::new()));
        let heard = paths.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            heard.lock().push(request.uri().to_string());
            let answer = Response::builder().status(status).body(Body::from(body.clone().into_bytes()));
            async move { Ok::<_, std::convert::Infallible>(answer.unwrap()) }
        });
        let client = Client::new(service, "default");
        let process = ask(&client, "shoot", &leases(holder), Explained::Machine, &Leader::Pod(None)).await;
        let paths = paths.lock().clone();
        (process, paths)
    }

    fn refusal(code: u16, reason: &str) -> String {
        json!({ "kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": reason, "message": "no" }).to_string()
    }

    /// Shows OPR-18.
    #[tokio::test]
    async fn the_leader_that_the_lease_names_is_asked_by_the_proxy_to_its_pod() {
        let (process, paths) = asked("mc-0_00ff", 200, json!({ "leader": "yes" }).to_string()).await;
        assert_eq!(paths, ["/api/v1/namespaces/shoot/pods/mc-0:10259/proxy/debug/state?o=json"]);
        assert_eq!(process.told().map(|state| state.leader.as_str()), Some("yes"));
    }

    #[tokio::test]
    async fn a_leader_at_an_address_is_heard_to_the_end_though_it_closes_the_connection() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let body = json!({ "leader": "yes", "frozen": "x".repeat(100_000) }).to_string();
        let serving = async move {
            use tokio::io::{AsyncReadExt, AsyncWriteExt};
            for _ in 0..20 {
                let (mut socket, _) = listener.accept().await.unwrap();
                let _head = socket.read(&mut [0; 1024]).await.unwrap();
                let head = format!("HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: {}\r\n\r\n", body.len());
                socket.write_all((head + &body).as_bytes()).await.unwrap();
            }
        };
        let asking = async {
            for _ in 0..20 {
                let text = at(&address).await.unwrap();
                assert!(text.len() > 100_000, "{}", text.len());
            }
        };
        tokio::join!(serving, asking);
    }

    #[tokio::test]
    async fn where_nobody_leads_nobody_is_asked() {
        let (process, paths) = asked("", 200, String::new()).await;
        assert!(matches!(process, Process::NotAsked) && paths.is_empty(), "{process:?} {paths:?}");
    }

    /// Shows OPR-18.
    #[rstest]
    #[case::no_right("mc-0_1", 403, refusal(403, "Forbidden"), "you may not get pods/proxy in namespace \"shoot\"")]
    #[case::no_pod("laptop_1", 404, refusal(404, "NotFound"), "the leader \"laptop\" is no pod of namespace \"shoot\"")]
    #[case::no_page("mc-0_1", 404, "Shown only if the process was started with --profiling.\n".to_owned(), "started without --profiling")]
    #[case::away("mc-0_1", 503, refusal(503, "ServiceUnavailable"), "could not be asked at port 10259")]
    #[case::foreign("mc-0_1", 200, "<html>".to_owned(), "is no leader of Millwright")]
    #[tokio::test]
    async fn who_could_not_be_asked_is_named_with_the_reason(
        #[case] holder: &str,
        #[case] status: u16,
        #[case] body: String,
        #[case] why: &str,
    ) {
        let (process, _) = asked(holder, status, body).await;
        assert!(matches!(&process, Process::Silent(said) if said.contains(why)), "{process:?}");
    }
}

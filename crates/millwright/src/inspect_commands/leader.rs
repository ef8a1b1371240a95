//! Queries the leader for state that no object holds.
//!
//! The request goes through the API server proxy to the leader's pod, which the Lease names. The API server
//! authenticates the user and checks the permission (`get` on `pods/proxy`), and no token is sent to another server. If
//! the leader is not a pod or uses another port, the user sets its address. An explanation is always returned: what
//! could not be queried is named with the reason.

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
use runtime::client::{ApiError, ErrorClass};
use tokio::net::TcpStream;

/// Address of the leader.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Leader {
    /// Its pod, through the API server proxy, at this port or at the default port of its component.
    Pod(Option<u16>),
    /// This address, with HTTP.
    At(String),
    /// None: the leader is not queried.
    None,
}

/// The page that is queried.
const PAGE: &str = "/debug/state?o=json";
/// Timeout for the query. The explanation is possible without it.
const TIMEOUT: Duration = Duration::from_secs(5);
/// Maximum size of the response. A process with tens of thousands of Machines needs less.
const MAX_SIZE: usize = 64 * 1024 * 1024;

/// Returns the component that manages a kind.
pub(super) fn component(kind: Explained) -> Component {
    match kind {
        Explained::Machine => Component::MachineController,
        Explained::MachineSet | Explained::MachineDeployment => Component::Manager,
    }
}

/// Queries the leader of the component that manages `kind`.
pub(super) async fn query(
    client: &Client,
    namespace: &str,
    leases: &[Lease],
    kind: Explained,
    leader: &Leader,
) -> Process {
    let component = component(kind);
    let response = match leader {
        Leader::None => return Process::NotQueried,
        Leader::At(address) => at(address).await.with_context(|| format!("failed to query the leader at {address}")),
        Leader::Pod(at) => {
            let lease = leases.iter().find(|lease| lease.component == component).map(|lease| &lease.record);
            match pod(lease) {
                Some(pod) => by_proxy(client, namespace, pod, at.unwrap_or(port(component))).await,
                // The explanation already reports a missing or unknown leader.
                None => return Process::NotQueried,
            }
        }
    };
    let state = response.and_then(|text| {
        serde_json::from_str::<State>(&text).map_err(|_| anyhow!("the response is not from a Millwright leader"))
    });
    state.map_or_else(|error| Process::Unavailable(format!("{error:#}")), |state| Process::Reported(Box::new(state)))
}

/// Returns the pod of the holder of a Lease. The identity of a holder contains its host name, which is the name of the
/// pod.
pub(super) fn pod(lease: Option<&Record>) -> Option<&str> {
    let Some(Record::Held { holder, .. }) = lease else { return None };
    let host = holder.rsplit_once('_').map_or(holder.as_str(), |(host, _)| host);
    (!host.is_empty()).then_some(host)
}

/// Returns the default port of a component, as in MCM.
fn port(component: Component) -> u16 {
    match component {
        Component::Manager => 10258,
        Component::MachineController => 10259,
    }
}

async fn by_proxy(client: &Client, namespace: &str, pod: &str, port: u16) -> anyhow::Result<String> {
    let path = format!("/api/v1/namespaces/{namespace}/pods/{pod}:{port}/proxy{PAGE}");
    let request = Request::get(path).body(Vec::new()).context("failed to build the request")?;
    let response = tokio::time::timeout(TIMEOUT, client.request_text(request)).await;
    let response =
        response.map_err(|_| anyhow!("the leader's pod {pod:?} did not respond within {} s", TIMEOUT.as_secs()))?;
    response.map_err(|error| {
        let error = ApiError::of(&error);
        let text = error.to_string();
        match error.class {
            ErrorClass::Forbidden => anyhow!(
                "missing permission to get pods/proxy in namespace {namespace:?}, which is needed to query the leader. Request a role that allows it"
            ),
            ErrorClass::NotFound if text.contains("--profiling") => without_page(),
            ErrorClass::NotFound => anyhow!(
                "the leader {pod:?} is not a pod in namespace {namespace:?}. Pass its address with --leader, for example that of `kubectl port-forward`"
            ),
            _ => anyhow!("failed to query the leader's pod {pod:?} at port {port}: {text}"),
        }
    })
}

fn without_page() -> anyhow::Error {
    anyhow!("the leader was started without --profiling, so its state is not available")
}

async fn at(address: &str) -> anyhow::Result<String> {
    tokio::time::timeout(TIMEOUT, get(address))
        .await
        .map_err(|_| anyhow!("no response within {} s", TIMEOUT.as_secs()))?
}

async fn get(address: &str) -> anyhow::Result<String> {
    let socket = TcpStream::connect(address).await?;
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(socket)).await?;
    let request = Request::get(PAGE).header(header::HOST, address).body(Empty::<Bytes>::new())?;
    // The sender ends with the response, and the connection ends with the sender.
    let conversation = async move {
        let response = sender.send_request(request).await?;
        let status = response.status();
        let body = Limited::new(response.into_body(), MAX_SIZE).collect().await.map_err(|error| anyhow!(error))?;
        let text = String::from_utf8_lossy(&body.to_bytes()).into_owned();
        if status == StatusCode::NOT_FOUND && text.contains("--profiling") {
            return Err(without_page());
        }
        ensure!(status == StatusCode::OK, "the response has status {status}");
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

    /// Queries an API server whose proxy returns this response.
    async fn query_with_response(holder: &str, status: u16, body: String) -> (Process, Vec<String>) {
        let paths = std::sync::Arc::new(parking_lot::Mutex::new(Vec::new()));
        let log = paths.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            log.lock().push(request.uri().to_string());
            let answer = Response::builder().status(status).body(Body::from(body.clone().into_bytes()));
            async move { Ok::<_, std::convert::Infallible>(answer.unwrap()) }
        });
        let client = Client::new(service, "default");
        let process = query(&client, "shoot", &leases(holder), Explained::Machine, &Leader::Pod(None)).await;
        let paths = paths.lock().clone();
        (process, paths)
    }

    fn refusal(code: u16, reason: &str) -> String {
        json!({ "kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": reason, "message": "no" }).to_string()
    }

    /// Shows OPR-18.
    #[tokio::test]
    async fn leader_is_queried_through_the_proxy_to_its_pod() {
        let (process, paths) = query_with_response("mc-0_00ff", 200, json!({ "leader": "yes" }).to_string()).await;
        assert_eq!(paths, ["/api/v1/namespaces/shoot/pods/mc-0:10259/proxy/debug/state?o=json"]);
        assert_eq!(process.reported().map(|state| state.leader.as_str()), Some("yes"));
    }

    #[tokio::test]
    async fn long_response_is_read_to_the_end() {
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
    async fn query_is_skipped_without_a_leader() {
        let (process, paths) = query_with_response("", 200, String::new()).await;
        assert!(matches!(process, Process::NotQueried) && paths.is_empty(), "{process:?} {paths:?}");
    }

    /// Shows OPR-18.
    #[rstest]
    #[case::no_permission(
        "mc-0_1",
        403,
        refusal(403, "Forbidden"),
        "missing permission to get pods/proxy in namespace \"shoot\""
    )]
    #[case::no_pod(
        "laptop_1",
        404,
        refusal(404, "NotFound"),
        "the leader \"laptop\" is not a pod in namespace \"shoot\""
    )]
    #[case::no_page("mc-0_1", 404, "This page requires --profiling.\n".to_owned(), "started without --profiling")]
    #[case::unavailable("mc-0_1", 503, refusal(503, "ServiceUnavailable"), "at port 10259")]
    #[case::foreign("mc-0_1", 200, "<html>".to_owned(), "is not from a Millwright leader")]
    #[tokio::test]
    async fn failed_query_is_reported_with_its_reason(
        #[case] holder: &str,
        #[case] status: u16,
        #[case] body: String,
        #[case] why: &str,
    ) {
        let (process, _) = query_with_response(holder, status, body).await;
        assert!(matches!(&process, Process::Unavailable(reason) if reason.contains(why)), "{process:?}");
    }
}

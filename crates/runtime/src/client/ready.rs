//! Waits until an API server serves the required kinds, and reports what is missing.
//!
//! At the start the server may be down, the token may be expired, or the CRDs may be missing. If the process exited,
//! each of these would become a crash loop and its reason would be hard to find. Therefore the process waits and
//! reports the reason: immediately when it changes, then every 30 s.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use backoff::{Backoff, Exponential};
use meta::Object;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use super::api_error::{ApiError, ErrorClass};
use super::connection::Connection;
use crate::random::Random;

const PAUSES: Exponential = Exponential::new(Duration::from_millis(500), Duration::from_secs(10));
const REMIND_EVERY: Duration = Duration::from_secs(30);

/// A kind that must be served.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RequiredKind {
    /// `v1`, or group and version: `apps/v1`.
    pub api_version: String,
    /// The name in URLs: `nodes`.
    pub plural: String,
}

impl RequiredKind {
    /// Returns the kind of a type.
    pub fn of<K: Object>() -> Self {
        Self { api_version: K::api_version().into_owned(), plural: K::plural().into_owned() }
    }
}

impl fmt::Display for RequiredKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.plural, self.api_version)
    }
}

/// An API server, for messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// Its address.
    pub server: String,
    /// The source of the configuration of the connection.
    pub described_by: String,
    /// The file of the token, if it comes from a file.
    pub token_file: Option<PathBuf>,
}

impl Place {
    /// Returns the API server that runs in this process.
    pub fn in_process() -> Self {
        Self { server: "in this process".to_owned(), described_by: "this process".to_owned(), token_file: None }
    }
}

impl From<&Connection> for Place {
    fn from(connection: &Connection) -> Self {
        Self {
            server: connection.server().to_owned(),
            described_by: connection.source().to_string(),
            token_file: connection.token_file(),
        }
    }
}

/// Why the API server is not ready. Each variant prints as one sentence with advice.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Obstacle {
    /// No connection, or no valid response.
    #[error("waiting for the API server {} of {}: {why}", place.server, place.described_by)]
    Unreachable {
        /// The server.
        place: Place,
        /// The cause, with advice.
        why: String,
    },
    /// It rejects the credentials.
    #[error("waiting for the API server {} to accept the credentials of {} (401): {}", place.server, place.described_by, renew(place))]
    Unauthorized {
        /// The server.
        place: Place,
    },
    /// The permission for discovery is missing.
    #[error("waiting for the API server {} to allow the user of {} to get {path} (403): bind the user to the ClusterRole system:discovery", place.server, place.described_by)]
    Forbidden {
        /// The server.
        place: Place,
        /// The path that is forbidden.
        path: String,
    },
    /// It does not serve required kinds.
    #[error("waiting for the API server {} of {} to serve {}: install the CustomResourceDefinitions", place.server, place.described_by, listed(kinds))]
    KindsMissing {
        /// The server.
        place: Place,
        /// All missing kinds.
        kinds: Vec<RequiredKind>,
    },
}

fn renew(place: &Place) -> String {
    match &place.token_file {
        Some(file) => format!("the token in {} may have expired, renew it", file.display()),
        None => "they may have expired, renew them".to_owned(),
    }
}

fn listed(kinds: &[RequiredKind]) -> String {
    kinds.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

/// The result of waiting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waited {
    /// The server serves everything that is required.
    Ready,
    /// Waiting was cancelled.
    Stopped,
}

/// Checks once: is the server reachable, does it accept the credentials, does it serve all `required` kinds?
pub async fn check_ready(client: &kube::Client, place: &Place, required: &[RequiredKind]) -> Result<(), Obstacle> {
    let mut groups: BTreeMap<&str, Vec<&RequiredKind>> = BTreeMap::new();
    for kind in required {
        groups.entry(&kind.api_version).or_default().push(kind);
    }
    if groups.is_empty() {
        let answer = client.apiserver_version().await;
        return answer.map(drop).map_err(|error| obstacle(place, "/version", &error));
    }
    let mut missing = Vec::new();
    for (api_version, kinds) in groups {
        let (path, served) = if api_version.contains('/') {
            (format!("/apis/{api_version}"), client.list_api_group_resources(api_version).await)
        } else {
            (format!("/api/{api_version}"), client.list_core_api_resources(api_version).await)
        };
        let served = match served {
            Ok(served) => served.resources,
            // The API group is not installed yet.
            Err(error) if ApiError::of(&error).class == ErrorClass::NotFound => Vec::new(),
            Err(error) => return Err(obstacle(place, &path, &error)),
        };
        let is_served = |kind: &RequiredKind| served.iter().any(|resource| resource.name == kind.plural);
        missing.extend(kinds.into_iter().filter(|kind| !is_served(kind)).cloned());
    }
    if missing.is_empty() { Ok(()) } else { Err(Obstacle::KindsMissing { place: place.clone(), kinds: missing }) }
}

fn obstacle(place: &Place, path: &str, error: &kube::Error) -> Obstacle {
    let (place, api_error) = (place.clone(), ApiError::of(error));
    match api_error.class {
        ErrorClass::Unauthorized => Obstacle::Unauthorized { place },
        ErrorClass::Forbidden => Obstacle::Forbidden { place, path: path.to_owned() },
        _ => Obstacle::Unreachable { place, why: api_error.to_string() },
    }
}

/// Waits until [`check_ready`] succeeds. Calls `report` with the obstacle: immediately when it changes, then at most
/// every 30 s.
pub async fn wait_until_ready(
    client: &kube::Client,
    place: &Place,
    required: &[RequiredKind],
    random: &Random,
    stop: &CancellationToken,
    mut report: impl FnMut(&Obstacle),
) -> Waited {
    let mut backoff = Backoff::new(PAUSES);
    let mut said: Option<(Obstacle, Instant)> = None;
    loop {
        let checked = tokio::select! {
            biased;
            () = stop.cancelled() => return Waited::Stopped,
            checked = check_ready(client, place, required) => checked,
        };
        let Err(obstacle) = checked else { return Waited::Ready };
        let known = said.as_ref().is_some_and(|(last, at)| *last == obstacle && at.elapsed() < REMIND_EVERY);
        if !known {
            report(&obstacle);
            said = Some((obstacle, Instant::now()));
        }
        tokio::select! {
            biased;
            () = stop.cancelled() => return Waited::Stopped,
            () = sleep(random.stretched(backoff.failed(), 0.5)) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Metrics;
    use crate::client::{ClientSpec, UserAgent, in_process};
    use bytes::Bytes;
    use http::{Request, Response};
    use http_body_util::Full;
    use k8s_openapi::api::apps::v1::Deployment;
    use k8s_openapi::api::core::v1::Node;
    use kube::client::Body;
    use parking_lot::Mutex;
    use std::convert::Infallible;
    use std::sync::Arc;

    const NODES: &str = r#"{"kind":"APIResourceList","groupVersion":"v1","resources":[{"name":"nodes","singularName":"node","namespaced":false,"kind":"Node","verbs":["get"]}]}"#;
    const APPS: &str = r#"{"kind":"APIResourceList","groupVersion":"apps/v1","resources":[{"name":"deployments","singularName":"","namespaced":true,"kind":"Deployment","verbs":["get"]}]}"#;

    /// A server whose response depends on the time and the path.
    fn client(answer: impl Fn(Duration, &str) -> (u16, &'static str) + Clone + Send + 'static) -> kube::Client {
        let start = Instant::now();
        let service = tower::service_fn(move |request: Request<Body>| {
            let (code, text) = answer(start.elapsed(), request.uri().path());
            async move {
                let body = Full::new(Bytes::from_static(text.as_bytes()));
                Ok::<_, Infallible>(Response::builder().status(code).body(body).unwrap())
            }
        });
        let spec = ClientSpec::new(UserAgent::new("test", "v0", "none"));
        in_process(service, "ns", &spec, &Metrics::new().unwrap().rest)
    }

    fn place() -> Place {
        let token_file = Some(PathBuf::from("/var/run/token"));
        Place {
            server: "https://api".to_owned(),
            described_by: "the kubeconfig /k (--target-kubeconfig)".to_owned(),
            token_file,
        }
    }

    fn required() -> [RequiredKind; 2] {
        [RequiredKind::of::<Node>(), RequiredKind::of::<Deployment>()]
    }

    /// Shows CLI-11.
    #[tokio::test(start_paused = true)]
    async fn obstacle_is_logged_on_change_and_periodically() {
        let client = client(|elapsed, path| match (elapsed.as_secs(), path) {
            (0..100, _) => (401, "{}"),
            (100..120, _) => (403, "{}"),
            (120..200, "/apis/apps/v1") => (404, "404 page not found"),
            (200.., "/apis/apps/v1") => (200, APPS),
            _ => (200, NODES),
        });
        let said = Arc::new(Mutex::new(Vec::new()));
        let start = Instant::now();
        let waited = wait_until_ready(
            &client,
            &place(),
            &required(),
            &Random::seeded(1),
            &CancellationToken::new(),
            |obstacle| said.lock().push(obstacle.to_string()),
        )
        .await;
        assert_eq!(waited, Waited::Ready);
        assert!((200..220).contains(&start.elapsed().as_secs()), "{:?}", start.elapsed());
        let mut said = said.lock().clone();
        let times = said.len();
        said.dedup();
        assert_eq!(
            said,
            [
                "waiting for the API server https://api to accept the credentials of the kubeconfig /k (--target-kubeconfig) \
                 (401): the token in /var/run/token may have expired, renew it",
                "waiting for the API server https://api to allow the user of the kubeconfig /k (--target-kubeconfig) to get \
                 /apis/apps/v1 (403): bind the user to the ClusterRole system:discovery",
                "waiting for the API server https://api of the kubeconfig /k (--target-kubeconfig) to serve deployments \
                 (apps/v1): install the CustomResourceDefinitions",
            ]
        );
        assert!((5..=8).contains(&times), "one per change and one per half minute, not {times}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_that_fails_is_told_from_one_that_lacks_a_kind() {
        let client = client(|_, _| (503, "the server is starting"));
        let obstacle = check_ready(&client, &place(), &required()).await.unwrap_err();
        assert_eq!(
            obstacle.to_string(),
            "waiting for the API server https://api of the kubeconfig /k (--target-kubeconfig): \
             the API server failed (503): the server is starting"
        );
    }

    /// Shows CLI-11.
    #[tokio::test(start_paused = true)]
    async fn all_missing_kinds_are_named_at_once() {
        let client = client(|_, _| (404, "404 page not found"));
        let Err(Obstacle::KindsMissing { kinds, .. }) = check_ready(&client, &place(), &required()).await else {
            panic!("nothing is missing")
        };
        assert_eq!(kinds.len(), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn a_wish_to_stop_ends_the_wait_at_once() {
        let client = client(|_, _| (500, ""));
        let stop = CancellationToken::new();
        let start = Instant::now();
        let (place, required, random) = (place(), required(), Random::seeded(1));
        let waiting = wait_until_ready(&client, &place, &required, &random, &stop, |_| {});
        let stopping = async {
            sleep(Duration::from_secs(25)).await;
            stop.cancel();
        };
        assert_eq!(tokio::join!(waiting, stopping).0, Waited::Stopped);
        assert_eq!(start.elapsed(), Duration::from_secs(25));
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_of_which_nothing_is_required_only_has_to_answer() {
        let version = r#"{"major":"1","minor":"36","gitVersion":"v1.36.0","gitCommit":"","gitTreeState":"","buildDate":"","goVersion":"","compiler":"","platform":""}"#;
        let client = client(move |_, path| if path == "/version" { (200, version) } else { (404, "") });
        assert_eq!(check_ready(&client, &Place::in_process(), &[]).await, Ok(()));
    }
}

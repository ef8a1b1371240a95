//! Who may look.
//!
//! On loopback whoever is on the host: `kubectl port-forward` has asked the API server whether it may. But a page of any web site can let a browser
//! ask 127.0.0.1 under a name of its own (DNS rebinding), so only the names of loopback are answered to. Anywhere else the API server is asked about each
//! token who it is (TokenReview) and whether it may get `/ui` (SubjectAccessReview), as for the metrics of Kubernetes' own components; an answer
//! is good for a minute. Events go on for hours, so whoever listens is asked about again and again: a right that was taken away, a token
//! that has expired and an API server that cannot be asked end them.

use std::collections::BTreeMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::time::Duration;

use http::header::AUTHORIZATION;
use http::{HeaderMap, StatusCode, Uri};
use k8s_openapi::api::authentication::v1::{TokenReview, TokenReviewSpec};
use k8s_openapi::api::authorization::v1::{NonResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec};
use kube::Client;
use kube::api::{Api, PostParams};
use parking_lot::Mutex;
use tokio::time::Instant;

/// How long an answer of the API server is good for.
const GOOD_FOR: Duration = Duration::from_mins(1);
/// How many answers are kept: everybody who looks has one.
const KEPT: usize = 100;
/// What has to be allowed: `get` on this non-resource URL.
const PATH: &str = "/ui";

/// Who may look.
#[derive(Clone)]
pub(crate) enum Access {
    /// Whoever is on this host.
    Loopback,
    /// Whom the API server knows and allows it.
    Reviewed(Reviews),
}

/// Asks the API server. Clones are the same.
#[derive(Clone)]
pub(crate) struct Reviews {
    client: Client,
    /// Answers by a keyed hash of the token, so that no token is kept.
    answers: Arc<Mutex<BTreeMap<u64, Answer>>>,
    hasher: RandomState,
}

/// What the API server said, and when.
type Answer = (Instant, Result<(), Refusal>);

/// Until when somebody may look without another question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Allowed {
    ForGood,
    Until(Instant),
}

/// Why somebody may not look.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Refusal {
    pub(super) status: StatusCode,
    pub(super) why: &'static str,
}

const fn refusal(status: StatusCode, why: &'static str) -> Refusal {
    Refusal { status, why }
}

impl Access {
    pub(super) async fn check(&self, uri: &Uri, headers: &HeaderMap) -> Result<Allowed, Refusal> {
        match self {
            Self::Loopback if is_loopback(uri, headers) => Ok(Allowed::ForGood),
            Self::Loopback => Err(refusal(StatusCode::FORBIDDEN, "Ask for 127.0.0.1 or localhost.\n")),
            Self::Reviewed(reviews) => match bearer(headers) {
                None => Err(refusal(StatusCode::UNAUTHORIZED, "A bearer token is needed.\n")),
                Some(token) => reviews.check(token).await.map(Allowed::Until),
            },
        }
    }

    /// Ends when whoever was allowed this is not any more.
    pub(super) async fn withdrawn(self, uri: Uri, headers: HeaderMap, mut allowed: Allowed) {
        while let Allowed::Until(end) = allowed {
            tokio::time::sleep_until(end).await;
            match self.check(&uri, &headers).await {
                Ok(still) => allowed = still,
                Err(_) => return,
            }
        }
        std::future::pending::<()>().await;
    }
}

/// Whether it was asked under a name that only this host can mean.
fn is_loopback(uri: &Uri, headers: &HeaderMap) -> bool {
    let name = crate::http::requested_host(uri, headers);
    name == "localhost" || name.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}

fn bearer(headers: &HeaderMap) -> Option<&str> {
    let (scheme, token) = headers.get(AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    (scheme.eq_ignore_ascii_case("bearer") && !token.trim().is_empty()).then(|| token.trim())
}

impl Reviews {
    /// Asks through this client, which needs what the role `system:auth-delegator` grants.
    pub(crate) fn new(client: Client) -> Self {
        Self { client, answers: Arc::default(), hasher: RandomState::new() }
    }

    /// Until when the answer is good.
    async fn check(&self, token: &str) -> Result<Instant, Refusal> {
        let place = self.hasher.hash_one(token);
        let known = self.answers.lock().get(&place).filter(|(at, _)| at.elapsed() < GOOD_FOR).cloned();
        if let Some((at, answer)) = known {
            return answer.map(|()| at + GOOD_FOR);
        }
        let at = Instant::now();
        let answer = match self.ask(token).await {
            Ok(answer) => answer,
            Err(error) => {
                // An error of the client holds what the server said, never the request.
                let why = runtime::client::ApiError::of(&error).to_string();
                tracing::warn!(why, "could not ask the API server who may see the web view");
                return Err(refusal(StatusCode::SERVICE_UNAVAILABLE, "The API server could not be asked.\n"));
            }
        };
        let mut answers = self.answers.lock();
        answers.retain(|_, (at, _)| at.elapsed() < GOOD_FOR);
        if answers.len() < KEPT {
            answers.insert(place, (at, answer.clone()));
        }
        answer.map(|()| at + GOOD_FOR)
    }

    async fn ask(&self, token: &str) -> kube::Result<Result<(), Refusal>> {
        let spec = TokenReviewSpec { token: token.to_owned(), ..TokenReviewSpec::default() };
        let review = TokenReview { spec, ..TokenReview::default() };
        let reviewed = Api::<TokenReview>::all(self.client.clone()).create(&PostParams::default(), &review).await?;
        let status = reviewed.status.unwrap_or_default();
        let (Some(true), Some(user)) = (status.authenticated, status.user) else {
            return Ok(Err(refusal(StatusCode::UNAUTHORIZED, "The API server does not know this token.\n")));
        };
        let wanted = NonResourceAttributes { path: Some(PATH.to_owned()), verb: Some("get".to_owned()) };
        let spec = SubjectAccessReviewSpec {
            user: user.username,
            uid: user.uid,
            groups: user.groups,
            extra: user.extra,
            non_resource_attributes: Some(wanted),
            ..SubjectAccessReviewSpec::default()
        };
        let review = SubjectAccessReview { spec, ..SubjectAccessReview::default() };
        let api = Api::<SubjectAccessReview>::all(self.client.clone());
        let allowed = api.create(&PostParams::default(), &review).await?.status.is_some_and(|status| status.allowed);
        Ok(if allowed {
            Ok(())
        } else {
            Err(refusal(StatusCode::FORBIDDEN, "This user may not get the non-resource URL /ui.\n"))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::header::HOST;
    use http::{HeaderValue, Request, Response};
    use kube::client::Body;
    use rstest::rstest;
    use serde_json::{Value, json};
    use std::sync::atomic::{AtomicBool, Ordering};

    fn headers(name: http::HeaderName, value: &str) -> HeaderMap {
        HeaderMap::from_iter([(name, HeaderValue::from_str(value).unwrap())])
    }

    /// Shows OPR-11.
    #[rstest]
    #[case("127.0.0.1:80", true)]
    #[case("localhost:1", true)]
    #[case("[::1]:80", true)]
    #[case("evil.example:80", false)]
    #[case("127.0.0.1.evil.example", false)]
    #[case("10.0.0.1", false)]
    #[case("", false)]
    #[tokio::test]
    async fn on_loopback_only_its_own_names_are_answered_to(#[case] host: &str, #[case] allowed: bool) {
        let answer = Access::Loopback.check(&Uri::from_static("/events"), &headers(HOST, host)).await;
        assert_eq!(answer.is_ok(), allowed, "{host}");
    }

    /// An API server that knows one token and allows what it is told to.
    fn reviews(allowed: bool) -> (Access, Arc<Mutex<Vec<String>>>) {
        let (access, asked, _) = revocable(allowed);
        (access, asked)
    }

    /// The same, which can change its mind.
    fn revocable(allowed: bool) -> (Access, Arc<Mutex<Vec<String>>>, Arc<AtomicBool>) {
        let (asked, allowed) = (Arc::new(Mutex::new(Vec::new())), Arc::new(AtomicBool::new(allowed)));
        let (heard, allows) = (asked.clone(), allowed.clone());
        let service = tower::service_fn(move |request: Request<Body>| {
            let (heard, allowed) = (heard.clone(), allows.load(Ordering::Relaxed));
            async move {
                let path = request.uri().path().to_owned();
                let body = request.into_body().collect_bytes().await.unwrap();
                let mut review: Value = serde_json::from_slice(&body).unwrap();
                review["status"] = if path.ends_with("tokenreviews") {
                    let known = review["spec"]["token"] == "good";
                    json!({ "authenticated": known, "user": { "username": "jane", "groups": ["ops"] } })
                } else {
                    assert_eq!(review["spec"]["user"], "jane");
                    assert_eq!(review["spec"]["nonResourceAttributes"], json!({ "path": "/ui", "verb": "get" }));
                    json!({ "allowed": allowed })
                };
                heard.lock().push(path);
                Ok::<_, std::convert::Infallible>(Response::new(Body::from(serde_json::to_vec(&review).unwrap())))
            }
        });
        (Access::Reviewed(Reviews::new(Client::new(service, "default"))), asked, allowed)
    }

    async fn status(access: &Access, header: &str) -> Option<StatusCode> {
        access.check(&Uri::from_static("/events"), &headers(AUTHORIZATION, header)).await.err().map(|no| no.status)
    }

    /// Shows OPR-11.
    #[tokio::test(start_paused = true)]
    async fn a_token_is_reviewed_and_the_answer_is_good_for_a_minute() {
        let (access, asked) = reviews(true);
        assert_eq!(status(&access, "Basic good").await, Some(StatusCode::UNAUTHORIZED));
        assert_eq!(status(&access, "Bearer bad").await, Some(StatusCode::UNAUTHORIZED));
        assert_eq!(status(&access, "Bearer good").await, None);
        let before = asked.lock().len();
        assert_eq!(status(&access, "bearer good").await, None);
        assert_eq!(asked.lock().len(), before, "it was asked again");
        tokio::time::advance(GOOD_FOR).await;
        assert_eq!(status(&access, "Bearer good").await, None);
        assert_eq!(asked.lock().len(), before + 2);
    }

    /// Shows OPR-11.
    #[tokio::test]
    async fn who_is_known_and_not_allowed_is_refused() {
        let (access, _) = reviews(false);
        assert_eq!(status(&access, "Bearer good").await, Some(StatusCode::FORBIDDEN));
    }

    /// Shows OPR-11.
    #[tokio::test(start_paused = true)]
    async fn who_listens_is_asked_about_every_minute_and_loses_the_events_with_the_right() {
        let (access, _, allowed) = revocable(true);
        let (uri, headers) = (Uri::from_static("/events"), headers(AUTHORIZATION, "Bearer good"));
        let begin = Instant::now();
        access.check(&uri, &headers).await.unwrap();
        tokio::time::advance(GOOD_FOR / 2).await;
        // An answer that is half a minute old is good for another half.
        let pass = access.check(&uri, &headers).await.unwrap();
        assert_eq!(pass, Allowed::Until(begin + GOOD_FOR));
        let mut withdrawn = std::pin::pin!(access.withdrawn(uri, headers, pass));
        let ended = tokio::time::timeout_at(begin + 3 * GOOD_FOR + GOOD_FOR / 2, &mut withdrawn).await;
        assert!(ended.is_err(), "it ended although the right is still there");
        allowed.store(false, Ordering::Relaxed);
        withdrawn.await;
        assert_eq!(begin.elapsed().as_secs(), 240);
    }

    /// Shows OPR-11.
    #[tokio::test(start_paused = true)]
    async fn on_loopback_nobody_is_asked_about_again() {
        let (uri, headers) = (Uri::from_static("/events"), headers(HOST, "localhost"));
        let withdrawn = Access::Loopback.withdrawn(uri, headers, Allowed::ForGood);
        assert!(tokio::time::timeout(100 * GOOD_FOR, withdrawn).await.is_err());
    }
}

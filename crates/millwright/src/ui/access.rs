//! Access control of the web view.
//!
//! On a loopback address, every user of the host has access: for `kubectl port-forward`, the API server has checked the
//! permission. A web page could make a browser send requests to 127.0.0.1 under its own host name (DNS rebinding), so
//! only loopback host names are accepted.
//!
//! On other addresses, the API server authenticates each token (TokenReview) and checks that the user may get `/ui`
//! (SubjectAccessReview), as for the metrics of Kubernetes components. A result is cached for a minute. Event streams
//! last for hours, so their permission is checked repeatedly: a revoked permission, an expired token or an unreachable
//! API server ends them.

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

/// Time for which a result of the API server is cached.
const CACHE_TTL: Duration = Duration::from_mins(1);
/// Maximum number of cached results, one per user.
const MAX_RESULTS: usize = 100;
/// Non-resource URL on which `get` must be allowed.
const PATH: &str = "/ui";

/// Access control.
#[derive(Clone)]
pub(crate) enum Access {
    /// Every user of this host has access.
    Loopback,
    /// Users have access that the API server authenticates and authorizes.
    Reviewed(Reviews),
}

/// Reviews by the API server. Clones share their state.
#[derive(Clone)]
pub(crate) struct Reviews {
    client: Client,
    /// Results by a keyed hash of the token, so that no token is stored.
    results: Arc<Mutex<BTreeMap<u64, Review>>>,
    hasher: RandomState,
}

/// Result of the API server and its time.
type Review = (Instant, Result<(), Refusal>);

/// Time until which access is granted without another review.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Allowed {
    Always,
    Until(Instant),
}

/// Reason why access is denied.
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
            Self::Loopback if is_loopback(uri, headers) => Ok(Allowed::Always),
            Self::Loopback => Err(refusal(StatusCode::FORBIDDEN, "Use 127.0.0.1 or localhost as host name.\n")),
            Self::Reviewed(reviews) => match bearer(headers) {
                None => Err(refusal(StatusCode::UNAUTHORIZED, "A bearer token is required.\n")),
                Some(token) => reviews.check(token).await.map(Allowed::Until),
            },
        }
    }

    /// Returns when the access is revoked.
    pub(super) async fn revoked(self, uri: Uri, headers: HeaderMap, mut allowed: Allowed) {
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

/// Reports whether the host name of the request is a loopback name.
fn is_loopback(uri: &Uri, headers: &HeaderMap) -> bool {
    let name = crate::http::requested_host(uri, headers);
    name == "localhost" || name.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}

fn bearer(headers: &HeaderMap) -> Option<&str> {
    let (scheme, token) = headers.get(AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    (scheme.eq_ignore_ascii_case("bearer") && !token.trim().is_empty()).then(|| token.trim())
}

impl Reviews {
    /// Creates reviews with this client, which needs the permissions of the role `system:auth-delegator`.
    pub(crate) fn new(client: Client) -> Self {
        Self { client, results: Arc::default(), hasher: RandomState::new() }
    }

    /// Returns the time until which the result is cached.
    async fn check(&self, token: &str) -> Result<Instant, Refusal> {
        let place = self.hasher.hash_one(token);
        let known = self.results.lock().get(&place).filter(|(at, _)| at.elapsed() < CACHE_TTL).cloned();
        if let Some((at, answer)) = known {
            return answer.map(|()| at + CACHE_TTL);
        }
        let at = Instant::now();
        let answer = match self.review(token).await {
            Ok(answer) => answer,
            Err(error) => {
                // An error of the client contains the response of the server, never the request.
                let why = runtime::client::ApiError::of(&error).to_string();
                tracing::warn!(why, "failed to review access to the web view");
                return Err(refusal(
                    StatusCode::SERVICE_UNAVAILABLE,
                    "Failed to review the token: the API server is unreachable.\n",
                ));
            }
        };
        let mut results = self.results.lock();
        results.retain(|_, (at, _)| at.elapsed() < CACHE_TTL);
        if results.len() < MAX_RESULTS {
            results.insert(place, (at, answer.clone()));
        }
        answer.map(|()| at + CACHE_TTL)
    }

    async fn review(&self, token: &str) -> kube::Result<Result<(), Refusal>> {
        let spec = TokenReviewSpec { token: token.to_owned(), ..TokenReviewSpec::default() };
        let review = TokenReview { spec, ..TokenReview::default() };
        let reviewed = Api::<TokenReview>::all(self.client.clone()).create(&PostParams::default(), &review).await?;
        let status = reviewed.status.unwrap_or_default();
        let (Some(true), Some(user)) = (status.authenticated, status.user) else {
            return Ok(Err(refusal(StatusCode::UNAUTHORIZED, "The API server rejected the token.\n")));
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
    async fn loopback_accepts_only_loopback_host_names(#[case] host: &str, #[case] allowed: bool) {
        let answer = Access::Loopback.check(&Uri::from_static("/events"), &headers(HOST, host)).await;
        assert_eq!(answer.is_ok(), allowed, "{host}");
    }

    /// Returns access control with an API server that knows one token.
    fn reviews(allowed: bool) -> (Access, Arc<Mutex<Vec<String>>>) {
        let (access, reviewed, _) = revocable(allowed);
        (access, reviewed)
    }

    /// Like `reviews`, with a permission that can be changed.
    fn revocable(allowed: bool) -> (Access, Arc<Mutex<Vec<String>>>, Arc<AtomicBool>) {
        let (reviewed, allowed) = (Arc::new(Mutex::new(Vec::new())), Arc::new(AtomicBool::new(allowed)));
        let (log, allows) = (reviewed.clone(), allowed.clone());
        let service = tower::service_fn(move |request: Request<Body>| {
            let (log, allowed) = (log.clone(), allows.load(Ordering::Relaxed));
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
                log.lock().push(path);
                Ok::<_, std::convert::Infallible>(Response::new(Body::from(serde_json::to_vec(&review).unwrap())))
            }
        });
        (Access::Reviewed(Reviews::new(Client::new(service, "default"))), reviewed, allowed)
    }

    async fn status(access: &Access, header: &str) -> Option<StatusCode> {
        access.check(&Uri::from_static("/events"), &headers(AUTHORIZATION, header)).await.err().map(|no| no.status)
    }

    /// Shows OPR-11.
    #[tokio::test(start_paused = true)]
    async fn token_review_is_cached_for_a_minute() {
        let (access, reviewed) = reviews(true);
        assert_eq!(status(&access, "Basic good").await, Some(StatusCode::UNAUTHORIZED));
        assert_eq!(status(&access, "Bearer bad").await, Some(StatusCode::UNAUTHORIZED));
        assert_eq!(status(&access, "Bearer good").await, None);
        let before = reviewed.lock().len();
        assert_eq!(status(&access, "bearer good").await, None);
        assert_eq!(reviewed.lock().len(), before, "the token was reviewed again");
        tokio::time::advance(CACHE_TTL).await;
        assert_eq!(status(&access, "Bearer good").await, None);
        assert_eq!(reviewed.lock().len(), before + 2);
    }

    /// Shows OPR-11.
    #[tokio::test]
    async fn user_without_permission_is_rejected() {
        let (access, _) = reviews(false);
        assert_eq!(status(&access, "Bearer good").await, Some(StatusCode::FORBIDDEN));
    }

    /// Shows OPR-11.
    #[tokio::test(start_paused = true)]
    async fn event_stream_ends_after_the_permission_is_revoked() {
        let (access, _, allowed) = revocable(true);
        let (uri, headers) = (Uri::from_static("/events"), headers(AUTHORIZATION, "Bearer good"));
        let begin = Instant::now();
        access.check(&uri, &headers).await.unwrap();
        tokio::time::advance(CACHE_TTL / 2).await;
        // A result that is half a minute old is cached for another half.
        let pass = access.check(&uri, &headers).await.unwrap();
        assert_eq!(pass, Allowed::Until(begin + CACHE_TTL));
        let mut revoked = std::pin::pin!(access.revoked(uri, headers, pass));
        let ended = tokio::time::timeout_at(begin + 3 * CACHE_TTL + CACHE_TTL / 2, &mut revoked).await;
        assert!(ended.is_err(), "the stream ended although the permission exists");
        allowed.store(false, Ordering::Relaxed);
        revoked.await;
        assert_eq!(begin.elapsed().as_secs(), 240);
    }

    /// Shows OPR-11.
    #[tokio::test(start_paused = true)]
    async fn access_on_loopback_does_not_expire() {
        let (uri, headers) = (Uri::from_static("/events"), headers(HOST, "localhost"));
        let revoked = Access::Loopback.revoked(uri, headers, Allowed::Always);
        assert!(tokio::time::timeout(100 * CACHE_TTL, revoked).await.is_err());
    }
}

//! Replaces a patch by get and update if the permission to patch is missing.
//!
//! All changes to objects are patches: one request that contains only the changed fields. But many roles were written for a
//! controller that updates whole objects, and grant `get` and `update` instead of `patch`. In that case the same change
//! is made by reading the object, applying the patch, and updating the object. Callers do not notice the difference.
//!
//! - No field is lost: the object is raw JSON, so unknown fields are preserved.
//! - Preconditions are kept: a uid or resourceVersion in the patch is sent, and the API server rejects a mismatch. A
//!   patch without a resourceVersion applies to any version, so a conflict leads to another read, up to five times, as
//!   the API server does for patches.
//! - It is logged once, exported as a metric, and remembered: one denial applies to all objects of that kind. After a
//!   while a patch is tried again, because permissions change, and an API server that has just started rejects requests
//!   that it allows a second later.
//!
//! Only RBAC denials count. If admission rejects a patch, it would reject the update too.

mod denials;
mod merge;

use std::task::{Context, Poll};

use bytes::Bytes;
use futures::future::BoxFuture;
use http::header::{ACCEPT, CONTENT_TYPE};
use http::{HeaderValue, Method, Request, Response, StatusCode, Uri};
use http_body_util::BodyExt;
use kube::client::Body;
use kube::core::Status;
use serde_json::Value;
use tower::{BoxError, Service, ServiceExt};

use super::stack::AnswerBody;
use crate::metrics::RestMetrics;
pub(super) use denials::Denials;
use denials::{Subject, Way};
use merge::Language;

/// Maximum number of reads of an object after conflicts.
const TRIES: usize = 5;

const JSON: HeaderValue = HeaderValue::from_static("application/json");

/// A service that uses get and update if patches are forbidden.
#[derive(Clone)]
pub(crate) struct UpdateFallback<S> {
    carrier: S,
    denials: Denials,
    metrics: RestMetrics,
}

impl<S> UpdateFallback<S> {
    /// Clients with the same credentials share their denials.
    pub(crate) fn new(carrier: S, denials: Denials, metrics: RestMetrics) -> Self {
        Self { carrier, denials, metrics }
    }
}

impl<S> Service<Request<Body>> for UpdateFallback<S>
where
    S: Service<Request<Body>, Response = Response<AnswerBody>, Error = BoxError> + Clone + Send + 'static,
    S::Future: Send,
{
    type Response = Response<AnswerBody>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Self::Response, BoxError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(())) // like the stack below
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let mut this = self.clone();
        Box::pin(async move {
            match (Language::of(&request), Subject::of(request.uri())) {
                (Some(language), Some(subject)) => this.change(request, language, &subject).await,
                _ => this.carrier.oneshot(request).await,
            }
        })
    }
}

impl<S> UpdateFallback<S>
where
    S: Service<Request<Body>, Response = Response<AnswerBody>, Error = BoxError> + Clone + Send + 'static,
    S::Future: Send,
{
    /// Applies a change, by patch or by get and update.
    async fn change(
        &mut self,
        request: Request<Body>,
        language: Language,
        subject: &Subject,
    ) -> Result<Response<AnswerBody>, BoxError> {
        let (head, body) = request.into_parts();
        let text = body.collect().await?.to_bytes();
        let patch_request = PatchRequest { head, text, language };
        let known = self.denials.way(subject);
        if known == Some(Way::Replace) {
            let answer = self.replace(&patch_request).await?;
            let (answer, is_denied) = judged(answer, "").await?;
            if is_denied {
                self.denials.deny(subject, Way::None, &self.metrics);
            }
            return Ok(answer);
        }
        let answer = self.carrier.clone().oneshot(patch_request.patch()).await?;
        let (refusal, is_denied) = judged(answer, "patch").await?;
        if !is_denied {
            self.denials.allow(subject, &self.metrics);
            return Ok(refusal);
        }
        if known == Some(Way::None) || !patch_request.can_be_made_here() {
            return Ok(refusal);
        }
        let (answer, is_denied) = judged(self.replace(&patch_request).await?, "").await?;
        let way = if is_denied { Way::None } else { Way::Replace };
        self.denials.deny(subject, way, &self.metrics);
        Ok(if is_denied { refusal } else { answer })
    }

    /// Reads, changes and updates the object. Returns the same response as a patch.
    async fn replace(&mut self, patch_request: &PatchRequest) -> Result<Response<AnswerBody>, BoxError> {
        let mut tries = 0;
        loop {
            tries += 1;
            let found = self.carrier.clone().oneshot(patch_request.get()?).await?;
            if found.status() != StatusCode::OK {
                return Ok(found);
            }
            let live: Value = serde_json::from_slice(&found.into_body().collect().await?.to_bytes())?;
            let (changed, guard) = patch_request.apply(live)?;
            let answer = self.carrier.clone().oneshot(patch_request.put(&changed)?).await?;
            let lost_a_race = answer.status() == StatusCode::CONFLICT && guard == Guard::AnyVersion;
            if !lost_a_race || tries == TRIES {
                return Ok(answer);
            }
        }
    }
}

/// A patch request.
struct PatchRequest {
    head: http::request::Parts,
    text: Bytes,
    language: Language,
}

/// The precondition of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Guard {
    /// This version of this object, or a deleted object: a conflict is final.
    This,
    /// Any version of the object that was read.
    AnyVersion,
}

impl PatchRequest {
    fn patch(&self) -> Request<Body> {
        Request::from_parts(self.head.clone(), Body::from(self.text.to_vec()))
    }

    /// Returns whether the patch can be applied here.
    fn can_be_made_here(&self) -> bool {
        serde_json::from_slice(&self.text).is_ok_and(|patch: Value| self.language.is_known(&patch))
    }

    /// Gets the object itself, also if the patch is for a subresource: roles have no `get` for subresources.
    fn get(&self) -> Result<Request<Body>, BoxError> {
        let path = self.head.uri.path();
        let whole = path.strip_suffix("/status").unwrap_or(path);
        let mut head = self.head.clone();
        head.method = Method::GET;
        head.uri = whole.parse::<Uri>()?;
        head.headers.remove(CONTENT_TYPE);
        head.headers.insert(ACCEPT, JSON); // the whole object, also if the caller requested only its metadata
        Ok(Request::from_parts(head, Body::empty()))
    }

    fn put(&self, object: &Value) -> Result<Request<Body>, BoxError> {
        let mut head = self.head.clone();
        head.method = Method::PUT;
        head.headers.insert(CONTENT_TYPE, JSON);
        Ok(Request::from_parts(head, Body::from(serde_json::to_vec(object)?)))
    }

    /// Applies the patch. The preconditions of the patch apply to the whole object. If the patch has no
    /// resourceVersion, the one that was read is used.
    fn apply(&self, live: Value) -> Result<(Value, Guard), BoxError> {
        let patch: Value = serde_json::from_slice(&self.text)?;
        let same = |pointer| patch.pointer(pointer).is_none_or(|wanted| live.pointer(pointer) == Some(wanted));
        let is_open = patch.pointer("/metadata/resourceVersion").is_none() && same("/metadata/uid");
        let guard = if is_open { Guard::AnyVersion } else { Guard::This };
        Ok((self.language.merge(live, patch), guard))
    }
}

/// Returns the response and whether it is an RBAC denial of this verb.
async fn judged(answer: Response<AnswerBody>, verb: &str) -> Result<(Response<AnswerBody>, bool), BoxError> {
    if answer.status() != StatusCode::FORBIDDEN {
        return Ok((answer, false));
    }
    let (head, body) = answer.into_parts();
    let text = body.collect().await?.to_bytes();
    let status: Status = serde_json::from_slice(&text).unwrap_or_default();
    let is_denied = status.message.contains(&format!(" cannot {verb}")) && status.message.contains(" resource ");
    Ok((Response::from_parts(head, AnswerBody::of(text)), is_denied))
}

//! Answers as HTTP responses.

use bytes::Bytes;
use futures::stream;
use http::header::{CONTENT_TYPE, RETRY_AFTER, WARNING};
use http::{HeaderValue, Response, StatusCode};
use http_body::Frame;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};

use crate::failure::Failure;
use crate::render::{self, Form};
use crate::resource::Resource;
use crate::verbs::Answer;
use crate::watch::Watch;

/// The connection broke, before or instead of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("connection reset by peer")]
pub struct ConnectionBroken;

/// The body of an answer; that of a watch goes on until the watch ends.
pub type Body = UnsyncBoxBody<Bytes, ConnectionBroken>;

/// One object.
pub(crate) fn object(resource: &Resource, form: Form, answer: &Answer) -> Response<Body> {
    let mut response = json(answer.code, render::object(resource, form, &answer.object));
    for warning in &answer.warnings {
        let header = HeaderValue::from_str(&format!("299 - {warning:?}"));
        response.headers_mut().extend(header.ok().map(|value| (WARNING, value)));
    }
    response
}

/// A watch, for as long as it goes on.
pub(crate) fn events(watch: Watch) -> Response<Body> {
    let pieces = stream::unfold(watch, |mut watch| async move {
        let piece = watch.next().await?;
        Some((piece.map(Frame::data).map_err(|_| ConnectionBroken), watch))
    });
    respond(StatusCode::OK, "application/json", StreamBody::new(pieces).boxed_unsync())
}

/// A refusal.
pub(crate) fn refused(failure: &Failure) -> Response<Body> {
    let mut response = json(failure.code, failure.to_status().to_string().into());
    if let Some(seconds) = failure.retry_after() {
        response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(seconds));
    }
    response
}

/// JSON that is already written out.
pub(crate) fn json(code: StatusCode, body: Bytes) -> Response<Body> {
    respond(code, "application/json", whole(body))
}

/// JSON with a media type that says more than that.
pub(crate) fn json_as(media_type: &'static str, body: Bytes) -> Response<Body> {
    respond(StatusCode::OK, media_type, whole(body))
}

/// Nothing is known of this path.
pub(crate) fn page_not_found() -> Response<Body> {
    plain(StatusCode::NOT_FOUND, "404 page not found\n")
}

/// Plain text.
pub(crate) fn plain(code: StatusCode, text: &'static str) -> Response<Body> {
    respond(code, "text/plain; charset=utf-8", whole(Bytes::from_static(text.as_bytes())))
}

fn whole(body: Bytes) -> Body {
    Full::new(body).map_err(|never| match never {}).boxed_unsync()
}

fn respond(code: StatusCode, content_type: &'static str, body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    *response.status_mut() = code;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}

//! What the server answers when it does not do what was asked.
//!
//! Clients decide by these answers: a controller retries a `Conflict`, adopts on `AlreadyExists`, relists on `Expired`, and some
//! of them read the sentence. So each refusal is a `Status` object with the fields and the words of the reference server.

use http::StatusCode;
use serde_json::{Value, json};

use crate::faults::Verb;
use crate::meta;
use crate::resource::{Resource, qualify};
use crate::schema::Cause;
use crate::verbs::{Call, Part};

/// A request that was refused, in the form of a `Status`.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{message}")]
pub struct Failure {
    /// The HTTP status.
    pub code: StatusCode,
    /// The machine-readable reason, like `Conflict`.
    pub reason: &'static str,
    /// The sentence for people.
    pub message: String,
    details: Option<Value>,
    /// A token with which an expired list can go on, at the price of consistency.
    continue_token: Option<String>,
}

impl Failure {
    /// A refusal without details.
    pub(crate) fn new(code: StatusCode, reason: &'static str, message: impl Into<String>) -> Self {
        Self { code, reason, message: message.into(), details: None, continue_token: None }
    }

    pub(crate) fn with_details(mut self, details: Value) -> Self {
        self.details = Some(details);
        self
    }

    /// The object does not exist.
    pub(crate) fn not_found(resource: &Resource, name: &str) -> Self {
        let message = format!("{} {name:?} not found", resource.qualified());
        Self::new(StatusCode::NOT_FOUND, "NotFound", message).with_details(about(resource, name))
    }

    /// The path is not served.
    pub(crate) fn unknown_path() -> Self {
        let message = "the server could not find the requested resource";
        Self::new(StatusCode::NOT_FOUND, "NotFound", message).with_details(json!({}))
    }

    /// The name is taken, for good or for a while.
    pub(crate) fn already_exists(resource: &Resource, object: &Value) -> Self {
        let name = meta::name(object);
        let while_it_leaves = if meta::is_deleting(object) { "object is being deleted: " } else { "" };
        let message = format!("{while_it_leaves}{} {name:?} already exists", resource.qualified());
        Self::new(StatusCode::CONFLICT, "AlreadyExists", message).with_details(about(resource, name))
    }

    /// Someone else was faster, or the caller meant another object of this name.
    pub(crate) fn conflict(resource: &Resource, name: &str, why: &str) -> Self {
        let message = format!("Operation cannot be fulfilled on {} {name:?}: {why}", resource.qualified());
        Self::new(StatusCode::CONFLICT, "Conflict", message).with_details(about(resource, name))
    }

    /// The same about a part of an object that has a path of its own.
    pub(crate) fn conflict_of_part(resource: &Resource, part: Part, name: &str, why: &str) -> Self {
        let plural = format!("{}/{}", resource.plural, part.path());
        let message = format!("Operation cannot be fulfilled on {} {name:?}: {why}", qualify(&plural, &resource.group));
        let mut details = json!({ "name": name, "kind": plural });
        add_group(&mut details, resource);
        Self::new(StatusCode::CONFLICT, "Conflict", message).with_details(details)
    }

    /// The object was written since the caller read it.
    pub(crate) fn modified(resource: &Resource, name: &str) -> Self {
        let why = "the object has been modified; please apply your changes to the latest version and try again";
        Self::conflict(resource, name, why)
    }

    /// A precondition of a deletion does not hold. The reference names the kind here, not the resource.
    pub(crate) fn precondition(resource: &Resource, name: &str, why: &str) -> Self {
        let kind = resource.qualified_kind();
        let message = format!("Operation cannot be fulfilled on {kind} {name:?}: {why}");
        let mut details = json!({ "name": name, "kind": resource.kind });
        add_group(&mut details, resource);
        Self::new(StatusCode::CONFLICT, "Conflict", message).with_details(details)
    }

    /// Fields of the object break rules.
    pub(crate) fn invalid(resource: &Resource, name: &str, causes: &[Cause]) -> Self {
        Self::invalid_as(&resource.qualified_kind(), &resource.group, &resource.kind, name, causes)
    }

    /// A scale that breaks rules.
    pub(crate) fn invalid_scale(name: &str, causes: &[Cause]) -> Self {
        Self::invalid_as("Scale.autoscaling", "autoscaling", "Scale", name, causes)
    }

    /// An update without the resourceVersion that this kind demands. The reference names the resource here, not the kind.
    pub(crate) fn version_required(resource: &Resource, name: &str) -> Self {
        let cause = Cause {
            field: "metadata.resourceVersion".to_owned(),
            reason: "FieldValueInvalid".to_owned(),
            message: "Invalid value: 0: must be specified for an update".to_owned(),
        };
        Self::invalid_as(resource.qualified(), &resource.group, &resource.plural, name, &[cause])
    }

    /// A patch whose result cannot be read, or not by a client that is strict about fields nobody knows. The reference names
    /// no kind here and repeats the whole object; this does not, because it may be secret.
    pub(crate) fn unreadable_patch(why: &str) -> Self {
        Self::invalid_as("", "", "", "", &[Cause::invalid("patch", &Value::from("<the patched object>"), why)])
    }

    /// A resourceVersion that is no number, where the reference does not expect it to be none.
    pub(crate) fn unexpected(message: impl Into<String>) -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "", message)
    }

    /// An object of a custom kind that says it is of another.
    pub(crate) fn wrong_kind(resource: &Resource, kind: &str, name: &str) -> Self {
        let cause = Cause::invalid("kind", &Value::from(kind), &format!("must be {}", resource.kind));
        Self::invalid_as(&format!("{kind}.{}", resource.group), &resource.group, kind, name, &[cause])
    }

    /// Query parameters break rules.
    pub(crate) fn invalid_options(options: &str, causes: &[Cause]) -> Self {
        Self::invalid_as(&format!("{options}.meta.k8s.io"), "meta.k8s.io", options, "", causes)
    }

    fn invalid_as(what: &str, group: &str, kind: &str, name: &str, causes: &[Cause]) -> Self {
        let sentences: Vec<String> = causes.iter().map(sentence).collect();
        let why = match sentences.as_slice() {
            [one] => one.clone(),
            many => format!("[{}]", many.join(", ")),
        };
        let causes: Vec<Value> = causes.iter().map(cause_value).collect();
        let mut details = json!({ "causes": causes });
        if let Some(details) = details.as_object_mut() {
            let named =
                [("kind", kind), ("name", name), ("group", group)].into_iter().filter(|(_, text)| !text.is_empty());
            details.extend(named.map(|(field, text)| (field.to_owned(), json!(text))));
        }
        let message = format!("{what} {name:?} is invalid: {why}");
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, "Invalid", message).with_details(details)
    }

    /// A rule that is not about one field forbids this.
    pub(crate) fn forbidden(resource: &Resource, name: &str, why: &str, causes: &[Cause]) -> Self {
        let subject = if name.is_empty() {
            resource.qualified().to_owned()
        } else {
            format!("{} {name:?}", resource.qualified())
        };
        let mut details = about(resource, name);
        if let (Some(details), false) = (details.as_object_mut(), causes.is_empty()) {
            details.insert("causes".to_owned(), causes.iter().map(cause_value).collect());
        }
        let message = format!("{subject} is forbidden: {why}");
        Self::new(StatusCode::FORBIDDEN, "Forbidden", message).with_details(details)
    }

    /// No role grants this to whoever asks.
    pub(crate) fn denied(verb: Verb, call: &Call) -> Self {
        let resource = &call.resource;
        let what = match call.part.path() {
            "" => resource.plural.clone(),
            part => format!("{}/{part}", resource.plural),
        };
        let place = match &call.namespace {
            Some(namespace) => format!("in the namespace {namespace:?}"),
            None => "at the cluster scope".to_owned(),
        };
        let (verb, group) = (verb.as_str(), &resource.group);
        let why = format!("User \"user\" cannot {verb} resource {what:?} in API group {group:?} {place}");
        Self::forbidden(resource, call.name.as_deref().unwrap_or_default(), &why, &[])
    }

    /// The request makes no sense.
    pub(crate) fn bad_request(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "BadRequest", message)
    }

    /// The body is in a format that is not understood here.
    pub(crate) fn unsupported_media_type(accepted: &str) -> Self {
        let message =
            format!("the body of the request was in an unknown format - accepted media types include: {accepted}");
        Self::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "UnsupportedMediaType", message)
    }

    /// A patch in a language that is not spoken for this kind.
    pub(crate) fn unsupported_patch(resource: &Resource) -> Self {
        Self::unsupported_media_type(patches(resource))
    }

    /// Server-side apply, which would need to know who owns which field.
    pub(crate) fn no_apply(resource: &Resource) -> Self {
        let message = format!(
            "server-side apply is not supported by the API server in memory; apply on the client's side, or send one of: {}",
            patches(resource)
        );
        Self::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "UnsupportedMediaType", message)
    }

    /// The body is in a format that nobody knows.
    pub(crate) fn unknown_media_type() -> Self {
        let message = "415: Unsupported Media Type";
        Self::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "UnsupportedMediaType", message).with_details(json!({}))
    }

    /// None of the formats the caller would take can be made.
    pub(crate) fn not_acceptable() -> Self {
        let message = "406: Not Acceptable\n\nAvailable representations: application/json";
        Self::new(StatusCode::NOT_ACCEPTABLE, "NotAcceptable", message).with_details(json!({}))
    }

    /// The verb does not exist on this resource.
    pub(crate) fn method_not_allowed() -> Self {
        let message = "the server does not allow this method on the requested resource";
        Self::new(StatusCode::METHOD_NOT_ALLOWED, "MethodNotAllowed", message).with_details(json!({}))
    }

    /// The credentials are missing, wrong or expired.
    pub(crate) fn unauthorized() -> Self {
        Self::new(StatusCode::UNAUTHORIZED, "Unauthorized", "Unauthorized")
    }

    /// The body is larger than any object may be.
    pub(crate) fn too_large() -> Self {
        let message = "Request entity too large: limit is 3145728";
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, "RequestEntityTooLarge", message)
    }

    /// The history that was asked for is compacted.
    pub(crate) fn expired(message: impl Into<String>) -> Self {
        Self::new(StatusCode::GONE, "Expired", message)
    }

    /// The snapshot that a list was reading from is compacted; `fresh` continues on the present state.
    pub(crate) fn list_expired(fresh: String) -> Self {
        let mut failure = Self::expired(
            "The provided continue parameter is too old to display a consistent list result. You can start a new list \
             without the continue parameter, or use the continue token in this response to retrieve the remainder of the \
             results. Continuing with the provided token results in an inconsistent list - objects that were created, \
             modified, or deleted between the time the first chunk was returned and now may show up in the list.",
        );
        failure.continue_token = Some(fresh);
        failure
    }

    /// A read demanded a state that has not been reached.
    pub(crate) fn version_too_large(wanted: u64, current: u64) -> Self {
        let message = format!("Timeout: Too large resource version: {wanted}, current: {current}");
        Self::new(StatusCode::GATEWAY_TIMEOUT, "Timeout", message).with_details(json!({
            "causes": [{ "reason": "ResourceVersionTooLarge", "message": "Too large resource version" }],
            "retryAfterSeconds": 1,
        }))
    }

    /// Something failed that the caller is not to blame for.
    pub(crate) fn internal(why: &str) -> Self {
        let message = format!("Internal error occurred: {why}");
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "InternalError", message)
            .with_details(json!({ "causes": [{ "message": why }] }))
    }

    /// The caller is asked to slow down; `retry_after` in seconds, when it is told for how long.
    pub(crate) fn too_many_requests(retry_after: Option<u64>) -> Self {
        let message = "too many requests, please try again later";
        let failure = Self::new(StatusCode::TOO_MANY_REQUESTS, "TooManyRequests", message);
        match retry_after {
            Some(seconds) => failure.with_details(json!({ "retryAfterSeconds": seconds })),
            None => failure,
        }
    }

    /// For how many seconds the caller should hold back, if it was told.
    pub fn retry_after(&self) -> Option<u64> {
        self.details.as_ref()?.get("retryAfterSeconds")?.as_u64()
    }

    /// The `Status` object.
    pub fn to_status(&self) -> Value {
        let mut metadata = json!({});
        if let (Some(token), Some(metadata)) = (&self.continue_token, metadata.as_object_mut()) {
            metadata.insert("continue".to_owned(), json!(token));
        }
        let mut status = json!({
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": metadata,
            "status": "Failure",
            "message": self.message,
            "code": self.code.as_u16(),
        });
        if let Some(status) = status.as_object_mut() {
            status.extend(self.details.iter().map(|details| ("details".to_owned(), details.clone())));
            if !self.reason.is_empty() {
                status.insert("reason".to_owned(), json!(self.reason));
            }
        }
        status
    }
}

fn patches(resource: &Resource) -> &'static str {
    if resource.custom {
        "application/json-patch+json, application/merge-patch+json"
    } else {
        "application/json-patch+json, application/merge-patch+json, application/strategic-merge-patch+json"
    }
}

fn about(resource: &Resource, name: &str) -> Value {
    let mut details = json!({ "kind": resource.plural });
    if let (Some(details), false) = (details.as_object_mut(), name.is_empty()) {
        details.insert("name".to_owned(), json!(name));
    }
    add_group(&mut details, resource);
    details
}

fn add_group(details: &mut Value, resource: &Resource) {
    if let (Some(details), false) = (details.as_object_mut(), resource.group.is_empty()) {
        details.insert("group".to_owned(), json!(resource.group));
    }
}

fn sentence(cause: &Cause) -> String {
    if cause.field.is_empty() { cause.message.clone() } else { format!("{}: {}", cause.field, cause.message) }
}

fn cause_value(cause: &Cause) -> Value {
    json!({ "reason": cause.reason, "message": cause.message, "field": cause.field })
}

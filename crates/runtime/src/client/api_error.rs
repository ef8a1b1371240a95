//! Classification of API errors: whether to retry, when, and what a user should do.
//!
//! A controller must not evaluate status codes and transport errors at every call; it would handle the same response
//! differently in two places. Therefore each error is mapped here to a [`ErrorClass`] for the program and a sentence
//! for users. Two distinctions are important: a 409 with reason *AlreadyExists* is not a conflict with a stale copy,
//! and a write without a response may have succeeded.

use std::fmt;
use std::time::Duration;

use kube::client::AuthError;
use kube::core::Status;

use super::failure::{Effect, Failure};

/// How to handle a failed request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ErrorClass {
    /// The object changed since it was read: read it again and decide again.
    Conflict,
    /// A create request for an object that exists.
    AlreadyExists,
    /// The object, or the whole kind, does not exist.
    NotFound,
    /// The resourceVersion or continue token is too old: list again.
    Gone,
    /// The server throttled the request, or a PodDisruptionBudget rejected an eviction.
    Throttled {
        /// Requested wait, if the server sent one.
        after: Option<Duration>,
    },
    /// The rate limit of this client rejected the request; it was not sent.
    Dropped,
    /// The check before sending failed; the request was not sent. Decide again.
    Withdrawn,
    /// Permissions are missing.
    Forbidden,
    /// The credentials are wrong or have expired.
    Unauthorized,
    /// The request is invalid; a retry does not help.
    Invalid,
    /// No connection: the request was not sent.
    Unreachable,
    /// The server failed, or the response was lost. The request may have been executed.
    Transient,
    /// The response could not be decoded.
    Undecodable,
}

impl ErrorClass {
    /// Returns whether the same request may succeed later without a change to it.
    #[allow(clippy::match_same_arms, reason = "grouped by kind, so that a new class finds its row")]
    pub fn passes(self) -> bool {
        match self {
            // Permissions and credentials are fixed externally, often within minutes after a rollout.
            Self::Forbidden | Self::Unauthorized | Self::Throttled { .. } => true,
            Self::Dropped | Self::Unreachable | Self::Transient => true,
            Self::Conflict | Self::AlreadyExists | Self::NotFound | Self::Gone => false,
            Self::Invalid | Self::Undecodable | Self::Withdrawn => false,
        }
    }

    /// Returns whether a write that failed with this class may have been executed.
    pub fn effect(self) -> Effect {
        match self {
            Self::Transient | Self::Undecodable => Effect::Unknown,
            _ => Effect::None,
        }
    }

    /// Returns a word for metric labels and logs.
    pub fn word(self) -> &'static str {
        match self {
            Self::Conflict => "conflict",
            Self::AlreadyExists => "already_exists",
            Self::NotFound => "not_found",
            Self::Gone => "gone",
            Self::Throttled { .. } => "throttled",
            Self::Dropped => "dropped",
            Self::Withdrawn => "withdrawn",
            Self::Forbidden => "forbidden",
            Self::Unauthorized => "unauthorized",
            Self::Invalid => "invalid",
            Self::Unreachable => "unreachable",
            Self::Transient => "transient",
            Self::Undecodable => "undecodable",
        }
    }
}

/// A classified API error with a sentence for users. The sentence never contains the content of a Secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiError {
    /// How to handle it.
    pub class: ErrorClass,
    sentence: String,
}

impl ApiError {
    /// Classifies an error.
    pub fn of(error: &kube::Error) -> Self {
        if let Some(failure) = Failure::within(error) {
            return Self::of_failure(failure);
        }
        match error {
            kube::Error::Api(status) => Self::of_status(status),
            kube::Error::SerdeError(why) => {
                // The position and the kind of error only: the text around it may be the content of a Secret.
                let what = format!(
                    "failed to decode the response of the API server (line {}, column {})",
                    why.line(),
                    why.column()
                );
                Self { class: ErrorClass::Undecodable, sentence: what }
            }
            kube::Error::FromUtf8(_) | kube::Error::LinesCodecMaxLineLengthExceeded => Self {
                class: ErrorClass::Undecodable,
                sentence: "the response of the API server is not UTF-8 text".to_owned(),
            },
            kube::Error::BuildRequest(why) => {
                Self { class: ErrorClass::Invalid, sentence: format!("failed to build the request: {why}") }
            }
            kube::Error::HttpError(why) => {
                Self { class: ErrorClass::Invalid, sentence: format!("failed to build the request: {why}") }
            }
            other => match credentials_error(other) {
                Some(why) => Self {
                    class: ErrorClass::Unauthorized,
                    sentence: format!("no credentials for the API server: {}", without_output(why)),
                },
                None => Self {
                    class: ErrorClass::Transient,
                    sentence: format!("the connection to the API server failed: {}", innermost(other)),
                },
            },
        }
    }

    fn of_failure(failure: &Failure) -> Self {
        let class = match failure {
            Failure::Dial(_) | Failure::Unsent { .. } => ErrorClass::Unreachable,
            Failure::BucketEmpty => ErrorClass::Dropped,
            Failure::Withdrawn => ErrorClass::Withdrawn,
            Failure::NotLeading { .. } | Failure::Lost(_) | Failure::Deadline { .. } => ErrorClass::Transient,
        };
        let sentence = match failure {
            Failure::Dial(why) => why.sentence(),
            Failure::Unsent { .. } | Failure::Lost(_) => {
                format!("the connection to the API server was lost: {}", innermost(failure))
            }
            Failure::Deadline { after } => {
                format!("the API server did not send a complete response within {}", readable(*after))
            }
            Failure::NotLeading { why, .. } => why.to_string(),
            Failure::BucketEmpty => "dropped by the rate limit of this client".to_owned(),
            Failure::Withdrawn => failure.to_string(),
        };
        Self { class, sentence }
    }

    /// Classifies the status object of an error response.
    pub fn of_status(status: &Status) -> Self {
        let class = class_of(status);
        let said = match (status.message.trim(), status.reason.as_str()) {
            ("", "") => "no reason given",
            ("", reason) => reason,
            (message, _) => message,
        };
        let code = status.code;
        let sentence = match class {
            ErrorClass::Conflict => format!("conflict: the object was modified since it was read: {said}"),
            ErrorClass::AlreadyExists => format!("the object already exists: {said}"),
            ErrorClass::NotFound => format!("not found: {said}"),
            ErrorClass::Gone => format!("the resourceVersion or continue token has expired: {said}"),
            ErrorClass::Throttled { after: Some(after) } => {
                format!("throttled by the API server, retry after {}: {said}", readable(after))
            }
            ErrorClass::Throttled { after: None } => format!("throttled by the API server: {said}"),
            ErrorClass::Forbidden => format!("forbidden by the API server (403): {said}"),
            ErrorClass::Unauthorized => {
                format!("the API server rejected the credentials (401), the token may have expired: {said}")
            }
            ErrorClass::Invalid => format!("the API server rejected the request ({code}): {said}"),
            _ => format!("the API server failed ({code}): {said}"),
        };
        Self { class, sentence }
    }
}

fn class_of(status: &Status) -> ErrorClass {
    // The reason comes first, because it is part of the API contract; a status inside a watch may have no code.
    match status.reason.as_str() {
        "AlreadyExists" => return ErrorClass::AlreadyExists,
        "Conflict" => return ErrorClass::Conflict,
        "NotFound" => return ErrorClass::NotFound,
        "Gone" | "Expired" => return ErrorClass::Gone,
        "Forbidden" => return ErrorClass::Forbidden,
        "Unauthorized" => return ErrorClass::Unauthorized,
        "Invalid" | "BadRequest" => return ErrorClass::Invalid,
        "TooManyRequests" => return ErrorClass::Throttled { after: retry_after(status) },
        "InternalError" | "ServiceUnavailable" | "Timeout" | "ServerTimeout" if retry_after(status).is_none() => {
            return ErrorClass::Transient;
        }
        _ => {}
    }
    match status.code {
        401 => ErrorClass::Unauthorized,
        403 => ErrorClass::Forbidden,
        404 => ErrorClass::NotFound,
        409 => ErrorClass::Conflict,
        410 => ErrorClass::Gone,
        429 => ErrorClass::Throttled { after: retry_after(status) },
        503 | 504 if retry_after(status).is_some() => ErrorClass::Throttled { after: retry_after(status) },
        400..500 => ErrorClass::Invalid,
        _ => ErrorClass::Transient,
    }
}

fn retry_after(status: &Status) -> Option<Duration> {
    let seconds = status.details.as_ref()?.retry_after_seconds;
    (seconds > 0).then(|| Duration::from_secs(u64::from(seconds)))
}

fn credentials_error(error: &kube::Error) -> Option<&AuthError> {
    match error {
        kube::Error::Auth(why) => Some(why),
        kube::Error::Service(why) => why.downcast_ref(),
        _ => None,
    }
}

/// Describes a credential error without the output of a plugin, which may contain tokens.
pub(crate) fn without_output(error: &AuthError) -> String {
    match error {
        AuthError::AuthExecStart(why) => format!("the exec plugin failed to start ({why})"),
        AuthError::AuthExecRun { out, .. } => format!("the exec plugin failed ({})", out.status),
        AuthError::AuthExecParse(_) => "the exec plugin printed no valid credential".to_owned(),
        AuthError::InvalidBasicAuth(_) => {
            "the user name or password contains characters that are not valid in a header".to_owned()
        }
        AuthError::InvalidBearerToken(_) => "the token contains characters that are not valid in a header".to_owned(),
        other => other.to_string(),
    }
}

/// Returns the root cause of a chain of errors, without the layers that wrap it.
pub(crate) fn innermost(error: &(dyn std::error::Error + 'static)) -> String {
    let mut last = error;
    while let Some(deeper) = last.source() {
        last = deeper;
    }
    last.to_string()
}

/// Returns a duration in a readable form.
pub(crate) fn readable(duration: Duration) -> String {
    let seconds = duration.as_secs_f64();
    if seconds < 1.0 { format!("{} ms", duration.as_millis()) } else { format!("{seconds} s") }
}

impl fmt::Display for ApiError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.sentence)
    }
}

impl std::error::Error for ApiError {}

impl From<&kube::Error> for ApiError {
    fn from(error: &kube::Error) -> Self {
        Self::of(error)
    }
}

impl From<kube::Error> for ApiError {
    fn from(error: kube::Error) -> Self {
        Self::of(&error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kube::core::response::StatusDetails;
    use rstest::rstest;

    fn api(code: u16, reason: &str) -> kube::Error {
        kube::Error::Api(Status::failure("said the server", reason).with_code(code).boxed())
    }

    /// Shows CLI-8, MC-W36.
    #[rstest]
    #[case(409, "Conflict", ErrorClass::Conflict)]
    #[case(409, "AlreadyExists", ErrorClass::AlreadyExists)]
    #[case(404, "NotFound", ErrorClass::NotFound)]
    #[case(404, "Failed to parse error data", ErrorClass::NotFound)]
    #[case(410, "Expired", ErrorClass::Gone)]
    #[case(410, "Gone", ErrorClass::Gone)]
    #[case(0, "Expired", ErrorClass::Gone)]
    #[case(429, "TooManyRequests", ErrorClass::Throttled { after: None })]
    #[case(403, "Forbidden", ErrorClass::Forbidden)]
    #[case(401, "Unauthorized", ErrorClass::Unauthorized)]
    #[case(422, "Invalid", ErrorClass::Invalid)]
    #[case(400, "BadRequest", ErrorClass::Invalid)]
    #[case(415, "UnsupportedMediaType", ErrorClass::Invalid)]
    #[case(500, "InternalError", ErrorClass::Transient)]
    #[case(504, "Timeout", ErrorClass::Transient)]
    #[case(503, "", ErrorClass::Transient)]
    fn a_status_has_its_class(#[case] code: u16, #[case] reason: &str, #[case] class: ErrorClass) {
        let api_error = ApiError::of(&api(code, reason));
        assert_eq!(api_error.class, class);
        assert!(api_error.to_string().ends_with("said the server"), "{api_error}");
    }

    /// Shows CLI-8.
    #[rstest]
    #[case(429, "TooManyRequests")]
    #[case(503, "ServiceUnavailable")]
    fn the_servers_wish_to_wait_is_kept(#[case] code: u16, #[case] reason: &str) {
        let details: StatusDetails = serde_json::from_str(r#"{"retryAfterSeconds":10}"#).unwrap();
        let status = Status::failure("budget", reason).with_code(code).with_details(details);
        let api_error = ApiError::of_status(&status);
        assert_eq!(api_error.class, ErrorClass::Throttled { after: Some(Duration::from_secs(10)) });
        assert_eq!(api_error.to_string(), "throttled by the API server, retry after 10 s: budget");
    }

    /// Shows API-17.
    #[test]
    fn an_answer_that_cannot_be_read_is_not_quoted() {
        let wrong = serde_json::from_str::<u8>("\"hunter2\"").unwrap_err();
        let api_error = ApiError::of(&kube::Error::SerdeError(wrong));
        assert_eq!(api_error.class, ErrorClass::Undecodable);
        assert!(!api_error.to_string().contains("hunter2"), "{api_error}");
    }

    /// Shows CLI-7.
    #[test]
    fn a_write_without_an_answer_may_have_happened() {
        let failure = Failure::Deadline { after: Duration::from_secs(30) };
        let api_error = ApiError::of(&kube::Error::Service(Box::new(failure)));
        assert_eq!(api_error.class.effect(), Effect::Unknown);
        assert_eq!(api_error.to_string(), "the API server did not send a complete response within 30 s");
    }

    #[test]
    fn our_own_rate_limit_is_not_mistaken_for_the_servers() {
        let api_error = ApiError::of(&kube::Error::Service(Box::new(Failure::BucketEmpty)));
        assert_eq!(api_error.class, ErrorClass::Dropped);
    }
}

//! What an error of the API means for whoever asked: may it be tried again, when, and what should a person do?
//!
//! A controller must not look into status codes and transport errors at every call; it would treat the same answer
//! differently in two places. So each error is read once, here, into a [`RetryClass`] for the program and one sentence for
//! people. Two distinctions are easy to lose and expensive to miss: a 409 that says *already exists* is not one that says *your
//! copy is old*, and a write whose answer never came may have happened.

use std::fmt;
use std::time::Duration;

use kube::client::AuthError;
use kube::core::Status;

use super::failure::{Effect, Failure};

/// What may be done about a failed request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RetryClass {
    /// The object changed since it was read: read it again and decide again.
    Conflict,
    /// A create of something that is there.
    AlreadyExists,
    /// The object, or the whole kind, is not there.
    NotFound,
    /// The resourceVersion or continue token is too old: list again.
    Gone,
    /// The server, or an eviction guarded by a disruption budget, asks for patience.
    Throttled {
        /// For how long, if it said so.
        after: Option<Duration>,
    },
    /// Our own rate limit refused the request; it never left.
    Dropped,
    /// The check before sending failed; the request never left. Decide again.
    Withdrawn,
    /// Permissions are missing.
    Forbidden,
    /// The credentials are wrong or have expired.
    Unauthorized,
    /// The request itself is wrong; it will not get better by itself.
    Invalid,
    /// No connection: the request never left.
    Unreachable,
    /// The server failed, or the answer was lost. It may have been carried out.
    Transient,
    /// The answer came, and could not be read.
    Undecodable,
}

impl RetryClass {
    /// Whether the same request may succeed later without anyone changing it.
    #[allow(clippy::match_same_arms, reason = "grouped by kind, so that a new class finds its row")]
    pub fn passes(self) -> bool {
        match self {
            // Permissions and credentials are mended from outside, often within minutes of a roll-out.
            Self::Forbidden | Self::Unauthorized | Self::Throttled { .. } => true,
            Self::Dropped | Self::Unreachable | Self::Transient => true,
            Self::Conflict | Self::AlreadyExists | Self::NotFound | Self::Gone => false,
            Self::Invalid | Self::Undecodable | Self::Withdrawn => false,
        }
    }

    /// Whether a write that failed like this may have happened all the same.
    pub fn effect(self) -> Effect {
        match self {
            Self::Transient | Self::Undecodable => Effect::Unknown,
            _ => Effect::None,
        }
    }

    /// A word for metric labels and logs.
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

/// An error of the API, read: its class and one sentence for people. The sentence never holds what a Secret holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiError {
    /// What may be done about it.
    pub class: RetryClass,
    sentence: String,
}

impl ApiError {
    /// Reads an error.
    pub fn of(error: &kube::Error) -> Self {
        if let Some(failure) = Failure::within(error) {
            return Self::of_failure(failure);
        }
        match error {
            kube::Error::Api(status) => Self::of_status(status),
            kube::Error::SerdeError(why) => {
                // The position and the kind of mistake, not the text around it: it may be a Secret's.
                let what = format!(
                    "could not read the answer of the API server (line {}, column {})",
                    why.line(),
                    why.column()
                );
                Self { class: RetryClass::Undecodable, sentence: what }
            }
            kube::Error::FromUtf8(_) | kube::Error::LinesCodecMaxLineLengthExceeded => {
                Self { class: RetryClass::Undecodable, sentence: "the answer of the API server is not text".to_owned() }
            }
            kube::Error::BuildRequest(why) => {
                Self { class: RetryClass::Invalid, sentence: format!("the request could not be built: {why}") }
            }
            kube::Error::HttpError(why) => {
                Self { class: RetryClass::Invalid, sentence: format!("the request could not be built: {why}") }
            }
            other => match credentials_error(other) {
                Some(why) => Self {
                    class: RetryClass::Unauthorized,
                    sentence: format!("no credentials for the API server: {}", without_output(why)),
                },
                None => Self {
                    class: RetryClass::Transient,
                    sentence: format!("the connection to the API server failed: {}", innermost(other)),
                },
            },
        }
    }

    fn of_failure(failure: &Failure) -> Self {
        let class = match failure {
            Failure::Dial(_) | Failure::Unsent { .. } => RetryClass::Unreachable,
            Failure::BucketEmpty => RetryClass::Dropped,
            Failure::Withdrawn => RetryClass::Withdrawn,
            Failure::NotLeading { .. } | Failure::Lost(_) | Failure::Deadline { .. } => RetryClass::Transient,
        };
        let sentence = match failure {
            Failure::Dial(why) => why.sentence(),
            Failure::Unsent { .. } | Failure::Lost(_) => {
                format!("the connection to the API server was lost: {}", innermost(failure))
            }
            Failure::Deadline { after } => {
                format!("the API server did not answer completely within {}", readable(*after))
            }
            Failure::NotLeading { why, .. } => why.to_string(),
            Failure::BucketEmpty => "dropped by the rate limit of this client".to_owned(),
            Failure::Withdrawn => failure.to_string(),
        };
        Self { class, sentence }
    }

    /// Reads the status object that the API server answers errors with.
    pub fn of_status(status: &Status) -> Self {
        let class = class_of(status);
        let said = match (status.message.trim(), status.reason.as_str()) {
            ("", "") => "it gave no reason",
            ("", reason) => reason,
            (message, _) => message,
        };
        let code = status.code;
        let sentence = match class {
            RetryClass::Conflict => format!("somebody else changed the object first: {said}"),
            RetryClass::AlreadyExists => format!("the object exists already: {said}"),
            RetryClass::NotFound => format!("the API server does not have it: {said}"),
            RetryClass::Gone => format!("our place in the history is too old: {said}"),
            RetryClass::Throttled { after: Some(after) } => {
                format!("the API server asks to wait {}: {said}", readable(after))
            }
            RetryClass::Throttled { after: None } => format!("the API server asks to wait: {said}"),
            RetryClass::Forbidden => format!("the API server does not allow it (403): {said}"),
            RetryClass::Unauthorized => {
                format!("the API server does not accept our credentials (401), the token may have expired: {said}")
            }
            RetryClass::Invalid => format!("the API server rejects the request ({code}): {said}"),
            _ => format!("the API server failed ({code}): {said}"),
        };
        Self { class, sentence }
    }
}

fn class_of(status: &Status) -> RetryClass {
    // The reason comes first: it is what the API promises, and a status inside a watch may come without a code.
    match status.reason.as_str() {
        "AlreadyExists" => return RetryClass::AlreadyExists,
        "Conflict" => return RetryClass::Conflict,
        "NotFound" => return RetryClass::NotFound,
        "Gone" | "Expired" => return RetryClass::Gone,
        "Forbidden" => return RetryClass::Forbidden,
        "Unauthorized" => return RetryClass::Unauthorized,
        "Invalid" | "BadRequest" => return RetryClass::Invalid,
        "TooManyRequests" => return RetryClass::Throttled { after: patience(status) },
        "InternalError" | "ServiceUnavailable" | "Timeout" | "ServerTimeout" if patience(status).is_none() => {
            return RetryClass::Transient;
        }
        _ => {}
    }
    match status.code {
        401 => RetryClass::Unauthorized,
        403 => RetryClass::Forbidden,
        404 => RetryClass::NotFound,
        409 => RetryClass::Conflict,
        410 => RetryClass::Gone,
        429 => RetryClass::Throttled { after: patience(status) },
        503 | 504 if patience(status).is_some() => RetryClass::Throttled { after: patience(status) },
        400..500 => RetryClass::Invalid,
        _ => RetryClass::Transient,
    }
}

fn patience(status: &Status) -> Option<Duration> {
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

/// What went wrong with credentials, without what a plugin printed: it prints tokens.
pub(crate) fn without_output(error: &AuthError) -> String {
    match error {
        AuthError::AuthExecStart(why) => format!("the exec plugin cannot be started ({why})"),
        AuthError::AuthExecRun { out, .. } => format!("the exec plugin failed ({})", out.status),
        AuthError::AuthExecParse(_) => "the exec plugin printed something that is no credential".to_owned(),
        AuthError::InvalidBasicAuth(_) => "user name or password cannot be put into a header".to_owned(),
        AuthError::InvalidBearerToken(_) => "the token cannot be put into a header".to_owned(),
        other => other.to_string(),
    }
}

/// The cause at the bottom of a chain of errors: what a person needs, without the layers that passed it on.
pub(crate) fn innermost(error: &(dyn std::error::Error + 'static)) -> String {
    let mut last = error;
    while let Some(deeper) = last.source() {
        last = deeper;
    }
    last.to_string()
}

/// A duration as people write it.
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

    #[rstest]
    #[case(409, "Conflict", RetryClass::Conflict)]
    #[case(409, "AlreadyExists", RetryClass::AlreadyExists)]
    #[case(404, "NotFound", RetryClass::NotFound)]
    #[case(404, "Failed to parse error data", RetryClass::NotFound)]
    #[case(410, "Expired", RetryClass::Gone)]
    #[case(410, "Gone", RetryClass::Gone)]
    #[case(0, "Expired", RetryClass::Gone)]
    #[case(429, "TooManyRequests", RetryClass::Throttled { after: None })]
    #[case(403, "Forbidden", RetryClass::Forbidden)]
    #[case(401, "Unauthorized", RetryClass::Unauthorized)]
    #[case(422, "Invalid", RetryClass::Invalid)]
    #[case(400, "BadRequest", RetryClass::Invalid)]
    #[case(415, "UnsupportedMediaType", RetryClass::Invalid)]
    #[case(500, "InternalError", RetryClass::Transient)]
    #[case(504, "Timeout", RetryClass::Transient)]
    #[case(503, "", RetryClass::Transient)]
    fn a_status_has_its_class(#[case] code: u16, #[case] reason: &str, #[case] class: RetryClass) {
        let api_error = ApiError::of(&api(code, reason));
        assert_eq!(api_error.class, class);
        assert!(api_error.to_string().ends_with("said the server"), "{api_error}");
    }

    #[rstest]
    #[case(429, "TooManyRequests")]
    #[case(503, "ServiceUnavailable")]
    fn the_servers_wish_to_wait_is_kept(#[case] code: u16, #[case] reason: &str) {
        let details: StatusDetails = serde_json::from_str(r#"{"retryAfterSeconds":10}"#).unwrap();
        let status = Status::failure("budget", reason).with_code(code).with_details(details);
        let api_error = ApiError::of_status(&status);
        assert_eq!(api_error.class, RetryClass::Throttled { after: Some(Duration::from_secs(10)) });
        assert_eq!(api_error.to_string(), "the API server asks to wait 10 s: budget");
    }

    #[test]
    fn an_answer_that_cannot_be_read_is_not_quoted() {
        let wrong = serde_json::from_str::<u8>("\"hunter2\"").unwrap_err();
        let api_error = ApiError::of(&kube::Error::SerdeError(wrong));
        assert_eq!(api_error.class, RetryClass::Undecodable);
        assert!(!api_error.to_string().contains("hunter2"), "{api_error}");
    }

    #[test]
    fn a_write_without_an_answer_may_have_happened() {
        let failure = Failure::Deadline { after: Duration::from_secs(30) };
        let api_error = ApiError::of(&kube::Error::Service(Box::new(failure)));
        assert_eq!(api_error.class.effect(), Effect::Unknown);
        assert_eq!(api_error.to_string(), "the API server did not answer completely within 30 s");
    }

    #[test]
    fn our_own_rate_limit_is_not_mistaken_for_the_servers() {
        let api_error = ApiError::of(&kube::Error::Service(Box::new(Failure::BucketEmpty)));
        assert_eq!(api_error.class, RetryClass::Dropped);
    }
}

//! Failures of a request before a complete response.
//!
//! kube wraps transport errors in a boxed error, which does not show whether the request was sent. This is essential
//! for a write, so each variant contains that information.

use std::sync::Arc;
use std::time::Duration;

use super::dial::DialError;
use crate::lease::NotLeading;

/// A request without a complete response.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// No connection could be opened. Requests that waited for the same connection share the cause.
    #[error("failed to open a connection to the API server")]
    Dial(#[source] Arc<DialError>),
    /// Several connections were closed before the request could be written.
    #[error("failed to send the request: the API server closed {attempts} connections in a row")]
    Unsent {
        /// Number of connections that were tried.
        attempts: u32,
        /// The error of the last one, unless it was closed before.
        #[source]
        source: Option<hyper::Error>,
    },
    /// The connection was closed after the request was written.
    #[error("failed to receive the response: the connection was lost")]
    Lost(#[source] hyper::Error),
    /// The response was not complete in time.
    #[error("failed to receive a complete response within {}", super::api_error::readable(*after))]
    Deadline {
        /// Timeout of the call.
        after: Duration,
    },
    /// The process that this client writes for is not the leader (any more).
    #[error("failed to send the request: {why}")]
    NotLeading {
        /// The reason.
        why: NotLeading,
        /// Whether the request was already sent when the leadership ended.
        effect: Effect,
    },
    /// The rate limit of this client is exhausted, and the client rejects requests instead of waiting.
    #[error("failed to send the request: the rate limit of this client is exhausted")]
    BucketEmpty,
    /// The request's [`SendCheck`](super::SendCheck) failed after the request had waited for the rate limit.
    #[error("did not send the request: the decision is no longer valid")]
    Withdrawn,
}

/// Whether a request that failed may still have had an effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// The API server did not receive it.
    None,
    /// Unknown: read before writing again.
    Unknown,
}

impl Failure {
    /// Returns whether the API server may have executed the request.
    pub fn effect(&self) -> Effect {
        match self {
            Self::Dial(_) | Self::Unsent { .. } | Self::BucketEmpty | Self::Withdrawn => Effect::None,
            Self::NotLeading { effect, .. } => *effect,
            Self::Lost(_) | Self::Deadline { .. } => Effect::Unknown,
        }
    }

    /// Returns the failure inside an error of kube, at any depth.
    pub fn within<'a>(error: &'a (dyn std::error::Error + 'static)) -> Option<&'a Self> {
        let mut next = Some(error);
        while let Some(error) = next {
            if let Some(failure) = error.downcast_ref::<Self>() {
                return Some(failure);
            }
            // An io::Error that wraps another error does not include it in its chain of sources, but provides it here.
            next = match error.downcast_ref::<std::io::Error>().and_then(std::io::Error::get_ref) {
                Some(wrapped) => Some(wrapped as &(dyn std::error::Error + 'static)),
                None => error.source(),
            };
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_is_found_in_a_broken_watch() {
        let lost = Failure::Deadline { after: Duration::from_secs(1) };
        let in_body = kube::Error::Service(Box::new(lost));
        let in_watch = kube::Error::ReadEvents(std::io::Error::other(in_body));
        assert!(matches!(Failure::within(&in_watch), Some(Failure::Deadline { .. })));
    }

    /// Shows CLI-7.
    #[test]
    fn a_request_that_never_left_had_no_effect() {
        assert_eq!(Failure::BucketEmpty.effect(), Effect::None);
        assert_eq!(Failure::Deadline { after: Duration::from_secs(1) }.effect(), Effect::Unknown);
    }
}

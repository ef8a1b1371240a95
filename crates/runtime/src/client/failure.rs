//! What can go wrong with a request before the API server has answered it.
//!
//! These are our own words for it: kube wraps whatever its transport says in a box, and a box cannot be asked whether the
//! request ever left this process. That is the one question that matters for a write, so each variant knows the answer.

use std::sync::Arc;
use std::time::Duration;

use super::dial::DialError;
use crate::lease::NotLeading;

/// A request that got no complete answer.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// No connection could be opened. Requests that waited for the same connection share the cause.
    #[error("failed to open a connection to the API server")]
    Dial(#[source] Arc<DialError>),
    /// Connections closed again and again before the request could be written.
    #[error("failed to send the request: the API server closed {attempts} connections in a row")]
    Unsent {
        /// How many connections were tried.
        attempts: u32,
        /// Why the last one refused it, unless it was gone before it could.
        #[source]
        source: Option<hyper::Error>,
    },
    /// The connection broke after the request was written.
    #[error("failed to receive an answer: the connection was lost")]
    Lost(#[source] hyper::Error),
    /// The answer was not complete in time.
    #[error("failed to receive a complete answer within {}", super::api_error::readable(*after))]
    Deadline {
        /// How long the call was allowed to take.
        after: Duration,
    },
    /// Whoever this client writes for no longer leads, or never did.
    #[error("failed to send the request: {why}")]
    NotLeading {
        /// Why not.
        why: NotLeading,
        /// Whether it had been sent when the right ended.
        effect: Effect,
    },
    /// The client's own rate limit is used up, and this client drops rather than waits.
    #[error("failed to send the request: the rate limit of this client is used up")]
    BucketEmpty,
    /// The request's [`SendCheck`](super::SendCheck) failed after the request had waited for the rate limit.
    #[error("did not send the request: the decision behind it no longer holds")]
    Withdrawn,
}

/// Whether a request that failed may still have had an effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// The API server never saw it.
    None,
    /// Nobody knows: read before writing again.
    Unknown,
}

impl Failure {
    /// Whether the API server may have acted on the request.
    pub fn effect(&self) -> Effect {
        match self {
            Self::Dial(_) | Self::Unsent { .. } | Self::BucketEmpty | Self::Withdrawn => Effect::None,
            Self::NotLeading { effect, .. } => *effect,
            Self::Lost(_) | Self::Deadline { .. } => Effect::Unknown,
        }
    }

    /// The failure inside an error of kube's, however deep it was wrapped on its way.
    pub fn within<'a>(error: &'a (dyn std::error::Error + 'static)) -> Option<&'a Self> {
        let mut next = Some(error);
        while let Some(error) = next {
            if let Some(failure) = error.downcast_ref::<Self>() {
                return Some(failure);
            }
            // An io::Error that wraps another one leaves it out of its chain of sources and offers it here instead.
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

    #[test]
    fn a_request_that_never_left_had_no_effect() {
        assert_eq!(Failure::BucketEmpty.effect(), Effect::None);
        assert_eq!(Failure::Deadline { after: Duration::from_secs(1) }.effect(), Effect::Unknown);
    }
}

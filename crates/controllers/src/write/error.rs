//! Errors of writes, and when they are retried.

use std::fmt;

use runtime::client::{ApiError, Effect, ErrorClass};
use runtime::lease::NotLeading;
use runtime::queue::Outcome;

use crate::decision::Ending;
use crate::outcome::after_error;

/// Why a step failed. The remaining steps of the plan are not carried out.
#[derive(Debug, thiserror::Error)]
pub(crate) enum WriteError {
    /// Nothing was sent.
    #[error("{0}")]
    NotLeading(#[from] NotLeading),
    /// Nothing was sent, because the cache shows a newer version of the object.
    #[error("did not {step}: the object has changed since the decision")]
    Stale { step: String },
    /// A read before a step that cannot be undone has shown that the object is deleted.
    #[error("the {0} is deleted or being deleted, and the cache did not show it yet")]
    Deleted(&'static str),
    #[error("failed to {step}: {api_error}")]
    Api {
        step: String,
        api_error: ApiError,
        /// Message of the API server, if there is one.
        message: String,
    },
    #[error("failed to {step}: the API server accepted the write, but did not change the object")]
    NothingChanged { step: String },
    #[error("a step requires {0}, which does not exist")]
    Missing(&'static str),
}

impl WriteError {
    pub(crate) fn of(step: &dyn fmt::Display, error: &kube::Error) -> Self {
        let api_error = ApiError::of(error);
        let message = match error {
            kube::Error::Api(status) => status.message.clone(),
            _ => api_error.to_string(),
        };
        Self::Api { step: step.to_string(), api_error, message }
    }

    /// Creates the error of a read.
    pub(crate) fn of_read(step: &dyn fmt::Display, api_error: ApiError) -> Self {
        Self::Api { step: step.to_string(), message: api_error.to_string(), api_error }
    }

    /// Returns whether the object has changed since the decision.
    pub(crate) fn is_stale(&self) -> bool {
        match self {
            Self::Stale { .. } => true,
            Self::Api { api_error, .. } => matches!(api_error.class, ErrorClass::Conflict | ErrorClass::Withdrawn),
            Self::NotLeading(_) | Self::Deleted(_) | Self::NothingChanged { .. } | Self::Missing(_) => false,
        }
    }

    /// Returns whether the object does not exist any more.
    pub(crate) fn is_gone(&self) -> bool {
        match self {
            Self::Deleted(_) => true,
            Self::Api { api_error, .. } => api_error.class == ErrorClass::NotFound,
            Self::NotLeading(_) | Self::Stale { .. } | Self::NothingChanged { .. } | Self::Missing(_) => false,
        }
    }

    /// Returns when the key is reconciled again: with the backoff of the queue, and not before a time that the API server named.
    pub(crate) fn outcome(&self) -> Outcome {
        self.api_error().map_or(Outcome::Failed, after_error)
    }

    /// Returns the result of the decision that contained the step.
    pub(crate) fn ending(&self) -> Ending {
        match self {
            Self::NotLeading(_) | Self::Stale { .. } | Self::Deleted(_) => Ending::Postponed(self.to_string()),
            Self::Api { api_error, .. } => Ending::of_error(api_error, self.to_string()),
            Self::NothingChanged { .. } | Self::Missing(_) => Ending::Failed(self.to_string()),
        }
    }

    /// Returns whether the API server may have another version of the object than the cache: the write may have succeeded, or another
    /// client has written.
    pub(crate) fn is_uncertain(&self) -> bool {
        match self {
            Self::Api { api_error, .. } => {
                api_error.class == ErrorClass::Conflict || api_error.class.effect() == Effect::Unknown
            }
            _ => false,
        }
    }

    /// Returns the error of the API server.
    pub(crate) fn api_error(&self) -> Option<&ApiError> {
        match self {
            Self::Api { api_error, .. } => Some(api_error),
            _ => None,
        }
    }
}

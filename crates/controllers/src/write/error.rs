//! Why a write did not go through, and how it is tried again.

use std::fmt;

use runtime::client::{ApiError, Effect, RetryClass};
use runtime::lease::NotLeading;
use runtime::queue::Outcome;

use crate::decision::Ending;
use crate::requests::again_after;

/// Why a step, and the rest of the plan after it, was not carried out.
#[derive(Debug, thiserror::Error)]
pub(crate) enum WriteError {
    /// Nothing was sent.
    #[error("{0}")]
    NotLeading(#[from] NotLeading),
    /// Nothing was sent, because somebody of us was faster.
    #[error("did not {step}: what it was decided on has changed since")]
    Stale { step: String },
    /// The API server was asked before something that cannot be undone.
    #[error("the {0} is gone or going, which the cache had not shown yet")]
    NoLonger(&'static str),
    #[error("failed to {step}: {api_error}")]
    Api {
        step: String,
        api_error: ApiError,
        /// The API server's own words, where it found any.
        said: String,
    },
    #[error("the write to {step} changed nothing, so the API server does not keep what we write")]
    NothingChanged { step: String },
    #[error("a step needs {0}, which is not there")]
    Missing(&'static str),
}

/// How a write that did not go through is tried again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Retry {
    /// The object is not what was decided on: decide again, on what there is now.
    Stale,
    /// The object is gone.
    Gone,
    /// It never left, the API server asked for patience, or nobody knows what came of it: the same again.
    Transient,
    /// The API server does not want it: the same again, though somebody has to change something first.
    Refused,
    /// By whoever leads.
    NotLeading,
}

impl WriteError {
    pub(crate) fn of(step: &dyn fmt::Display, error: &kube::Error) -> Self {
        let api_error = ApiError::of(error);
        let said = match error {
            kube::Error::Api(status) => status.message.clone(),
            _ => api_error.to_string(),
        };
        Self::Api { step: step.to_string(), api_error, said }
    }

    /// A request that was not a write and is read already.
    pub(crate) fn answered(step: &dyn fmt::Display, api_error: ApiError) -> Self {
        Self::Api { step: step.to_string(), said: api_error.to_string(), api_error }
    }

    /// How it is tried again.
    pub(crate) fn retry(&self) -> Retry {
        match self {
            Self::NotLeading(_) => Retry::NotLeading,
            Self::Stale { .. } => Retry::Stale,
            Self::NoLonger(_) => Retry::Gone,
            Self::NothingChanged { .. } | Self::Missing(_) => Retry::Refused,
            Self::Api { api_error, .. } => match api_error.class {
                RetryClass::Conflict | RetryClass::Withdrawn => Retry::Stale,
                RetryClass::NotFound => Retry::Gone,
                RetryClass::Throttled { .. }
                | RetryClass::Dropped
                | RetryClass::Unreachable
                | RetryClass::Transient
                | RetryClass::Undecodable => Retry::Transient,
                RetryClass::AlreadyExists
                | RetryClass::Gone
                | RetryClass::Forbidden
                | RetryClass::Unauthorized
                | RetryClass::Invalid => Retry::Refused,
            },
        }
    }

    /// When the key comes back: after the queue's own growing pause, and not before the server's word where it gave one.
    pub(crate) fn outcome(&self) -> Outcome {
        self.api_error().map_or(Outcome::Failed, again_after)
    }

    /// What is told of it.
    pub(crate) fn ending(&self) -> Ending {
        match self {
            Self::NotLeading(_) | Self::Stale { .. } | Self::NoLonger(_) => Ending::Postponed(self.to_string()),
            Self::Api { api_error, .. } => Ending::refused(api_error, self.to_string()),
            Self::NothingChanged { .. } | Self::Missing(_) => Ending::Failed(self.to_string()),
        }
    }

    /// Whether the API server may hold something else than our cache shows: the write may have gone through, or another program was
    /// faster.
    pub(crate) fn leaves_doubt(&self) -> bool {
        match self {
            Self::Api { api_error, .. } => {
                api_error.class == RetryClass::Conflict || api_error.class.effect() == Effect::Unknown
            }
            _ => false,
        }
    }

    /// What the API server said against it, for those who go on without it.
    pub(crate) fn api_error(&self) -> Option<&ApiError> {
        match self {
            Self::Api { api_error, .. } => Some(api_error),
            _ => None,
        }
    }
}

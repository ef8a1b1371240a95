//! Results of decisions.

use std::fmt;

use api::texts::bounded;
use runtime::client::{ApiError, ErrorClass};

/// Result of the steps of a decision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ending {
    /// All steps were carried out.
    Done,
    /// All steps were carried out. The last one, a driver call, is still in progress.
    InProgress,
    /// The steps were not carried out, without an error: the object has changed, or this process is not the leader.
    Postponed(String),
    /// A step failed. The next decision follows after a backoff.
    Failed(String),
}

impl Ending {
    /// Returns the result of a step that failed with an error of the API server.
    pub fn of_error(api_error: &ApiError, why: String) -> Self {
        match api_error.class {
            ErrorClass::Conflict => Self::Postponed(why),
            _ => Self::Failed(why),
        }
    }

    /// Limits the length of the text.
    pub(super) fn bounded(self) -> Self {
        match self {
            Self::Done | Self::InProgress => self,
            Self::Postponed(why) => Self::Postponed(bounded(why)),
            Self::Failed(why) => Self::Failed(bounded(why)),
        }
    }

    /// Returns whether a step was not carried out.
    pub fn is_open(&self) -> bool {
        matches!(self, Self::Postponed(_) | Self::Failed(_))
    }
}

impl fmt::Display for Ending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Done => "done",
            Self::InProgress => "in progress",
            Self::Postponed(why) | Self::Failed(why) => why,
        })
    }
}

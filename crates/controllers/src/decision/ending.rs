//! What came of a decision.

use std::fmt;

use api::descriptions::bounded;
use runtime::client::{ApiError, RetryClass};

/// How the steps of a decision went.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ending {
    /// Every one was taken.
    Done,
    /// Every one was taken, and the last, a call to the cloud, goes on by itself.
    UnderWay,
    /// Somebody else was faster, or we do not lead: nothing is wrong, and it is decided afresh.
    Postponed(String),
    /// One failed. It is decided afresh, after a pause.
    Failed(String),
}

impl Ending {
    /// The end of a step that the API server did not accept.
    pub fn refused(api_error: &ApiError, why: String) -> Self {
        match api_error.class {
            RetryClass::Conflict => Self::Postponed(why),
            _ => Self::Failed(why),
        }
    }

    /// The same, with a text that is not too long for a log line.
    pub(super) fn bounded(self) -> Self {
        match self {
            Self::Done | Self::UnderWay => self,
            Self::Postponed(why) => Self::Postponed(bounded(why)),
            Self::Failed(why) => Self::Failed(bounded(why)),
        }
    }

    /// Whether something was to be done that was not.
    pub fn is_open(&self) -> bool {
        matches!(self, Self::Postponed(_) | Self::Failed(_))
    }
}

impl fmt::Display for Ending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Done => "done",
            Self::UnderWay => "under way",
            Self::Postponed(why) | Self::Failed(why) => why,
        })
    }
}

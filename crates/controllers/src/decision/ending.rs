//! What came of a decision.

use std::fmt;

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

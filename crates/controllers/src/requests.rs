//! What the requests of all controllers have in common: what a refusal means for the key, and how loud a notice is.

use plan::EventType;
use runtime::client::{ApiError, RetryClass};
use runtime::events::Severity;
use runtime::queue::Outcome;

/// When to try again: at the server's word where it gave one, else after the queue's own growing pause.
pub(crate) fn again_after(api_error: &ApiError) -> Outcome {
    match api_error.class {
        RetryClass::Throttled { after: Some(after) } => Outcome::Again { after },
        _ => Outcome::Failed,
    }
}

/// How an Event says it.
pub(crate) fn severity(event_type: EventType) -> Severity {
    match event_type {
        EventType::Normal => Severity::Normal,
        EventType::Warning => Severity::Warning,
    }
}

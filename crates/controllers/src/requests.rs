//! What the requests of all controllers have in common: what a refusal means for the key.

use runtime::client::{ApiError, RetryClass};
use runtime::queue::Outcome;

/// When to try again: at the server's word where it gave one, else after the queue's own growing pause.
pub(crate) fn again_after(api_error: &ApiError) -> Outcome {
    match api_error.class {
        RetryClass::Throttled { after: Some(after) } => Outcome::Again { after },
        _ => Outcome::Failed,
    }
}

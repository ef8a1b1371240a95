//! What the requests of all controllers have in common: what a refusal means for the key.

use runtime::client::{ApiError, RetryClass};
use runtime::queue::Outcome;

/// When to try again: after the queue's own growing pause, and not before the server's word where it gave one. A server that says the same
/// word for minutes is asked less and less often.
pub(crate) fn again_after(api_error: &ApiError) -> Outcome {
    match api_error.class {
        RetryClass::Throttled { after: Some(at_least) } => Outcome::Throttled { at_least },
        _ => Outcome::Failed,
    }
}

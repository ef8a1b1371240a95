//! What the requests of all controllers have in common: what a refusal means for the key.

use std::time::Duration;

use runtime::client::{ApiError, RetryClass};
use runtime::queue::Outcome;

/// How long somebody takes to grant a permission, at the least. Without it, whatever else wakes the key and succeeds begins the growing
/// pause anew, at milliseconds.
const REFUSED: Duration = Duration::from_secs(5);

/// How long a server that failed or could not be reached is left alone, at the least, for the same reason: evictions that are answered
/// while the status of their machine cannot be written make it be written again and again.
const FAILED: Duration = Duration::from_secs(2);

/// When to try again: after the queue's own growing pause, and not before the server's word where it gave one. A server that says the same
/// word for minutes is asked less and less often.
pub(crate) fn again_after(api_error: &ApiError) -> Outcome {
    match api_error.class {
        RetryClass::Throttled { after: Some(at_least) } => Outcome::Throttled { at_least },
        RetryClass::Forbidden | RetryClass::Unauthorized => Outcome::Throttled { at_least: REFUSED },
        RetryClass::Unreachable | RetryClass::Transient => Outcome::Throttled { at_least: FAILED },
        _ => Outcome::Failed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    /// Shows QUE-10.
    #[rstest]
    #[case(403, Outcome::Throttled { at_least: Duration::from_secs(5) })]
    #[case(401, Outcome::Throttled { at_least: Duration::from_secs(5) })]
    #[case(500, Outcome::Throttled { at_least: Duration::from_secs(2) })]
    #[case(409, Outcome::Failed)]
    #[case(404, Outcome::Failed)]
    fn what_is_forbidden_or_has_failed_is_not_asked_again_at_once(#[case] code: u16, #[case] outcome: Outcome) {
        let error = kube::Error::Api(Box::new(kube::core::Status { code, ..kube::core::Status::default() }));
        assert_eq!(again_after(&ApiError::of(&error)), outcome);
    }
}

//! What the requests of all controllers have in common: what a refusal means for the key.

use std::time::Duration;

use runtime::client::{ApiError, RetryClass};
use runtime::queue::Outcome;

/// How long somebody takes to grant a permission, at the least. Without it, whatever else wakes the key and succeeds begins the growing
/// pause anew, at milliseconds.
const REFUSED: Duration = Duration::from_secs(5);

/// When to try again: after the queue's own growing pause, and not before the server's word where it gave one. A server that says the same
/// word for minutes is asked less and less often.
pub(crate) fn again_after(api_error: &ApiError) -> Outcome {
    match api_error.class {
        RetryClass::Throttled { after: Some(at_least) } => Outcome::Throttled { at_least },
        RetryClass::Forbidden | RetryClass::Unauthorized => Outcome::Throttled { at_least: REFUSED },
        _ => Outcome::Failed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    #[rstest]
    #[case(403, Outcome::Throttled { at_least: Duration::from_secs(5) })]
    #[case(401, Outcome::Throttled { at_least: Duration::from_secs(5) })]
    #[case(500, Outcome::Failed)]
    #[case(409, Outcome::Failed)]
    fn what_is_forbidden_is_not_asked_again_within_seconds(#[case] code: u16, #[case] outcome: Outcome) {
        let error = kube::Error::Api(Box::new(kube::core::Status { code, ..kube::core::Status::default() }));
        assert_eq!(again_after(&ApiError::of(&error)), outcome);
    }
}

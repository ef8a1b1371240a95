//! When a key is reconciled again: after a plan, and after an error of the API server.

use std::time::Duration;

use jiff::Timestamp;
use planner::{Policy, Wake};
use runtime::client::{ApiError, ErrorClass};
use runtime::queue::Outcome;

/// Minimum delay after a missing permission. Without it, other events that reconcile the key successfully would reset the backoff to
/// milliseconds.
const DENIED_DELAY: Duration = Duration::from_secs(5);

/// Minimum delay after a server error or without a connection, for the same reason: evictions that succeed while the status of their
/// Machine cannot be written would repeat the write again and again.
const FAILED_DELAY: Duration = Duration::from_secs(2);

/// Returns when a wake-up is due. A wake-up that is not in the future is delayed: a plan that waits for a time in the past would otherwise
/// requeue its key in a busy loop.
pub(crate) fn outcome(wake: Wake, policy: &Policy, now: Timestamp) -> Outcome {
    match wake {
        Wake::Again => Outcome::Again { after: Duration::ZERO },
        Wake::On(_) => Outcome::Done,
        Wake::By { at, .. } => {
            let after = Duration::try_from(at.duration_since(now)).unwrap_or_default();
            Outcome::Again { after: if after.is_zero() { policy.overdue_delay } else { after } }
        }
    }
}

/// Returns when to retry after an error of the API server: with the backoff of the queue, and not before a time that the server named.
pub(crate) fn after_error(api_error: &ApiError) -> Outcome {
    match api_error.class {
        ErrorClass::Throttled { after: Some(at_least) } => Outcome::Throttled { at_least },
        ErrorClass::Forbidden | ErrorClass::Unauthorized => Outcome::Throttled { at_least: DENIED_DELAY },
        ErrorClass::Unreachable | ErrorClass::Transient => Outcome::Throttled { at_least: FAILED_DELAY },
        _ => Outcome::Failed,
    }
}

/// Returns the retry with the longer delay.
pub(crate) fn slower(one: Outcome, other: Outcome) -> Outcome {
    let delay = |outcome| match outcome {
        Outcome::Throttled { at_least } => (2, at_least),
        Outcome::Failed => (1, Duration::ZERO),
        Outcome::Again { after } => (0, after),
        Outcome::Done | Outcome::At(_) => (0, Duration::ZERO),
    };
    if delay(other) > delay(one) { other } else { one }
}

#[cfg(test)]
mod tests {
    use planner::Awaited;
    use rstest::rstest;

    use super::*;

    /// Shows QUE-12.
    #[rstest]
    #[case::future(3, Duration::from_secs(3))]
    #[case::now(0, Duration::from_secs(1))]
    #[case::past(-600, Duration::from_secs(1))]
    fn wake_up_in_the_past_requeues_with_a_delay(#[case] seconds: i64, #[case] after: Duration) {
        let now = Timestamp::from_second(1_000_000).unwrap();
        let at = Timestamp::from_second(1_000_000 + seconds).unwrap();
        let wake = Wake::By { awaited: Awaited::DriverAnswer, at };
        assert_eq!(outcome(wake, &Policy::default(), now), Outcome::Again { after });
    }

    /// Shows QUE-10.
    #[rstest]
    #[case(403, Outcome::Throttled { at_least: Duration::from_secs(5) })]
    #[case(401, Outcome::Throttled { at_least: Duration::from_secs(5) })]
    #[case(500, Outcome::Throttled { at_least: Duration::from_secs(2) })]
    #[case(409, Outcome::Failed)]
    #[case(404, Outcome::Failed)]
    fn denied_or_failed_request_is_retried_after_a_delay(#[case] code: u16, #[case] outcome: Outcome) {
        let error = kube::Error::Api(Box::new(kube::core::Status { code, ..kube::core::Status::default() }));
        assert_eq!(after_error(&ApiError::of(&error)), outcome);
    }

    #[test]
    fn slower_returns_the_retry_with_the_longer_delay() {
        let (at_once, failed) = (Outcome::Again { after: Duration::ZERO }, Outcome::Failed);
        let throttled = |seconds| Outcome::Throttled { at_least: Duration::from_secs(seconds) };
        assert_eq!(slower(at_once, failed), failed);
        assert_eq!(slower(failed, at_once), failed);
        assert_eq!(slower(throttled(1), failed), throttled(1));
        assert_eq!(slower(throttled(1), throttled(2)), throttled(2));
    }
}

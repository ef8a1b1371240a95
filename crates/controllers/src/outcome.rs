//! What a plan's wake-up means for the queue.

use std::time::Duration;

use jiff::Timestamp;
use planner::{Policy, Wake};
use runtime::Outcome;

/// When a wake-up is due. A wake-up that is not in the future is delayed: a plan that waits for a time in the past would otherwise
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
}

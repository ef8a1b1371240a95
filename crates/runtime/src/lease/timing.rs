//! The three durations of an election and their constraints.

use std::time::Duration;

/// Durations of an election. The defaults are those of client-go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// Period after which a candidate acquires an unchanged lease (`--leader-elect-lease-duration`).
    pub lease_duration: Duration,
    /// Period after the last successful renewal was sent in which the holder is the leader (`--leader-elect-renew-deadline`).
    pub renew_deadline: Duration,
    /// Interval between attempts (`--leader-elect-retry-period`).
    pub retry_period: Duration,
}

impl Default for Timing {
    fn default() -> Self {
        Self {
            lease_duration: Duration::from_secs(15),
            renew_deadline: Duration::from_secs(10),
            retry_period: Duration::from_secs(2),
        }
    }
}

/// Invalid durations: two candidates could lead at the same time, or none for a long time.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TimingError {
    /// The retry period is zero.
    #[error("the retry period of the leader election must be longer than zero")]
    RetryIsZero,
    /// The renew deadline is too short for two attempts.
    #[error(
        "the renew deadline of the leader election ({renew:?}) must be longer than 1.2 times its retry period ({retry:?})"
    )]
    RenewTooShort {
        /// Renew deadline.
        renew: Duration,
        /// Retry period.
        retry: Duration,
    },
    /// The holder could still lead when the next candidate acquires the lease.
    #[error("the lease duration of the leader election ({lease:?}) must be longer than its renew deadline ({renew:?})")]
    LeaseTooShort {
        /// Lease duration.
        lease: Duration,
        /// Renew deadline.
        renew: Duration,
    },
}

/// Jitter of the interval between attempts of a candidate, as a factor of the retry period. It spreads many candidates.
pub(super) const CANDIDATE_JITTER: f64 = 1.2;
/// Jitter of the interval between renewals of the holder. It must leave time for retries before the renew deadline.
pub(super) const HOLDER_JITTER: f64 = 0.2;

impl Timing {
    /// Checks the constraints between the durations.
    pub fn validate(&self) -> Result<(), TimingError> {
        if self.retry_period.is_zero() {
            return Err(TimingError::RetryIsZero);
        }
        if self.renew_deadline <= self.retry_period.mul_f64(1.2) {
            return Err(TimingError::RenewTooShort { renew: self.renew_deadline, retry: self.retry_period });
        }
        if self.lease_duration <= self.renew_deadline {
            return Err(TimingError::LeaseTooShort { lease: self.lease_duration, renew: self.renew_deadline });
        }
        Ok(())
    }

    /// Returns the timeout of one request: half the renew deadline, so that there is time for a second attempt.
    pub(super) fn request_timeout(&self) -> Duration {
        self.renew_deadline / 2
    }

    /// Returns the lease duration for the record. Rounded up, so that other candidates do not wait too short.
    pub(super) fn recorded_seconds(&self) -> i32 {
        let whole = self.lease_duration.as_secs() + u64::from(self.lease_duration.subsec_nanos() > 0);
        i32::try_from(whole).unwrap_or(i32::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    fn timing(lease: u64, renew: u64, retry: u64) -> Timing {
        let ms = Duration::from_millis;
        Timing { lease_duration: ms(lease), renew_deadline: ms(renew), retry_period: ms(retry) }
    }

    #[rstest]
    #[case(15_000, 10_000, 2_000, "")]
    #[case(15_000, 10_000, 0, "the retry period of the leader election must be longer than zero")]
    #[case(
        15_000,
        10_000,
        9_000,
        "the renew deadline of the leader election (10s) must be longer than 1.2 times its retry period (9s)"
    )]
    #[case(
        10_000,
        10_000,
        2_000,
        "the lease duration of the leader election (10s) must be longer than its renew deadline (10s)"
    )]
    fn invalid_durations_are_rejected(
        #[case] lease: u64,
        #[case] renew: u64,
        #[case] retry: u64,
        #[case] expected: &str,
    ) {
        let error = timing(lease, renew, retry).validate().map_or_else(|error| error.to_string(), |()| String::new());
        assert_eq!(error, expected);
    }

    #[test]
    fn recorded_lease_duration_is_rounded_up() {
        assert_eq!(timing(15_000, 1, 1).recorded_seconds(), 15);
        assert_eq!(timing(1_500, 1, 1).recorded_seconds(), 2);
    }
}

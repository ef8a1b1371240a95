//! The three durations of an election and what must hold between them.

use std::time::Duration;

/// How long a lease lasts, how long its holder tries to renew it, and how often anyone tries. The defaults are client-go's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// How long a candidate watches an unchanged lease before it takes it over (`--leader-elect-lease-duration`).
    pub lease_duration: Duration,
    /// How long after sending its last successful renewal the holder may act (`--leader-elect-renew-deadline`).
    pub renew_deadline: Duration,
    /// The pause between attempts (`--leader-elect-retry-period`).
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

/// Durations under which two candidates could act at once, or none for long.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TimingError {
    /// The retry period is zero.
    #[error("the retry period of the leader election must be longer than zero")]
    RetryIsZero,
    /// The holder would give up before it could have tried twice.
    #[error(
        "the renew deadline of the leader election ({renew:?}) must be longer than 1.2 times its retry period ({retry:?})"
    )]
    RenewTooShort {
        /// The renew deadline.
        renew: Duration,
        /// The retry period.
        retry: Duration,
    },
    /// The holder would still act when the next one may.
    #[error("the lease duration of the leader election ({lease:?}) must be longer than its renew deadline ({renew:?})")]
    LeaseTooShort {
        /// The lease duration.
        lease: Duration,
        /// The renew deadline.
        renew: Duration,
    },
}

/// By how much a pause between attempts may be stretched at random, as a share of the retry period: a candidate's, so that
/// many candidates do not march in step, and the holder's, which must stay below what the renew deadline leaves.
pub(super) const CANDIDATE_JITTER: f64 = 1.2;
pub(super) const HOLDER_JITTER: f64 = 0.2;

impl Timing {
    /// Checks what the safety of the election rests on.
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

    /// One request may take this long: half the renew deadline, so that a lost answer leaves time for a second try.
    pub(super) fn request_timeout(&self) -> Duration {
        self.renew_deadline / 2
    }

    /// The lease duration as the record carries it. Rounded up: others must not wait shorter than we count on.
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
    fn durations_that_do_not_fit_are_refused_with_a_sentence(
        #[case] lease: u64,
        #[case] renew: u64,
        #[case] retry: u64,
        #[case] sentence: &str,
    ) {
        let said = timing(lease, renew, retry).validate().map_or_else(|error| error.to_string(), |()| String::new());
        assert_eq!(said, sentence);
    }

    #[test]
    fn a_broken_second_is_recorded_as_a_whole_one() {
        assert_eq!(timing(15_000, 1, 1).recorded_seconds(), 15);
        assert_eq!(timing(1_500, 1, 1).recorded_seconds(), 2);
    }
}

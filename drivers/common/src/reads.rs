//! Retries a read after a transient error.
//!
//! Only reads are retried. A write whose response was lost may have taken effect, so its caller decides how to continue
//! (ADR 0005).

use std::time::Duration;

use backoff::{Exponential, stretched};
use driver::{Call, DriverError};

/// Maximum number of retries of one read within a call.
const RETRIES: u32 = 2;

/// Delays before a retry.
const PAUSES: Exponential = Exponential::new(Duration::from_millis(200), Duration::from_secs(2));

/// Maximum share by which a delay is extended.
const JITTER: f64 = 0.5;

/// Sends a read, and retries it while `transient` returns the minimum delay before the next attempt. `chance` extends
/// each delay. If the delay would end after the deadline of the call, the error is returned immediately.
pub async fn with_retries<T, E, Asked>(
    call: &Call,
    mut chance: impl FnMut() -> f64,
    transient: impl Fn(&E) -> Option<Duration>,
    mut ask: impl FnMut() -> Asked,
) -> Result<T, E>
where
    E: From<DriverError>,
    Asked: Future<Output = Result<T, E>>,
{
    let mut failures = 0;
    loop {
        let failed = match ask().await {
            Ok(answer) => return Ok(answer),
            Err(failed) => failed,
        };
        let Some(shortest) = transient(&failed).filter(|_| failures < RETRIES) else { return Err(failed) };
        failures += 1;
        let pause = stretched(PAUSES.after(failures), JITTER, chance()).max(shortest);
        if pause >= call.remaining() {
            return Err(failed);
        }
        call.bound(async {
            tokio::time::sleep(pause).await;
            Ok(())
        })
        .await?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use driver::Code;
    use tokio::time::Instant;
    use tokio_util::sync::CancellationToken;

    /// Fails with this code so many times and returns the number of attempts.
    async fn attempts(call: &Call, code: Code, times: usize, shortest: Duration) -> (usize, Result<(), DriverError>) {
        let mut asked = 0;
        let transient = |error: &DriverError| (error.code() == Code::Unavailable).then_some(shortest);
        let answer = with_retries(
            call,
            || 0.0,
            transient,
            || {
                asked += 1;
                std::future::ready(if asked > times { Ok(()) } else { Err(DriverError::new(code, "down")) })
            },
        )
        .await;
        (asked, answer)
    }

    /// Shows CLD-13.
    #[tokio::test(start_paused = true)]
    async fn read_is_retried_twice_with_growing_delays() {
        let begun = Instant::now();
        let (asked, answer) = attempts(&Call::default(), Code::Unavailable, 2, Duration::ZERO).await;
        assert_eq!((asked, answer.is_ok(), begun.elapsed()), (3, true, Duration::from_millis(600)));
        let (asked, answer) = attempts(&Call::default(), Code::Unavailable, 9, Duration::ZERO).await;
        assert_eq!((asked, answer.unwrap_err().code()), (3, Code::Unavailable));
    }

    /// Shows CLD-13.
    #[tokio::test(start_paused = true)]
    async fn read_with_a_permanent_error_is_not_retried() {
        let (asked, answer) = attempts(&Call::default(), Code::PermissionDenied, 9, Duration::ZERO).await;
        assert_eq!((asked, answer.unwrap_err().code()), (1, Code::PermissionDenied));
    }

    /// Shows CLD-13.
    #[tokio::test(start_paused = true)]
    async fn read_is_not_retried_past_the_deadline_of_its_call() {
        let call = Call::within(Duration::from_secs(1));
        let (asked, answer) = attempts(&call, Code::Unavailable, 9, Duration::from_secs(2)).await;
        assert_eq!((asked, answer.unwrap_err().code()), (1, Code::Unavailable), "the error of the cloud is returned");
    }

    /// Shows CLD-13.
    #[tokio::test(start_paused = true)]
    async fn retry_delay_ends_with_its_call() {
        let token = CancellationToken::new();
        let call = Call::default().canceled_by(token.clone());
        let (end, ()) = tokio::join!(attempts(&call, Code::Unavailable, 9, Duration::from_secs(5)), async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            token.cancel();
        });
        assert_eq!((end.0, end.1.unwrap_err().code()), (1, Code::Canceled));
    }
}

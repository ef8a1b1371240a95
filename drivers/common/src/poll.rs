//! Polls the cloud until a condition is met.
//!
//! Clouds respond before an operation is complete: a new VM may not be visible yet or may have no address. Polling uses
//! exponential backoff, ends with its call, and never sleeps past the deadline of the call.

use std::time::Duration;

use backoff::{Backoff, Exponential, shortened};
use driver::{Call, DriverError};
use tokio::time::Instant;

/// Interval and timeout of polling.
#[derive(Clone, Copy, Debug)]
pub struct Poll {
    /// Delays between attempts.
    pub pauses: Exponential,
    /// Maximum total duration; the deadline of the call may be earlier.
    pub timeout: Duration,
}

/// The result of polling.
#[derive(Debug, PartialEq, Eq)]
pub enum Waited<T> {
    /// The condition was met.
    Done(T),
    /// The condition was not met in time.
    TimedOut,
}

impl Poll {
    /// Polls until `ask` returns a value. An error of `ask` ends polling; `Ok(None)` continues it. `chance` shortens
    /// each delay by up to a fifth, so that a hundred machines created together do not poll together.
    pub async fn until<T, Asked>(
        &self,
        call: &Call,
        mut chance: impl FnMut() -> f64,
        mut ask: impl FnMut() -> Asked,
    ) -> Result<Waited<T>, DriverError>
    where
        Asked: Future<Output = Result<Option<T>, DriverError>>,
    {
        let end = Instant::now() + self.timeout.min(call.remaining());
        let mut backoff = Backoff::new(self.pauses);
        loop {
            if let Some(answer) = call.bound(ask()).await? {
                return Ok(Waited::Done(answer));
            }
            let next = Instant::now() + shortened(backoff.failed(), 0.2, chance());
            if next >= end {
                // If the call itself ended, return its error.
                return call.check().map(|()| Waited::TimedOut);
            }
            call.bound(async {
                tokio::time::sleep_until(next).await;
                Ok(())
            })
            .await?;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use driver::Code;
    use tokio_util::sync::CancellationToken;

    const SECOND: Duration = Duration::from_secs(1);
    const POLL: Poll =
        Poll { pauses: Exponential::new(SECOND, Duration::from_secs(4)), timeout: Duration::from_mins(1) };

    #[tokio::test(start_paused = true)]
    async fn delays_grow_until_the_value_is_returned() {
        let (begun, mut asked) = (Instant::now(), Vec::new());
        let waited = POLL
            .until(
                &Call::default(),
                || 0.0,
                || {
                    asked.push(begun.elapsed().as_secs());
                    std::future::ready(Ok((asked.len() == 5).then_some("done")))
                },
            )
            .await;
        assert_eq!(waited.unwrap(), Waited::Done("done"));
        assert_eq!(asked, [0, 1, 3, 7, 11]);
    }

    /// Shows CLD-7.
    #[tokio::test(start_paused = true)]
    async fn polling_ends_after_the_timeout() {
        let begun = Instant::now();
        let waited = POLL.until(&Call::default(), || 0.0, || async { Ok(None::<()>) }).await;
        assert_eq!(waited.unwrap(), Waited::TimedOut);
        assert!(begun.elapsed() <= POLL.timeout);
    }

    /// Shows CLD-7.
    #[tokio::test(start_paused = true)]
    async fn polling_ends_with_its_call() {
        let token = CancellationToken::new();
        let call = Call::default().canceled_by(token.clone());
        let (waited, ()) = tokio::join!(POLL.until(&call, || 0.0, || async { Ok(None::<()>) }), async {
            tokio::time::sleep(5 * SECOND / 2).await;
            token.cancel();
        });
        assert_eq!(waited.unwrap_err().code(), Code::Canceled);
    }

    #[tokio::test(start_paused = true)]
    async fn error_ends_polling() {
        let waited = POLL
            .until(&Call::default(), || 0.0, || async { Err::<Option<()>, _>(DriverError::not_found("gone")) })
            .await;
        assert_eq!(waited.unwrap_err().code(), Code::NotFound);
    }
}

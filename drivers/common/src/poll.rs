//! Waiting for something that the cloud brings about by itself.
//!
//! Clouds answer before they are done: a VM that was just made may not be visible yet, or has no address. Whoever waits asks again
//! with growing pauses, ends with the call it waits for, and never sleeps past its deadline.

use std::time::Duration;

use backoff::{Backoff, Exponential, shortened};
use driver::{Call, DriverError};
use tokio::time::Instant;

/// How often to ask, and for how long.
#[derive(Clone, Copy, Debug)]
pub struct Poll {
    /// The pauses between two questions.
    pub pauses: Exponential,
    /// How long to wait in all; the call's own deadline may come earlier.
    pub patience: Duration,
}

/// How a wait ended well or in vain.
#[derive(Debug, PartialEq, Eq)]
pub enum Waited<T> {
    /// It came.
    Done(T),
    /// It did not come in time.
    InVain,
}

impl Poll {
    /// Asks until there is an answer. An error of `ask` ends the wait; what is worth another question is its decision (`Ok(None)`).
    /// `chance` shortens each pause by up to a fifth, so that a hundred machines that were made together do not ask together.
    pub async fn until<T, Asked>(
        &self,
        call: &Call,
        mut chance: impl FnMut() -> f64,
        mut ask: impl FnMut() -> Asked,
    ) -> Result<Waited<T>, DriverError>
    where
        Asked: Future<Output = Result<Option<T>, DriverError>>,
    {
        let end = Instant::now() + self.patience.min(call.remaining());
        let mut backoff = Backoff::new(self.pauses);
        loop {
            if let Some(answer) = call.bound(ask()).await? {
                return Ok(Waited::Done(answer));
            }
            let next = Instant::now() + shortened(backoff.failed(), 0.2, chance());
            if next >= end {
                // The call's own end is told as what it is.
                return call.check().map(|()| Waited::InVain);
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
        Poll { pauses: Exponential::new(SECOND, Duration::from_secs(4)), patience: Duration::from_mins(1) };

    #[tokio::test(start_paused = true)]
    async fn pauses_grow_until_the_answer_comes() {
        let (begun, mut asked) = (Instant::now(), Vec::new());
        let waited = POLL
            .until(
                &Call::default(),
                || 0.0,
                || {
                    asked.push(begun.elapsed().as_secs());
                    std::future::ready(Ok((asked.len() == 5).then_some("here")))
                },
            )
            .await;
        assert_eq!(waited.unwrap(), Waited::Done("here"));
        assert_eq!(asked, [0, 1, 3, 7, 11]);
    }

    /// Shows CLD-7.
    #[tokio::test(start_paused = true)]
    async fn patience_ends_without_an_answer() {
        let begun = Instant::now();
        let waited = POLL.until(&Call::default(), || 0.0, || async { Ok(None::<()>) }).await;
        assert_eq!(waited.unwrap(), Waited::InVain);
        assert!(begun.elapsed() <= POLL.patience);
    }

    /// Shows CLD-7.
    #[tokio::test(start_paused = true)]
    async fn a_wait_ends_with_its_call() {
        let token = CancellationToken::new();
        let call = Call::default().canceled_by(token.clone());
        let (waited, ()) = tokio::join!(POLL.until(&call, || 0.0, || async { Ok(None::<()>) }), async {
            tokio::time::sleep(5 * SECOND / 2).await;
            token.cancel();
        });
        assert_eq!(waited.unwrap_err().code(), Code::Canceled);
    }

    #[tokio::test(start_paused = true)]
    async fn an_error_ends_the_wait() {
        let waited = POLL
            .until(&Call::default(), || 0.0, || async { Err::<Option<()>, _>(DriverError::not_found("gone")) })
            .await;
        assert_eq!(waited.unwrap_err().code(), Code::NotFound);
    }
}

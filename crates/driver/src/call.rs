//! How long a call to the cloud may take, and who may end it early.
//!
//! Clouds are slow on normal days: a VM that takes ten minutes is not a failure. So the default patience is that of
//! `--driver-call-timeout`, not the few seconds of an API request. What matters is that *some* end is always set: a call without
//! one would hold its machine for ever, and a machine that waits for an answer plans nothing.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use api::Code;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::DriverError;
use crate::meter::{CloudPressure, Meter, Metered, Reply};

/// The limits of one call. Cheap to clone; clones end together.
#[derive(Clone, Debug)]
pub struct Call {
    deadline: Instant,
    canceled: CancellationToken,
    meter: Metered,
}

impl Call {
    /// What a call is given when nobody says otherwise: the default of `--driver-call-timeout`.
    pub const DEFAULT_PATIENCE: Duration = Duration::from_mins(20);

    /// A call whose answer is of use until `deadline`, and which ends when `canceled` is.
    pub fn until(deadline: Instant, canceled: CancellationToken) -> Self {
        Self { deadline, canceled, meter: Metered::default() }
    }

    /// A call that may take this long from now.
    pub fn within(patience: Duration) -> Self {
        // A patience that no clock can hold is no reason to panic; a year is as good as for ever.
        let now = Instant::now();
        let deadline = now.checked_add(patience).unwrap_or(now + Duration::from_hours(24 * 365));
        Self::until(deadline, CancellationToken::new())
    }

    /// The same call, ended early when `canceled` is: by a shutdown, or by a lease that was lost.
    #[must_use]
    pub fn canceled_by(self, canceled: CancellationToken) -> Self {
        Self { canceled, ..self }
    }

    /// The same call, whose requests to the cloud are counted by `meter`.
    #[must_use]
    pub fn metered(self, meter: Arc<dyn Meter>) -> Self {
        Self { meter: Metered(Some(meter)), ..self }
    }

    /// Makes one request to `service` of the cloud and reports how it went and how long it took. A request that is dropped half-way
    /// counts as failed: nobody knows what the cloud made of it.
    pub async fn asking<T, E>(
        &self,
        service: &'static str,
        request: impl Future<Output = Result<T, E>>,
    ) -> Result<T, E> {
        let mut asking = Asking { call: self, service, begun: Instant::now(), reply: Reply::Failure };
        let answer = request.await;
        if answer.is_ok() {
            asking.reply = Reply::Success;
        }
        answer
    }

    /// Reports a request to the cloud that somebody else made for this call.
    pub fn report(&self, service: &str, took: Duration, reply: Reply) {
        if let Some(meter) = &self.meter.0 {
            meter.asked(service, took, reply);
        }
    }

    /// Reports what the cloud said of the account beyond the answer to a request.
    pub fn press(&self, pressure: &CloudPressure) {
        if let Some(meter) = &self.meter.0 {
            meter.pressed(pressure);
        }
    }

    /// When the answer is of no more use.
    pub fn deadline(&self) -> Instant {
        self.deadline
    }

    /// How much time is left; zero once the deadline has passed.
    pub fn remaining(&self) -> Duration {
        self.deadline.saturating_duration_since(Instant::now())
    }

    /// Cancelled when the caller has lost interest.
    pub fn canceled(&self) -> &CancellationToken {
        &self.canceled
    }

    /// Whether work may still be started: an effect begun after the end would have nobody to hear of it.
    pub fn check(&self) -> Result<(), DriverError> {
        if self.canceled.is_cancelled() {
            Err(canceled())
        } else if self.remaining().is_zero() {
            Err(late())
        } else {
            Ok(())
        }
    }

    /// Carries out `work` within the limits of the call. The end drops the work where it stands and becomes
    /// [`Code::DeadlineExceeded`] or [`Code::Canceled`]; whether the cloud acted is then unknown. Work is not even begun when
    /// the call has ended before, and an answer that arrives at the very deadline still counts.
    pub async fn bound<T>(&self, work: impl Future<Output = Result<T, DriverError>>) -> Result<T, DriverError> {
        self.check()?;
        tokio::select! {
            biased;
            () = self.canceled.cancelled() => Err(canceled()),
            answer = work => answer,
            () = tokio::time::sleep_until(self.deadline) => Err(late()),
        }
    }
}

/// A request under way; reports its end, whatever it is.
struct Asking<'a> {
    call: &'a Call,
    service: &'static str,
    begun: Instant,
    reply: Reply,
}

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        self.call.report(self.service, self.begun.elapsed(), self.reply);
    }
}

impl Default for Call {
    fn default() -> Self {
        Self::within(Self::DEFAULT_PATIENCE)
    }
}

fn canceled() -> DriverError {
    DriverError::new(Code::Canceled, "the call was canceled before the cloud answered")
}

fn late() -> DriverError {
    DriverError::new(Code::DeadlineExceeded, "the cloud did not answer before the deadline of the call")
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    async fn answer_after(delay: Duration) -> Result<&'static str, DriverError> {
        tokio::time::sleep(delay).await;
        Ok("done")
    }

    /// Shows DRV-4.
    #[tokio::test(start_paused = true)]
    async fn a_passed_deadline_is_deadline_exceeded() {
        let call = Call::within(5 * SECOND);
        assert_eq!(call.bound(answer_after(6 * SECOND)).await.unwrap_err().code(), Code::DeadlineExceeded);
        assert!(call.remaining().is_zero());
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_at_the_very_deadline_still_counts() {
        assert_eq!(Call::within(5 * SECOND).bound(answer_after(5 * SECOND)).await.unwrap(), "done");
    }

    /// Shows DRV-4.
    #[tokio::test(start_paused = true)]
    async fn a_cancelled_call_ends_at_once() {
        let token = CancellationToken::new();
        let call = Call::default().canceled_by(token.clone());
        let begun = Instant::now();
        let (answer, ()) = tokio::join!(call.bound(answer_after(60 * SECOND)), async {
            tokio::time::sleep(SECOND).await;
            token.cancel();
        });
        assert_eq!(answer.unwrap_err().code(), Code::Canceled);
        assert_eq!(begun.elapsed(), SECOND);
    }

    /// Shows DRV-4.
    #[tokio::test(start_paused = true)]
    async fn work_is_not_begun_after_the_end() {
        let call = Call::within(SECOND);
        tokio::time::sleep(SECOND).await;
        let mut begun = false;
        let outcome = call
            .bound(async {
                begun = true;
                Ok(())
            })
            .await;
        assert_eq!(outcome.unwrap_err().code(), Code::DeadlineExceeded);
        assert!(!begun);
    }

    #[tokio::test(start_paused = true)]
    async fn every_request_to_the_cloud_is_reported_also_one_that_is_dropped_half_way() {
        let notes = Arc::new(crate::Kept::default());
        let call = Call::within(10 * SECOND).metered(notes.clone());
        call.asking("disks", answer_after(SECOND)).await.unwrap();
        call.asking("images", async { Err::<(), _>("no such image") }).await.unwrap_err();
        call.bound(call.asking("instances", answer_after(60 * SECOND))).await.unwrap_err();
        let expected = [
            ("disks", SECOND, Reply::Success),
            ("images", Duration::ZERO, Reply::Failure),
            ("instances", 9 * SECOND, Reply::Failure),
        ];
        let told: Vec<_> = notes.take().into_iter().map(|asked| (asked.service, asked.took, asked.reply)).collect();
        assert_eq!(told, expected.map(|(service, took, reply)| (service.to_owned(), took, reply)));
    }

    #[tokio::test(start_paused = true)]
    async fn endless_patience_is_no_panic() {
        assert!(Call::within(Duration::MAX).remaining() > Duration::from_hours(24 * 300));
    }

    /// Shows DRV-4.
    #[tokio::test(start_paused = true)]
    async fn a_call_may_take_twenty_minutes_unless_told_otherwise() {
        assert_eq!(Call::default().remaining(), Duration::from_mins(20));
    }
}

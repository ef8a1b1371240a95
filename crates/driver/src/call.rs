//! Deadline and cancellation of a driver call.
//!
//! Clouds are slow: the creation of a VM may take ten minutes. Therefore the default timeout is that of `--driver-call-timeout`,
//! not the few seconds of an API request. Every call has a deadline, because a Machine with a call in progress is not reconciled
//! further.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use api::Code;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::DriverError;
use crate::meter::{CloudPressure, Meter, Metered, Reply};

/// Deadline, cancellation and meter of one call. Cheap to clone; clones share their state.
#[derive(Clone, Debug)]
pub struct Call {
    deadline: Instant,
    canceled: CancellationToken,
    meter: Metered,
}

impl Call {
    /// Default timeout, which is that of `--driver-call-timeout`.
    pub const DEFAULT_TIMEOUT: Duration = Duration::from_mins(20);

    /// Creates a call with this deadline and cancellation token.
    pub fn until(deadline: Instant, canceled: CancellationToken) -> Self {
        Self { deadline, canceled, meter: Metered::default() }
    }

    /// Creates a call with this timeout.
    pub fn within(timeout: Duration) -> Self {
        // A timeout that overflows the clock becomes a year.
        let now = Instant::now();
        let deadline = now.checked_add(timeout).unwrap_or(now + Duration::from_hours(24 * 365));
        Self::until(deadline, CancellationToken::new())
    }

    /// Sets the cancellation token, which is cancelled on shutdown or when the lease is lost.
    #[must_use]
    pub fn canceled_by(self, canceled: CancellationToken) -> Self {
        Self { canceled, ..self }
    }

    /// Sets the meter that counts requests to the cloud.
    #[must_use]
    pub fn metered(self, meter: Arc<dyn Meter>) -> Self {
        Self { meter: Metered(Some(meter)), ..self }
    }

    /// Runs one request to `service` of the cloud and reports its duration and result. A request that is dropped counts as failed,
    /// because its outcome is unknown.
    pub async fn measure<T, E>(
        &self,
        service: &'static str,
        request: impl Future<Output = Result<T, E>>,
    ) -> Result<T, E> {
        let mut report = RequestReport { call: self, service, begun: Instant::now(), reply: Reply::Failure };
        let answer = request.await;
        if answer.is_ok() {
            report.reply = Reply::Success;
        }
        answer
    }

    /// Reports a request to the cloud that another process sent for this call.
    pub fn report(&self, service: &str, took: Duration, reply: Reply) {
        if let Some(meter) = &self.meter.0 {
            meter.request_ended(service, took, reply);
        }
    }

    /// Reports throttling, missing capacity or an exhausted quota.
    pub fn report_pressure(&self, pressure: &CloudPressure) {
        if let Some(meter) = &self.meter.0 {
            meter.pressure_reported(pressure);
        }
    }

    /// Returns the deadline.
    pub fn deadline(&self) -> Instant {
        self.deadline
    }

    /// Returns the remaining time; zero after the deadline.
    pub fn remaining(&self) -> Duration {
        self.deadline.saturating_duration_since(Instant::now())
    }

    /// Returns the cancellation token.
    pub fn canceled(&self) -> &CancellationToken {
        &self.canceled
    }

    /// Returns an error if the call was cancelled or its deadline has passed, so that no work begins after that.
    pub fn check(&self) -> Result<(), DriverError> {
        if self.canceled.is_cancelled() {
            Err(canceled())
        } else if self.remaining().is_zero() {
            Err(deadline_exceeded())
        } else {
            Ok(())
        }
    }

    /// Runs `work` until the deadline or the cancellation. Then the work is dropped, and the result is
    /// [`Code::DeadlineExceeded`] or [`Code::Canceled`]; its outcome in the cloud is unknown. If the call has already ended, work is
    /// not started. A response exactly at the deadline counts.
    pub async fn bound<T>(&self, work: impl Future<Output = Result<T, DriverError>>) -> Result<T, DriverError> {
        self.check()?;
        tokio::select! {
            biased;
            () = self.canceled.cancelled() => Err(canceled()),
            answer = work => answer,
            () = tokio::time::sleep_until(self.deadline) => Err(deadline_exceeded()),
        }
    }
}

/// Reports the result of a request when it is dropped.
struct RequestReport<'a> {
    call: &'a Call,
    service: &'static str,
    begun: Instant,
    reply: Reply,
}

impl Drop for RequestReport<'_> {
    fn drop(&mut self) {
        self.call.report(self.service, self.begun.elapsed(), self.reply);
    }
}

impl Default for Call {
    fn default() -> Self {
        Self::within(Self::DEFAULT_TIMEOUT)
    }
}

fn canceled() -> DriverError {
    DriverError::new(Code::Canceled, "the call was canceled before the cloud responded")
}

fn deadline_exceeded() -> DriverError {
    DriverError::new(Code::DeadlineExceeded, "the cloud did not respond before the deadline of the call")
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
    async fn call_fails_with_deadline_exceeded_after_the_deadline() {
        let call = Call::within(5 * SECOND);
        assert_eq!(call.bound(answer_after(6 * SECOND)).await.unwrap_err().code(), Code::DeadlineExceeded);
        assert!(call.remaining().is_zero());
    }

    #[tokio::test(start_paused = true)]
    async fn response_at_the_deadline_counts() {
        assert_eq!(Call::within(5 * SECOND).bound(answer_after(5 * SECOND)).await.unwrap(), "done");
    }

    /// Shows DRV-4.
    #[tokio::test(start_paused = true)]
    async fn cancelled_call_ends_immediately() {
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
    async fn work_is_not_started_after_the_deadline() {
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
    async fn every_request_is_reported_also_a_dropped_one() {
        let notes = Arc::new(crate::MeterBuffer::default());
        let call = Call::within(10 * SECOND).metered(notes.clone());
        call.measure("disks", answer_after(SECOND)).await.unwrap();
        call.measure("images", async { Err::<(), _>("no such image") }).await.unwrap_err();
        call.bound(call.measure("instances", answer_after(60 * SECOND))).await.unwrap_err();
        let expected = [
            ("disks", SECOND, Reply::Success),
            ("images", Duration::ZERO, Reply::Failure),
            ("instances", 9 * SECOND, Reply::Failure),
        ];
        let reported: Vec<_> = notes.take().into_iter().map(|asked| (asked.service, asked.took, asked.reply)).collect();
        assert_eq!(reported, expected.map(|(service, took, reply)| (service.to_owned(), took, reply)));
    }

    #[tokio::test(start_paused = true)]
    async fn maximum_timeout_does_not_overflow() {
        assert!(Call::within(Duration::MAX).remaining() > Duration::from_hours(24 * 300));
    }

    /// Shows DRV-4.
    #[tokio::test(start_paused = true)]
    async fn default_timeout_is_twenty_minutes() {
        assert_eq!(Call::default().remaining(), Duration::from_mins(20));
    }
}

//! Reports of drivers about their requests to a cloud.
//!
//! One driver call may send many requests, and the cloud counts, throttles and bills requests. Only the driver knows them, so it
//! reports each one through its [`Call`](crate::Call) ([`Call::measure`](crate::Call::measure)), without global state.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Receives reports about requests to a cloud.
pub trait Meter: Send + Sync {
    /// Called when a request to a service of the cloud has ended. `service` is a label value, so it must have few values.
    fn request_ended(&self, service: &str, took: Duration, reply: Reply);

    /// Called when the cloud reports throttling, missing capacity or an exhausted quota.
    fn pressure_reported(&self, _pressure: &CloudPressure) {}
}

/// Result of a request to a cloud.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reply {
    /// The request succeeded.
    Success,
    /// The request failed, or its outcome is unknown.
    Failure,
}

/// Throttling, missing capacity or an exhausted quota of an account.
#[derive(Clone, Debug, PartialEq)]
pub enum CloudPressure {
    /// The credentials are throttled, and the driver limits itself to this many requests per second; `None` once they are not
    /// throttled any more.
    Rate(Option<f64>),
    /// The zone, or its equivalent, had no capacity for the VM.
    NoCapacity(String),
    /// The quota is exhausted.
    Quota(String),
}

/// An optional meter. Clones share it.
#[derive(Clone, Default)]
pub(crate) struct Metered(pub(crate) Option<Arc<dyn Meter>>);

impl fmt::Debug for Metered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "Metered" } else { "Unmetered" })
    }
}

/// Maximum number of requests in a buffer; listing a hundred thousand VMs takes fewer.
const MAX_REQUESTS: usize = 1000;

/// Maximum number of pressure reports in a buffer.
const MAX_PRESSURE: usize = 100;

/// A completed request to a cloud.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CloudRequest {
    /// Service of the cloud.
    pub service: String,
    /// Duration.
    pub took: Duration,
    /// Result.
    pub reply: Reply,
}

/// A meter that buffers reports, for a caller in another process.
#[derive(Debug, Default)]
pub struct MeterBuffer {
    requests: Mutex<Vec<CloudRequest>>,
    pressure: Mutex<Vec<CloudPressure>>,
}

impl MeterBuffer {
    /// Takes the buffered requests, oldest first.
    pub fn take(&self) -> Vec<CloudRequest> {
        std::mem::take(&mut *self.requests.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Takes the buffered pressure reports, oldest first.
    pub fn take_pressure(&self) -> Vec<CloudPressure> {
        std::mem::take(&mut *self.pressure.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Meter for MeterBuffer {
    fn request_ended(&self, service: &str, took: Duration, reply: Reply) {
        let mut kept = self.requests.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() < MAX_REQUESTS {
            kept.push(CloudRequest { service: service.to_owned(), took, reply });
        }
    }

    fn pressure_reported(&self, pressure: &CloudPressure) {
        let mut kept = self.pressure.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() < MAX_PRESSURE {
            kept.push(pressure.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffer_is_bounded_and_returned_once() {
        let buffer = MeterBuffer::default();
        (0..2 * MAX_REQUESTS).for_each(|_| buffer.request_ended("disks", Duration::from_secs(1), Reply::Failure));
        let taken = buffer.take();
        assert_eq!(taken.len(), MAX_REQUESTS);
        assert_eq!(
            taken[0],
            CloudRequest { service: "disks".into(), took: Duration::from_secs(1), reply: Reply::Failure }
        );
        assert!(buffer.take().is_empty());
        (0..2 * MAX_PRESSURE).for_each(|_| buffer.pressure_reported(&CloudPressure::Rate(Some(8.0))));
        assert_eq!(buffer.take_pressure(), vec![CloudPressure::Rate(Some(8.0)); MAX_PRESSURE]);
        assert!(buffer.take_pressure().is_empty());
    }
}

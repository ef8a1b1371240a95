//! What drivers say of their requests to a cloud.
//!
//! One call of ours may be many requests to a cloud, and it is those that a cloud counts, throttles and bills. Only the driver sees
//! them, so it reports each through the [`Call`](crate::Call) it was given ([`Call::asking`](crate::Call::asking)). Nothing global is
//! needed, and a driver never learns who counts.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Whoever counts requests to a cloud.
pub trait Meter: Send + Sync {
    /// A request to this service of the cloud has ended after this long. `service` is one of few words, never an id: each is a
    /// series.
    fn asked(&self, service: &str, took: Duration, reply: Reply);

    /// The cloud has said something of the account beyond the answer to a request.
    fn pressed(&self, _pressure: &CloudPressure) {}
}

/// How a request to a cloud ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reply {
    /// The cloud did what was asked.
    Success,
    /// It did not, or nobody knows.
    Failure,
}

/// What a cloud says of an account beyond the answer to a request.
#[derive(Clone, Debug, PartialEq)]
pub enum CloudPressure {
    /// It throttles these credentials, which keep to so many requests a second; `None` once nothing holds them back any more.
    Rate(Option<f64>),
    /// This zone, or what stands for it, had no such VM to give.
    NoCapacity(String),
    /// This quota is used up.
    Quota(String),
}

/// A meter, or none. Clones are the same.
#[derive(Clone, Default)]
pub(crate) struct Metered(pub(crate) Option<Arc<dyn Meter>>);

impl fmt::Debug for Metered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "Metered" } else { "Unmetered" })
    }
}

/// The most requests of one call that are kept; a list of a hundred thousand VMs takes fewer.
const MOST_KEPT: usize = 1000;

/// The most words of a cloud on an account that are kept of one call.
const MOST_PRESSURE: usize = 100;

/// A request to a cloud that has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CloudRequest {
    /// The service that was asked.
    pub service: String,
    /// How long it took.
    pub took: Duration,
    /// How it ended.
    pub reply: Reply,
}

/// A meter that keeps what it is told, for whoever counts in another process.
#[derive(Debug, Default)]
pub struct Kept {
    requests: Mutex<Vec<CloudRequest>>,
    pressure: Mutex<Vec<CloudPressure>>,
}

impl Kept {
    /// The requests that were told so far, oldest first.
    pub fn take(&self) -> Vec<CloudRequest> {
        std::mem::take(&mut *self.requests.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// What the cloud said of the account so far, oldest first.
    pub fn take_pressure(&self) -> Vec<CloudPressure> {
        std::mem::take(&mut *self.pressure.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Meter for Kept {
    fn asked(&self, service: &str, took: Duration, reply: Reply) {
        let mut kept = self.requests.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() < MOST_KEPT {
            kept.push(CloudRequest { service: service.to_owned(), took, reply });
        }
    }

    fn pressed(&self, pressure: &CloudPressure) {
        let mut kept = self.pressure.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() < MOST_PRESSURE {
            kept.push(pressure.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_is_given_out_once_and_bounded() {
        let kept = Kept::default();
        (0..2 * MOST_KEPT).for_each(|_| kept.asked("disks", Duration::from_secs(1), Reply::Failure));
        let taken = kept.take();
        assert_eq!(taken.len(), MOST_KEPT);
        assert_eq!(
            taken[0],
            CloudRequest { service: "disks".into(), took: Duration::from_secs(1), reply: Reply::Failure }
        );
        assert!(kept.take().is_empty());
        (0..2 * MOST_PRESSURE).for_each(|_| kept.pressed(&CloudPressure::Rate(Some(8.0))));
        assert_eq!(kept.take_pressure(), vec![CloudPressure::Rate(Some(8.0)); MOST_PRESSURE]);
        assert!(kept.take_pressure().is_empty());
    }
}

//! Delays the requests of an account.
//!
//! [`Pressure`] decides as pure data. This module adds the clock, the delay and the metrics.

use driver::{Call, CloudPressure, DriverError};
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::pressure::{Blocked, ClassInZone, Pressure};

/// Rate limits and blocked zones of a driver, with the start of its clock. They are learned again after a restart.
pub struct RateLimiter {
    pressure: Mutex<Pressure>,
    begun: Instant,
}

impl Default for RateLimiter {
    fn default() -> Self {
        Self { pressure: Mutex::default(), begun: Instant::now() }
    }
}

impl RateLimiter {
    /// Waits until a request of this account may be sent, within the limits of the call.
    pub async fn wait(&self, call: &Call, account: &str) -> Result<(), DriverError> {
        let turn = self.pressure.lock().admit(account, self.begun.elapsed());
        call.bound(async {
            tokio::time::sleep_until(self.begun + turn).await;
            Ok(())
        })
        .await
    }

    /// Lowers the rate of the account and returns the new rate.
    pub fn throttled(&self, call: &Call, account: &str) -> f64 {
        let mut pressure = self.pressure.lock();
        pressure.throttled(account, self.begun.elapsed());
        let rate = pressure.rate(account);
        call.report_pressure(&CloudPressure::Rate(rate));
        rate.unwrap_or_default()
    }

    /// Raises the rate of the account if it was throttled before.
    pub fn answered(&self, call: &Call, account: &str) {
        let mut pressure = self.pressure.lock();
        if pressure.rate(account).is_some() {
            pressure.answered(account);
            call.report_pressure(&CloudPressure::Rate(pressure.rate(account)));
        }
    }

    /// Returns the block of this class in this zone, if there is one.
    pub fn blocked(&self, place: &ClassInZone) -> Option<Blocked> {
        self.pressure.lock().blocked(place, self.begun.elapsed()).cloned()
    }

    /// Blocks the class in a zone without capacity.
    pub fn block(&self, call: &Call, place: ClassInZone, reason: &str) {
        call.report_pressure(&CloudPressure::NoCapacity(place.zone.clone()));
        self.pressure.lock().block(place, reason, self.begun.elapsed());
    }

    /// Unblocks the class after a VM was created in the zone.
    pub fn unblock(&self, place: &ClassInZone) {
        self.pressure.lock().unblock(place);
    }
}

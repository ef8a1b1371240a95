//! When the requests of an account leave.
//!
//! [`Pressure`] decides, and is data. Here is what surrounds it: the clock that it is asked with, the wait for a turn, and the report
//! of each change to whoever keeps the metrics.

use driver::{Call, CloudPressure, DriverError};
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::pressure::{Held, Place, Pressure};

/// What a driver has learned of its accounts and zones, and when it began. None of it is missed after a restart.
pub struct Turns {
    pressure: Mutex<Pressure>,
    begun: Instant,
}

impl Default for Turns {
    fn default() -> Self {
        Self { pressure: Mutex::default(), begun: Instant::now() }
    }
}

impl Turns {
    /// Waits until a request of this account may leave, within the limits of the call.
    pub async fn wait(&self, call: &Call, account: &str) -> Result<(), DriverError> {
        let turn = self.pressure.lock().admit(account, self.begun.elapsed());
        call.bound(async {
            tokio::time::sleep_until(self.begun + turn).await;
            Ok(())
        })
        .await
    }

    /// The account asks too often: the answer is the rate that it has from now on.
    pub fn throttled(&self, call: &Call, account: &str) -> f64 {
        let mut pressure = self.pressure.lock();
        pressure.throttled(account, self.begun.elapsed());
        let rate = pressure.rate(account);
        call.report_pressure(&CloudPressure::Rate(rate));
        rate.unwrap_or_default()
    }

    /// The account was answered, and may ask a little more often if it was throttled before.
    pub fn answered(&self, call: &Call, account: &str) {
        let mut pressure = self.pressure.lock();
        if pressure.rate(account).is_some() {
            pressure.answered(account);
            call.report_pressure(&CloudPressure::Rate(pressure.rate(account)));
        }
    }

    /// Whether creates of this class are held back in this zone, and why.
    pub fn held(&self, place: &Place) -> Option<Held> {
        self.pressure.lock().held(place, self.begun.elapsed()).cloned()
    }

    /// The zone had no room for a VM of this class.
    pub fn refused(&self, call: &Call, place: Place, reason: &str) {
        call.report_pressure(&CloudPressure::NoCapacity(place.zone.clone()));
        self.pressure.lock().refused(place, reason, self.begun.elapsed());
    }

    /// A VM of this class was made in this zone.
    pub fn made(&self, place: &Place) {
        self.pressure.lock().made(place);
    }
}

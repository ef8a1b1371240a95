//! Transfers the driver's cloud requests and pressure reports, so that the controller exports their metrics.
//!
//! Each label value becomes a time series. The driver is not trusted, so values are limited in form and number; the
//! rest is counted as `other`.

use std::collections::BTreeSet;
use std::time::Duration;

use driver::{Call, Reply};
use parking_lot::Mutex;

use super::cloud_pressure::Pressure;
use super::{CloudPressure, CloudRequest};

/// Maximum number of label values per kind and driver; the largest driver of Machine Controller Manager has eleven
/// services.
const MAX_LABEL_VALUES: usize = 64;

/// Maximum length of a label value.
const MAX_LABEL_LENGTH: usize = 64;

/// Label value for everything beyond the limits.
const OTHER: &str = "other";

/// A response that may contain reports about the cloud.
pub(crate) trait Reports {
    /// Takes out the cloud requests.
    fn cloud_requests(&mut self) -> Vec<CloudRequest>;
    /// Takes out the pressure reports.
    fn cloud_pressure(&mut self) -> Vec<CloudPressure>;
}

macro_rules! reports {
    ($($answer:ident),*) => {
        $(impl Reports for super::$answer {
            fn cloud_requests(&mut self) -> Vec<CloudRequest> {
                std::mem::take(&mut self.cloud_requests)
            }
            fn cloud_pressure(&mut self) -> Vec<CloudPressure> {
                std::mem::take(&mut self.cloud_pressure)
            }
        })*
    };
}

reports!(CreateResponse, DeleteResponse, InitializeResponse, StatusResponse, ListResponse);

impl Reports for super::VolumeIdsResponse {
    fn cloud_requests(&mut self) -> Vec<CloudRequest> {
        Vec::new() // derived from the volumes
    }
    fn cloud_pressure(&mut self) -> Vec<CloudPressure> {
        Vec::new()
    }
}

impl From<driver::CloudRequest> for CloudRequest {
    fn from(asked: driver::CloudRequest) -> Self {
        Self {
            service: asked.service,
            micros: u64::try_from(asked.took.as_micros()).unwrap_or(u64::MAX),
            failed: asked.reply == Reply::Failure,
        }
    }
}

impl From<driver::CloudPressure> for CloudPressure {
    fn from(pressure: driver::CloudPressure) -> Self {
        let pressure = match pressure {
            driver::CloudPressure::Rate(rate) => Pressure::RequestsPerSecond(rate.unwrap_or(0.0)),
            driver::CloudPressure::NoCapacity(zone) => Pressure::NoCapacityIn(zone),
            driver::CloudPressure::Quota(quota) => Pressure::Quota(quota),
        };
        Self { pressure: Some(pressure) }
    }
}

/// The label values that a driver has used, by kind.
#[derive(Debug, Default)]
pub(crate) struct KnownLabels {
    services: LabelValues,
    zones: LabelValues,
    quotas: LabelValues,
}

impl KnownLabels {
    /// Reports what a response contains to the meter of the call.
    pub(crate) fn report(&self, call: &Call, answer: &mut impl Reports) {
        for CloudRequest { service, micros, failed } in answer.cloud_requests() {
            let reply = if failed { Reply::Failure } else { Reply::Success };
            let letter = |letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == '_';
            call.report(&self.services.admitted(service, letter), Duration::from_micros(micros), reply);
        }
        for pressure in answer.cloud_pressure().into_iter().filter_map(|pressure| pressure.pressure) {
            let printed = |letter: char| letter.is_ascii_graphic() || letter == ' ';
            call.report_pressure(&match pressure {
                Pressure::RequestsPerSecond(rate) => {
                    driver::CloudPressure::Rate(Some(rate).filter(|rate| rate.is_finite() && *rate > 0.0))
                }
                Pressure::NoCapacityIn(zone) => driver::CloudPressure::NoCapacity(self.zones.admitted(zone, printed)),
                Pressure::Quota(quota) => driver::CloudPressure::Quota(self.quotas.admitted(quota, printed)),
            });
        }
    }
}

/// Label values of one kind.
#[derive(Debug, Default)]
struct LabelValues(Mutex<BTreeSet<String>>);

impl LabelValues {
    /// Returns the value, or `other` if it is too long, has an invalid form or exceeds the number.
    fn admitted(&self, word: String, letter: impl Fn(char) -> bool) -> String {
        if word.is_empty() || word.len() > MAX_LABEL_LENGTH || !word.chars().all(letter) {
            return OTHER.to_owned();
        }
        let mut known = self.0.lock();
        if known.contains(&word) || (known.len() < MAX_LABEL_VALUES && known.insert(word.clone())) {
            word
        } else {
            OTHER.to_owned()
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use driver::MeterBuffer;

    fn reported(words: &KnownLabels, asked: Vec<CloudRequest>) -> Vec<driver::CloudRequest> {
        let kept = Arc::new(MeterBuffer::default());
        let mut answer = crate::messages::ListResponse { cloud_requests: asked, ..Default::default() };
        words.report(&Call::default().metered(kept.clone()), &mut answer);
        kept.take()
    }

    fn pressed(words: &KnownLabels, pressure: Vec<CloudPressure>) -> Vec<driver::CloudPressure> {
        let kept = Arc::new(MeterBuffer::default());
        let mut answer = crate::messages::CreateResponse { cloud_pressure: pressure, ..Default::default() };
        words.report(&Call::default().metered(kept.clone()), &mut answer);
        kept.take_pressure()
    }

    /// Shows CLD-12.
    #[tokio::test(start_paused = true)]
    async fn pressure_reports_round_trip_and_are_limited() {
        use driver::CloudPressure::{NoCapacity, Quota, Rate};
        let words = KnownLabels::default();
        let told =
            [Rate(Some(0.5)), Rate(None), NoCapacity("eu-west-1a".into()), Quota("vCPUs of running instances".into())];
        assert_eq!(pressed(&words, told.iter().cloned().map(Into::into).collect()), told);
        let odd =
            [Pressure::RequestsPerSecond(f64::NAN), Pressure::RequestsPerSecond(-1.0), Pressure::Quota("a\nb".into())];
        let odd = odd.map(|pressure| CloudPressure { pressure: Some(pressure) });
        assert_eq!(pressed(&words, odd.into()), [Rate(None), Rate(None), Quota(OTHER.into())]);
        let many = (0..90).map(|at| NoCapacity(format!("z{at}")).into()).collect();
        let zones: BTreeSet<_> = pressed(&words, many).iter().map(|told| format!("{told:?}")).collect();
        assert_eq!(zones.len(), MAX_LABEL_VALUES, "including `other`, and one existed before");
    }

    #[tokio::test(start_paused = true)]
    async fn cloud_requests_round_trip() {
        let told = driver::CloudRequest {
            service: "instance_terminate".into(),
            took: Duration::from_millis(7),
            reply: Reply::Failure,
        };
        assert_eq!(reported(&KnownLabels::default(), vec![told.clone().into()]), [told]);
    }

    /// Shows REM-11.
    #[tokio::test(start_paused = true)]
    async fn driver_cannot_create_unlimited_time_series() {
        let words = KnownLabels::default();
        let asked = |service: String| CloudRequest { service, micros: 1, failed: false };
        let many = (0..500).map(|at| asked(format!("s{at}"))).collect();
        let seen: BTreeSet<_> = reported(&words, many).into_iter().map(|told| told.service).collect();
        assert_eq!(seen.len(), MAX_LABEL_VALUES + 1, "including `other`");
        for odd in ["", "i-0abc", "two words", "x\n", &"x".repeat(65), "s499"] {
            assert_eq!(reported(&words, vec![asked(odd.to_owned())])[0].service, OTHER, "{odd:?}");
        }
    }
}

//! What a driver asked of its cloud and what the cloud said of the account, so that it is counted where the metrics are.
//!
//! Each word becomes a series, so the other side is not trusted with them: a word has a form, and there are few. What is beyond that is
//! counted as `other`.

use std::collections::BTreeSet;
use std::time::Duration;

use driver::{Call, Reply};
use parking_lot::Mutex;

use super::cloud_pressure::Pressure;
use super::{CloudPressure, CloudRequest};

/// The most words of one kind of one driver; the richest of Machine Controller Manager's has eleven services.
const MOST_WORDS: usize = 64;

/// The longest word.
const LONGEST: usize = 64;

/// What is counted under no word of its own.
const OTHER: &str = "other";

/// An answer that may tell what was asked of the cloud.
pub(crate) trait Tells {
    /// Takes it out.
    fn cloud_requests(&mut self) -> Vec<CloudRequest>;
    /// Takes out what the cloud said of the account.
    fn cloud_pressure(&mut self) -> Vec<CloudPressure>;
}

macro_rules! tells {
    ($($answer:ident),*) => {
        $(impl Tells for super::$answer {
            fn cloud_requests(&mut self) -> Vec<CloudRequest> {
                std::mem::take(&mut self.cloud_requests)
            }
            fn cloud_pressure(&mut self) -> Vec<CloudPressure> {
                std::mem::take(&mut self.cloud_pressure)
            }
        })*
    };
}

tells!(CreateResponse, DeleteResponse, InitializeResponse, StatusResponse, ListResponse);

impl Tells for super::VolumeIdsResponse {
    fn cloud_requests(&mut self) -> Vec<CloudRequest> {
        Vec::new() // read off the volumes
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

/// The words that a driver has used so far, of each kind.
#[derive(Debug, Default)]
pub(crate) struct KnownWords {
    services: Words,
    zones: Words,
    quotas: Words,
}

impl KnownWords {
    /// Reports what an answer tells to whoever counts.
    pub(crate) fn report(&self, call: &Call, answer: &mut impl Tells) {
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

/// Words of one kind: as many as there may be series.
#[derive(Debug, Default)]
struct Words(Mutex<BTreeSet<String>>);

impl Words {
    /// The word itself, or the one for all that are too long, of a wrong form or too many.
    fn admitted(&self, word: String, letter: impl Fn(char) -> bool) -> String {
        if word.is_empty() || word.len() > LONGEST || !word.chars().all(letter) {
            return OTHER.to_owned();
        }
        let mut known = self.0.lock();
        if known.contains(&word) || (known.len() < MOST_WORDS && known.insert(word.clone())) {
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

    fn reported(words: &KnownWords, asked: Vec<CloudRequest>) -> Vec<driver::CloudRequest> {
        let kept = Arc::new(MeterBuffer::default());
        let mut answer = crate::messages::ListResponse { cloud_requests: asked, ..Default::default() };
        words.report(&Call::default().metered(kept.clone()), &mut answer);
        kept.take()
    }

    fn pressed(words: &KnownWords, pressure: Vec<CloudPressure>) -> Vec<driver::CloudPressure> {
        let kept = Arc::new(MeterBuffer::default());
        let mut answer = crate::messages::CreateResponse { cloud_pressure: pressure, ..Default::default() };
        words.report(&Call::default().metered(kept.clone()), &mut answer);
        kept.take_pressure()
    }

    /// Shows CLD-12.
    #[tokio::test(start_paused = true)]
    async fn what_a_cloud_says_of_an_account_arrives_as_it_was_and_bounded() {
        use driver::CloudPressure::{NoCapacity, Quota, Rate};
        let words = KnownWords::default();
        let told =
            [Rate(Some(0.5)), Rate(None), NoCapacity("eu-west-1a".into()), Quota("vCPUs of running instances".into())];
        assert_eq!(pressed(&words, told.iter().cloned().map(Into::into).collect()), told);
        let odd =
            [Pressure::RequestsPerSecond(f64::NAN), Pressure::RequestsPerSecond(-1.0), Pressure::Quota("a\nb".into())];
        let odd = odd.map(|pressure| CloudPressure { pressure: Some(pressure) });
        assert_eq!(pressed(&words, odd.into()), [Rate(None), Rate(None), Quota(OTHER.into())]);
        let many = (0..90).map(|at| NoCapacity(format!("z{at}")).into()).collect();
        let zones: BTreeSet<_> = pressed(&words, many).iter().map(|told| format!("{told:?}")).collect();
        assert_eq!(zones.len(), MOST_WORDS, "with the one for all others, and one was there before");
    }

    #[tokio::test(start_paused = true)]
    async fn what_was_asked_of_a_cloud_arrives_as_it_was() {
        let told = driver::CloudRequest {
            service: "instance_terminate".into(),
            took: Duration::from_millis(7),
            reply: Reply::Failure,
        };
        assert_eq!(reported(&KnownWords::default(), vec![told.clone().into()]), [told]);
    }

    /// Shows REM-11.
    #[tokio::test(start_paused = true)]
    async fn a_driver_cannot_make_series_without_end() {
        let words = KnownWords::default();
        let asked = |service: String| CloudRequest { service, micros: 1, failed: false };
        let many = (0..500).map(|at| asked(format!("s{at}"))).collect();
        let seen: BTreeSet<_> = reported(&words, many).into_iter().map(|told| told.service).collect();
        assert_eq!(seen.len(), MOST_WORDS + 1, "with the one for all others");
        for odd in ["", "i-0abc", "two words", "x\n", &"x".repeat(65), "s499"] {
            assert_eq!(reported(&words, vec![asked(odd.to_owned())])[0].service, OTHER, "{odd:?}");
        }
    }
}

//! What a driver asked of its cloud, so that it is counted where the metrics are.
//!
//! Each word becomes a series, so the other side is not trusted with them: a word has a form, and there are few. What is beyond that is
//! counted as `other`.

use std::collections::BTreeSet;
use std::time::Duration;

use driver::{Call, Reply};
use parking_lot::Mutex;

use super::CloudRequest;

/// The most words of one driver; the richest of Machine Controller Manager's has eleven.
const MOST_SERVICES: usize = 64;

/// The longest word.
const LONGEST: usize = 64;

/// What is counted under no word of its own.
const OTHER: &str = "other";

/// An answer that may tell what was asked of the cloud.
pub(crate) trait Tells {
    /// Takes it out.
    fn cloud_requests(&mut self) -> Vec<CloudRequest>;
}

macro_rules! tells {
    ($($answer:ident),*) => {
        $(impl Tells for super::$answer {
            fn cloud_requests(&mut self) -> Vec<CloudRequest> {
                std::mem::take(&mut self.cloud_requests)
            }
        })*
    };
}

tells!(CreateResponse, DeleteResponse, InitializeResponse, StatusResponse, ListResponse);

impl Tells for super::VolumeIdsResponse {
    fn cloud_requests(&mut self) -> Vec<CloudRequest> {
        Vec::new() // read off the volumes
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

/// The words that a driver has used so far.
#[derive(Debug, Default)]
pub(crate) struct Services(Mutex<BTreeSet<String>>);

impl Services {
    /// Reports what an answer tells to whoever counts.
    pub(crate) fn report(&self, call: &Call, asked: Vec<CloudRequest>) {
        for CloudRequest { service, micros, failed } in asked {
            let reply = if failed { Reply::Failure } else { Reply::Success };
            let service = if self.admits(&service) { service.as_str() } else { OTHER };
            call.report(service, Duration::from_micros(micros), reply);
        }
    }

    fn admits(&self, service: &str) -> bool {
        let letter = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
        if service.is_empty() || service.len() > LONGEST || !service.bytes().all(letter) {
            return false;
        }
        let mut known = self.0.lock();
        known.contains(service) || (known.len() < MOST_SERVICES && known.insert(service.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use driver::Kept;

    fn reported(services: &Services, asked: Vec<CloudRequest>) -> Vec<driver::CloudRequest> {
        let kept = Arc::new(Kept::default());
        services.report(&Call::default().metered(kept.clone()), asked);
        kept.take()
    }

    #[tokio::test(start_paused = true)]
    async fn what_was_asked_of_a_cloud_arrives_as_it_was() {
        let told = driver::CloudRequest {
            service: "instance_terminate".into(),
            took: Duration::from_millis(7),
            reply: Reply::Failure,
        };
        assert_eq!(reported(&Services::default(), vec![told.clone().into()]), [told]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_driver_cannot_make_series_without_end() {
        let services = Services::default();
        let asked = |service: String| CloudRequest { service, micros: 1, failed: false };
        let many = (0..500).map(|at| asked(format!("s{at}"))).collect();
        let words: BTreeSet<_> = reported(&services, many).into_iter().map(|told| told.service).collect();
        assert_eq!(words.len(), MOST_SERVICES + 1, "with the one for all others");
        for odd in ["", "i-0abc", "two words", "x\n", &"x".repeat(65), "s499"] {
            assert_eq!(reported(&services, vec![asked(odd.to_owned())])[0].service, OTHER, "{odd:?}");
        }
    }
}

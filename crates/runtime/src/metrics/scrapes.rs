//! Metrics of scrapes, with the names of Go programs.

use prometheus::{IntCounterVec, IntGauge};

use super::catalogue::MetricCatalogue;
use super::{MetricsError, opts, registered};

/// Counts scrapes. Cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct Scrapes {
    in_flight: IntGauge,
    total: IntCounterVec,
}

impl Scrapes {
    pub(super) fn register(catalogue: &MetricCatalogue) -> Result<Self, MetricsError> {
        let in_flight = "promhttp_metric_handler_requests_in_flight";
        let total = opts("promhttp_metric_handler_requests_total", "Completed scrapes, by HTTP status code.");
        Ok(Self {
            in_flight: registered(catalogue, IntGauge::new(in_flight, "Scrapes in progress, including this one."))?,
            total: registered(catalogue, IntCounterVec::new(total, &["code"]))?,
        })
    }

    /// Records the beginning of a scrape.
    pub(super) fn begin(&self) -> Scrape<'_> {
        for code in ["200", "500"] {
            self.total.with_label_values(&[code]); // present from the first scrape on, so that a rate can be computed
        }
        self.in_flight.inc();
        Scrape { scrapes: self }
    }
}

/// A scrape in progress.
pub(super) struct Scrape<'a> {
    scrapes: &'a Scrapes,
}

impl Scrape<'_> {
    /// Records the end of the scrape.
    pub(super) fn end(self, result: &Result<String, MetricsError>) {
        let code = if result.is_ok() { "200" } else { "500" };
        self.scrapes.total.with_label_values(&[code]).inc();
    }
}

impl Drop for Scrape<'_> {
    fn drop(&mut self) {
        self.scrapes.in_flight.dec();
    }
}

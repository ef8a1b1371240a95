//! Who looks at the numbers, under the names under which Go programs count it.

use prometheus::{IntCounterVec, IntGauge};

use super::catalogue::MetricCatalogue;
use super::{MetricsError, opts, registered};

/// Counts scrapes. Cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct Scrapes {
    under_way: IntGauge,
    total: IntCounterVec,
}

impl Scrapes {
    pub(super) fn register(catalogue: &MetricCatalogue) -> Result<Self, MetricsError> {
        let under_way = "promhttp_metric_handler_requests_in_flight";
        let total = opts("promhttp_metric_handler_requests_total", "Scrapes that have ended, by HTTP status code.");
        Ok(Self {
            under_way: registered(catalogue, IntGauge::new(under_way, "Scrapes under way now, this one included."))?,
            total: registered(catalogue, IntCounterVec::new(total, &["code"]))?,
        })
    }

    /// A scrape begins.
    pub(super) fn begin(&self) -> Scrape<'_> {
        for code in ["200", "500"] {
            self.total.with_label_values(&[code]); // there from the first scrape on, so that a rate can be computed
        }
        self.under_way.inc();
        Scrape { scrapes: self }
    }
}

/// A scrape under way.
pub(super) struct Scrape<'a> {
    scrapes: &'a Scrapes,
}

impl Scrape<'_> {
    /// It has ended with this.
    pub(super) fn end(self, answer: &Result<String, MetricsError>) {
        let code = if answer.is_ok() { "200" } else { "500" };
        self.scrapes.total.with_label_values(&[code]).inc();
    }
}

impl Drop for Scrape<'_> {
    fn drop(&mut self) {
        self.scrapes.under_way.dec();
    }
}

//! Requests to API servers, under the names client-go's users know.

use std::time::Duration;

use prometheus::{HistogramOpts, HistogramVec, IntCounterVec, IntGaugeVec, exponential_buckets};

use super::catalogue::MetricCatalogue;
use super::{MetricsError, opts, registered};

/// Counts and times every request. Cheap to clone.
#[derive(Clone, Debug)]
pub struct RestMetrics {
    latency: HistogramVec,
    requests: IntCounterVec,
    lacking: IntGaugeVec,
}

/// One request that has ended, one way or the other.
#[derive(Clone, Copy, Debug)]
pub struct RestCall<'a> {
    /// The HTTP method, upper case.
    pub method: &'a str,
    /// Host and port of the server.
    pub host: &'a str,
    /// The address with placeholders in place of names, so that the number of series stays small: scheme, host and path
    /// with `%7Bnamespace%7D` and `%7Bname%7D`, query values as `%7Bvalue%7D`.
    pub url: &'a str,
    /// The answer's status, or `None` when there was no answer.
    pub code: Option<u16>,
    /// From sending the request until the answer's head.
    pub latency: Duration,
}

impl RestMetrics {
    pub(super) fn register(catalogue: &MetricCatalogue) -> Result<Self, MetricsError> {
        let buckets = exponential_buckets(0.001, 2.0, 10).map_err(MetricsError::Register)?;
        let latency = HistogramOpts::new(
            "rest_client_request_latency_seconds",
            "How long API servers took to answer, by method and address pattern.",
        )
        .buckets(buckets);
        Ok(Self {
            latency: registered(catalogue, HistogramVec::new(latency, &["verb", "url"]))?,
            requests: registered(
                catalogue,
                IntCounterVec::new(
                    opts("rest_client_requests_total", "Requests to API servers, by answer, method and host."),
                    &["code", "method", "host"],
                ),
            )?,
            lacking: registered(
                catalogue,
                IntGaugeVec::new(
                    opts(
                        "millwright_permission_missing",
                        "1 for each verb that a role does not grant and that we would use.",
                    ),
                    &["verb", "resource"],
                ),
            )?,
        })
    }

    /// Records a request that has ended.
    pub fn record(&self, call: &RestCall<'_>) {
        let code = call.code.map_or_else(|| "<error>".to_owned(), |code| code.to_string());
        self.latency.with_label_values(&[call.method, call.url]).observe(call.latency.as_secs_f64());
        self.requests.with_label_values(&[code.as_str(), call.method, call.host]).inc();
    }

    /// Shows that a role does not grant this verb.
    pub fn lack_permission(&self, verb: &str, resource: &str) {
        self.lacking.with_label_values(&[verb, resource]).set(1);
    }

    /// Shows that it does, after all. The series goes: what is granted is nobody's news.
    pub fn have_permission(&self, verb: &str, resource: &str) {
        let _ = self.lacking.remove_label_values(&[verb, resource]);
    }
}

//! Metrics of requests to API servers, with the names of client-go.

use std::time::Duration;

use prometheus::{HistogramOpts, HistogramVec, IntCounterVec, IntGaugeVec, exponential_buckets};

use super::catalogue::MetricCatalogue;
use super::{MetricsError, opts, registered};

/// Counts and measures requests. Cheap to clone.
#[derive(Clone, Debug)]
pub struct RestMetrics {
    latency: HistogramVec,
    requests: IntCounterVec,
    missing_permissions: IntGaugeVec,
}

/// A completed request.
#[derive(Clone, Copy, Debug)]
pub struct RestCall<'a> {
    /// HTTP method in upper case.
    pub method: &'a str,
    /// Host and port of the server.
    pub host: &'a str,
    /// URL with placeholders for names, so that the number of series is small: scheme, host and path with
    /// `%7Bnamespace%7D` and `%7Bname%7D`, query values as `%7Bvalue%7D`.
    pub url: &'a str,
    /// Status code of the response; `None` without a response.
    pub code: Option<u16>,
    /// Time from the request to the head of the response.
    pub latency: Duration,
}

impl RestMetrics {
    pub(super) fn register(catalogue: &MetricCatalogue) -> Result<Self, MetricsError> {
        let buckets = exponential_buckets(0.001, 2.0, 10).map_err(MetricsError::Register)?;
        let latency = HistogramOpts::new(
            "rest_client_request_latency_seconds",
            "Latency of requests to API servers, by method and URL pattern.",
        )
        .buckets(buckets);
        Ok(Self {
            latency: registered(catalogue, HistogramVec::new(latency, &["verb", "url"]))?,
            requests: registered(
                catalogue,
                IntCounterVec::new(
                    opts("rest_client_requests_total", "Requests to API servers, by status code, method and host."),
                    &["code", "method", "host"],
                ),
            )?,
            missing_permissions: registered(
                catalogue,
                IntGaugeVec::new(
                    opts(
                        "millwright_permission_missing",
                        "1 for each verb that the controller needs and that its role does not grant.",
                    ),
                    &["verb", "resource"],
                ),
            )?,
        })
    }

    /// Records a completed request.
    pub fn record(&self, call: &RestCall<'_>) {
        let code = call.code.map_or_else(|| "<error>".to_owned(), |code| code.to_string());
        self.latency.with_label_values(&[call.method, call.url]).observe(call.latency.as_secs_f64());
        self.requests.with_label_values(&[code.as_str(), call.method, call.host]).inc();
    }

    /// Adds the series of a missing permission.
    pub fn permission_missing(&self, verb: &str, resource: &str) {
        self.missing_permissions.with_label_values(&[verb, resource]).set(1);
    }

    /// Removes the series of a permission that was granted.
    pub fn permission_granted(&self, verb: &str, resource: &str) {
        let _ = self.missing_permissions.remove_label_values(&[verb, resource]);
    }
}

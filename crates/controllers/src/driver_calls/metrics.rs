//! Metrics of driver calls.
//!
//! A credential is shown by the name of its Secret, never by its content. The metrics that MCM's drivers count
//! themselves (`mcm_cloud_api_driver_*`) are counted here for all drivers, under the same names. The single requests to
//! a cloud (`mcm_cloud_api_requests_*`) are reported by the driver through `driver::Meter`.

use std::sync::Arc;
use std::time::Duration;

use api::{MachineClass, Object};
use driver::{CloudPressure, Code, Meter, Method, Reply};
use prometheus::{GaugeVec, HistogramOpts, HistogramVec, IntCounterVec, IntGaugeVec, Opts};
use runtime::metrics::Hook;
use runtime::{Metrics, metrics::MetricsError};

use super::limiter::Limiter;

/// The metrics of driver calls. Clones share all metrics.
#[derive(Clone)]
pub(crate) struct CallMetrics {
    waited: HistogramVec,
    took: HistogramVec,
    failed: IntCounterVec,
    requests: IntCounterVec,
    requests_failed: IntCounterVec,
    requests_took: HistogramVec,
    out: IntGaugeVec,
    waiting: IntGaugeVec,
    paused: IntGaugeVec,
    held_back: IntGaugeVec,
    rate_limit: GaugeVec,
    no_capacity: IntCounterVec,
    no_quota: IntCounterVec,
}

impl CallMetrics {
    /// Registers the metrics and the hook that updates the gauges before each scrape. Logs an error and returns `None`
    /// if this fails: driver calls do not depend on their metrics.
    pub(crate) fn register(metrics: &Metrics, limiter: &Limiter) -> Option<Self> {
        match Self::new(metrics) {
            Ok(registered) => {
                registered.follow(limiter, metrics);
                Some(registered)
            }
            Err(error) => {
                tracing::warn!(%error, "failed to register the metrics of driver calls");
                None
            }
        }
    }

    fn new(metrics: &Metrics) -> Result<Self, MetricsError> {
        let gauge = |name: &str, help: &str, label| IntGaugeVec::new(Opts::new(name, help), &[label]);
        let timed = |name: &str, help: &str, labels: &[&str]| HistogramVec::new(HistogramOpts::new(name, help), labels);
        let created = (|| {
            Ok(Self {
                waited: HistogramVec::new(
                    HistogramOpts::new(
                        "millwright_driver_queue_seconds",
                        "Time a driver call waited before it was sent, by the Secret of its credentials.",
                    )
                    .buckets(vec![0.001, 0.01, 0.1, 0.5, 1.0, 5.0, 15.0, 60.0, 300.0, 1200.0]),
                    &["secret", "operation"],
                )?,
                took: timed(
                    "mcm_cloud_api_driver_request_duration_seconds",
                    "Duration of successful driver calls.",
                    &["provider", "operation"],
                )?,
                failed: IntCounterVec::new(
                    Opts::new("mcm_cloud_api_driver_requests_failed_total", "Failed driver calls, by code."),
                    &["provider", "operation", "error_code"],
                )?,
                requests: IntCounterVec::new(
                    Opts::new("mcm_cloud_api_requests_total", "Successful requests of drivers to a cloud."),
                    &["provider", "service"],
                )?,
                requests_failed: IntCounterVec::new(
                    Opts::new("mcm_cloud_api_requests_failed_total", "Failed requests of drivers to a cloud."),
                    &["provider", "service"],
                )?,
                requests_took: timed(
                    "mcm_cloud_api_api_request_duration_seconds",
                    "Duration of successful requests of drivers to a cloud.",
                    &["provider", "service"],
                )?,
                out: gauge("millwright_driver_calls_in_flight", "Driver calls in flight.", "secret")?,
                waiting: gauge("millwright_driver_calls_waiting", "Driver calls that wait in the queue.", "secret")?,
                paused: gauge(
                    "millwright_driver_paused",
                    "1 while no driver calls are sent because the cloud throttles this credential.",
                    "secret",
                )?,
                held_back: gauge(
                    "millwright_machine_class_held_back",
                    "1 while creates of this class are held back because the cloud has no capacity.",
                    "class",
                )?,
                rate_limit: GaugeVec::new(
                    Opts::new(
                        "millwright_cloud_request_rate_limit",
                        "Maximum requests per second of a driver while the cloud throttles this credential.",
                    ),
                    &["provider", "secret"],
                )?,
                no_capacity: IntCounterVec::new(
                    Opts::new(
                        "millwright_cloud_capacity_errors_total",
                        "Creates that the cloud rejected because the zone has no capacity for such a VM.",
                    ),
                    &["provider", "class", "zone"],
                )?,
                no_quota: IntCounterVec::new(
                    Opts::new(
                        "millwright_cloud_quota_errors_total",
                        "Requests that the cloud rejected because of a quota.",
                    ),
                    &["provider", "secret", "quota"],
                )?,
            })
        })()
        .map_err(MetricsError::Register)?;
        created.register_all(metrics)?;
        Ok(created)
    }

    fn register_all(&self, metrics: &Metrics) -> Result<(), MetricsError> {
        metrics.register(self.waited.clone())?;
        metrics.register(self.took.clone())?;
        metrics.register(self.requests_took.clone())?;
        metrics.register(self.rate_limit.clone())?;
        for counter in [&self.failed, &self.requests, &self.requests_failed, &self.no_capacity, &self.no_quota] {
            metrics.register(counter.clone())?;
        }
        for gauge in [&self.out, &self.waiting, &self.paused, &self.held_back] {
            metrics.register(gauge.clone())?;
        }
        Ok(())
    }

    /// Updates the gauges before each scrape, as long as the limiter exists.
    fn follow(&self, limiter: &Limiter, metrics: &Metrics) {
        let (shown, limiter) = (self.clone(), limiter.downgrade());
        metrics.before_scrape(move || match limiter() {
            Some(limiter) => {
                shown.show(&limiter);
                Hook::Keep
            }
            None => Hook::Remove,
        });
    }

    pub(super) fn sent(&self, secret: &str, method: Method, waited: Duration) {
        self.waited.with_label_values(&[secret, method.operation()]).observe(waited.as_secs_f64());
    }

    /// Returns the meter to which a driver reports its requests for this class.
    pub(super) fn meter(&self, class: &MachineClass) -> Arc<dyn Meter> {
        Arc::new(CloudMeter {
            provider: class.provider.to_lowercase(),
            secret: planner::limiter::credential(class).to_owned(),
            class: class.name().to_owned(),
            metrics: self.clone(),
        })
    }

    pub(super) fn ended(&self, provider: &str, method: Method, took: Duration, failure: Option<Code>) {
        let provider = provider.to_lowercase();
        self.initialize(&provider, method);
        match failure {
            None => {
                self.took.with_label_values(&[provider.as_str(), method.operation()]).observe(took.as_secs_f64());
            }
            Some(code) => {
                let code = code.number().to_string();
                self.failed.with_label_values(&[provider.as_str(), method.operation(), code.as_str()]).inc();
            }
        }
    }

    /// Creates all series of an operation with its first call. A counter that first appears with the value 1 has no
    /// rate, and failures cannot be compared with successes that have no series.
    fn initialize(&self, provider: &str, method: Method) {
        let _ = self.took.with_label_values(&[provider, method.operation()]);
        for code in Code::ALL.into_iter().filter(|code| *code != Code::Ok) {
            let _ = self.failed.with_label_values(&[provider, method.operation(), &code.number().to_string()]);
        }
    }

    fn show(&self, limiter: &Limiter) {
        let (traffic, held_back) = limiter.traffic();
        for gauge in [&self.out, &self.waiting, &self.paused, &self.held_back] {
            gauge.reset(); // removes the series of credentials and classes that no longer have calls
        }
        let number = |n: usize| i64::try_from(n).unwrap_or(i64::MAX);
        for (secret, traffic) in traffic {
            let secret = &[secret.as_str()];
            self.out.with_label_values(secret).set(number(traffic.running));
            self.waiting.with_label_values(secret).set(number(traffic.queued));
            self.paused.with_label_values(secret).set(i64::from(traffic.paused));
        }
        for class in held_back {
            self.held_back.with_label_values(&[class.as_str()]).set(1);
        }
    }
}

/// Counts the requests to a cloud for one class.
struct CloudMeter {
    provider: String,
    secret: String,
    class: String,
    metrics: CallMetrics,
}

impl Meter for CloudMeter {
    fn request_ended(&self, service: &str, took: Duration, reply: Reply) {
        let labels = &[self.provider.as_str(), service];
        match reply {
            Reply::Success => {
                self.metrics.requests.with_label_values(labels).inc();
                self.metrics.requests_took.with_label_values(labels).observe(took.as_secs_f64());
            }
            Reply::Failure => self.metrics.requests_failed.with_label_values(labels).inc(),
        }
    }

    fn pressure_reported(&self, pressure: &CloudPressure) {
        let Self { provider, secret, class, metrics } = self;
        match pressure {
            CloudPressure::Rate(Some(rate)) => metrics.rate_limit.with_label_values(&[provider, secret]).set(*rate),
            // An error means that there is no such series.
            CloudPressure::Rate(None) => drop(metrics.rate_limit.remove_label_values(&[provider, secret])),
            CloudPressure::NoCapacity(zone) => metrics.no_capacity.with_label_values(&[provider, class, zone]).inc(),
            CloudPressure::Quota(quota) => metrics.no_quota.with_label_values(&[provider, secret, quota]).inc(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// Shows CLD-12.
    #[test]
    fn rate_limit_is_removed_when_throttling_ends() {
        let metrics = Metrics::new().unwrap();
        let call_metrics = CallMetrics::new(&metrics).unwrap();
        let class: MachineClass = serde_json::from_value(json!({
            "metadata": { "name": "small", "namespace": "shoot" }, "provider": "AWS",
            "secretRef": { "name": "keys", "namespace": "shoot" },
        }))
        .unwrap();
        let meter = call_metrics.meter(&class);
        let shown = |line: &str| metrics.encode().unwrap().lines().any(|found| found == line);
        meter.pressure_reported(&CloudPressure::Rate(Some(0.5)));
        meter.pressure_reported(&CloudPressure::NoCapacity("subnet-1".into()));
        meter.pressure_reported(&CloudPressure::Quota("vCPUs".into()));
        assert!(shown(r#"millwright_cloud_request_rate_limit{provider="aws",secret="keys"} 0.5"#));
        assert!(shown(r#"millwright_cloud_capacity_errors_total{class="small",provider="aws",zone="subnet-1"} 1"#));
        assert!(shown(r#"millwright_cloud_quota_errors_total{provider="aws",quota="vCPUs",secret="keys"} 1"#));
        meter.pressure_reported(&CloudPressure::Rate(None));
        meter.pressure_reported(&CloudPressure::Rate(None));
        assert!(!metrics.encode().unwrap().contains("millwright_cloud_request_rate_limit{"));
    }
}

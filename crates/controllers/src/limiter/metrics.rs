//! The limiter in numbers.
//!
//! A credential is shown by the name of its Secret, never by anything in it. What drivers of the reference count themselves
//! (`mcm_cloud_api_driver_*`) is counted here for all of ours, under the same names. Their single requests to a cloud
//! (`mcm_cloud_api_requests_*`) only they can see; they report them through the call they are given (`driver::Meter`).

use std::sync::Arc;
use std::time::Duration;

use api::{MachineClass, Object};
use driver::{CloudPressure, Code, Meter, Method, Reply};
use prometheus::{GaugeVec, HistogramOpts, HistogramVec, IntCounterVec, IntGaugeVec, Opts};
use runtime::metrics::Hook;
use runtime::{Metrics, metrics::MetricsError};

use super::queue::CallQueue;

/// What is counted at the limiter. Cheap to clone.
#[derive(Clone)]
pub(super) struct LimiterMetrics {
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

impl LimiterMetrics {
    /// Registers the families. A second limiter on the same registry counts for itself and shows nothing.
    pub(super) fn new(metrics: &Metrics) -> Result<Self, MetricsError> {
        let gauge = |name: &str, help: &str, label| IntGaugeVec::new(Opts::new(name, help), &[label]);
        let timed = |name: &str, help: &str, labels: &[&str]| HistogramVec::new(HistogramOpts::new(name, help), labels);
        let made = (|| {
            Ok(Self {
                waited: HistogramVec::new(
                    HistogramOpts::new(
                        "millwright_driver_queue_seconds",
                        "How long a driver call waited before it left, by the Secret of its credentials.",
                    )
                    .buckets(vec![0.001, 0.01, 0.1, 0.5, 1.0, 5.0, 15.0, 60.0, 300.0, 1200.0]),
                    &["secret", "operation"],
                )?,
                took: timed(
                    "mcm_cloud_api_driver_request_duration_seconds",
                    "How long a successful driver call took.",
                    &["provider", "operation"],
                )?,
                failed: IntCounterVec::new(
                    Opts::new("mcm_cloud_api_driver_requests_failed_total", "Driver calls that failed, by code."),
                    &["provider", "operation", "error_code"],
                )?,
                requests: IntCounterVec::new(
                    Opts::new("mcm_cloud_api_requests_total", "Requests of drivers to a cloud that succeeded."),
                    &["provider", "service"],
                )?,
                requests_failed: IntCounterVec::new(
                    Opts::new("mcm_cloud_api_requests_failed_total", "Requests of drivers to a cloud that failed."),
                    &["provider", "service"],
                )?,
                requests_took: timed(
                    "mcm_cloud_api_api_request_duration_seconds",
                    "How long a successful request of a driver to a cloud took.",
                    &["provider", "service"],
                )?,
                out: gauge("millwright_driver_calls_in_flight", "Driver calls that are out now.", "secret")?,
                waiting: gauge("millwright_driver_calls_waiting", "Driver calls that wait to leave.", "secret")?,
                paused: gauge(
                    "millwright_driver_paused",
                    "1 while the cloud throttles this credential and is left alone.",
                    "secret",
                )?,
                held_back: gauge(
                    "millwright_machine_class_held_back",
                    "1 while creates of this class are held back because the cloud has no room.",
                    "class",
                )?,
                rate_limit: GaugeVec::new(
                    Opts::new(
                        "millwright_cloud_request_rate_limit",
                        "Requests a second that a driver keeps to while the cloud throttles this credential.",
                    ),
                    &["provider", "secret"],
                )?,
                no_capacity: IntCounterVec::new(
                    Opts::new(
                        "millwright_cloud_capacity_errors_total",
                        "Creates that the cloud refused because the zone has no such VM to give.",
                    ),
                    &["provider", "class", "zone"],
                )?,
                no_quota: IntCounterVec::new(
                    Opts::new("millwright_cloud_quota_errors_total", "Requests that ran into a quota of the account."),
                    &["provider", "secret", "quota"],
                )?,
            })
        })()
        .map_err(MetricsError::Register)?;
        made.register(metrics)?;
        Ok(made)
    }

    fn register(&self, metrics: &Metrics) -> Result<(), MetricsError> {
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

    /// Shows the call_queue at each scrape, while there is one.
    pub(super) fn follow(&self, call_queue: &CallQueue, metrics: &Metrics) {
        let (shown, call_queue) = (self.clone(), call_queue.downgrade());
        metrics.before_scrape(move || match call_queue() {
            Some(call_queue) => {
                shown.show(&call_queue);
                Hook::Keep
            }
            None => Hook::Remove,
        });
    }

    pub(super) fn left(&self, secret: &str, method: Method, waited: Duration) {
        self.waited.with_label_values(&[secret, method.operation()]).observe(waited.as_secs_f64());
    }

    /// Counts the requests that a driver makes for this class, and shows what the cloud says of the account.
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
        self.begin_at_zero(&provider, method);
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

    /// A counter that is first shown with what it has counted has not risen, for whoever watches; and a success that never was cannot be
    /// compared with failures. So with the first call of its kind everything about it is shown.
    fn begin_at_zero(&self, provider: &str, method: Method) {
        let _ = self.took.with_label_values(&[provider, method.operation()]);
        for code in Code::ALL.into_iter().filter(|code| *code != Code::Ok) {
            let _ = self.failed.with_label_values(&[provider, method.operation(), &code.number().to_string()]);
        }
    }

    fn show(&self, call_queue: &CallQueue) {
        let (traffic, held_back) = call_queue.traffic();
        for gauge in [&self.out, &self.waiting, &self.paused, &self.held_back] {
            gauge.reset(); // what is over is not shown any more
        }
        let number = |n: usize| i64::try_from(n).unwrap_or(i64::MAX);
        for (secret, traffic) in traffic {
            let secret = &[secret.as_str()];
            self.out.with_label_values(secret).set(number(traffic.out));
            self.waiting.with_label_values(secret).set(number(traffic.waiting));
            self.paused.with_label_values(secret).set(i64::from(traffic.paused));
        }
        for class in held_back {
            self.held_back.with_label_values(&[class.as_str()]).set(1);
        }
    }
}

/// What is asked of a cloud for one class.
struct CloudMeter {
    provider: String,
    secret: String,
    class: String,
    metrics: LimiterMetrics,
}

impl Meter for CloudMeter {
    fn asked(&self, service: &str, took: Duration, reply: Reply) {
        let labels = &[self.provider.as_str(), service];
        match reply {
            Reply::Success => {
                self.metrics.requests.with_label_values(labels).inc();
                self.metrics.requests_took.with_label_values(labels).observe(took.as_secs_f64());
            }
            Reply::Failure => self.metrics.requests_failed.with_label_values(labels).inc(),
        }
    }

    fn pressed(&self, pressure: &CloudPressure) {
        let Self { provider, secret, class, metrics } = self;
        match pressure {
            CloudPressure::Rate(Some(rate)) => metrics.rate_limit.with_label_values(&[provider, secret]).set(*rate),
            // An error says that nothing was shown, and nothing is to be shown.
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
    fn what_a_cloud_says_of_an_account_is_shown_and_its_rate_ends_with_the_throttling() {
        let metrics = Metrics::new().unwrap();
        let limiter = LimiterMetrics::new(&metrics).unwrap();
        let class: MachineClass = serde_json::from_value(json!({
            "metadata": { "name": "small", "namespace": "shoot" }, "provider": "AWS",
            "secretRef": { "name": "keys", "namespace": "shoot" },
        }))
        .unwrap();
        let meter = limiter.meter(&class);
        let shown = |line: &str| metrics.encode().unwrap().lines().any(|found| found == line);
        meter.pressed(&CloudPressure::Rate(Some(0.5)));
        meter.pressed(&CloudPressure::NoCapacity("subnet-1".into()));
        meter.pressed(&CloudPressure::Quota("vCPUs".into()));
        assert!(shown(r#"millwright_cloud_request_rate_limit{provider="aws",secret="keys"} 0.5"#));
        assert!(shown(r#"millwright_cloud_capacity_errors_total{class="small",provider="aws",zone="subnet-1"} 1"#));
        assert!(shown(r#"millwright_cloud_quota_errors_total{provider="aws",quota="vCPUs",secret="keys"} 1"#));
        meter.pressed(&CloudPressure::Rate(None));
        meter.pressed(&CloudPressure::Rate(None));
        assert!(!metrics.encode().unwrap().contains("millwright_cloud_request_rate_limit{"));
    }
}

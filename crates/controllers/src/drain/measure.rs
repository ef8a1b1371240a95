//! Metrics of drains.

use jiff::SignedDuration;
use planner::drain::Answer;
use prometheus::{IntCounterVec, IntGauge, Opts};
use runtime::Key;
use runtime::metrics::{Hook, Metrics};

use super::running::Running;
use crate::measure::{LifecycleMetrics, registered};

/// The metrics of the drains of one cluster. Clones share all metrics.
#[derive(Clone)]
pub(super) struct Measures {
    lifecycle: LifecycleMetrics,
    requests: Option<IntCounterVec>,
}

impl Measures {
    /// Registers the metrics. A metric that cannot be registered is `None`: drains do not depend on it.
    pub(super) fn register(metrics: &Metrics, lifecycle: &LifecycleMetrics, running: &Running) -> Self {
        let requests = Opts::new(
            "millwright_drain_requests_total",
            "Evictions, deletions and detachments of drains, by response of the API server.",
        );
        let requests = registered(metrics, IntCounterVec::new(requests, &["verb", "answer"]));
        if let Some(gauge) = registered(metrics, IntGauge::new("millwright_drains", "Drains in progress.")) {
            let running = running.clone();
            metrics.before_scrape(move || {
                gauge.set(i64::try_from(running.len()).unwrap_or(i64::MAX));
                Hook::Keep
            });
        }
        Self { lifecycle: lifecycle.clone(), requests }
    }

    /// Measures the duration of a drain.
    pub(super) fn drained(&self, machine: &Key, deployment: Option<&str>, took: SignedDuration) {
        self.lifecycle.drained(machine, deployment, took);
    }

    /// Counts a response.
    pub(super) fn answered(&self, verb: &'static str, answer: &Answer) {
        let word = match answer {
            Answer::Accepted => "accepted",
            Answer::Gone => "gone",
            Answer::Refused(_) => "refused",
            Answer::Failed(_) => "failed",
        };
        if let Some(family) = &self.requests {
            family.with_label_values(&[verb, word]).inc();
        }
    }
}

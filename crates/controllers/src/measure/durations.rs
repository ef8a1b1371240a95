//! Histograms of the durations of lifecycle steps.
//!
//! MCM's gauges (`lifecycle`) have the value of the last Machine of a pool. Service level objectives need the distribution. The histograms
//! have fewer labels, because each series has one line per bucket.

use jiff::SignedDuration;
use prometheus::{HistogramOpts, HistogramVec};
use runtime::metrics::Metrics;

use super::registered;

/// From immediate creation of a VM to a drain with a timeout of two hours.
const SECONDS: [f64; 15] =
    [1.0, 2.5, 5.0, 10.0, 20.0, 40.0, 60.0, 90.0, 120.0, 180.0, 300.0, 600.0, 1_200.0, 3_600.0, 7_200.0];

/// A measured lifecycle step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Measure {
    Create,
    Join,
    Drain,
    Delete,
}

/// Histograms of one cluster. Clones share the values.
#[derive(Clone)]
pub(super) struct Durations {
    create: Option<HistogramVec>,
    join: Option<HistogramVec>,
    drain: Option<HistogramVec>,
    delete: Option<HistogramVec>,
}

impl Durations {
    pub(super) fn register(metrics: &Metrics) -> Self {
        let family = |name: &str, help: &str| {
            let options = HistogramOpts::new(name, help).buckets(SECONDS.to_vec());
            registered(metrics, HistogramVec::new(options, &["namespace", "machine_deployment"]))
        };
        Self {
            create: family(
                "millwright_machine_create_duration_seconds",
                "From the creation of a Machine until its VM was created.",
            ),
            join: family(
                "millwright_machine_join_duration_seconds",
                "From the creation of a Machine until it was first Running.",
            ),
            drain: family("millwright_machine_drain_duration_seconds", "Duration of successful drains."),
            delete: family(
                "millwright_machine_delete_duration_seconds",
                "From the deletion of a Machine until its VM was deleted.",
            ),
        }
    }

    /// Records the duration of a step. A negative duration, caused by clock skew, is ignored.
    pub(super) fn observe(&self, of: Measure, namespace: &str, deployment: &str, took: SignedDuration) {
        let family = match of {
            Measure::Create => &self.create,
            Measure::Join => &self.join,
            Measure::Drain => &self.drain,
            Measure::Delete => &self.delete,
        };
        if let Some(family) = family
            && !took.is_negative()
        {
            family.with_label_values(&[namespace, deployment]).observe(took.as_secs_f64());
        }
    }

    /// Removes the series of a pool.
    pub(super) fn forget(&self, namespace: &str, deployment: &str) {
        for family in [&self.create, &self.join, &self.drain, &self.delete].into_iter().flatten() {
            // Fails if the pool has no value for the step.
            let _ = family.remove_label_values(&[namespace, deployment]);
        }
    }
}

//! How long the steps of machines' lives take, as distributions.
//!
//! The reference's gauges (`lifecycle`) show the last machine of a pool; what an operator promises others is about nearly all of
//! them. The labels are fewer, because each series is as many lines as there are buckets.

use jiff::SignedDuration;
use prometheus::{HistogramOpts, HistogramVec};
use runtime::metrics::Metrics;

use super::shown;

/// From a VM that is there at once to a drain that is given two hours.
const SECONDS: [f64; 15] =
    [1.0, 2.5, 5.0, 10.0, 20.0, 40.0, 60.0, 90.0, 120.0, 180.0, 300.0, 600.0, 1_200.0, 3_600.0, 7_200.0];

/// A step that is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Measure {
    Create,
    Join,
    Drain,
    Delete,
}

/// The distributions of one cluster. Clones share the numbers.
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
            shown(metrics, HistogramVec::new(options, &["namespace", "machine_deployment"]))
        };
        Self {
            create: family(
                "millwright_machine_create_duration_seconds",
                "From the creation of a Machine until its VM was made.",
            ),
            join: family(
                "millwright_machine_join_duration_seconds",
                "From the creation of a Machine until it was first Running.",
            ),
            drain: family("millwright_machine_drain_duration_seconds", "How long a drain that succeeded took."),
            delete: family(
                "millwright_machine_delete_duration_seconds",
                "From the request to delete a Machine until its VM was gone.",
            ),
        }
    }

    /// A machine of this pool took the step. What came before its beginning, by clocks that differ, is no duration.
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

    /// The pool is no more.
    pub(super) fn forget(&self, namespace: &str, deployment: &str) {
        for family in [&self.create, &self.join, &self.drain, &self.delete].into_iter().flatten() {
            // There is nothing to remove where the step was never taken.
            let _ = family.remove_label_values(&[namespace, deployment]);
        }
    }
}

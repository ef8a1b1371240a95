//! Work queues, under the names dashboards of the reference already use.

use std::time::Duration;

use prometheus::core::Collector;
use prometheus::proto::MetricFamily;
use prometheus::{
    Gauge, GaugeVec, Histogram, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGauge, IntGaugeVec,
    exponential_buckets,
};

use super::catalogue::MetricCatalogue;
use super::{MetricsError, opts, registered};

/// The families of all queues; a queue writes through its own [`QueueRecorder`]. Cheap to clone.
#[derive(Clone, Debug)]
pub struct QueueMetrics {
    depth: IntGaugeVec,
    adds: IntCounterVec,
    queue_duration: HistogramVec,
    work_duration: HistogramVec,
    unfinished: GaugeVec,
    longest: GaugeVec,
    retries: IntCounterVec,
    panics: IntCounterVec,
    busiest: GaugeVec,
}

impl QueueMetrics {
    pub(super) fn register(catalogue: &MetricCatalogue) -> Result<Self, MetricsError> {
        let name = &["name"];
        let buckets = exponential_buckets(1e-8, 10.0, 10).map_err(MetricsError::Register)?;
        let timed = |metric: &str, help: &str| {
            let opts = HistogramOpts::new(metric, help).buckets(buckets.clone());
            registered(catalogue, HistogramVec::new(opts, name))
        };
        let counter = |metric: &str, help: &str| registered(catalogue, IntCounterVec::new(opts(metric, help), name));
        let gauge = |metric: &str, help: &str| registered(catalogue, GaugeVec::new(opts(metric, help), name));
        Ok(Self {
            depth: registered(
                catalogue,
                IntGaugeVec::new(opts("mcm_workqueue_depth", "Keys that wait for a worker now."), name),
            )?,
            adds: counter("mcm_workqueue_adds_total", "Keys that entered the queue.")?,
            queue_duration: timed("mcm_workqueue_queue_duration_seconds", "How long a key waited for a worker.")?,
            work_duration: timed("mcm_workqueue_work_duration_seconds", "How long the work on a key took.")?,
            unfinished: gauge(
                "mcm_workqueue_unfinished_work_seconds",
                "Seconds of work in progress that work_duration has not seen yet; large values point at stuck workers.",
            )?,
            longest: gauge(
                "mcm_workqueue_longest_running_processor_seconds",
                "How long the oldest work in progress has been running.",
            )?,
            retries: counter("mcm_workqueue_retries_total", "Keys that were added to come back later.")?,
            panics: counter("millwright_workqueue_panics_total", "Panics caught while working on a key.")?,
            busiest: gauge(
                "millwright_workqueue_busiest_key_reconciles",
                "Largest number of reconciles of one key within ten seconds; large values show a busy loop.",
            )?,
        })
    }

    /// Whether the work on any key of any queue has panicked.
    pub fn has_caught_panic(&self) -> bool {
        let families = self.panics.collect();
        families.iter().flat_map(MetricFamily::get_metric).any(|metric| metric.get_counter().get_value() > 0.0)
    }

    /// The handle through which the queue `name` counts.
    pub fn recorder(&self, name: &str) -> QueueRecorder {
        let name = &[name];
        QueueRecorder {
            depth: self.depth.with_label_values(name),
            adds: self.adds.with_label_values(name),
            queue_duration: self.queue_duration.with_label_values(name),
            work_duration: self.work_duration.with_label_values(name),
            unfinished: self.unfinished.with_label_values(name),
            longest: self.longest.with_label_values(name),
            retries: self.retries.with_label_values(name),
            panics: self.panics.with_label_values(name),
            busiest: self.busiest.with_label_values(name),
        }
    }
}

/// The numbers of one queue.
#[derive(Clone, Debug)]
pub struct QueueRecorder {
    depth: IntGauge,
    adds: IntCounter,
    queue_duration: Histogram,
    work_duration: Histogram,
    unfinished: Gauge,
    longest: Gauge,
    retries: IntCounter,
    panics: IntCounter,
    busiest: Gauge,
}

impl QueueRecorder {
    /// A key entered; `depth` keys wait now.
    pub fn added(&self, depth: usize) {
        self.adds.inc();
        self.deep(depth);
    }

    /// This many keys wait for a worker.
    pub fn deep(&self, depth: usize) {
        self.depth.set(i64::try_from(depth).unwrap_or(i64::MAX));
    }

    /// A worker took a key that had waited this long.
    pub fn started(&self, waited: Duration, depth: usize) {
        self.queue_duration.observe(waited.as_secs_f64());
        self.deep(depth);
    }

    /// A worker is done with a key after this long.
    pub fn finished(&self, took: Duration) {
        self.work_duration.observe(took.as_secs_f64());
    }

    /// A key was told to come back later.
    pub fn retried(&self) {
        self.retries.inc();
    }

    /// The work on a key panicked.
    pub fn panicked(&self) {
        self.panics.inc();
    }

    /// Work in progress, as of now.
    pub fn in_progress(&self, total: Duration, longest: Duration) {
        self.unfinished.set(total.as_secs_f64());
        self.longest.set(longest.as_secs_f64());
    }

    /// One key was worked on this often within ten seconds, and no key more often.
    pub fn busiest(&self, reconciles: u32) {
        self.busiest.set(f64::from(reconciles));
    }

    /// How many panics were caught.
    pub fn panics(&self) -> u64 {
        self.panics.get()
    }
}

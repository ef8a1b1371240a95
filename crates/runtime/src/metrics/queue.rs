//! Metrics of the work queues, with the names of MCM.

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
                IntGaugeVec::new(opts("mcm_workqueue_depth", "Keys that wait for a worker."), name),
            )?,
            adds: counter("mcm_workqueue_adds_total", "Keys that were added to the queue.")?,
            queue_duration: timed("mcm_workqueue_queue_duration_seconds", "Time that a key waited for a worker.")?,
            work_duration: timed("mcm_workqueue_work_duration_seconds", "Duration of a reconcile.")?,
            unfinished: gauge(
                "mcm_workqueue_unfinished_work_seconds",
                "Total duration of reconciles in progress; large values indicate stuck workers.",
            )?,
            longest: gauge(
                "mcm_workqueue_longest_running_processor_seconds",
                "Duration of the longest reconcile in progress.",
            )?,
            retries: counter("mcm_workqueue_retries_total", "Keys that were added with a delay.")?,
            panics: counter("millwright_workqueue_panics_total", "Panics caught in reconciles.")?,
            busiest: gauge(
                "millwright_workqueue_busiest_key_reconciles",
                "Largest number of reconciles of one key within ten seconds; large values indicate a busy loop.",
            )?,
        })
    }

    /// Returns whether any reconcile has panicked.
    pub fn has_caught_panic(&self) -> bool {
        let families = self.panics.collect();
        families.iter().flat_map(MetricFamily::get_metric).any(|metric| metric.get_counter().get_value() > 0.0)
    }

    /// Returns the metrics of the queue `name`.
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

/// Metrics of one queue.
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
    /// Records an added key; `depth` keys wait now.
    pub fn added(&self, depth: usize) {
        self.adds.inc();
        self.set_depth(depth);
    }

    /// Sets the number of keys that wait for a worker.
    pub fn set_depth(&self, depth: usize) {
        self.depth.set(i64::try_from(depth).unwrap_or(i64::MAX));
    }

    /// Records that a worker took a key, and how long the key had waited.
    pub fn started(&self, waited: Duration, depth: usize) {
        self.queue_duration.observe(waited.as_secs_f64());
        self.set_depth(depth);
    }

    /// Records the duration of a reconcile.
    pub fn finished(&self, took: Duration) {
        self.work_duration.observe(took.as_secs_f64());
    }

    /// Counts a delayed add.
    pub fn retried(&self) {
        self.retries.inc();
    }

    /// Counts a panic.
    pub fn panicked(&self) {
        self.panics.inc();
    }

    /// Sets the total and the maximum duration of work in progress.
    pub fn in_progress(&self, total: Duration, longest: Duration) {
        self.unfinished.set(total.as_secs_f64());
        self.longest.set(longest.as_secs_f64());
    }

    /// Sets the largest number of reconciles of one key within ten seconds.
    pub fn busiest(&self, reconciles: u32) {
        self.busiest.set(f64::from(reconciles));
    }

    /// Returns the number of panics.
    pub fn panics(&self) -> u64 {
        self.panics.get()
    }
}

//! Prometheus metrics.
//!
//! There is no global registry: the owner of a set of controllers creates a [`Metrics`] value, so that tests can run many
//! clusters in one process. Families of MCM and client-go (`mcm_workqueue_*`, `rest_client_*`) keep their names, labels and
//! buckets. The names of all others begin with `millwright_`.
//!
//! Some gauges are computed at each scrape, by the hooks of [`Metrics::before_scrape`]. Families with a series per object are
//! written at each scrape ([`Metrics::register_dynamic`]), so that the series of deleted objects disappear.

mod cache;
mod catalogue;
mod events;
mod page;
mod queue;
mod rest;
mod scrapes;

use std::fmt;
use std::sync::Arc;

use parking_lot::Mutex;
use prometheus::core::Collector;
use prometheus::{IntGauge, Opts};

use crate::cache::Caches;
pub use cache::CacheMetrics;
pub use catalogue::Declared;
use catalogue::MetricCatalogue;
pub use events::{EventMetrics, EventOutcome};
pub use page::{Family, Page, Series, Shape};
pub use queue::{QueueMetrics, QueueRecorder};
pub use rest::{RestCall, RestMetrics};
use scrapes::Scrapes;

type Hooks = Arc<Mutex<Vec<Box<dyn FnMut() -> Hook + Send>>>>;
type Dynamic = Arc<Mutex<Vec<Box<dyn FnMut(&mut Page<'_>) + Send>>>>;

/// Whether a hook is called again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hook {
    /// Call it at the next scrape.
    Keep,
    /// Remove it: its subject is gone.
    Remove,
}

/// A metric could not be registered or encoded.
#[derive(Debug, thiserror::Error)]
pub enum MetricsError {
    /// The name is invalid or already registered.
    #[error("failed to register a metric")]
    Register(#[source] prometheus::Error),
    /// The name of a dynamic family is already registered.
    #[error("failed to register a metric: {0} is already registered")]
    Taken(String),
    /// The metrics could not be encoded.
    #[error("failed to encode the metrics")]
    Encode(#[source] prometheus::Error),
}

/// The registry of one set of controllers, with the families of the runtime. Cheap to clone; clones share the values.
#[derive(Clone)]
pub struct Metrics {
    catalogue: MetricCatalogue,
    hooks: Hooks,
    dynamic: Dynamic,
    scrapes: Scrapes,
    /// Work queues.
    pub queues: QueueMetrics,
    /// Requests to API servers.
    pub rest: RestMetrics,
    /// Caches of watched kinds.
    pub caches: CacheMetrics,
    /// Kubernetes Events.
    pub events: EventMetrics,
}

impl Metrics {
    /// Creates a registry with the families of the runtime.
    pub fn new() -> Result<Self, MetricsError> {
        let catalogue = MetricCatalogue::default();
        Ok(Self {
            hooks: Hooks::default(),
            dynamic: Dynamic::default(),
            scrapes: Scrapes::register(&catalogue)?,
            queues: QueueMetrics::register(&catalogue)?,
            rest: RestMetrics::register(&catalogue)?,
            caches: CacheMetrics::register(&catalogue)?,
            events: EventMetrics::register(&catalogue)?,
            catalogue,
        })
    }

    /// Registers a family.
    pub fn register(&self, collector: impl Collector + 'static) -> Result<(), MetricsError> {
        self.catalogue.register(collector)
    }

    /// Registers families that `write` writes at each scrape, so that series end with their subjects. `write` is called once now,
    /// with a page that only records the families.
    pub fn register_dynamic(&self, mut write: impl FnMut(&mut Page<'_>) + Send + 'static) -> Result<(), MetricsError> {
        self.catalogue.declare(&Page::families(&mut write))?;
        self.dynamic.lock().push(Box::new(write));
        Ok(())
    }

    /// Returns all registered families by name, also those without series.
    pub fn declared(&self) -> Vec<Declared> {
        self.catalogue.declared()
    }

    /// Registers the `process_*` families (memory, CPU, file descriptors). For the binary only, because they read `/proc`.
    #[cfg(target_os = "linux")]
    pub fn register_process(&self) -> Result<(), MetricsError> {
        self.register(prometheus::process_collector::ProcessCollector::for_self())
    }

    /// Registers `millwright_build_info`: always 1, with version and commit as labels.
    pub fn register_build(&self, version: &str, commit: &str) -> Result<(), MetricsError> {
        let labels =
            [("version", version), ("commit", commit)].map(|(name, value)| (name.to_owned(), value.to_owned()));
        let what = "Always 1; the labels are the version and the commit of the program.";
        let about = Opts::new("millwright_build_info", what).const_labels(labels.into());
        let build = IntGauge::with_opts(about).map_err(MetricsError::Register)?;
        build.set(1);
        self.register(build)
    }

    /// Calls `refresh` before each scrape, for gauges that are computed at that time.
    pub fn before_scrape(&self, refresh: impl FnMut() -> Hook + Send + 'static) {
        self.hooks.lock().push(Box::new(refresh));
    }

    /// Updates the metrics of these caches at each scrape.
    pub fn follow_caches(&self, caches: &Caches) {
        let (metrics, caches) = (self.caches.clone(), caches.clone());
        self.before_scrape(move || {
            for status in caches.statuses() {
                metrics.update(&status);
            }
            Hook::Keep
        });
    }

    /// Returns all metrics in the text format of Prometheus (version 0.0.4).
    pub fn encode(&self) -> Result<String, MetricsError> {
        let scrape = self.scrapes.begin();
        self.hooks.lock().retain_mut(|refresh| refresh() == Hook::Keep);
        let text = self.catalogue.encode().map(|mut text| {
            let mut page = Page::on(&mut text);
            for write in self.dynamic.lock().iter_mut() {
                write(&mut page);
            }
            text
        });
        scrape.end(&text);
        text
    }
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Metrics").finish_non_exhaustive()
    }
}

/// Registers `metric` and returns it. The registry holds a clone that shares its values.
fn registered<M: Collector + Clone + 'static>(
    catalogue: &MetricCatalogue,
    metric: Result<M, prometheus::Error>,
) -> Result<M, MetricsError> {
    let metric = metric.map_err(MetricsError::Register)?;
    catalogue.register(metric.clone())?;
    Ok(metric)
}

fn opts(name: &str, help: &str) -> Opts {
    Opts::new(name, help)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cache::{Counters, State, Status, Trust};
    use std::time::Duration;

    /// Returns metrics in which each family has a series.
    fn filled() -> Metrics {
        let metrics = Metrics::new().unwrap();
        metrics.queues.recorder("machine").added(1);
        metrics.rest.record(&RestCall {
            method: "GET",
            host: "api:443",
            url: "https://api:443/api/v1/nodes",
            code: Some(200),
            latency: Duration::from_millis(3),
        });
        metrics.follow_caches(&Caches::new());
        metrics.caches.update(&Status {
            kind: "nodes".to_owned(),
            state: State::Watching,
            synced: true,
            trust: Trust::Firm,
            last_heard: None,
            objects: 1,
            undecodable: 0,
            counters: Counters::default(),
        });
        metrics.events.count(EventOutcome::Created);
        metrics
    }

    /// Shows QUE-6.
    #[test]
    fn names_labels_and_types_are_unchanged() {
        let text = filled().encode().unwrap();
        let families: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("# TYPE ")).collect();
        assert_eq!(
            families,
            [
                "mcm_workqueue_adds_total counter",
                "mcm_workqueue_depth gauge",
                "mcm_workqueue_longest_running_processor_seconds gauge",
                "mcm_workqueue_queue_duration_seconds histogram",
                "mcm_workqueue_retries_total counter",
                "mcm_workqueue_unfinished_work_seconds gauge",
                "mcm_workqueue_work_duration_seconds histogram",
                "millwright_cache_events_total counter",
                "millwright_cache_expirations_total counter",
                "millwright_cache_failures_total counter",
                "millwright_cache_handler_panics_total counter",
                "millwright_cache_lists_total counter",
                "millwright_cache_objects gauge",
                "millwright_cache_regressions_total counter",
                "millwright_cache_stalls_total counter",
                "millwright_cache_synced gauge",
                "millwright_cache_undecodable gauge",
                "millwright_cache_watches_total counter",
                "millwright_events_total counter",
                "millwright_workqueue_busiest_key_reconciles gauge",
                "millwright_workqueue_panics_total counter",
                "promhttp_metric_handler_requests_in_flight gauge",
                "promhttp_metric_handler_requests_total counter",
                "rest_client_request_latency_seconds histogram",
                "rest_client_requests_total counter",
            ]
        );
        assert!(text.contains("mcm_workqueue_depth{name=\"machine\"} 1\n"), "{text}");
        assert!(text.contains("rest_client_requests_total{code=\"200\",host=\"api:443\",method=\"GET\"} 1\n"));
        assert!(text.contains(
            "rest_client_request_latency_seconds_bucket{url=\"https://api:443/api/v1/nodes\",verb=\"GET\",le=\"0.004\"} 1\n"
        ));
    }

    /// Shows QUE-6.
    #[test]
    fn buckets_are_those_of_mcm() {
        let text = filled().encode().unwrap();
        let bounds = |family: &str| -> Vec<f64> {
            text.lines()
                .filter(|line| line.starts_with(&format!("{family}_bucket")))
                .filter_map(|line| line.split("le=\"").nth(1)?.split('"').next()?.parse().ok())
                .filter(|bound: &f64| bound.is_finite())
                .collect()
        };
        let same = |family: &str, start: f64, factor: f64| {
            let seen = bounds(family);
            assert_eq!(seen.len(), 10, "{family}: {seen:?}");
            for (n, bound) in (0i32..).zip(&seen) {
                let wanted = start * factor.powi(n);
                assert!((bound / wanted - 1.0).abs() < 1e-9, "{family}: {bound} instead of {wanted}");
            }
        };
        same("rest_client_request_latency_seconds", 0.001, 2.0);
        same("mcm_workqueue_queue_duration_seconds", 1e-8, 10.0);
        same("mcm_workqueue_work_duration_seconds", 1e-8, 10.0);
    }

    #[test]
    fn hook_is_called_at_each_scrape_until_it_is_removed() {
        let metrics = Metrics::new().unwrap();
        let gauge = prometheus::IntGauge::new("looks", "Number of scrapes.").unwrap();
        metrics.register(gauge.clone()).unwrap();
        metrics.before_scrape(move || {
            gauge.inc();
            if gauge.get() == 2 { Hook::Remove } else { Hook::Keep }
        });
        let looks = |text: String| text.lines().any(|line| line == "looks 2");
        assert!(!looks(metrics.encode().unwrap()));
        assert!(looks(metrics.encode().unwrap()));
        assert!(looks(metrics.encode().unwrap()));
    }

    /// Shows EVT-7.
    #[test]
    fn registries_are_independent() {
        let (one, other) = (filled(), Metrics::new().unwrap());
        assert!(one.encode().unwrap().contains("rest_client_requests_total{"));
        assert!(!other.encode().unwrap().contains("rest_client_requests_total{"));
    }
}

//! What the process says about itself in numbers.
//!
//! One [`Metrics`] value is made by whoever owns a set of controllers and handed down; there is no process-wide registry, so
//! that twenty clusters in one test do not add up to one nonsense figure. Families whose names others already scrape
//! (`mcm_workqueue_*`, `rest_client_*`) keep names, labels and buckets exactly; what is new to Millwright starts with
//! `millwright_`.
//!
//! Some gauges are only worth computing when someone looks: those are refreshed by the hooks of [`Metrics::before_scrape`], or,
//! where objects come and go and their series with them, written out afresh by an exhibit ([`Metrics::exhibit`]).

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
pub use events::{EventFate, EventMetrics};
pub use page::{Family, Page, Series, Shape};
pub use queue::{QueueMetrics, QueueRecorder};
pub use rest::{RestCall, RestMetrics};
use scrapes::Scrapes;

type Hooks = Arc<Mutex<Vec<Box<dyn FnMut() -> Hook + Send>>>>;
type Exhibits = Arc<Mutex<Vec<Box<dyn FnMut(&mut Page<'_>) + Send>>>>;

/// Whether a hook wants to be asked again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hook {
    /// Ask again at the next scrape.
    Keep,
    /// What it described is gone.
    Remove,
}

/// A metric that could not be set up or shown.
#[derive(Debug, thiserror::Error)]
pub enum MetricsError {
    /// Two metrics want the same name, or a name is not one.
    #[error("failed to register a metric")]
    Register(#[source] prometheus::Error),
    /// Two exhibits, or an exhibit and a metric, want the same name.
    #[error("failed to register a metric: {0} is taken")]
    Taken(String),
    /// The text form could not be written.
    #[error("failed to write the metrics as text")]
    Encode(#[source] prometheus::Error),
}

/// The registry of one set of controllers, with the families of the runtime. Cheap to clone; clones share the numbers.
#[derive(Clone)]
pub struct Metrics {
    catalogue: MetricCatalogue,
    hooks: Hooks,
    exhibits: Exhibits,
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
    /// A registry with the runtime's families, all at zero.
    pub fn new() -> Result<Self, MetricsError> {
        let catalogue = MetricCatalogue::default();
        Ok(Self {
            hooks: Hooks::default(),
            exhibits: Exhibits::default(),
            scrapes: Scrapes::register(&catalogue)?,
            queues: QueueMetrics::register(&catalogue)?,
            rest: RestMetrics::register(&catalogue)?,
            caches: CacheMetrics::register(&catalogue)?,
            events: EventMetrics::register(&catalogue)?,
            catalogue,
        })
    }

    /// Adds a family of somebody else's.
    pub fn register(&self, collector: impl Collector + 'static) -> Result<(), MetricsError> {
        self.catalogue.enter(collector)
    }

    /// Writes whole families out afresh at each scrape, so that a series ends with what it is about. `show` is called once now, with
    /// a page that only takes down which families there are.
    pub fn exhibit(&self, mut show: impl FnMut(&mut Page<'_>) + Send + 'static) -> Result<(), MetricsError> {
        self.catalogue.declare(&Page::rehearse(&mut show))?;
        self.exhibits.lock().push(Box::new(show));
        Ok(())
    }

    /// Every family there is or can be, by name, whether or not it has a series now.
    pub fn declared(&self) -> Vec<Declared> {
        self.catalogue.declared()
    }

    /// Adds the `process_*` family (memory, CPU, file descriptors). For the binary only: it reads files of the system.
    #[cfg(target_os = "linux")]
    pub fn register_process(&self) -> Result<(), MetricsError> {
        self.register(prometheus::process_collector::ProcessCollector::for_self())
    }

    /// Adds `millwright_build_info`: always 1, with what the program is made from as labels, to be joined with the other families.
    pub fn register_build(&self, version: &str, commit: &str) -> Result<(), MetricsError> {
        let labels =
            [("version", version), ("commit", commit)].map(|(name, value)| (name.to_owned(), value.to_owned()));
        let what = "Always 1; the labels say what this program is made from.";
        let about = Opts::new("millwright_build_info", what).const_labels(labels.into());
        let build = IntGauge::with_opts(about).map_err(MetricsError::Register)?;
        build.set(1);
        self.register(build)
    }

    /// Runs `refresh` before each scrape, for gauges that are computed when someone looks.
    pub fn before_scrape(&self, refresh: impl FnMut() -> Hook + Send + 'static) {
        self.hooks.lock().push(Box::new(refresh));
    }

    /// Shows these caches at each scrape.
    pub fn follow_caches(&self, caches: &Caches) {
        let (shown, caches) = (self.caches.clone(), caches.clone());
        self.before_scrape(move || {
            for status in caches.statuses() {
                shown.show(&status);
            }
            Hook::Keep
        });
    }

    /// Everything in the text format (version 0.0.4) of Prometheus.
    pub fn encode(&self) -> Result<String, MetricsError> {
        let scrape = self.scrapes.begin();
        self.hooks.lock().retain_mut(|refresh| refresh() == Hook::Keep);
        let text = self.catalogue.encode().map(|mut text| {
            let mut page = Page::on(&mut text);
            for show in self.exhibits.lock().iter_mut() {
                show(&mut page);
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

/// Registers `metric` and hands it back: the registry holds a clone that shares the numbers.
fn registered<M: Collector + Clone + 'static>(
    catalogue: &MetricCatalogue,
    metric: Result<M, prometheus::Error>,
) -> Result<M, MetricsError> {
    let metric = metric.map_err(MetricsError::Register)?;
    catalogue.enter(metric.clone())?;
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

    /// Touches every family once, so that each shows a series.
    fn touched() -> Metrics {
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
        metrics.caches.show(&Status {
            kind: "nodes".to_owned(),
            state: State::Watching,
            synced: true,
            trust: Trust::Firm,
            last_heard: None,
            objects: 1,
            undecodable: 0,
            counters: Counters::default(),
        });
        metrics.events.count(EventFate::Created);
        metrics
    }

    /// Shows QUE-6.
    #[test]
    fn names_labels_and_types_that_others_scrape_do_not_change() {
        let text = touched().encode().unwrap();
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
    fn buckets_are_those_dashboards_were_drawn_with() {
        let text = touched().encode().unwrap();
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
    fn a_gauge_computed_on_demand_is_fresh_at_each_scrape_until_its_subject_is_gone() {
        let metrics = Metrics::new().unwrap();
        let gauge = prometheus::IntGauge::new("looks", "how often someone looked").unwrap();
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
    fn two_sets_of_controllers_do_not_share_numbers() {
        let (one, other) = (touched(), Metrics::new().unwrap());
        assert!(one.encode().unwrap().contains("rest_client_requests_total{"));
        assert!(!other.encode().unwrap().contains("rest_client_requests_total{"));
    }
}

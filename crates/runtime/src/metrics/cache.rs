//! Metrics of the caches.

use prometheus::{IntCounterVec, IntGaugeVec};

use super::catalogue::MetricCatalogue;
use super::{MetricsError, opts, registered};
use crate::cache::{Counters, Status};

/// Metrics of all caches, by kind. Caches have their own counters; the metrics are updated at each scrape. Cheap to clone.
#[derive(Clone, Debug)]
pub struct CacheMetrics {
    objects: IntGaugeVec,
    undecodable: IntGaugeVec,
    synced: IntGaugeVec,
    counters: [(IntCounterVec, CounterOf); 8],
}

/// Selects a counter of a cache.
type CounterOf = fn(&Counters) -> u64;

impl CacheMetrics {
    pub(super) fn register(catalogue: &MetricCatalogue) -> Result<Self, MetricsError> {
        let gauge = |name: &str, help: &str| registered(catalogue, IntGaugeVec::new(opts(name, help), &["kind"]));
        let counter = |name: &str, help: &str| registered(catalogue, IntCounterVec::new(opts(name, help), &["kind"]));
        let lists = counter("millwright_cache_lists_total", "Completed lists.")?;
        let watches = counter("millwright_cache_watches_total", "Started watches.")?;
        let events = counter("millwright_cache_events_total", "Watch events.")?;
        let failures = counter("millwright_cache_failures_total", "Failed lists and watches.")?;
        let expirations = counter("millwright_cache_expirations_total", "Watches whose resourceVersion had expired.")?;
        let regressions = counter(
            "millwright_cache_regressions_total",
            "Lists that were older than the cache, as after a restore of etcd.",
        )?;
        let stalls =
            counter("millwright_cache_stalls_total", "Watches that were restarted because they received no events.")?;
        let handler_panics =
            counter("millwright_cache_handler_panics_total", "Panics caught in handlers of watch events.")?;
        Ok(Self {
            objects: gauge("millwright_cache_objects", "Objects in the cache, including undecodable ones.")?,
            undecodable: gauge("millwright_cache_undecodable", "Objects in the cache that could not be decoded.")?,
            synced: gauge("millwright_cache_synced", "1 if the kind was listed completely at least once.")?,
            counters: [
                (lists, |seen| seen.lists),
                (watches, |seen| seen.watches),
                (events, |seen| seen.events),
                (failures, |seen| seen.failures),
                (expirations, |seen| seen.expirations),
                (regressions, |seen| seen.regressions),
                (stalls, |seen| seen.stalls),
                (handler_panics, |seen| seen.handler_panics),
            ],
        })
    }

    /// Updates the metrics of a cache.
    pub fn update(&self, status: &Status) {
        let kind = &[status.kind.as_str()];
        self.objects.with_label_values(kind).set(i64::try_from(status.objects).unwrap_or(i64::MAX));
        self.undecodable.with_label_values(kind).set(i64::try_from(status.undecodable).unwrap_or(i64::MAX));
        self.synced.with_label_values(kind).set(i64::from(status.synced));
        for (counter, value) in &self.counters {
            let (counter, value) = (counter.with_label_values(kind), value(&status.counters));
            // Not set: another cache of this kind may have a larger value, and a counter must not decrease.
            counter.inc_by(value.saturating_sub(counter.get()));
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::Metrics;
    use crate::cache::{Counters, State, Status, Trust};

    #[test]
    fn cache_gauges_follow_and_counters_never_decrease() {
        let metrics = Metrics::new().unwrap();
        let status = |objects, lists| Status {
            kind: "nodes".to_owned(),
            state: State::Watching,
            synced: true,
            trust: Trust::Firm,
            last_heard: None,
            objects,
            undecodable: 1,
            counters: Counters { lists, ..Counters::default() },
        };
        metrics.caches.update(&status(7, 2));
        metrics.caches.update(&status(5, 3));
        metrics.caches.update(&status(5, 3));
        // Another cache of the same kind, which has just started.
        metrics.caches.update(&status(5, 1));
        let text = metrics.encode().unwrap();
        for line in [
            "millwright_cache_objects{kind=\"nodes\"} 5",
            "millwright_cache_undecodable{kind=\"nodes\"} 1",
            "millwright_cache_synced{kind=\"nodes\"} 1",
            "millwright_cache_lists_total{kind=\"nodes\"} 3",
        ] {
            assert!(text.lines().any(|found| found == line), "{line} is not in\n{text}");
        }
    }
}

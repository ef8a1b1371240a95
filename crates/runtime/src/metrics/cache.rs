//! What the caches of watched kinds hold, and how often they had to start over.

use prometheus::{IntCounterVec, IntGaugeVec};

use super::catalogue::MetricCatalogue;
use super::{MetricsError, opts, registered};
use crate::cache::{Counters, Status};

/// Numbers of all caches, by kind. Caches count for themselves; this shows their figures at a scrape. Cheap to clone.
#[derive(Clone, Debug)]
pub struct CacheMetrics {
    objects: IntGaugeVec,
    undecodable: IntGaugeVec,
    synced: IntGaugeVec,
    counters: [(IntCounterVec, Figure); 8],
}

/// Which of a cache's own counters a family shows.
type Figure = fn(&Counters) -> u64;

impl CacheMetrics {
    pub(super) fn register(catalogue: &MetricCatalogue) -> Result<Self, MetricsError> {
        let gauge = |name: &str, help: &str| registered(catalogue, IntGaugeVec::new(opts(name, help), &["kind"]));
        let counter = |name: &str, help: &str| registered(catalogue, IntCounterVec::new(opts(name, help), &["kind"]));
        let lists = counter("millwright_cache_lists_total", "Lists that were taken over.")?;
        let watches = counter("millwright_cache_watches_total", "Watches that were opened.")?;
        let events = counter("millwright_cache_events_total", "Objects shown by watches.")?;
        let failures = counter("millwright_cache_failures_total", "Lists and watches that failed.")?;
        let expirations = counter("millwright_cache_expirations_total", "Watches whose history was gone.")?;
        let regressions = counter(
            "millwright_cache_regressions_total",
            "Lists older than what the kind had already shown, as after a restored etcd.",
        )?;
        let stalls = counter("millwright_cache_stalls_total", "Watches abandoned because they had fallen silent.")?;
        let handler_panics =
            counter("millwright_cache_handler_panics_total", "Panics caught in handlers of watch events.")?;
        Ok(Self {
            objects: gauge("millwright_cache_objects", "Objects in the cache, undecodable ones included.")?,
            undecodable: gauge("millwright_cache_undecodable", "Objects that are present but could not be decoded.")?,
            synced: gauge("millwright_cache_synced", "Whether the kind has been read completely at least once.")?,
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

    /// Shows a cache as it is now.
    pub fn show(&self, status: &Status) {
        let kind = &[status.kind.as_str()];
        self.objects.with_label_values(kind).set(i64::try_from(status.objects).unwrap_or(i64::MAX));
        self.undecodable.with_label_values(kind).set(i64::try_from(status.undecodable).unwrap_or(i64::MAX));
        self.synced.with_label_values(kind).set(i64::from(status.synced));
        for (counter, figure) in &self.counters {
            let (counter, figure) = (counter.with_label_values(kind), figure(&status.counters));
            // Added, not set: a figure that another cache of this kind has raised above ours must not fall.
            counter.inc_by(figure.saturating_sub(counter.get()));
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::Metrics;
    use crate::cache::{Counters, State, Status, Trust};

    #[test]
    fn a_cache_is_shown_as_it_stands_and_its_counters_never_fall() {
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
        metrics.caches.show(&status(7, 2));
        metrics.caches.show(&status(5, 3));
        metrics.caches.show(&status(5, 3));
        // Another cache of the same kind, which has only begun.
        metrics.caches.show(&status(5, 1));
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
